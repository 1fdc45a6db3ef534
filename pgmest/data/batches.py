"""Batches: the rows of a table that an engine holds, some at a time, as the values that files and dataframes give.

Engines in this process (DuckDB, polars, Ibis, ...) hand their rows over. Those whose processes may be elsewhere (Spark,
Dask) run pgmest on each partition instead, so that no row leaves them. A batch has the types that the engine gave its
columns, so that the values of one batch change nothing in another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import collected, lazy_frame
from pgmest.data.table_file import is_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError, OptionalDependencyError

if TYPE_CHECKING:
    import narwhals as nw

ROWS_AT_ONCE = 1 << 17
"""The rows of a batch."""

Batch = Mapping[str, Values]
Reader = Callable[[Iterator[Batch]], Iterator[Mapping[str, Any]]]
"""What is made of the batches of a partition: batches of columns of integers, or of texts, bytes and None."""

SPARK_TYPES = {1: "smallint", 2: "int", 4: "bigint", 8: "bigint"}
"""The type of Spark that holds unsigned integers of a number of bytes; codes of 64 bits are below 2^63."""


def in_partitions(frame: nw.LazyFrame[Any]) -> bool:
    """Return whether an engine works on partitions of its rows in processes that may be elsewhere."""
    engine = frame.implementation
    return engine.is_pyspark() or engine.is_pyspark_connect() or engine.is_dask()


def batches(frame: nw.LazyFrame[Any]) -> Iterator[dict[str, Values]]:
    """Yield the rows of a lazy frame of an engine in this process; the first batch has none, but the columns' types.

    Raises:
        OptionalDependencyError: the engine hands its rows over through pyarrow, which is not installed.
    """
    rows = ROWS_AT_ONCE
    names, engine = frame.collect_schema().names(), frame.implementation
    native: Any = frame.to_native()
    if engine.is_polars():
        pieces = (native.head(0).collect(),), native.collect_batches(chunk_size=rows)
    elif engine.is_duckdb() or engine.is_ibis():
        try:
            reader = native.to_arrow_reader(rows) if engine.is_duckdb() else native.to_pyarrow_batches(chunk_size=rows)
            import pyarrow as pa
        except ImportError:
            raise OptionalDependencyError.of("pyarrow", f"reading a table of {engine.name.lower()}") from None
        pieces = (reader.schema.empty_table(),), (pa.Table.from_batches([batch]) for batch in reader)
    else:
        pieces = ((collected(frame),),)
    for several in pieces:
        for piece in several:
            yield read_values(piece, names)


def pieces_of(table: Any, names: Iterable[str], left_out: Counter[str] | None = None) -> Iterator[dict[str, Values]]:
    """Yield columns of a file, of a dataframe, or of a table that an engine hands over, some rows at a time.

    Args:
        table: as for `Schema.encode`.
        names: the columns.
        left_out: as for `read_pieces`.

    Raises:
        DataError, FileFormatError, OptionalDependencyError, ArgumentError: as for `read_pieces` and `read_values`.
    """
    if is_file(table):
        yield from read_pieces(table, names, left_out=left_out)
    elif (lazy := lazy_frame(table, names)) is not None:
        yield from batches(lazy)
    else:
        yield read_values(table, names)


def by_partition(
    frame: nw.LazyFrame[Any], read: Reader, kinds: Mapping[str, np.dtype[Any]], together: str | None = None
) -> nw.LazyFrame[Any]:
    """Return the frame of what a reader makes of the batches of each partition; it runs where the partition is.

    Args:
        frame: of an engine that works in partitions.
        read: gets all batches of a partition.
        kinds: the columns that it makes: unsigned integers, texts ("U") or bytes ("S").
        together: a column whose equal values are brought into one partition first.
    """
    import narwhals as nw

    native: Any = frame.to_native()
    names = frame.collect_schema().names()
    if not frame.implementation.is_dask():
        others = {"U": "string", "S": "binary"}
        typed = {name: others.get(kind.kind) or SPARK_TYPES[kind.itemsize] for name, kind in kinds.items()}
        described = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in typed.items())
        gathered = native.repartition(together) if together else native
        return nw.from_native(gathered.mapInArrow(_of_arrow(read, names, typed), described))
    import pandas as pd

    empty = pd.DataFrame({name: pd.Series(dtype=_pandas_type(kind)) for name, kind in kinds.items()})

    def of_pandas(partition: Any) -> Any:
        made = [pd.DataFrame(dict(piece)) for piece in read(iter([read_values(partition, names)]))]
        return pd.concat([empty, *made], ignore_index=True).astype(empty.dtypes)

    gathered = native.shuffle(on=together) if together else native
    return nw.from_native(gathered.map_partitions(of_pandas, meta=empty))


def kept_in_engine(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame that its engine computes once and keeps."""
    import narwhals as nw

    return nw.from_native(frame.to_native().persist())


def give_back(frame: nw.LazyFrame[Any]) -> None:
    """Let an engine forget a frame that it keeps; Dask does so by itself when nothing refers to the frame."""
    if not frame.implementation.is_dask():
        native: Any = frame.to_native()
        native.unpersist()


def engine_error(error: Exception) -> Exception:
    """Return an error of the processes of an engine in words of the table; others as they are."""
    text = str(error)
    lacking = re.search(r"No module named '(\w+)", text)
    if lacking:
        return DataError(
            f"the engine's processes encode their rows with pgmest, but lack {lacking[1]}: install pgmest and pyarrow "
            "in the Python that they run, which the variable PYSPARK_PYTHON names for Spark."
        )
    refused = re.search(r"pgmest\.errors\.DataError: (.*)", text)
    return DataError(refused[1]) if refused else error


def _of_arrow(read: Reader, names: list[str], kinds: Mapping[str, str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def made(pieces: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        types = {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
        types |= {"string": pa.string(), "binary": pa.binary()}
        for piece in read(read_values(pa.Table.from_batches([piece]), names) for piece in pieces):
            arrays = [pa.array(piece[name], type=types[kind], safe=True) for name, kind in kinds.items()]
            yield pa.RecordBatch.from_arrays(arrays, list(kinds))

    return made


def _pandas_type(kind: np.dtype[Any]) -> Any:
    return object if kind.kind in "US" else kind
