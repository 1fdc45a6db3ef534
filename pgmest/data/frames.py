"""Tables from outside: CSV, TSV, Parquet and Excel files, and dataframes of any library.

No other file depends on the formats of tables or on dataframe libraries. Dataframes are read
through narwhals, imported when first needed. Rows are counted from 0, as in the dataframes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import importlib
import io
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.files import atomic_path
from pgmest.data.csv_header import (
    OTHER_ENCODING,
    check_unique,
    check_widths,
    checked_opening,
    not_a_table,
    with_stated_delimiter,
)
from pgmest.data.names import index_names, with_text_names
from pgmest.data.skipped_rows import without_skipped
from pgmest.data.table_file import TableFile, file_format, table_file
from pgmest.data.workbook import workbook_rows
from pgmest.data.zipped import damaged
from pgmest.errors import ArgumentError, DataError, FileFormatError, OptionalDependencyError, listed

if TYPE_CHECKING:
    import narwhals as nw

GZIP_LEVEL = 3  # five times as fast as the usual 6 on columns of codes, for a tenth more bytes


class ReadingWarning(UserWarning):
    """The warning that something about a table was guessed, or is left out, which its owner should look at."""


def read_frame(path: str | Path | TableFile, columns: Iterable[str] | None = None) -> nw.DataFrame[Any]:
    """Return the table in a file of one of the kinds that `TableFile` lists.

    A CSV file is comma-separated UTF-8 text whose first line names the columns, unless a `TableFile` says otherwise;
    quotes, Windows line ends and a byte order mark are understood.

    Args:
        path: the file.
        columns: the columns that will be used. Those the file lacks are left out, for the caller to report; a
            Parquet file is read for the others only. All columns by default.

    Raises:
        FileFormatError: the file is unreadable, truncated, not such a table, or has a header or rows that do not fit.
        OptionalDependencyError: a Parquet file, and no pyarrow; a workbook, and no openpyxl.
    """
    import narwhals as nw

    file = table_file(path)
    wanted = None if columns is None else list(dict.fromkeys(columns))
    readers = {".parquet": _read_parquet, ".xlsx": _read_workbook}
    with reading(file):
        table = readers.get(file.format, _read_csv)(file, wanted)
    return nw.from_native(table, eager_only=True)


def write_frame(frame: Any, path: str | Path | TableFile) -> None:
    """Write a dataframe of any library as `.csv`, `.tsv` (either `.gz`, too) or `.parquet`, by the ending of `path`.

    Text has the delimiter and the encoding of a `TableFile`, by default a comma or a tab, and UTF-8. After a crash
    either the old file or the new one is there.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
        ArgumentError: `frame` is not a dataframe.
    """
    kind = file_format(path)
    table, file = collected(frame), table_file(path)
    with atomic_path(file.path) as temporary:
        if kind == ".parquet":
            try:
                table.write_parquet(temporary)
            except ImportError:
                raise OptionalDependencyError.of("pyarrow", "writing Parquet files") from None
            return
        content = delimited_bytes(table, file)
        if kind.endswith(".gz"):
            content = gzip.compress(content, GZIP_LEVEL, mtime=0)
        temporary.write_bytes(content)


def frame_of(columns: Mapping[str, np.ndarray], backend: str) -> Any:
    """Return columns as a dataframe of a library: "pandas", "polars" or "pyarrow".

    Raises:
        ArgumentError: another library.
        OptionalDependencyError: the library is not installed.
    """
    import narwhals as nw

    if backend not in ("pandas", "polars", "pyarrow"):
        raise ArgumentError.of("backend", backend, ("pandas", "polars", "pyarrow"))
    try:
        importlib.import_module(backend)
    except ImportError:
        raise OptionalDependencyError.of(backend, f"to_frame(backend='{backend}')") from None
    return nw.from_dict(columns, backend=backend).to_native()


def read_columns(frame: Any, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the named columns of a dataframe of any library as one-dimensional arrays; other columns are not read.

    Raises:
        ArgumentError: `frame` is not a dataframe.
        DataError: it lacks some of the columns, or has one of them twice.
    """
    table = narrowed(frame, names)
    return {name: table[name].to_numpy() for name in table.columns}


def narrowed(frame: Any, names: Iterable[str] | None, rows: int | None = None) -> nw.DataFrame[Any]:
    """Return the named columns (None: all) of a dataframe of any library, in memory, cut after `rows` rows.

    Other columns are not read.

    Raises:
        ArgumentError, DataError: as for `read_columns`.
    """
    table = _narwhal(frame)
    table = table if rows is None else table.head(rows)
    return collected(table if names is None else _selected(table, list(dict.fromkeys(names))))


def lazy_frame(frame: Any, names: Iterable[str]) -> nw.LazyFrame[Any] | None:
    """Return the named columns of a lazy frame, whose rows an engine holds; None for any other dataframe.

    Raises:
        ArgumentError, DataError: as for `read_columns`.
    """
    import narwhals as nw

    table, wanted = _narwhal(frame), list(dict.fromkeys(names))
    if not isinstance(table, nw.LazyFrame):
        return None
    engine = table.implementation
    if engine.is_pyspark() or engine.is_pyspark_connect():
        _check_names_for_spark(wanted, _names(table))
    return _selected(table, wanted)


def _check_names_for_spark(wanted: list[str], names: list[str]) -> None:
    """Raise DataError if Spark would take the name of a column for another one."""
    times = Counter(name.casefold() for name in names)
    for name in wanted:
        if "." in name or "`" in name or times[name.casefold()] > 1:
            raise DataError(
                f"Spark cannot tell column '{name}' from others: it reads a dot in a name as a field and a backtick as "
                "a quote, and takes capitals for small letters. Rename the column in the table and in the schema."
            )


def table_columns(frame: Any) -> list[str]:
    """Return the names of the columns of a dataframe of any library.

    Raises:
        ArgumentError: `frame` is not a dataframe.
    """
    return _names(_narwhal(frame))


def table_types(frame: Any) -> dict[str, str]:
    """Return the types of the columns of a dataframe of any library, as narwhals names them.

    Raises:
        ArgumentError: `frame` is not a dataframe.
    """
    return {name: str(kind) for name, kind in _narwhal(frame).collect_schema().items()}


def collected(frame: Any) -> Any:
    """Return a dataframe of any library as one of narwhals with its rows in memory."""
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


def delimited_bytes(table: Any, file: TableFile) -> bytes:
    """Return a table as delimited text in the encoding of a file; UTF-8 has everything, other encodings a "?".

    If the header of the file has several rows, all of them have the names of the columns.
    """
    text = delimited(table.head(0), file.separator) * (file.header_rows - 1) + delimited(table, file.separator)
    return text.encode("utf-8") if file.encoding is None else text.encode(file.encoding, "replace")


def delimited(table: Any, separator: str) -> str:
    """Return a table as delimited text, with quotes around fields that contain a separator or a line end."""
    if separator == "," and not table.implementation.is_pandas_like():
        return table.write_csv()
    frame, options = table.to_pandas(), {"sep": separator, "index": False}
    text = frame.to_csv(lineterminator="\n", **options)
    # Python before 3.13 puts quotes around carriage returns only if they are part of the line ends.
    return frame.to_csv(lineterminator="\r\n", **options) if "\r" in text else text


# -- dataframes -----------------------------------------------------------------------------------------------------


def _narwhal(frame: Any) -> Any:
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(with_text_names(nw.to_native(frame, pass_through=True)))
    except TypeError:
        allowed = "a dataframe (pandas, polars, pyarrow, a DuckDB relation, ...)"
        raise ArgumentError.of("frame", type(frame), allowed) from None
    except DuplicateError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the table has several columns of one name ({reason}); keep one of each.") from None


def _names(table: Any) -> list[str]:
    """Return the names of columns, without the types of those in memory: pandas looks at all objects for them."""
    import narwhals as nw

    return table.collect_schema().names() if isinstance(table, nw.LazyFrame) else table.columns


def _selected(table: Any, names: list[str]) -> Any:
    existing = _names(table)
    missing = [name for name in names if name not in existing]
    indexed = [name for name in missing if name in index_names(table.to_native())]
    if indexed:
        raise DataError(f"{listed(indexed)} is no column but an index of the table: give frame.reset_index().")
    if missing:
        raise DataError.missing_columns(missing, existing)
    return table.select(names)


# -- Parquet --------------------------------------------------------------------------------------------------------


def _read_parquet(path: TableFile, wanted: list[str] | None) -> Any:
    with parquet_file(path, wanted) as (file, columns):
        return file.read(columns=columns)


def _read_workbook(path: TableFile, wanted: list[str] | None) -> Any:
    import pandas as pd

    with workbook_rows(path) as (names, rows):
        check_unique(path, names, wanted)
        table = pd.DataFrame(rows, columns=pd.Index(names, dtype=object))
    return table if wanted is None else table[[name for name in wanted if name in names]]


@contextlib.contextmanager
def parquet_file(path: TableFile, wanted: list[str] | None) -> Iterator[tuple[Any, list[str]]]:
    """Yield an open ParquetFile and the wanted columns that it has; errors of reading name the path."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise OptionalDependencyError.of("pyarrow", "reading Parquet files") from None
    with path.seekable() as handle:
        try:
            file = parquet.ParquetFile(handle)
            names = file.schema_arrow.names
            check_unique(path, names, wanted)
            yield file, names if wanted is None else [name for name in wanted if name in names]
        except (ArrowException, OSError) as error:  # pyarrow has an OSError for damaged content
            problem = f"not a whole Parquet file ({first_line(error)})."
            raise FileFormatError.of(path, problem, "Write it again, or give it the ending of its true kind.") from None


# -- CSV ------------------------------------------------------------------------------------------------------------


def _read_csv(file: TableFile, wanted: list[str] | None) -> Any:
    import pandas as pd

    with file.opened() as handle:
        content = handle.read()
    file = with_stated_delimiter(file, content)
    options = {"sep": file.separator, "encoding": file.codec, "index_col": False, "low_memory": False}
    options |= checked_opening(file, content, wanted).for_pandas
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would drop the extra fields
            if file.skip_rows:
                table = _records_only(file, content, options)
            else:
                table = pd.read_csv(io.BytesIO(content), **options, **exact_floats(pd))
    except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        check_widths(file, content)
        raise not_a_table(file, first_line(error)) from None
    if table.iloc[:, -1].isna().any():  # what pandas makes of a row with too few fields
        check_widths(file, content)
    return table


def _records_only(file: TableFile, content: bytes, options: dict[str, Any]) -> Any:
    """Return the records of a text file, without the rows that `skip_rows` leaves out."""
    import pandas as pd

    long = "skip" if check_widths(file, content) else "error"
    as_texts: dict[str, Any] = {**options, "dtype": object, "keep_default_na": False, "on_bad_lines": long}
    table = pd.read_csv(io.BytesIO(content), **as_texts)
    kept = without_skipped(table, file.skip_rows or ())
    kept = kept.to_csv(index=False)  # written again, so that columns of numbers are found
    return pd.read_csv(io.StringIO(kept), index_col=False, low_memory=False, **exact_floats(pd))


def exact_floats(pd: Any) -> dict[str, Any]:
    """Return the option that makes pandas read each number as the nearest float; from 3.1 on it would only warn."""
    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


# -- errors ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(path: str | Path | TableFile) -> Iterator[None]:
    """Turn errors of reading a file into errors that name the file."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise damaged(path, error) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        if str(path).lower().endswith(".zip"):
            raise damaged(path, error) from None
        problem = f"the gzip stream is truncated or damaged ({first_line(error)})."
        raise FileFormatError.of(path, problem, "Copy or compress the file again.") from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None
    except UnicodeDecodeError as error:
        named = getattr(path, "encoding", None) or "UTF-8"
        raise FileFormatError.of(path, f"not {named} text ({error.reason}).", OTHER_ENCODING) from None
    except csv.Error as error:
        raise not_a_table(path, str(error)) from None


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
