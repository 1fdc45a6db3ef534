"""Text from other systems: Windows line ends, byte order marks, locales with other letters or decimal commas."""

from __future__ import annotations

import contextlib
import gzip
import locale
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgmest as pg
from pgmest.errors import FileFormatError
from pgmest.measurements.files import load_measurements, save_measurements
from pgmest.schema import Schema
from tests.reliability.examples import DATA, DOMAIN, READERS, SCHEMA

ROOT = Path(__file__).parents[2]
BOM = b"\xef\xbb\xbf"
TEXTS = ["domain.json", "measurements.json", "schema.yaml", "schema.json", "schema.toml", "table.csv"]

PROGRAM = """
import sys
import pgmest as pg
from pgmest.schema import Schema
folder = sys.argv[1]
domain = pg.Domain({"größe": 2, "年": 3})
domain.save(folder + "/domain.json")
data = pg.Dataset.from_codes([[0, 1, 1], [0, 1, 2]], domain)
data.save(folder + "/table.csv")
assert pg.Dataset.load(folder + "/table.csv", pg.Domain.load(folder + "/domain.json")) == data
model = pg.Model(pg.CliqueVector.zeros(domain, [("größe", "年")]), 2.5)
model.save(folder + "/model.npz")
assert pg.load(folder + "/model.npz").domain == domain
schema = Schema.parse("columns: {größe: {type: categorical, values: [ä, 大], outside: error}}")
assert schema.labels("größe") == ["ä", "大"]
"""


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends_and_byte_order_marks(examples: Path, tmp_path: Path, name: str, mark: bytes, end: bytes) -> None:
    content = (examples / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(mark + content.replace(b"\n", end))
    assert repr(READERS[name](path)).replace(str(tmp_path), "") == repr(READERS[name](examples / name)).replace(
        str(examples), ""
    )


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_tables_have_the_same_records(examples: Path, tmp_path: Path, mark: bytes, end: bytes, zipped: bool) -> None:
    content = mark + (examples / "table.csv").read_bytes().replace(b"\n", end)
    path = tmp_path / ("table.csv.gz" if zipped else "table.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert pg.Dataset.load(path, DOMAIN) == DATA


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_raw_tables_are_encoded_alike(tmp_path: Path, mark: bytes, end: bytes) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(mark + end.join([b"sex,age,income", b"F,31,1e5", b'"M",,3', b"X,200,7.5", b""]))
    columns = {name: SCHEMA["columns"][name] for name in ("sex", "age", "income")}
    assert Schema.from_dict({"columns": columns}).encode(path).codes.tolist() == [[0, 3, 0], [1, 10, 0], [2, 9, 0]]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("name", TEXTS)
def test_other_encodings_are_named(examples: Path, tmp_path: Path, name: str, encoding: str) -> None:
    text = (examples / name).read_text().replace("sex", "größe")
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    with pytest.raises(FileFormatError, match="not UTF-8 text"):
        READERS[name](path)


def test_files_do_not_depend_on_the_locale(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, env=os.environ | ascii_only)
    assert run.returncode == 0, run.stderr.decode(errors="replace")
    assert list(pg.Domain.load(tmp_path / "domain.json")) == ["größe", "年"]
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()[0] == "größe,年"


@pytest.fixture
def decimal_comma() -> Iterator[None]:
    """A locale where one half is written 0,5."""
    before = locale.setlocale(locale.LC_ALL)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "German_Germany.1252"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
            break
    else:
        pytest.skip("no locale with a decimal comma is installed")
    yield
    locale.setlocale(locale.LC_ALL, before)


def test_numbers_have_points_everywhere(tmp_path: Path, decimal_comma: None) -> None:
    assert locale.localeconv()["decimal_point"] == ","
    save_measurements(tmp_path / "half.json", [pg.LinearMeasurement([0.5], (), 0.25)])
    (half,) = load_measurements(tmp_path / "half.json", DOMAIN)
    assert (half.values.tolist(), half.stddev) == ([0.5], 0.25)
    DATA.save(tmp_path / "table.csv")
    assert pg.Dataset.load(tmp_path / "table.csv", DOMAIN) == DATA
    assert "0.5" in Schema.parse("columns: {x: {type: real, edges: [0, 0.5, 1.5]}}").labels("x")[0]
