"""Tables and texts in files, or on standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.files import write_atomically
from pgmest.cli.command import Add, count
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import collected, delimited_bytes, write_frame
from pgmest.data.table_file import OPTIONS, TableFile, file_format, table_file
from pgmest.errors import DataError
from pgmest.schema.writing import check_writable

if TYPE_CHECKING:
    from pgmest.schema import Schema

TABLE = '.csv, .tsv, .txt, .dat (or .gz of these), .parquet, .xlsx, or .zip; "-" for CSV from standard input'
WRITTEN_TABLE = '.csv, .tsv (or .gz of these) or .parquet; "-" for CSV'


def reader_options(add: Add) -> None:
    """Add the options that say how the table is read; `reader_choices` reads them."""
    reading = add.to("reading the table")
    text = "the delimiter of fields: a character, or tab, semicolon, pipe, space (default: tab in .tsv, else a comma)"
    reading("--delimiter", metavar="C", help=text)
    reading("--encoding", metavar="NAME", help="the encoding of a text file, such as cp1252 or utf-16 (default: utf-8)")
    reading("--sheet", metavar="NAME", help="the name or number of a workbook's sheet (default: the first)")
    reading("--skip", metavar="N", type=count, help="the number of rows above the header, such as titles (default: 0)")
    text = "the number of rows of the header, of which the first names the columns (default: 1)"
    reading("--header", metavar="N", type=count, help=text)
    text = "the table has no header: its columns are 'column 1', 'column 2', ..."
    reading("--no-header", dest="header", action="store_const", const=0, help=text)
    text = "leave out rows whose first value is TEXT, such as Total or 'Source:*' (repeat it for several)"
    reading("--skip-rows", metavar="TEXT", action="append", help=text)


def reader_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `reader_options` as arguments of `TableFile`."""
    return {name: getattr(options, name) for name in OPTIONS}


@contextlib.contextmanager
def input_table(path: str, options: argparse.Namespace) -> Iterator[TableFile]:
    """Give a table; for "-" this is a temporary copy of standard input, which only this user can read.

    Raises:
        ArgumentError: the delimiter, encoding or sheet is invalid.
        DataError: standard input is closed.
    """
    choices = reader_choices(options)
    if path != "-":
        yield TableFile(path, **choices)
        return
    if sys.stdin is None:
        raise DataError("standard input is closed, so - names no table. Name a file, or pipe a table in.")
    with tempfile.TemporaryDirectory(prefix="pgmest-") as folder:
        copy = Path(folder) / "standard-input.csv"
        table = TableFile(copy, **choices, name="standard input")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield table


def check_rows(table: TableFile) -> None:
    """Raise DataError if a table has no row below its header, before a budget is spent on it.

    The error reveals nothing about any person: nothing is released, and an empty table has no records.

    Raises:
        DataError: the table has no rows.
        FileFormatError: the table cannot be read.
    """
    pieces = read_pieces(table, rows=1)
    first = next(pieces, None)
    while first is not None and not any(map(len, first.values())):
        first = next(pieces, None)
    pieces.close()
    if first is None:
        raise DataError(
            f"{table} has no rows below its header, so no table was made and no budget spent. Check the file."
        )


def write_text(text: str, path: str | None) -> None:
    """Write a text to a file, or to standard output for a `path` of None or "-"."""
    if path in (None, "-"):
        sys.stdout.write(text)
    else:
        assert path is not None
        write_atomically(path, text)


def written_table(path: str, options: argparse.Namespace, schema: Schema | None = None) -> TableFile:
    """Return the file of a table to write, text as in the private table: by the options, or by the schema's `file:`.

    Raises:
        ArgumentError: the encoding lacks a character of the schema.
    """
    file = TableFile("standard-output.csv", name="standard output") if path == "-" else TableFile(path)
    if hasattr(options, "delimiter"):
        file = table_file(file, **reader_choices(options))
    if schema is not None:
        file = schema.table_file(file)
        check_writable(schema, file)
    return file


def write_table(frame: Any, path: str, file: TableFile | None = None) -> None:
    """Write a dataframe to a file, or to standard output if `path` is "-": the same text as in a CSV file.

    Args:
        frame: the table.
        path: the file.
        file: how text is written (`written_table`); by default with commas, in UTF-8.
    """
    if path != "-":
        write_frame(frame, path if file is None else file)
    elif file is None or file.encoding is None:
        written = TableFile("standard-output.csv") if file is None else file
        sys.stdout.write(delimited_bytes(collected(frame), written).decode("utf-8"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(delimited_bytes(collected(frame), file))


def is_csv(path: str) -> bool:
    """Return whether the table at a path is text, in which dates have the formats of the schema."""
    return path == "-" or file_format(path) != ".parquet"
