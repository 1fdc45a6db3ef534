"""Codes to a table of values, of the types that a raw table has."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, OptionalDependencyError, SchemaError, listed
from pgmest.schema.bins import uniform
from pgmest.schema.casting import made_columns
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import LIBRARIES, library_of
from pgmest.schema.grid import Grid
from pgmest.schema.joint_draws import bin_ends, draw_ordered
from pgmest.schema.sums import add_up
from pgmest.schema.writing import as_written, gap_text, off_markers

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema


def complete(schema: Schema, data: Dataset) -> Dataset:
    """Return data over the attributes of a schema; those on which a model was conditioned have the given codes.

    Raises:
        SchemaError: the data have other attributes, or lack some.
    """
    if data.domain == schema.domain:
        return data
    shared = (data.evidence or {}).items()
    evidence = {name: code for name, code in shared if name in schema.domain and name not in data.domain}
    sizes = {**evidence, **data.domain}
    known = all(0 <= code < schema.domain[name] for name, code in evidence.items())
    if not known or any(schema.domain.get(name) != size for name, size in data.domain.items()):
        raise SchemaError(
            f"the data are over {data.domain}, but the schema describes {schema.domain}. "
            "Decode what was estimated with this schema."
        )
    lacking = [name for name in schema.domain if name not in sizes]
    if lacking:
        raise SchemaError(
            f"the data have no attribute {listed(lacking)}: decode a part of the columns with "
            "schema.select(data.domain).decode(data)."
        )
    columns = [
        data.column(name) if name in data.domain else np.full(data.records, evidence[name]) for name in schema.domain
    ]
    return Dataset.from_codes(columns, schema.domain, trusted=True)


def decode(
    schema: Schema,
    data: Dataset,
    generator: np.random.Generator,
    like: Any,
    written: bool = False,
    known: Mapping[str, np.ndarray] | None = None,
    further: Mapping[str, tuple[SchemaColumn, np.ndarray, np.ndarray]] | None = None,
    ready: Mapping[str, Any] | None = None,
) -> Any:
    """Return codes as a table of values; see `Schema.decode`.

    Args:
        schema: its columns and constraints.
        data: over its domain.
        generator, like, written: as for `Schema.decode`.
        known: the values that some columns have already, in units, so that those drawn keep the order to them and add
            up with them; NaN where the code says all.
        further: columns without codes: the description, the values and the missing records of each.
        ready: columns of the library, by name.
    """
    like, schema = library_and_schema(schema, like)
    values, missing = _values(schema, data, generator, known or {})
    made = {column.name: (column, values[column.name], missing[column.name]) for column in schema.described}
    made |= further or {}
    if written:
        made = {
            name: (column, *as_written(column, gap_text(schema, column), values, gaps))
            for name, (column, values, gaps) in made.items()
        }
    return made_columns(like, schema, made, typed=not written, ready=ready or {})


def library_and_schema(schema: Schema, like: Any) -> tuple[str, Schema]:
    """Return the library of a synthetic table, and the schema with the types of a dataframe that it is to be like.

    Raises:
        ArgumentError: another library.
        OptionalDependencyError: the library is not installed.
    """
    allowed = f"one of {', '.join(LIBRARIES)}, or a dataframe"
    if not isinstance(like, str):
        try:
            schema, like = schema.typed(like), library_of(like)
        except ArgumentError:
            raise ArgumentError.of("like", like, allowed) from None
    if like not in LIBRARIES:
        raise ArgumentError.of("like", like, allowed)
    try:
        importlib.import_module(like)
    except ImportError:
        raise OptionalDependencyError.of(like, f"decode(like='{like}')") from None
    return like, schema


def _values(
    schema: Schema, data: Dataset, generator: np.random.Generator, known: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the value of each record in each column, and which records have no value (theirs means nothing)."""
    codes = {column.name: data.column(column.name).astype(np.int64) for column in schema.columns}
    missing = {
        column.name: codes[column.name] == column.gap_code if column.missing else np.zeros(data.records, dtype=bool)
        for column in schema.columns
    }
    units = draw_ordered(schema.order, codes, generator, known)
    values = {}
    for column in [column for column in schema.columns if column.name not in units]:
        if not isinstance(column, Grid):
            values[column.name] = column.draw(np.where(missing[column.name], 0, codes[column.name]), generator)
        else:
            first, last, _ = bin_ends(column, codes[column.name], known.get(column.name))
            units[column.name] = off_markers(column, first, last, uniform(first, last, generator))
    ordered = {name: units[name] for name in schema.order.columns}  # moved, they would break the order
    add_up(schema.sums, units, missing, {**known, **ordered})
    for one in schema.sums:
        missing[one.name] = np.logical_or.reduce([missing[name] for name in one.leaves])
    for column in schema.described:
        if isinstance(column, Grid):
            values[column.name] = column.from_units(units[column.name])
    return values, missing
