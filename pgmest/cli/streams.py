"""Standard input and output in the place of files."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgmest._base.errors import DataError
from pgmest._base.files import write_atomically
from pgmest.cli.command import Add
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import write_frame
from pgmest.data.table_file import TableFile, file_format

TABLE = '.csv, .tsv (or .gz of these), .parquet or .xlsx; "-" for CSV from standard input'
WRITTEN_TABLE = '.csv, .tsv (or .gz of these) or .parquet; "-" for CSV'


def reader_options(add: Add) -> None:
    """How the table is read; `input_table` reads them."""
    text = "what stands between fields: a character, or tab, semicolon, pipe (default: tab in .tsv, else a comma)"
    add("--delimiter", metavar="C", help=text)
    add("--encoding", metavar="NAME", help="of a text file, such as cp1252 or utf-16 (default: utf-8)")
    add("--sheet", metavar="NAME", help="of a workbook, its name or number (default: the first)")


@contextlib.contextmanager
def input_table(path: str, options: argparse.Namespace) -> Iterator[TableFile]:
    """A table; for "-" a copy of standard input, which only this user can read, and which goes away.

    Raises:
        ArgumentError: a delimiter, encoding or sheet that cannot be.
    """
    said = {name: getattr(options, name) for name in ("delimiter", "encoding", "sheet")}
    if path != "-":
        yield TableFile(path, **said)
        return
    with tempfile.TemporaryDirectory(prefix="pgmest-") as folder:
        copy = Path(folder) / "standard-input.csv"
        table = TableFile(copy, **said, name="standard input")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield table


def check_rows(table: TableFile) -> None:
    """See that a table has a row below its header, before a budget is spent on none.

    Its owner alone learns of that: nothing is released then. That a table is empty tells of nobody who is in it.

    Raises:
        DataError: it has none.
        FileFormatError: it cannot be read.
    """
    pieces = read_pieces(table, rows=1)
    first = next(pieces, None)
    while first is not None and not any(map(len, first.values())):
        first = next(pieces, None)
    pieces.close()
    if first is None:
        raise DataError(
            f"{table} has no rows below its header, so nothing was made, and nothing spent. Check the file."
        )


def write_text(text: str, path: str | None) -> None:
    """To the file, or to standard output for None and "-"."""
    if path in (None, "-"):
        sys.stdout.write(text)
    else:
        assert path is not None
        write_atomically(path, text)


def write_table(frame: Any, path: str) -> None:
    """A dataframe to the file, or as CSV to standard output for "-"."""
    import narwhals as nw

    if path == "-":
        sys.stdout.write(nw.from_native(frame, eager_only=True).write_csv())
    else:
        write_frame(frame, path)


def is_csv(path: str) -> bool:
    """Whether a table there is text, in which dates are written in formats of their own."""
    return path == "-" or file_format(path) != ".parquet"
