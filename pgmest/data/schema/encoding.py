"""Raw tables to codes: dataframes, files a piece at a time, and tables that an engine holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import DataError
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.dataset import Dataset
from pgmest.data.frames import collected, lazy_frame, read_columns
from pgmest.data.schema.column import Column
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    import narwhals as nw


def encode(columns: Sequence[Column], table: Any) -> Dataset:
    """See `Schema.encode`."""
    names = [column.name for column in columns]
    if isinstance(table, str | Path):
        try:
            return _dataset(columns, read_pieces(table, names))
        except DataError as error:
            raise DataError(f"{table}: {error}") from None
    lazy = lazy_frame(table, names)
    if lazy is not None:
        return _lazy_dataset(columns, lazy)
    return _dataset(columns, iter([read_columns(table, names)]))


def _dataset(columns: Sequence[Column], pieces: Iterator[dict[str, np.ndarray]]) -> Dataset:
    codes: list[list[np.ndarray]] = [[] for _ in columns]
    records = 0
    for piece in pieces:
        for column, encoded in zip(columns, codes, strict=True):
            encoded.append(column.encode(piece[column.name], records))
        records += len(piece[columns[0].name])
    if not records:
        raise DataError.no_rows()
    domain = Domain({column.name: column.size for column in columns})
    return Dataset.from_codes([np.concatenate(encoded) for encoded in codes], domain, trusted=True)


def _lazy_dataset(columns: Sequence[Column], frame: nw.LazyFrame[Any]) -> Dataset:
    """A dataset whose codes are expressions that the engine computes."""
    kinds = frame.collect_schema()
    coded = []
    for column in columns:
        code, outside, gap = _engine_code(column, kinds[column.name])
        if column.outside == "error":
            _refuse_first(column, frame, outside if column.missing else gap | outside)
        coded.append(code.alias(column.name))
    return Dataset.from_frame(frame.select(*coded).to_native(), Domain({c.name: c.size for c in columns}))


def _engine_code(column: Column, kind: Any) -> tuple[Any, Any, Any]:
    """The code of a column, whether a value is not foreseen, and whether there is none, as expressions."""
    import narwhals as nw

    codes, outside = column.expression(kind)
    gap = nw.col(column.name).is_null()
    if kind == nw.String and column.markers:
        gap = gap | nw.col(column.name).is_in(sorted(column.markers))
    if kind.is_float():
        gap = gap | nw.col(column.name).is_nan()
    gap = nw.when(gap).then(nw.lit(True)).otherwise(nw.lit(False))
    if column.outside == "missing":
        codes = nw.when(outside).then(nw.lit(column.gap_code)).otherwise(codes)
    return nw.when(gap).then(nw.lit(column.gap_code)).otherwise(codes), outside & ~gap, gap


def _refuse_first(column: Column, frame: nw.LazyFrame[Any], wrong: Any) -> None:
    found = collected(frame.filter(wrong).select(column.name).head(1))[column.name].to_list()
    if found:
        column.refuse(found[0], None)
