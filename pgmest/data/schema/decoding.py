"""Codes to a table of values, of the types that a raw table has."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, OptionalDependencyError
from pgmest.data.dataset import Dataset
from pgmest.data.schema.column import SchemaColumn

LIBRARIES = ("pandas", "polars", "pyarrow")


def decode(columns: Sequence[SchemaColumn], data: Dataset, generator: np.random.Generator, like: str) -> Any:
    """See `Schema.decode`."""
    if like not in LIBRARIES:
        raise ArgumentError.of("like", like, LIBRARIES)
    try:
        library = importlib.import_module(like)
    except ImportError:
        raise OptionalDependencyError.of(like, f"decode(like='{like}')") from None
    build = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}[like]
    return build(library, {column.name: (column, *_values(column, data, generator)) for column in columns})


def _values(column: SchemaColumn, data: Dataset, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The value of each record, and where there is none (the value there means nothing)."""
    codes = data.column(column.name).astype(np.int64)
    missing = codes == column.gap_code if column.missing else np.zeros(len(codes), dtype=bool)
    return column.draw(np.where(missing, 0, codes), generator), missing


Columns = dict[str, tuple[SchemaColumn, np.ndarray, np.ndarray]]


def _pandas(pd: Any, columns: Columns) -> Any:
    """Types that hold gaps, wherever the schema allows gaps, so that they do not depend on the records."""
    nullable = {"integer": "Int64", "boolean": "boolean"}
    series = {}
    for name, (column, values, missing) in columns.items():
        kind = nullable.get(column.kind) if column.missing else None
        made = pd.Series(values).astype("str") if column.kind == "text" else pd.Series(values, dtype=kind)
        series[name] = made.mask(missing) if column.missing else made
    return pd.DataFrame(series)


def _polars(pl: Any, columns: Columns) -> Any:
    made = [pl.Series(name, values) for name, (_, values, _) in columns.items()]
    table = pl.DataFrame(made)
    gaps = {name: pl.Series(missing, dtype=pl.Boolean) for name, (_, _, missing) in columns.items()}
    return table.with_columns(pl.when(gap).then(None).otherwise(pl.col(name)).alias(name) for name, gap in gaps.items())


def _pyarrow(pa: Any, columns: Columns) -> Any:
    return pa.table({name: pa.array(values, mask=missing) for name, (_, values, missing) in columns.items()})
