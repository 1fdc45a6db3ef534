"""Files made to do harm: pickles, sizes that lie, what unpacks to a thousand times its size, devices."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.npy import read_header
from pgmest.errors import FileFormatError, JournalError, ModelTooLarge, PgmestError, SchemaError
from pgmest.measurements.files import load_measurements
from pgmest.schema import Schema
from tests.reliability.damage import header_of, members, npy, with_header, write_members
from tests.reliability.examples import DOMAIN, READERS, run_with_journal

ARCHIVES = ["measurements.npz", "model.npz", "support.npz", "linked.npz"]


class Harm:
    """Unpickling it would leave a mark."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("/tmp/pgmest-was-here",)


def npy_of(header: str, data: bytes = b"") -> bytes:
    """An npy file with this header, whatever it says."""
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,",  # which Python's tokenizer does not end
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3L,), }",  # of Python 2, which NumPy repairs
        "{'descr': '|O', 'fortran_order': False, 'shape': (" + "(" * 5000 + ", }",
        "{'descr': [('a', '<f8')] * 9, 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': 7, 'shape': (3,), }",
        "__import__('os').getpid()",
        "",
    ],
)
def test_array_headers_that_cannot_be_read(header: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_header(io.BytesIO(npy_of(header)))


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize(
    "content",
    [
        npy_of("{'descr': '<f8', 'fortran_order': False, 'shape': (3,", b"\0" * 24),
        npy_of("{'descr': '<f8', 'fortran_order': False, 'shape': (-7, -1), }", b"\0" * 56),
        npy_of("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }", b"\0" * 56),
        npy_of("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(Harm())),
        pickle.dumps(Harm()),
        npy(np.zeros(3, dtype="<c16")),
        npy(np.array(["text"])),
        npy(np.zeros((0,))),
        b"",
    ],
)
def test_members_that_are_no_arrays(examples: Path, name: str, content: bytes) -> None:
    whole = members(examples / name)
    for member in whole:
        write_members(examples / f"hostile-{name}", whole | {member: content})
        with pytest.raises(FileFormatError):
            READERS[name](examples / f"hostile-{name}")
    assert not Path("/tmp/pgmest-was-here").exists()


def test_a_member_that_says_it_is_larger_than_the_file(examples: Path) -> None:
    """Return the file of a model over this many cells; the directory of the archive has the sizes."""
    contents = members(examples / "model.npz")
    header = header_of(contents) | {"domain": [["age", 10**11], ["sex", 2]], "cliques": [["age"]]}
    path = examples / "lying.npz"
    write_members(path, with_header(contents, header))
    size = len(contents["cells.npy"])
    lie = path.read_bytes()
    at = lie.rfind(size.to_bytes(4, "little") + len(b"cells.npy").to_bytes(2, "little"))
    path.write_bytes(lie[:at] + (2**31 - 1).to_bytes(4, "little") + lie[at + 4 :])
    with pytest.raises(FileFormatError, match=r"cells.npy says that it has 2,147,483,647 bytes"):
        pg.load(path)


def test_what_unpacks_to_a_thousand_times_its_size(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = npy(np.zeros(4_000_000, dtype=np.uint8))
    bomb = examples / "bomb.npz"
    write_members(bomb, {"header.npy": zeros, "cells.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 20_000
    with pytest.raises(FileFormatError, match=r"header.npy is compressed"):
        pg.load(bomb)
    monkeypatch.setattr("pgmest.measurements.files.read.MOST_BYTES", 10**6)
    with pytest.raises(FileFormatError, match=r"holds 8 MB, more than the 1 MB allowed"):
        load_measurements(bomb, DOMAIN)


@pytest.mark.parametrize("values", [2**40, 10**30])
@pytest.mark.parametrize("name", ["model.npz", "support.npz"])
def test_a_small_file_that_asks_for_a_huge_table(examples: Path, name: str, values: int) -> None:
    """An attribute in no clique needs no potentials in the file, but a table in memory."""
    contents = members(examples / name)
    header = header_of(contents)
    header["domain"][2][1] = values
    write_members(examples / f"huge-{name}", with_header(contents, header))
    with pytest.raises((ModelTooLarge, FileFormatError)):
        pg.load(examples / f"huge-{name}").project(("age", "city, state"))
    with pytest.raises((ModelTooLarge, FileFormatError)):
        pg.load(examples / f"huge-{name}").sample(1)


def test_a_model_of_more_records_than_fit(examples: Path) -> None:
    for total in (1e14, 1e99):
        contents = members(examples / "model.npz")
        write_members(examples / "many.npz", with_header(contents, header_of(contents) | {"total": total}))
        with pytest.raises(PgmestError, match="must be stated"):
            pg.load(examples / "many.npz").sample()
        assert pg.load(examples / "many.npz").sample(3, seed=0).records == 3


@pytest.mark.parametrize("name", READERS)
def test_an_empty_file_and_a_folder(examples: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / f"folder-{name}").mkdir()
    with pytest.raises(PgmestError):
        READERS[name](tmp_path / f"folder-{name}")
    (tmp_path / name).write_bytes(b"")
    if name == "run.journal":  # where a run has just begun
        assert len(run_with_journal(tmp_path / name)) == 4
    else:
        with pytest.raises(PgmestError):
            READERS[name](tmp_path / name)


RUN = ("runs", 0)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*RUN, "lengths", 1, "groups", 1), [0, 1, 0, 3]),  # a group of no code
        ((*RUN, "lengths", 1, "groups", 1), [0, -1, 1, 2]),
        ((*RUN, "lengths", 1, "groups", 1), [1, 0, 0, 1]),  # the last of those who are there is not the last one
        ((*RUN, "lengths", 1, "groups", 1), [0, 0, 1, 2**40]),
        ((*RUN, "lengths", 0, "cut"), 1e308),
        ((*RUN, "lengths", 0, "stddev"), 1e308),
        ((*RUN, "numbers", 0, "stddev"), 1e-300),
        ((*RUN, "total"), 1e308),
        ((*RUN, "above", 1, "query"), {"kind": "matrix", "rows": [[1e308, 0, 1, 0]]}),
        ((*RUN, "above", 1, "query"), {"kind": "matrix", "rows": [[2**40, 0, 1, 0]]}),
        ((*RUN, "above", 1, "query"), {"kind": "matrix", "rows": [[1, 0, 1, 0, 1]]}),  # of five values, not four
        (
            (*RUN, "above", 1, "query"),
            {"kind": "kron", "factors": [["number of persons", {"kind": "matrix", "rows": [[1]]}]]},
        ),
    ],
    ids=lambda value: "-".join(map(str, value[2:])) if isinstance(value, tuple) else "value",
)
def test_noisy_answers_of_linked_tables_that_make_no_sense(examples: Path, place: tuple[Any, ...], value: Any) -> None:
    whole = members(examples / "linked.npz")
    header = header_of(whole)
    holder = header
    for key in place[:-1]:
        holder = holder[key]
    assert place[-1] in holder or isinstance(holder, list)
    holder[place[-1]] = value
    write_members(examples / "linked-value.npz", with_header(whole, header))
    with pytest.raises(FileFormatError, match="not a model file"):
        pg.load(examples / "linked-value.npz")


@pytest.mark.parametrize("name", ["measurements.json", "run.journal", *ARCHIVES])
def test_a_newer_version_is_refused(examples: Path, name: str) -> None:
    path = examples / f"newer-{name}"
    if name in ARCHIVES:
        contents = members(examples / name)
        write_members(path, with_header(contents, header_of(contents) | {"version": 99}))
    else:
        path.write_text(re.sub(r'"version": \d', '"version": 99', (examples / name).read_text(), count=1))
    with pytest.raises(PgmestError, match=r"version.* 99"):
        READERS[name](path)


class TestJournals:
    @pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
    def test_killed_before_its_first_line_was_written(self, examples: Path, tmp_path: Path, share: float) -> None:
        first = (examples / "run.journal").read_bytes().splitlines()[0]
        path = tmp_path / "run.journal"
        path.write_bytes(first[: int(len(first) * share)])
        run_with_journal(path)
        first, second = (
            [json.loads(line).get("answer") for line in one.read_text().splitlines()]
            for one in (path, examples / "run.journal")
        )
        assert first == second  # the runs have names of their own, and so other digests

    def test_another_digit_in_an_answer_is_noticed(self, examples: Path, tmp_path: Path) -> None:
        header, first, *rest = (examples / "run.journal").read_text().splitlines(keepends=True)
        record = json.loads(first)
        record["answer"][0] += 1
        (tmp_path / "run.journal").write_text("".join([header, json.dumps(record, sort_keys=True) + "\n", *rest]))
        before = (tmp_path / "run.journal").read_bytes()
        with pytest.raises(JournalError, match="is damaged: line 2 of 5 is not as it was written"):
            run_with_journal(tmp_path / "run.journal")
        assert (tmp_path / "run.journal").read_bytes() == before

    def test_a_refused_one_is_let_go_of(self, tmp_path: Path) -> None:
        path = tmp_path / "run.journal"
        path.write_text("something else\n")
        with pytest.raises(JournalError, match="is not a journal"):
            run_with_journal(path)
        path.unlink()
        assert len(run_with_journal(path)) == 4

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
    def test_a_device_has_no_end(self) -> None:
        with pytest.raises(JournalError, match="is not a plain file"):
            run_with_journal(Path("/dev/zero"))

    def test_a_path_that_cannot_be(self) -> None:
        with pytest.raises(FileFormatError, match="cannot be opened: embedded null"):
            run_with_journal(Path("a\0b"))

    def test_an_answer_that_it_cannot_hold(self, tmp_path: Path) -> None:
        from pgmest.privacy import Curator, Rho
        from tests.reliability.examples import DATA

        curator = Curator(DATA, Rho(1.0), backend="simulation", seed=1, journal=tmp_path / "run.journal")
        with pytest.raises(JournalError, match="the answer to 'own' was paid for, but cannot be kept"):
            curator.release(lambda data, generator: np.zeros(3), Rho(0.1), label="own")
        assert curator.measure("age", Rho(0.1)).rows == 5


# -- schemas, also those inside a model -------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {"type": "integer", "min": 0, "max": 9}
BY_NAME: dict[str, Any] = {"type": "categorical", "values": ["aa", "ab"], "other": "x"}
DATED: dict[str, Any] = {"type": "date", "min": "2000-01-01", "max": "2001-01-01"}
HOSTILE = {
    "a width that is next to nothing": {"type": "real", "min": 0, "max": 1, "width": 1e-320},
    "bins without number": {"type": "integer", "min": 0, "max": 10**15},
    "levels without number, by prefixes": BY_NAME | {"hierarchy": {"prefixes": list(range(1, 99_000))}},
    "levels without number, by lists": BY_NAME | {"hierarchy": {f"level {number}": {} for number in range(99_000)}},
    "a format that names the day twice": DATED | {"format": "%Y-%m-%d %d"},
    "a format without end": DATED | {"format": "%Y-%m-%d" + "x" * 10**6},
    "a format of times without end": {"type": "time", "format": "%H:%M" + "%S" * 10**5},
    "a number of thousands of digits": WHOLE | {"max": 10**4000},
    "points that share bins": WHOLE | {"max": 10**6, "points": [*range(10**5), 0.5]},
}


@pytest.mark.parametrize("said", HOSTILE)
def test_a_schema_that_asks_for_too_much_is_refused_at_once(said: str) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict({"columns": {"a": HOSTILE[said]}})


def test_a_schema_that_is_nested_without_end() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"columns": nested}
    with pytest.raises(SchemaError, match="nested too deeply"):
        Schema.from_dict(nested)


def test_many_points_are_read_in_time_that_grows_with_their_number() -> None:
    column = Schema.from_dict(
        {"columns": {"a": WHOLE | {"max": 199_999, "points": list(range(0, 200_000, 2))}}}
    ).columns[0]
    assert column.size == 200_000


@pytest.mark.parametrize("key", ["values", "among"])
@pytest.mark.parametrize("named", ["codes.csv", "pipe.csv", "/dev/stdin", "none.csv"])
def test_a_schema_inside_a_model_opens_no_file(examples: Path, tmp_path: Path, named: str, key: str) -> None:
    (tmp_path / "codes.csv").write_text("code\na\nb\n")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")
    column = BY_NAME | {"values": "bought", key: {"file": str(tmp_path / named), "column": "code"}}
    columns = {"columns": {"age": column}}
    for name, schema in (("model.npz", columns), ("linked.npz", {"tables": {"a": columns, "b": columns}})):
        contents = members(examples / name)
        write_members(tmp_path / name, with_header(contents, header_of(contents) | {"about": {"schema": schema}}))
        with pytest.raises(PgmestError, match="only the file of a schema can name another file"):
            pg.Synthesizer.load(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes among its files")
def test_the_file_of_a_schema_names_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "s.yaml").write_text("columns: {a: {type: categorical, values: {file: pipe.csv}, other: x}}\n")
    with pytest.raises(SchemaError, match=r"pipe\.csv is no file"):
        Schema.load(tmp_path / "s.yaml")


@pytest.mark.parametrize("zone", ["dateutil//etc/localtime", "../../etc/localtime", "/etc/localtime", "posix/UTC"])
def test_no_type_of_a_column_opens_a_time_zone_by_its_path(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import dateutil.tz

    monkeypatch.setattr(dateutil.tz, "gettz", lambda *_: pytest.fail("a file was opened"))
    names = {
        "pandas": [f"datetime64[us, {zone}]", f"arrow[timestamp[us, tz={zone}]]"],
        "polars": [f"Datetime(time_unit='us', time_zone='{zone}')"],
        "pyarrow": [f"timestamp[us, tz={zone}]"],
    }
    for library, kinds in names.items():
        plain = Schema.from_dict({"columns": {"a": DATED}})
        data = pg.Dataset.from_codes(np.zeros((3, 1), dtype=int), plain.domain)
        for kind in kinds:
            frame = {"library": library, "columns": {"a": kind}}
            typed = Schema.from_dict({"columns": {"a": DATED}, "frame": frame})
            made, expected = (schema.decode(data, 0, library) for schema in (typed, plain))
            assert str(getattr(made, "dtypes", "")) == str(getattr(expected, "dtypes", ""))
            assert str(getattr(made, "schema", "")) == str(getattr(expected, "schema", ""))
