"""Standard input and output in the place of files."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgmest._base.files import write_atomically
from pgmest.data.frames import file_format, write_frame


@contextlib.contextmanager
def input_table(path: str) -> Iterator[str]:
    """The path of a table; for "-" of a copy of standard input, which only this user can read, and which goes away."""
    if path != "-":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="pgmest-") as folder:
        copy = Path(folder) / "standard-input.csv"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(copy)


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
