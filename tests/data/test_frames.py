"""Files of records and dataframes: what is read, and how a broken file is reported."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgmest.data.chunked_reader import read_pieces
from pgmest.data.csv_header import OTHER_ENCODING
from pgmest.data.frames import file_format, read_columns, read_frame, write_frame
from pgmest.data.table_file import READ
from pgmest.errors import ArgumentError, FileFormatError, OptionalDependencyError, PgmestError

TABLE = {"age": [3, 1], "name, of\nsomeone": ['Zoë "Z"', "O'Neil, Al"], "share": [0.5, 2.25]}


def content(path) -> dict[str, list]:
    return read_frame(path).to_dict(as_series=False)


# -- files that are read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "T.CSV", "T.Csv.GZ", "T.PARQUET", "a b.c.csv"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_what_is_written_is_read(tmp_path, name, library):
    write_frame(library(TABLE), tmp_path / name)
    assert content(tmp_path / name) == TABLE


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_texts_with_line_ends_are_written_as_fields(tmp_path, name, library):
    table = {"a": ["\r", "x\ry", "\n", "\r\n", "z"], "b": ["1", "2", "3", "4", "5"]}
    write_frame(library(table), tmp_path / name)
    pieces = [{name: values.array.tolist() for name, values in piece.items()} for piece in read_pieces(tmp_path / name)]
    assert pieces == [table]


def test_narwhals_frames_are_written_as_they_are(tmp_path):
    write_frame(nw.from_native(pd.DataFrame(TABLE)), tmp_path / "t.csv")
    assert content(tmp_path / "t.csv") == TABLE


@pytest.mark.parametrize(
    "text",
    [
        b"a,b\n0,1\n2,3\n",
        b"a,b\n0,1\n2,3",
        b"a,b\r\n0,1\r\n2,3\r\n",
        b"a,b\r0,1\r2,3\r",
        b"\xef\xbb\xbfa,b\n0,1\n2,3\n",
        b'\xef\xbb\xbf"a","b"\r\n"0","1"\r\n"2","3"\r\n',
        b"\n\na,b\n\n0,1\n\n2,3\n\n",
        b"a,b\n0,1,\n2,3,\n",
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda text: gzip.compress(text[:7]) + gzip.compress(text[7:])])
def test_dialects_of_csv(tmp_path, text, pack):
    path = tmp_path / ("t.csv" if pack is bytes else "t.csv.gz")
    path.write_bytes(pack(text))
    assert content(path) == {"a": [0, 2], "b": [1, 3]}


def test_a_parquet_file_is_read_for_the_columns_wanted(tmp_path):
    write_frame(pd.DataFrame(TABLE), tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet", ["share", "age", "share", "missing"]).columns == ["share", "age"]


def test_names_of_columns_may_be_numbers_where_they_are_wanted(tmp_path):
    (tmp_path / "t.csv").write_text("0,1\n5,6\n")
    assert read_frame(tmp_path / "t.csv", ["1"])["1"].to_list() == [6]
    assert content(tmp_path / "t.csv") == {"0": [5], "1": [6]}


def test_header_alone_is_a_table_without_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    assert content(tmp_path / "t.csv") == {"a": [], "b": []}


def test_empty_last_field_is_a_missing_value_and_not_a_short_row(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n0,\n1,2\n")
    values = read_frame(tmp_path / "t.csv")["b"].to_list()
    assert np.isnan(values[0])
    assert values[1] == 2


# -- files that are not ---------------------------------------------------------------------------------------------

QUOTE_THEM = "Repair the line; quote fields that hold delimiters or line ends."
WEB_PAGE = "a web page: open it in a spreadsheet, and save the table as .csv."
NOT_A_TABLE = (
    "A table is comma-separated text whose first line names the columns; say --delimiter where it has another."
)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", f"not a CSV table (it is empty). {NOT_A_TABLE}"),
        (b"\n\r\n", f"not a CSV table (it is empty). {NOT_A_TABLE}"),
        (
            b"a,b\n1,2\n1,2,3\n",
            "line 3 has 3 fields where the header has 2. " + QUOTE_THEM,
        ),
        (
            b"a,b\n1,2,3\n1,2\n",
            "line 2 has 3 fields where the header has 2. " + QUOTE_THEM,
        ),
        (
            b"a,b\n1,2\n\n1\n",
            "line 4 has 1 field where the header has 2. " + QUOTE_THEM,
        ),
        (
            b'a,b\n1,"2\n3,4\n',
            "the quote that opens a field of line 2 is never closed. Close it; double a quote within a field.",
        ),
        (
            b"a,b\n1,\xe9\n",
            f"not UTF-8 text (invalid continuation byte). {OTHER_ENCODING}",
        ),
        (
            "a,b\n1,2\n".encode("utf-16"),
            "not UTF-8 text. It seems to be utf-16: say --encoding utf-16, or encoding: utf-16 in a schema.",
        ),
        (
            gzip.compress(b"a,b\n1,2\n", mtime=0),  # the bytes name the test: the same in every worker
            "not delimited text, but compressed: its name must end in .gz.",
        ),
        (b"PK\x03\x04", "not delimited text, but a workbook or a zip archive: its name must end in .xlsx or .zip."),
        (b"\xef\xbb\xbf\n<HTML>", f"not delimited text, but {WEB_PAGE}"),
        (b"a,b,a\n1,2,3\n", "several columns are named a. Give each column its own name."),
        (
            b"3,0.5\n1,2\n",
            "the first line holds numbers, not the names of the columns. Add a header line, such as a,b, "
            "or say header: [a, b].",
        ),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_broken_csv_file_is_named_with_what_is_wrong(tmp_path, raw, message, zipped):
    path = tmp_path / ("people.csv.gz" if zipped else "people.csv")
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    with pytest.raises(FileFormatError) as caught:
        read_frame(path, ["a", "b"])
    assert str(caught.value) == f"{path}: {message}"


def test_repeated_columns_do_not_matter_where_they_are_not_wanted(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,b\n1,2,3\n")
    assert read_frame(tmp_path / "t.csv", ["a"])["a"].to_list() == [1]
    with pytest.raises(FileFormatError, match="several columns are named b"):
        read_frame(tmp_path / "t.csv")


@pytest.mark.parametrize("cut", [1, 9, 15, 30, -9, -8, -1])
def test_a_truncated_gzip_file_is_named(tmp_path, cut):
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n3,1\n0,5\n" * 50)[:cut])
    with pytest.raises(FileFormatError) as caught:
        read_frame(path)
    assert str(caught.value).startswith(f"{path}: the gzip stream is truncated or damaged (")
    assert str(caught.value).endswith("). Copy or compress the file again.")


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "people.csv.gz"
    packed = bytearray(gzip.compress(b"a,b\n" + b"1,2\n3,1\n0,5\n" * 50))
    for place in range(len(packed)):
        damaged = packed.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        if place not in range(3, 10):  # flags, time and system in the header may be anything
            with pytest.raises(FileFormatError, match="gzip stream is truncated or damaged"):
                read_frame(path)


def test_text_named_gz_is_not_a_gzip_file(tmp_path):
    path = tmp_path / "people.csv.gz"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileFormatError) as caught:
        read_frame(path)
    problem = "the gzip stream is truncated or damaged (Not a gzipped file (b'a,'))."
    assert str(caught.value) == f"{path}: {problem} Copy or compress the file again."


@pytest.mark.parametrize("name", ["none.csv", "none.csv.gz", "none.parquet"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(FileFormatError) as caught:
        read_frame(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: cannot be read: No such file or directory. Check the path."


@pytest.mark.parametrize("name", ["folder.csv", "folder.csv.gz", "folder.parquet"])
def test_a_folder_is_not_a_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileFormatError, match="cannot be read: Is a directory"):
        read_frame(tmp_path / name)


@pytest.mark.parametrize("name", ["t.xls", "t.log", "t.gz", "csv"])
def test_another_ending_is_refused_before_reading_or_writing(tmp_path, name):
    path = tmp_path / name
    more = " Save the workbook as .xlsx." if name == "t.xls" else ""
    for attempt, endings in (
        (lambda: read_frame(path), ", ".join(READ)),
        (lambda: write_frame(pd.DataFrame(TABLE), path), ".csv, .csv.gz, .tsv, .tsv.gz, .parquet"),
        (lambda: file_format(path), ".csv, .csv.gz, .tsv, .tsv.gz, .parquet"),
    ):
        with pytest.raises(FileFormatError) as caught:
            attempt()
        expected = f"{path}: not a kind of table file known here. The name must end in {endings}.{more}"
        assert str(caught.value) == expected
    assert not path.exists()


def test_a_parquet_file_cut_anywhere_or_damaged_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    write_frame(pd.DataFrame({"a": range(300), "b": range(300)}), path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 211):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError) as caught:
            read_frame(path)
        assert str(caught.value).startswith(f"{path}: not a whole Parquet file (Parquet ")
        assert str(caught.value).endswith("). Write it again, or give it the ending of its true kind.")
    damage = random.Random(0)
    failures = 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[damage.randrange(len(whole))] ^= 0xFF
        path.write_bytes(damaged)
        try:
            read_frame(path)
        except FileFormatError:
            failures += 1
    assert failures > 10


def refusal(path, columns=None) -> str | None:
    """The text of the error, if there is one."""
    try:
        read_frame(path, columns)
    except PgmestError as error:
        return str(error)
    return None


@given(st.binary(max_size=60), st.sampled_from(["csv", "csv.gz", "parquet"]))
@example(b"\x00,\x00\n\x00", "csv")
@example(b'"\r",0\n0', "csv")
@example(b" \n", "csv")
@example(b" \na,b\n1,2\n", "csv")
@example(b"PAR1PAR1", "parquet")
def test_any_bytes_are_read_or_refused_with_an_error_of_ours(tmp_path_factory, raw, ending):
    path = tmp_path_factory.mktemp("fuzz") / f"t.{ending}"
    path.write_bytes(gzip.compress(raw) if ending == "csv.gz" else raw)
    message = refusal(path)
    assert message is None or str(path) in message


@given(st.text(alphabet="ab01,;\"'\n\r \t.-\u00e9\ufeff", max_size=40))
def test_any_text_is_read_or_refused_with_an_error_of_ours(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_bytes(text.encode())
    message = refusal(path, ["a", "b"])
    assert message is None or str(path) in message


# -- writing --------------------------------------------------------------------------------------------------------


def test_the_same_table_gives_the_same_bytes(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_frame(pd.DataFrame(TABLE), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_lines_end_in_one_newline(tmp_path):
    write_frame(pd.DataFrame({"a": [0, 1], "b": [2, 3]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b"a,b\n0,2\n1,3\n"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(ArgumentError, match=r"it must be a dataframe"):
        write_frame("not a frame", path)
    with pytest.raises(UnicodeEncodeError):
        write_frame(pd.DataFrame({"a": ["\ud800"]}, dtype=object), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "none" / "t.csv"
    with pytest.raises(FileFormatError, match=f"^{path}: cannot be written: No such file or directory"):
        write_frame(pd.DataFrame(TABLE), path)


# -- libraries ------------------------------------------------------------------------------------------------------


def test_columns_of_a_frame_are_arrays():
    columns = read_columns(pl.LazyFrame({"a": [1, 2], "b": ["x", "y"], "c": [0, 0]}), ["b", "a", "a"])
    assert {name: array.tolist() for name, array in columns.items()} == {"b": ["x", "y"], "a": [1, 2]}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    remedy = "needs the package 'pyarrow', which is not installed: pip install pyarrow."
    with pytest.raises(OptionalDependencyError) as reading:
        read_frame(path)
    assert str(reading.value) == f"reading Parquet files {remedy}"
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(OptionalDependencyError) as writing:
        write_frame(pd.DataFrame({"a": [1]}), path)
    assert str(writing.value) == f"writing Parquet files {remedy}"


def test_no_dataframe_library_is_imported_before_it_is_needed():
    check = (
        "import sys, pgmest.data.dataset; print(sorted({'pandas', 'narwhals', 'pyarrow', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
