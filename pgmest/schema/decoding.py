"""Codes to a table of values, of the types that a raw table has."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, OptionalDependencyError
from pgmest.schema.column import SchemaColumn
from pgmest.schema.date import Date

LIBRARIES = ("pandas", "polars", "pyarrow")


def decode(
    columns: Sequence[SchemaColumn], data: Dataset, generator: np.random.Generator, like: str, written: bool = False
) -> Any:
    """Return codes as a table of values; see `Schema.decode`."""
    if like not in LIBRARIES:
        raise ArgumentError.of("like", like, LIBRARIES)
    try:
        library = importlib.import_module(like)
    except ImportError:
        raise OptionalDependencyError.of(like, f"decode(like='{like}')") from None
    build = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}[like]
    return build(library, {column.name: _made(column, data, generator, written) for column in columns})


def _values(column: SchemaColumn, data: Dataset, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each record, and which records have no value (theirs means nothing)."""
    codes = data.column(column.name).astype(np.int64)
    missing = codes == column.gap_code if column.missing else np.zeros(len(codes), dtype=bool)
    return column.draw(np.where(missing, 0, codes), generator), missing


def _made(
    column: SchemaColumn, data: Dataset, generator: np.random.Generator, written: bool
) -> tuple[SchemaColumn, np.ndarray, np.ndarray]:
    values, missing = _values(column, data, generator)
    if written and isinstance(column, Date) and column.format is not None:
        values = date_texts(values, column.format)
    return column, values, missing


def date_texts(days: np.ndarray, form: str) -> np.ndarray:
    """Return days as texts in a format of `strftime`; years get four digits, which some systems leave to the caller.

    >>> date_texts(np.array(["0912-02-01"], dtype="M8[D]"), "%d.%m.%Y").tolist()
    ['01.02.0912']
    """
    distinct, positions = np.unique(days, return_inverse=True)
    texts = [day.strftime(form.replace("%Y", f"{day.year:04}")) for day in distinct.astype("M8[D]").astype(object)]
    return np.array([*texts, None], dtype=object)[:-1][positions.reshape(-1)]


Columns = dict[str, tuple[SchemaColumn, np.ndarray, np.ndarray]]


def _pandas(pd: Any, columns: Columns) -> Any:
    """Return a table of pandas whose types hold gaps wherever the schema allows gaps, whatever the records are."""
    nullable = {"integer": "Int64", "boolean": "boolean"}
    series = {}
    for name, (column, values, missing) in columns.items():
        kind = nullable.get(column.kind) if column.missing else None
        made = pd.Series(values).astype("str") if values.dtype == object else pd.Series(values, dtype=kind)
        series[name] = made.mask(missing) if column.missing else made
    return pd.DataFrame(series)


def _polars(pl: Any, columns: Columns) -> Any:
    made = [pl.Series(name, values) for name, (_, values, _) in columns.items()]
    table = pl.DataFrame(made)
    gaps = {name: pl.Series(missing, dtype=pl.Boolean) for name, (_, _, missing) in columns.items()}
    return table.with_columns(pl.when(gap).then(None).otherwise(pl.col(name)).alias(name) for name, gap in gaps.items())


def _pyarrow(pa: Any, columns: Columns) -> Any:
    return pa.table({name: pa.array(values, mask=missing) for name, (_, values, missing) in columns.items()})
