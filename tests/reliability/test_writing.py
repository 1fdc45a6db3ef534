"""Writing that fails, is killed, or is done twice at once: no file is lost, and none is half a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import FileFormatError, JournalError
from pgmest.measurements.files import save_measurements
from pgmest.privacy import Curator, Rho
from pgmest.sampling import write_samples
from tests.reliability.examples import DATA, DOMAIN, measurements, potentials

resource = pytest.importorskip("resource", reason="limits on the size of files are set by POSIX systems only")
ROOT = Path(__file__).parents[2]

WRITERS: dict[str, Callable[[Path], Any]] = {
    "domain.json": DOMAIN.save,
    "measurements.json": lambda path: save_measurements(path, measurements()),
    "measurements.npz": lambda path: save_measurements(path, measurements()),
    "model.npz": lambda path: pg.Model(potentials(), 40.0).save(path),
    "table.csv": lambda path: DATA.save(path),
    "table.csv.gz": lambda path: DATA.save(path),
    "table.parquet": lambda path: DATA.save(path),
    "sample.csv": lambda path: write_samples(pg.Model(potentials(), 40.0), 100, path),
    "sample.parquet": lambda path: write_samples(pg.Model(potentials(), 40.0), 100, path),
}


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file can grow beyond a few bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, full_disk: None, name: str) -> None:
    path = tmp_path / name
    path.write_text("the old file")
    with pytest.raises(FileFormatError, match="cannot be written: ") as raised:
        WRITERS[name](path)
    assert str(path) in str(raised.value)
    assert path.read_text() == "the old file"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileFormatError, match="cannot be written: Permission denied"):
        DOMAIN.save(tmp_path / "domain.json")


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileFormatError, match="cannot be written: No such file or directory"):
        WRITERS[name](tmp_path / "nowhere" / name)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "data" / "domain.json")
    for _ in range(2):  # of a file that is not there yet, and of one that is
        DOMAIN.save(tmp_path / "link.json")
        assert (tmp_path / "link.json").is_symlink()
        assert pg.Domain.load(tmp_path / "data" / "domain.json") == DOMAIN
    assert os.listdir(tmp_path / "data") == ["domain.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    DOMAIN.save(pipe)
    assert os.read(reader, 100).startswith(b'{\n "age": 5')
    os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_an_error() -> None:
    with pytest.raises(FileFormatError, match="cannot be written: No space left on device"):
        DOMAIN.save("/dev/full")
    assert Path("/dev/full").is_char_device()


def test_a_journal_on_a_full_disk_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    curator = Curator(DATA, Rho(1.0), backend="simulation", seed=1, journal=path)
    first = curator.measure("age", Rho(0.1)).values
    content = path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 20, before[1]))
        with pytest.raises(JournalError, match="cannot be written: ") as raised:
            curator.measure("sex", Rho(0.1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "No answer was handed out that is not in it" in str(raised.value)
    assert path.read_bytes() == content
    curator.close()
    again = Curator(DATA, Rho(1.0), backend="simulation", seed=1, journal=path)
    np.testing.assert_array_equal(again.measure("age", Rho(0.1)).values, first)
    assert again.measure("sex", Rho(0.1)).rows == 2
    assert len(again.ledger) == 2


@pytest.mark.parametrize(
    ("scene", "kind", "rounds"),
    [
        ("overwritten", "model", 6),
        ("overwritten", "table", 6),
        ("two_writers", "measurements", 20),
        ("journal", "-", 6),
        ("shared_journal", "-", 1),
    ],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_killed_and_at_once(tmp_path: Path, scene: str, kind: str, rounds: int) -> None:
    program = [sys.executable, "-m", "tests.reliability.crash_program", scene, kind, str(tmp_path), str(rounds)]
    run = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "done\n", run.stderr
