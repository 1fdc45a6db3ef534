"""Codes to a table of values, of the types that a raw table has."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, OptionalDependencyError, SchemaError, listed
from pgmest.schema.bins import uniform
from pgmest.schema.casting import made_columns
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import LIBRARIES, library_of
from pgmest.schema.grid import Grid
from pgmest.schema.joint_draws import draw_ordered
from pgmest.schema.sums import Sum, draw_parts, totals
from pgmest.schema.total import Total
from pgmest.schema.writing import as_written, gap_text, off_markers

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

Units = dict[str, np.ndarray]
"""For each column of numbers or dates a number for each record, in the units of `Grid.points`."""


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
    units = _constrained(schema, codes, missing, generator, known)
    values = {}
    for column in [column for column in schema.columns if not isinstance(column, Total)]:
        regular = np.where(missing[column.name], 0, codes[column.name])
        if column.name in units:
            continue
        if not isinstance(column, Grid):
            values[column.name] = column.draw(regular, generator)
        else:
            first, last = _fixed(known.get(column.name), *(points[regular] for points in column.points))
            units[column.name] = off_markers(column, first, last, uniform(first, last, generator))
    units |= totals(schema.sums, units)
    for one in schema.sums:
        missing[one.name] = np.logical_or.reduce([missing[name] for name in one.leaves])
    for column in schema.described:
        if isinstance(column, Grid):
            values[column.name] = column.from_units(units[column.name])
    return values, missing


def _constrained(
    schema: Schema,
    codes: Mapping[str, np.ndarray],
    missing: Mapping[str, np.ndarray],
    generator: np.random.Generator,
    known: Mapping[str, np.ndarray],
) -> Units:
    """Return the units of the columns that are drawn together: those of orders, and parts of bounded totals."""
    units: Units = {}
    for order in schema.orders:
        units |= draw_ordered(order, codes, generator, {name: known[name] for name in order.columns if name in known})
    sums = {one.name: one for one in schema.sums}
    for top in reversed(schema.sums):  # totals come after those that are their parts
        if not (top.bounded or top.measured) or top.leaves.keys() <= units.keys():
            continue
        ends = {}
        for name, column in top.leaves.items():
            regular = np.where(missing[name], 0, codes[name])
            ends[name] = _fixed(known.get(name), *(points[regular] for points in column.points))
        if top.measured:
            regular = np.where(missing[top.name], 0, codes[top.name])
            within = _fixed(known.get(top.name), *(points[regular] for points in top.total.points))
            top = replace(top, within=within)
        units |= draw_parts(top, sums, ends, missing, generator)
        if top.name in known:
            _add_up(top, units, known, missing)
    return units


def _add_up(one: Sum, units: Units, known: Mapping[str, np.ndarray], missing: Mapping[str, np.ndarray]) -> None:
    """Change parts that are not known, within their bounds, so that they add up to a known total."""
    total = known[one.name]
    given = ~np.isnan(total) & ~np.logical_or.reduce([missing[name] for name in one.parts])
    for name in [name for name in one.parts if name not in known]:
        first, last = one.leaves[name].points
        lacking = np.where(given, total, 0.0) - sum(units[part] for part in one.parts)
        moved = np.clip(units[name] + lacking, first[0], last[-1]).astype(units[name].dtype)
        units[name] = np.where(given, moved, units[name])


def _fixed(numbers: np.ndarray | None, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the intervals, of one number each where it is known."""
    if numbers is None:
        return first, last
    there = ~np.isnan(numbers)
    numbers = np.where(there, numbers, 0).astype(first.dtype)
    return np.where(there, numbers, first), np.where(there, numbers, last)
