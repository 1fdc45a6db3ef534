"""Excel workbooks: the rows of a sheet."""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgmest.data.table_file import TableFile
from pgmest.errors import FileFormatError, OptionalDependencyError, PgmestError, listed

Row = tuple[Any, ...]


@contextlib.contextmanager
def workbook_rows(file: TableFile) -> Iterator[tuple[list[str], Iterator[Row]]]:
    """The names of the columns of a sheet, and its rows, read one after the other.

    The first row that has anything in it names the columns; a column without a name is left out. Values have the types
    of their cells; of a formula it is the result that was stored with it. Empty rows are left out, but between the
    values of a single column, where they are missing values.

    Raises:
        FileFormatError: not a whole workbook, or no such sheet.
        OptionalDependencyError: no openpyxl.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise OptionalDependencyError.of("openpyxl", "reading Excel workbooks") from None
    damaged = (
        zipfile.BadZipFile,
        InvalidFileException,
        LookupError,
        ValueError,
        SyntaxError,
    )  # XML's ParseError is one
    with Path(file.path).open("rb") as handle:
        try:
            book = openpyxl.load_workbook(handle, read_only=True, data_only=True)
        except damaged as error:
            raise _damaged(file, error) from None
        try:
            rows = _sheet(file, book).iter_rows(values_only=True)
            header = next((row for row in rows if any(cell is not None for cell in row)), ())
            places = [place for place, name in enumerate(header) if name is not None and str(name).strip()]
            if not places:
                raise FileFormatError.of(file, "its sheet is empty.", "Name the sheet that has the table: --sheet.")
            yield [str(header[place]).strip() for place in places], _filled(rows, places)
        except PgmestError:
            raise
        except damaged as error:
            raise _damaged(file, error) from None
        finally:
            book.close()


def _sheet(file: TableFile, book: Any) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    wanted = file.sheet
    if isinstance(wanted, str) and wanted not in names and wanted.isdecimal():
        wanted = int(wanted)
    if isinstance(wanted, int) and 1 <= wanted <= len(names):
        return book.worksheets[wanted - 1]
    if wanted is not None and wanted not in names:
        raise FileFormatError.of(file, f"it has no sheet {wanted!r}.", f"Its sheets are: {listed(names)}.")
    return book[wanted] if wanted is not None else book.worksheets[0]


def _filled(rows: Iterator[Row], places: list[int]) -> Iterator[Row]:
    """The named cells of each row; empty rows as said above, none at the end."""
    waiting = 0
    while (row := _next(rows)) is not None:
        cells = tuple(row[place] if place < len(row) else None for place in places)
        if all(cell is None for cell in cells):
            waiting += len(places) == 1
            continue
        for _ in range(waiting):
            yield (None,)
        waiting = 0
        yield cells


def _next(rows: Iterator[Row]) -> Row | None:
    """Return the next row, or None; openpyxl would warn of a single record's cell, such as a date after 9999."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return next(rows, None)


def _damaged(file: TableFile, error: BaseException) -> FileFormatError:
    reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    return FileFormatError.of(file, f"not a whole Excel workbook ({reason}).", "Save it again, as .xlsx.")
