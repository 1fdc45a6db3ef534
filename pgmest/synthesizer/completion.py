"""Completion of rows: the missing columns of a table are drawn conditionally on its rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest.data.chunked_reader import column_names
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.data.frames import narrowed
from pgmest.data.values import Values, read_values
from pgmest.errors import ArgumentError, DataError, QueryError, listed
from pgmest.schema import Schema
from pgmest.schema.column import SchemaColumn
from pgmest.schema.decoding import decode
from pgmest.schema.later import Later
from pgmest.schema.total import Total


def completed(
    model: Any, schema: Schema, given: Any, n: int | None, generator: np.random.Generator, written: bool = False
) -> Any:
    """Return a pandas table that completes each row of `given` to all columns of the schema.

    Rows with equal codes are drawn together, from the model conditioned on their codes. The arguments are those of
    `Synthesizer.sample`.
    """
    if n is not None:
        raise ArgumentError.of("n", n, "None, since given= says which rows to complete")
    names = _known(schema, given)
    part = dataclasses.replace(schema, columns=tuple(_among(schema.column(name), names) for name in names), unit=None)
    values = read_values(given, names)
    known = part.encode(given)
    if not hasattr(model, "condition"):
        raise QueryError(f"a {type(model).__name__} has no conditional distributions: leave given= out.")
    codes = _filled(model, known, names, generator)
    domain = schema.domain
    columns = [codes[name].astype(code_type(size)) for name, size in domain.items()]
    stated = _numbers(schema, values)
    table = decode(schema, Dataset.from_codes(columns, domain), generator, "pandas", written, stated)
    for name in names:
        table[name] = _column(given, name)
    return table


def _known(schema: Schema, given: Any) -> list[str]:
    """Return the names of the given columns, in the order of the schema."""
    present = column_names(given)
    for one in schema.sums:
        if one.name in present and not one.measured:
            raise DataError(f"given= has the column '{one.name}', a total ({one}): give its parts instead.")
    for name in present:
        lacking = [one for one in schema.column(name).needed if one not in present] if name in schema.domain else []
        if lacking:
            raise DataError(
                f"given= has the column '{name}' without '{lacking[0]}', from which its codes are differences: give "
                "both, or leave it out."
            )
    unknown = [name for name in present if name not in schema.domain]
    if unknown or not present:
        raise DataError(f"given= has the columns {listed(present)}; the schema has {listed(schema.domain)}.")
    return [name for name in schema.domain if name in present]


def _among(column: SchemaColumn, names: list[str]) -> SchemaColumn:
    """Return a column coded by these columns alone."""
    if isinstance(column, Total):
        return column.own
    if not isinstance(column, Later):
        return column
    earlier = tuple(one for one in column.earlier if one.name in names)
    reference = column.reference and _among(column.reference, names)
    return dataclasses.replace(column, earlier=earlier, reference=reference)


def _numbers(schema: Schema, values: Mapping[str, Values]) -> dict[str, np.ndarray]:
    """Return the given numbers of columns in orders and sums, in units; NaN where there is none within the bounds."""
    grids = {name: column for order in schema.orders for name, column in order.columns.items()}
    grids |= {name: column for one in schema.sums for name, column in {**one.leaves, one.name: one.total}.items()}
    numbers = {}
    for name in values.keys() & grids.keys():
        column = grids[name]
        found, read = column.raw_numbers(values[name])
        inside = read & (found >= column.low) & (found <= column.high)
        numbers[name] = np.where(inside, column.to_units(found), np.nan)
    return numbers


def _filled(model: Any, known: Dataset, names: list[str], generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the codes of all attributes; the unknown ones are drawn."""
    given = np.stack([known.column(name).astype(np.int64) for name in names], axis=1)
    distinct, positions = np.unique(given, axis=0, return_inverse=True)
    codes = {name: np.zeros(len(given), dtype=np.int64) for name in model.domain}
    for column, name in enumerate(names):
        codes[name] = given[:, column]
    rest = [name for name in model.domain if name not in names]
    if rest:
        for number, evidence in enumerate(distinct):
            rows = np.flatnonzero(positions.reshape(-1) == number)
            one = model.condition(dict(zip(names, map(int, evidence), strict=True)))
            drawn = one.sample(len(rows), seed=generator)
            for name in rest:
                codes[name][rows] = drawn.column(name)
    return codes


def _column(given: Any, name: str) -> Any:
    return narrowed(given, [name])[name].to_pandas().to_numpy()
