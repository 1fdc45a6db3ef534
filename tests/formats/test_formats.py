"""Files of every earlier version load, and say what they said; those of a later version are refused by its number.

A folder holds the files that a release wrote. It is made once, when a format's version changes, and never changed.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pgmest.errors import FileFormatError

import pgmest as pg

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "answers.json").is_file())
NEWEST = FOLDERS[-1]
DOMAIN = pg.Domain({"age": 4, "sex": 2, "job": 3})


def answers(folder: Path) -> dict:
    return json.loads((folder / "answers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("kind", ["model", "support"])
def test_models_of_every_version(folder, kind):
    model = pg.load(folder / f"{kind}.npz")
    expected = answers(folder)[kind]
    assert model.total == pytest.approx(expected["total"], rel=1e-12)
    np.testing.assert_allclose(model.project(("age", "job")).values, expected["age,job"], rtol=1e-9, atol=1e-9)
    assert model.report is not None


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_measurements_of_every_version(folder, ending):
    loaded = pg.load_measurements(folder / f"measurements.{ending}", DOMAIN)
    assert [measurement.values.tolist() for measurement in loaded] == answers(folder)["measurements"]
    assert [measurement.clique for measurement in loaded] == [("age", "sex"), ("job",), ("age",), ("sex", "age")]
    assert loaded[1].noise == "laplace"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_schemas_of_every_version(folder):
    assert dict(pg.Schema.load(folder / "schema.yaml").domain) == answers(folder)["schema"]


def header_of(path: Path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(bytes(np.load(io.BytesIO(archive.read("header.npy")))))


def with_header(path: Path, target: Path, **changes: object) -> Path:
    header = header_of(path) | changes
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as written:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "header.npy":
                buffer = io.BytesIO()
                np.save(buffer, np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
                content = buffer.getvalue()
            written.writestr(name, content)
    return target


@pytest.mark.parametrize("kind", ["model", "support"])
def test_a_later_version_is_refused_by_its_number(kind, tmp_path):
    later = header_of(NEWEST / f"{kind}.npz")["version"] + 1
    with pytest.raises(FileFormatError, match=f"{later}"):
        pg.load(with_header(NEWEST / f"{kind}.npz", tmp_path / "later.npz", version=later))


def test_a_later_version_of_measurements_is_refused_by_its_number(tmp_path):
    document = json.loads((NEWEST / "measurements.json").read_text(encoding="utf-8"))
    document["version"] = 99
    (tmp_path / "later.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(FileFormatError, match=f"version {document['version']}"):
        pg.load_measurements(tmp_path / "later.json", DOMAIN)


def test_what_is_written_today_is_of_a_version_that_has_a_folder(tmp_path):
    for kind in ("model", "support"):
        model = pg.load(NEWEST / f"{kind}.npz")
        model.save(tmp_path / "now.npz")
        written, kept = header_of(tmp_path / "now.npz"), header_of(NEWEST / f"{kind}.npz")
        assert (written["format"], written["version"]) == (kept["format"], kept["version"])
        assert kept.keys() <= written.keys()
    pg.save_measurements(tmp_path / "now.json", pg.load_measurements(NEWEST / "measurements.json", DOMAIN))
    assert (tmp_path / "now.json").read_bytes() == (NEWEST / "measurements.json").read_bytes()
