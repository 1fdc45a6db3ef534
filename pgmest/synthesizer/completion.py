"""Conditional tables: rows with given values, and rows of which some columns are given and the others drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest._base.memory import default_records
from pgmest.data.chunked_reader import column_names
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.data.names import pandas_names, with_text_names
from pgmest.data.values import Values, read_values
from pgmest.errors import (
    ArgumentError,
    DataError,
    ImpossibleModelError,
    QueryError,
    UnknownAttributeError,
    at_least,
    listed,
)
from pgmest.schema import Schema
from pgmest.schema.decoding import decode
from pgmest.schema.frame_types import library_of, native
from pgmest.schema.given import Given, read_given
from pgmest.tables.domain import Domain

TRIES = 1000
"""The largest number of records drawn for each one that is kept, from models that can only be sampled."""


def drawn(
    model: Any,
    schema: Schema,
    given: Mapping[str, Any],
    n: int | None,
    generator: np.random.Generator,
    like: str = "pandas",
    written: bool = False,
    method: str = "round",
) -> Any:
    """Return a table of rows with given values; the arguments are those of `Synthesizer.sample` and `Model.sample`."""
    conditions = read_given(schema, given)
    try:
        data = _conditioned(model, conditions.weights, n, generator, method)
    except ImpossibleModelError:
        raise _impossible(conditions) from None
    return decode(schema, data, generator, like, written, conditions.values(data, generator))


def conditional(model: Any, schema: Schema, given: Mapping[str, Any]) -> Any:
    """Return the model of the records with given values, over the same attributes.

    Raises:
        QueryError: the model has no conditional distributions; or as for `read_given`.
        ImpossibleModelError: no record has these values under the model.
    """
    conditions = read_given(schema, given)
    if not hasattr(model, "with_likelihood"):
        raise QueryError(f"a {type(model).__name__} has no conditional distributions: draw records and count those.")
    try:
        made = model.with_likelihood(conditions.weights)
        made.project(())  # finds out whether any record is possible
        return made
    except ImpossibleModelError:
        raise _impossible(conditions) from None


def codes_schema(domain: Domain) -> Schema:
    """Return a schema whose values are the codes of a domain, with its hierarchies."""
    described = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in domain.items()}
    schema, known = Schema.from_dict({"columns": described}), domain.hierarchies
    columns = tuple(dataclasses.replace(one, hierarchy=known.get(one.name)) for one in schema.columns)
    return dataclasses.replace(schema, columns=columns)


def _impossible(conditions: Given) -> ImpossibleModelError:
    return ImpossibleModelError(f"no row with {conditions.text} is possible: it has probability 0 under the model.")


def _conditioned(
    model: Any, weights: Mapping[str, np.ndarray], n: int | None, generator: np.random.Generator, method: str
) -> Dataset:
    """Return records that are kept with the probability of their codes; by default as many as are expected."""
    if hasattr(model, "with_likelihood"):
        return model.with_likelihood(weights).sample(n, method, seed=generator)
    joint = model.project(tuple(weights)).values
    for axis, values in enumerate(weights.values()):
        joint = joint * values.reshape([-1 if place == axis else 1 for place in range(joint.ndim)])
    n = default_records(float(joint.sum())) if n is None else at_least("n", n, 0)
    kept, found, drawn = [], 0, 0
    while found < n or not kept:
        size = min(max(2 * (n - found), 1000), 10**6)
        records = model.sample(size, method, seed=generator)
        chance = np.prod([values[records.column(name)] for name, values in weights.items()], axis=0)
        kept.append(records.take(generator.random(size) < chance))
        found, drawn = found + len(kept[-1]), drawn + size
        if drawn > TRIES * max(n, 1000) and found < n:
            raise QueryError(
                f"a {type(model).__name__} has no conditional distributions, and {found:,} of {drawn:,} records that "
                "were drawn have the given values: ask for fewer rows or allow more values."
            )
    return Dataset.concat(kept).take(slice(n))


def completed(
    model: Any, schema: Schema, given: Any, n: int | None, generator: np.random.Generator, written: bool = False
) -> Any:
    """Return a table, of the library of `given`, that completes each row of it to all columns of the schema.

    Rows with equal codes are drawn together, from the model conditioned on their codes. The arguments are those of
    `Synthesizer.sample`.
    """
    if n is not None:
        raise ArgumentError.of("n", n, "None, since given= says which rows to complete")
    names = _known(schema, given)
    part = dataclasses.replace(schema, columns=tuple(schema.column(name) for name in names), unit=None)
    values = read_values(given, names)
    known = part.encode(given)
    if not hasattr(model, "condition"):
        raise QueryError(f"a {type(model).__name__} has no conditional distributions: leave given= out.")
    codes = _filled(model, schema, known, names, generator)
    domain = schema.domain
    columns = [codes[name].astype(code_type(size)) for name, size in domain.items()]
    stated = _numbers(schema, values)
    table = decode(schema, Dataset.from_codes(columns, domain), generator, library_of(given), written, stated)
    return _with_columns(table, native(given), names)


def _known(schema: Schema, given: Any) -> list[str]:
    """Return the names of the given columns, in the order of the schema."""
    present = column_names(given)
    for one in schema.sums:
        if one.name in present:
            raise DataError(f"given= has the column '{one.name}', a total ({one}): give its parts instead.")
    unknown = [name for name in present if name not in schema.domain]
    if unknown or not present:
        hint = f" {UnknownAttributeError.of(unknown[0], list(schema.domain))}" if unknown else ""
        raise DataError(f"given= has the columns {listed(present)}; the schema has {listed(schema.domain)}.{hint}")
    return [name for name in schema.domain if name in present]


def _numbers(schema: Schema, values: Mapping[str, Values]) -> dict[str, np.ndarray]:
    """Return the given numbers of columns in orders and sums, in units; NaN outside of the bounds."""
    grids = dict(schema.order.columns)
    for one in schema.sums:
        grids |= one.leaves
    numbers = {}
    for name in values.keys() & grids.keys():
        column = grids[name]
        found, read = column.raw_numbers(values[name])
        inside = read & (found >= column.low) & (found <= column.high)
        numbers[name] = np.where(inside, column.to_units(found), np.nan)
    return numbers


def _filled(
    model: Any, schema: Schema, known: Dataset, names: list[str], generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the codes of all attributes; the unknown ones are drawn."""
    given = np.stack([known.column(name).astype(np.int64) for name in names], axis=1)
    distinct, positions = np.unique(given, axis=0, return_inverse=True)
    codes = {name: np.zeros(len(given), dtype=np.int64) for name in model.domain}
    codes |= {name: np.full(len(given), code) for name, code in model.evidence.items()}
    for column, name in enumerate(names):
        codes[name] = given[:, column]
    rest = [name for name in model.domain if name not in names]
    if rest:
        for number, evidence in enumerate(distinct):
            rows = np.flatnonzero(positions.reshape(-1) == number)
            try:
                one = model.condition(dict(zip(names, map(int, evidence), strict=True)))
            except ImpossibleModelError:
                shown = ", ".join(
                    f"{name}={schema.labels(name)[code]}" for name, code in zip(names, evidence, strict=True)
                )
                raise ImpossibleModelError(
                    f"row {rows[0]} of given= has probability 0 under the model: {shown}. Leave such rows out."
                ) from None
            drawn = one.sample(len(rows), seed=generator)
            for name in rest:
                codes[name][rows] = drawn.column(name)
    return codes


def _with_columns(table: Any, given: Any, names: list[str]) -> Any:
    """Return the table with the given columns as they are, and in pandas with their index."""
    library = library_of(given)
    if library == "polars":
        return table.with_columns(given.lazy().select(names).collect())
    if library == "pyarrow":
        for name in names:
            table = table.set_column(table.schema.get_field_index(name), name, given.column(name))
        return table
    known = given if pandas_names(given) is not None else _in_pandas(given)
    known = with_text_names(known)
    table.index = known.index
    for name in names:
        table[name] = known[name].array
    return table


def _in_pandas(given: Any) -> Any:
    import narwhals as nw

    return nw.from_native(given, eager_only=True).to_pandas()
