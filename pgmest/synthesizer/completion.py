"""Completion of rows: the missing columns of a table are drawn conditionally on its rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmest.data.chunked_reader import column_names
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, QueryError, listed
from pgmest.schema import Schema


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
    part = dataclasses.replace(schema, columns=tuple(schema.column(name) for name in names), unit=None)
    known = part.encode(given)
    if not hasattr(model, "condition"):
        raise QueryError(f"a {type(model).__name__} has no conditional distributions: leave given= out.")
    codes = _filled(model, known, names, generator)
    domain = schema.domain
    columns = [codes[name].astype(code_type(size)) for name, size in domain.items()]
    table = schema.decode(Dataset.from_codes(columns, domain), generator, "pandas", written=written)
    for name in names:
        table[name] = _column(given, name)
    return table


def _known(schema: Schema, given: Any) -> list[str]:
    """Return the names of the given columns, in the order of the schema."""
    present = column_names(given)
    unknown = [name for name in present if name not in schema.domain]
    if unknown or not present:
        raise DataError(f"given= has the columns {listed(present)}; the schema has {listed(schema.domain)}.")
    return [name for name in schema.domain if name in present]


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
    import narwhals as nw

    return nw.from_native(given, eager_only=True)[name].to_pandas().to_numpy()
