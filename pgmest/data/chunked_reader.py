"""Files of raw tables read a piece at a time, so that memory does not grow with their length."""

from __future__ import annotations

import codecs
import gzip
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from pgmest._base.errors import DataError
from pgmest.data.frames import (
    check_header,
    check_widths,
    file_format,
    first_line,
    not_a_table,
    parquet_file,
    reading,
    table_columns,
)
from pgmest.data.values import Values, read_values

ROWS_A_PIECE = 1 << 17
LONGEST_HEADER = 1 << 22  # bytes


def read_pieces(
    path: str | Path, names: Iterable[str] | None = None, rows: int = ROWS_A_PIECE
) -> Iterator[dict[str, Values]]:
    """Columns of a `.csv`, `.csv.gz` or `.parquet` file, `rows` rows at a time; all columns by default.

    The fields of CSV are text as it stands, so that neither `007` nor `NA` is lost; those of Parquet have their types.
    Whatever stands in a field, it is no error; a row with too few or too many fields is.

    Raises:
        DataError: a column is missing.
        FileFormatError: the file is unreadable, truncated, or not such a table.
        OptionalDependencyError: a Parquet file, and no pyarrow.
    """
    wanted = None if names is None else list(dict.fromkeys(names))
    kind = file_format(path)
    with reading(path):
        for piece in (
            _parquet(path, wanted, rows) if kind == ".parquet" else _csv(path, wanted, kind == ".csv.gz", rows)
        ):
            yield read_values(
                piece, list(piece.column_names if kind == ".parquet" else piece) if wanted is None else wanted
            )


def _parquet(path: str | Path, wanted: list[str] | None, rows: int) -> Iterator[Any]:
    with parquet_file(path, wanted) as (file, columns):
        import pyarrow as pa

        yield file.schema_arrow.empty_table().select(columns)  # so that missing columns are found
        for batch in file.iter_batches(rows, columns=columns):
            yield pa.Table.from_batches([batch])


def _csv(path: str | Path, wanted: list[str] | None, zipped: bool, rows: int) -> Iterator[Any]:
    import pandas as pd

    with _opened(path, zipped) as handle:
        start = handle.read(LONGEST_HEADER)
    header = check_header(path, start, wanted, raw=True)
    absent = [name for name in wanted or () if name not in header]
    if absent:
        raise DataError.missing_columns(absent, header)
    lines = start.removeprefix(codecs.BOM_UTF8).splitlines()
    blank = next((place for place, line in enumerate(lines) if line.strip()), 0)
    with _opened(path, zipped) as handle, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would drop the extra fields
        try:
            pieces = pd.read_csv(
                handle,
                dtype=str,
                keep_default_na=False,
                index_col=False,
                chunksize=rows,
                encoding="utf-8-sig",
                encoding_errors="replace",  # bytes that are no text are a value that is not foreseen
                skiprows=blank,
                skipinitialspace=True,
                skip_blank_lines=len(header) > 1,  # of a single column they are missing values
            )
            checked = False
            for piece in pieces:
                if not checked and (piece.iloc[:, -1].isin(("", None))).any():  # so pandas fills up a row too short
                    _check_all_widths(path, zipped)
                    checked = True
                yield piece if wanted is None else piece[[name for name in wanted if name in piece]]
        except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
            _check_all_widths(path, zipped)
            raise not_a_table(path, first_line(error)) from None


def _opened(path: str | Path, zipped: bool) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else Path(path).open("rb")


def _check_all_widths(path: str | Path, zipped: bool) -> None:
    with _opened(path, zipped) as handle:
        check_widths(path, handle.read(), raw=True)


def column_names(table: Any) -> list[str]:
    """The names of all columns of a dataframe of any library or of a file; no rows are read.

    Raises:
        FileFormatError, ArgumentError: as for `read_pieces` and `narrowed`.
    """
    if not isinstance(table, str | Path):
        return table_columns(table)
    kind = file_format(table)
    with reading(table):
        if kind == ".parquet":
            with parquet_file(table, None) as (_, names):
                return names
        with _opened(table, kind == ".csv.gz") as handle:
            return check_header(table, handle.read(LONGEST_HEADER), None, raw=True)
