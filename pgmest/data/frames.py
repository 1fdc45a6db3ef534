"""Tables from outside: CSV, gzipped CSV and Parquet files, and dataframes of any library.

Everything the rest of the package knows of files of records and of dataframe libraries is in here. Dataframes are read
through narwhals, imported when first needed. Rows are counted from 0, as in the dataframes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError, DataError, FileFormatError, OptionalDependencyError, listed, plural
from pgmest._base.files import atomic_path

if TYPE_CHECKING:
    import narwhals as nw

FORMATS = (".csv", ".csv.gz", ".parquet")
NOT_UTF8 = "Save it as UTF-8; a compressed file must be named .csv.gz."
GZIP_LEVEL = 3  # five times as fast as the usual 6 on columns of codes, for a tenth more bytes


def read_frame(path: str | Path, columns: Iterable[str] | None = None) -> nw.DataFrame[Any]:
    """The table in a `.csv`, `.csv.gz` or `.parquet` file (the ending may be in capitals).

    A CSV file is comma-separated UTF-8 text whose first line names the columns; quotes, Windows line ends and a byte
    order mark are understood.

    Args:
        path: the file.
        columns: the columns that will be used. Those the file lacks are left out, for the caller to report; a
            Parquet file is read for the others only. All columns by default.

    Raises:
        FileFormatError: the file is unreadable, truncated, not such a table, or has a header or rows that do not fit.
        OptionalDependencyError: a Parquet file, and no pyarrow.
    """
    import narwhals as nw

    kind = file_format(path)
    wanted = None if columns is None else list(dict.fromkeys(columns))
    with reading(path):
        table = _read_parquet(path, wanted) if kind == ".parquet" else _read_csv(path, wanted, kind == ".csv.gz")
    return nw.from_native(table, eager_only=True)


def write_frame(frame: Any, path: str | Path) -> None:
    """Write a dataframe of any library as `.csv`, `.csv.gz` or `.parquet`, by the ending of `path`.

    After a crash either the old file or the new one is there.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
        ArgumentError: `frame` is not a dataframe.
    """
    kind = file_format(path)
    table = collected(frame)
    with atomic_path(path) as temporary:
        if kind == ".parquet":
            try:
                table.write_parquet(temporary)
            except ImportError:
                raise OptionalDependencyError.of("pyarrow", "writing Parquet files") from None
            return
        content = table.write_csv().encode("utf-8")
        if kind == ".csv.gz":
            content = gzip.compress(content, GZIP_LEVEL, mtime=0)
        temporary.write_bytes(content)


def read_columns(frame: Any, names: Iterable[str]) -> dict[str, np.ndarray]:
    """The named columns of a dataframe of any library, each as a one-dimensional array; other columns are not read.

    Raises:
        ArgumentError: `frame` is not a dataframe.
        DataError: it lacks some of the columns, or has one of them twice.
    """
    table = narrowed(frame, names)
    return {name: table[name].to_numpy() for name in table.columns}


def narrowed(frame: Any, names: Iterable[str] | None, rows: int | None = None) -> nw.DataFrame[Any]:
    """The named columns (all, of None) of a dataframe of any library, in memory, cut after `rows` rows.

    Other columns are not read.

    Raises:
        ArgumentError, DataError: as for `read_columns`.
    """
    table = _narwhal(frame)
    table = table if rows is None else table.head(rows)
    return collected(table if names is None else _selected(table, list(dict.fromkeys(names))))


def lazy_frame(frame: Any, names: Iterable[str]) -> nw.LazyFrame[Any] | None:
    """The named columns where an engine holds the rows and `frame` only refers to them; None for any other dataframe.

    Raises:
        ArgumentError, DataError: as for `read_columns`.
    """
    import narwhals as nw

    table = _narwhal(frame)
    return _selected(table, list(dict.fromkeys(names))) if isinstance(table, nw.LazyFrame) else None


def table_columns(frame: Any) -> list[str]:
    """The names of the columns of a dataframe of any library.

    Raises:
        ArgumentError: `frame` is not a dataframe.
    """
    return _narwhal(frame).collect_schema().names()


def collected(frame: Any) -> Any:
    """A dataframe of any library as one of narwhals with its rows in memory."""
    import narwhals as nw

    table = _narwhal(frame)
    if not isinstance(table, nw.LazyFrame):
        return table
    if table.implementation.is_polars():
        return table.collect(engine="streaming")  # in pieces, at bounded memory
    try:
        return table.collect()
    except ImportError:  # most engines give pyarrow tables by default
        return table.collect("pandas")


def file_format(path: str | Path) -> str:
    """Which of `FORMATS` the name of a file ends in, whatever the case.

    Raises:
        FileFormatError: none of them.
    """
    name = Path(path).name.lower()
    for ending in FORMATS:
        if name.endswith(ending):
            return ending
    raise FileFormatError.of(path, "not a kind of table file known here.", f"The name must end in {listed(FORMATS)}.")


# -- dataframes -----------------------------------------------------------------------------------------------------


def _narwhal(frame: Any) -> Any:
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(frame)
    except TypeError:
        allowed = "a dataframe (pandas, polars, pyarrow, a DuckDB relation, ...)"
        raise ArgumentError.of("frame", type(frame), allowed) from None
    except DuplicateError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the table has several columns of one name ({reason}); keep one of each.") from None


def _selected(table: Any, names: list[str]) -> Any:
    existing = table.collect_schema().names()
    missing = [name for name in names if name not in existing]
    if missing:
        raise DataError.missing_columns(missing, existing)
    return table.select(names)


# -- Parquet --------------------------------------------------------------------------------------------------------


def _read_parquet(path: str | Path, wanted: list[str] | None) -> Any:
    with parquet_file(path, wanted) as (file, columns):
        return file.read(columns=columns)


@contextlib.contextmanager
def parquet_file(path: str | Path, wanted: list[str] | None) -> Iterator[tuple[Any, list[str]]]:
    """An open ParquetFile, and those of the columns wanted that it has; errors while it is read name the path."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise OptionalDependencyError.of("pyarrow", "reading Parquet files") from None
    with Path(path).open("rb") as handle:
        try:
            file = parquet.ParquetFile(handle)
            names = file.schema_arrow.names
            check_unique(path, names, wanted)
            yield file, names if wanted is None else [name for name in wanted if name in names]
        except (ArrowException, OSError) as error:  # pyarrow has an OSError for damaged content
            problem = f"not a whole Parquet file ({first_line(error)})."
            raise FileFormatError.of(path, problem, "Write it again, or give it the ending of its true kind.") from None


# -- CSV ------------------------------------------------------------------------------------------------------------


def _read_csv(path: str | Path, wanted: list[str] | None, zipped: bool) -> Any:
    import pandas as pd

    content = gzip.decompress(Path(path).read_bytes()) if zipped else Path(path).read_bytes()
    check_header(path, content, wanted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would drop the extra fields
            table = pd.read_csv(io.BytesIO(content), index_col=False, low_memory=False, float_precision="round_trip")
    except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        check_widths(path, content)
        raise not_a_table(path, first_line(error)) from None
    if table.iloc[:, -1].isna().any():  # what pandas makes of a row with too few fields
        check_widths(path, content)
    return table


def check_header(path: str | Path, content: bytes, wanted: list[str] | None, raw: bool = False) -> list[str]:
    """The names of the columns; raises FileFormatError where they are none. `raw` as for `check_widths`."""
    with _fields_of_any_length():
        header = next(_csv_rows(content, raw), (0, []))[1]
    if not header:
        raise not_a_table(path, "it is empty")
    if any("\ufffd" in name for name in header):
        raise FileFormatError.of(path, "not UTF-8 text.", NOT_UTF8)
    check_unique(path, header, wanted)
    if wanted is not None and not set(wanted) <= set(header) and all(map(_is_number, header)):
        problem = f"the first line ({listed(header, 4)}) holds numbers, not the names of the columns."
        raise FileFormatError.of(path, problem, f"Add a header line, such as {','.join(wanted[:4])}.")
    return header


def check_widths(path: str | Path, content: bytes, raw: bool = False) -> None:
    """Raise for the first row whose number of fields is not the header's; a trailing comma is let pass.

    `raw` is for the tables of a schema: what stands in a field is no error there, bytes that are no text included.
    """
    with _fields_of_any_length():
        rows = _csv_rows(content, raw)
        width = len(next(rows)[1])
        for line, fields in rows:
            if len(fields) < width or any(fields[width:]):
                problem = f"line {line} has {plural(len(fields), 'field')} where the header has {width}."
                raise FileFormatError.of(path, problem, "Repair the line; quote fields that hold commas or line ends.")


@contextlib.contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """The csv module refuses fields of more than 131,072 characters; pandas reads them."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _csv_rows(content: bytes, raw: bool) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) and fields of each row; lines of white space are none, to pandas as well."""
    errors = "replace" if raw else "strict"
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors=errors, newline="")
    reader = csv.reader(text, skipinitialspace=raw)  # both as pandas is told to read
    return ((reader.line_num, fields) for fields in reader if len(fields) > 1 or "".join(fields).strip())


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# -- errors ---------------------------------------------------------------------------------------------------------


def check_unique(path: str | Path, names: list[str], wanted: list[str] | None) -> None:
    repeated = {name for name in set(names if wanted is None else wanted) if names.count(name) > 1}
    if repeated:
        problem = f"several columns are named {listed(sorted(repeated))}."
        raise FileFormatError.of(path, problem, "Give each column its own name.")


@contextlib.contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with a file into errors that name it."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"the gzip stream is truncated or damaged ({first_line(error)})."
        raise FileFormatError.of(path, problem, "Copy or compress the file again.") from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None
    except UnicodeDecodeError as error:
        raise FileFormatError.of(path, f"not UTF-8 text ({error.reason}).", NOT_UTF8) from None
    except csv.Error as error:
        raise not_a_table(path, str(error)) from None


def not_a_table(path: str | Path, reason: str) -> FileFormatError:
    remedy = "A table is comma-separated text whose first line names the columns."
    return FileFormatError.of(path, f"not a CSV table ({reason}).", remedy)


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
