"""Files of raw tables read a piece at a time, so that memory does not grow with their length."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pgmest.data.csv_header import (
    Opening,
    check_unique,
    check_widths,
    checked_opening,
    not_a_table,
    with_stated_delimiter,
)
from pgmest.data.frames import first_line, parquet_file, reading, table_columns
from pgmest.data.skipped_rows import without_skipped
from pgmest.data.table_file import UNDECODED, TableFile, is_file, table_file
from pgmest.data.values import Values, read_values
from pgmest.data.workbook import workbook_rows
from pgmest.errors import DataError

ROWS_A_PIECE = 1 << 17
LONGEST_HEADER = 1 << 22  # bytes


def read_pieces(
    path: str | Path | TableFile,
    names: Iterable[str] | None = None,
    rows: int = ROWS_A_PIECE,
    *,
    left_out: Counter[str] | None = None,
) -> Generator[dict[str, Values]]:
    """Yield columns of a file of records, `rows` rows at a time; all columns by default.

    The fields of CSV are text as it stands, so that neither `007` nor `NA` is lost; those of Parquet and of workbooks
    have their types. No field causes an error; a row with too few or too many fields does.

    Args:
        path: the path of a file, or a `TableFile`.
        names: the columns to read.
        rows: the number of rows of a piece, before those that the file's `skip_rows` leaves out.
        left_out: gets the numbers of rows that `skip_rows` leaves out, by the text for which.

    Raises:
        DataError: a column is missing.
        FileFormatError: the file is unreadable, truncated, or not such a table.
        OptionalDependencyError: a Parquet file, and no pyarrow; a workbook, and no openpyxl.
    """
    wanted = None if names is None else list(dict.fromkeys(names))
    file = table_file(path)
    readers = {".parquet": _parquet, ".xlsx": _workbook}
    counted = Counter() if left_out is None else left_out
    with reading(file):
        for piece in readers.get(file.format, _csv)(file, wanted, rows, counted):
            present = piece.column_names if file.format == ".parquet" else piece
            yield read_values(piece, list(present) if wanted is None else wanted)


def _parquet(path: TableFile, wanted: list[str] | None, rows: int, _: Counter[str]) -> Iterator[Any]:
    with parquet_file(path, wanted) as (file, columns):
        import pyarrow as pa

        yield file.schema_arrow.empty_table().select(columns)  # so that missing columns are found
        for batch in file.iter_batches(rows, columns=columns):
            yield pa.Table.from_batches([batch])


def empty_frame(file: TableFile) -> Any:
    """Return a frame of pandas without rows, with the types that pandas gives the columns of a Parquet file.

    Dates, times of day and decimal numbers, for which pandas has no types, have those of the file.

    Raises:
        FileFormatError, OptionalDependencyError: as for `read_pieces`.
    """
    with reading(file), parquet_file(file, None) as (opened, _):
        import pandas as pd
        import pyarrow as pa

        def kept(kind: Any) -> Any:
            other = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_decimal(kind)
            return pd.ArrowDtype(kind) if other else None

        return opened.schema_arrow.empty_table().to_pandas(types_mapper=kept)


def _workbook(file: TableFile, wanted: list[str] | None, rows: int, left_out: Counter[str]) -> Iterator[Any]:
    import pandas as pd

    with workbook_rows(file, left_out) as (names, read):
        check_unique(file, names, wanted)
        piece: list[Any] = []
        for row in read:
            piece.append(row)
            if len(piece) == rows:
                yield pd.DataFrame(piece, columns=pd.Index(names, dtype=object), dtype=object)
                piece = []
        yield pd.DataFrame(piece, columns=pd.Index(names, dtype=object), dtype=object)


def _csv(file: TableFile, wanted: list[str] | None, rows: int, left_out: Counter[str]) -> Iterator[Any]:
    import pandas as pd

    with file.opened() as handle:
        start = handle.read(LONGEST_HEADER)
    file = with_stated_delimiter(file, start)
    opening = checked_opening(file, start, wanted, raw=True)
    absent = [name for name in wanted or () if name not in opening.names]
    if absent:
        raise DataError.missing_columns(absent, opening.names)
    pieces, long = _pieces(file, opening, rows, left_out, 0, "error"), False
    done = 0
    while True:
        try:
            piece = next(pieces, None)
        except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
            skipped = _check_all_widths(file)
            if long or not skipped:
                raise not_a_table(file, first_line(error)) from None
            left_out.update(skipped)
            pieces, long = _pieces(file, opening, rows, left_out, done, "skip"), True
            continue
        if piece is None:
            return
        done += 1
        yield piece if wanted is None else piece[[name for name in wanted if name in piece]]


def _pieces(
    file: TableFile, opening: Opening, rows: int, left_out: Counter[str], first: int, long: Literal["error", "skip"]
) -> Iterator[Any]:
    """Yield the pieces of a text from number `first` on, all columns, without rows that `skip_rows` leaves out.

    Args:
        file, rows, left_out: as for `read_pieces`.
        opening: the beginning of the text.
        first: the number of the piece, from 0.
        long: what is to be done with a row that has more fields than the header.
    """
    import pandas as pd

    with file.opened() as handle, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would drop the extra fields
        pieces = pd.read_csv(
            handle,
            sep=file.separator,
            dtype=object,
            keep_default_na=False,
            index_col=False,
            chunksize=rows,
            encoding=file.codec,
            encoding_errors=UNDECODED,  # an error would reveal the record that causes it
            on_bad_lines=long,
            skipinitialspace=True,
            skip_blank_lines=len(opening.names) > 1,  # of a single column they are missing values
            **opening.for_pandas,
        )
        checked = False
        for read in islice(pieces, first, None):
            piece = without_skipped(read, file.skip_rows, left_out) if file.skip_rows else read
            if not checked and (piece.iloc[:, -1].isin(("", None))).any():  # so pandas fills up a row too short
                _check_all_widths(file)
                checked = True
            yield piece


def _check_all_widths(file: TableFile) -> Counter[str]:
    with file.opened() as handle:
        return check_widths(file, handle.read(), raw=True)


def column_names(table: Any) -> list[str]:
    """Return the names of all columns of a dataframe of any library or of a file; no rows are read.

    Raises:
        FileFormatError, ArgumentError: as for `read_pieces` and `narrowed`.
    """
    if not is_file(table):
        return table_columns(table)
    file = table_file(table)
    with reading(file):
        if file.format == ".parquet":
            with parquet_file(file, None) as (_, names):
                return names
        if file.format == ".xlsx":
            with workbook_rows(file) as (names, _):
                check_unique(file, names, None)
                return names
        with file.opened() as handle:
            start = handle.read(LONGEST_HEADER)
        return checked_opening(with_stated_delimiter(file, start), start, None, raw=True).names
