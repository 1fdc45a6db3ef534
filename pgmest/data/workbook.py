"""Excel workbooks: the rows of a sheet."""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from pgmest.data.csv_header import joined_names
from pgmest.data.skipped_rows import first_value, skipping
from pgmest.data.table_file import TableFile
from pgmest.errors import FileFormatError, OptionalDependencyError, PgmestError, listed

Row = tuple[Any, ...]

ROWS_SEEN = 100
"""A column without a name counts if it has a value in one of this many first rows."""


@contextlib.contextmanager
def workbook_rows(file: TableFile, left_out: Counter[str] | None = None) -> Iterator[tuple[list[str], Iterator[Row]]]:
    """Return the names of the columns of a sheet, and its rows, read one after the other.

    The first row that has anything in it names the columns, unless the file's `skip` and `header` say otherwise. A
    column without a name is named by its place, as in text files, if its first rows have a value. Values have the types
    of their cells; the value of a formula is its stored result. Empty rows are left out, except between the values of a
    single column, where they are missing values. So are those that the file's `skip_rows` names, which are counted in
    `left_out`.

    Raises:
        FileFormatError: not a whole workbook, or no such sheet.
        OptionalDependencyError: no openpyxl.
    """
    with _sheet_rows(file) as sheet:
        rows = islice(sheet, file.skip or 0, None)
        header = list(islice(filter(_has_values, rows), max(file.header_rows, 1)))
        first = list(islice(iter(lambda: _next(rows), None), ROWS_SEEN))
        names, rows = _names(file, header, first), chain(first, rows)
        if not names:
            raise FileFormatError.of(file, "its sheet is empty.", "Name the sheet that has the table: --sheet.")
        records = rows if file.header_rows else chain(header, rows)
        if file.skip_rows:
            records = _records(records, file.skip_rows, Counter() if left_out is None else left_out)
        yield list(names.values()), _filled(records, list(names))


@contextlib.contextmanager
def _sheet_rows(file: TableFile) -> Iterator[Iterator[Row]]:
    """Yield all rows of a sheet; raise as `workbook_rows`."""
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise OptionalDependencyError.of("openpyxl", "reading Excel workbooks") from None
    # SyntaxError is for XML, whose ParseError is one.
    damaged = (zipfile.BadZipFile, InvalidFileException, LookupError, ValueError, SyntaxError)
    with file.seekable() as handle:
        try:
            book = openpyxl.load_workbook(handle, read_only=True, data_only=True)
        except damaged as error:
            raise _damaged(file, error) from None
        try:
            yield _sheet(file, book).iter_rows(values_only=True)
        except PgmestError:
            raise
        except damaged as error:
            raise _damaged(file, error) from None
        finally:
            book.close()


def first_sheet_rows(file: TableFile, rows: int) -> list[tuple[int, list[str]]]:
    """Return the numbers, from 0, and the cells as texts of the first rows of a sheet that are not empty.

    Raises:
        FileFormatError, OptionalDependencyError: as for `workbook_rows`.
    """
    with _sheet_rows(file) as sheet:
        first = islice(((number, row) for number, row in enumerate(sheet) if _has_values(row)), rows)
        cells = [(number, [_cell_text(cell) for cell in row]) for number, row in first]
    left = min((place for _, row in cells for place, cell in enumerate(row) if cell), default=0)
    return [(number, row[left:]) for number, row in cells]


def last_sheet_rows(file: TableFile, rows: int) -> list[list[str]]:
    """Return the cells as texts of the last rows of a sheet that are not empty, without titles and header.

    Raises:
        FileFormatError, OptionalDependencyError: as for `workbook_rows`.
    """
    with _sheet_rows(file) as sheet:
        filled = (row for number, row in enumerate(sheet) if number >= (file.skip or 0) and _has_values(row))
        return [[_cell_text(cell) for cell in row] for row in deque(islice(filled, file.header_rows, None), rows)]


def _records(rows: Iterator[Row], texts: Sequence[str], left_out: Counter[str]) -> Iterator[Row]:
    """Yield the rows that are records."""
    while (row := _next(rows)) is not None:
        reason = skipping(texts, first_value(map(_cell_text, row)))
        if reason is None:
            yield row
        elif _has_values(row):
            left_out[reason] += 1


def _has_values(row: Row) -> bool:
    return any(cell is not None for cell in row)


def _cell_text(cell: Any) -> str:
    """Return a cell as text, by which the header is recognized."""
    return "" if cell is None else cell.isoformat(" ") if hasattr(cell, "hour") else str(cell).strip()


def _names(file: TableFile, header: list[Row], first: list[Row]) -> dict[int, str]:
    """Return the names of the columns by the place of each; `first` are the rows below the header."""
    if not header:
        return {}
    if file.header_rows == 0:
        places = [place for place, cell in enumerate(header[0]) if cell is not None]
        width = max(places) + 1 - min(places)
        return dict(zip(range(min(places), max(places) + 1), file.names_without_header(width), strict=True))
    width = max(map(len, [*header, *first]))
    cells = [["" if cell is None else str(cell).strip() for cell in row] for row in header]
    names = joined_names([[*row, *[""] * (width - len(row))] for row in cells])
    filled = {place for row in first for place, cell in enumerate(row) if cell is not None}
    places = [place for place, name in enumerate(names) if name or place in filled]
    return {place: names[place] or f"Unnamed: {place - places[0]}" for place in places}


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
    """Yield the named cells of each row; of empty rows those that `workbook_rows` keeps."""
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
