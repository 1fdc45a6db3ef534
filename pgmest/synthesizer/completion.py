"""Rows completed: of a table with some of the columns, the others drawn given what each row says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, DataError, QueryError, listed
from pgmest.data.chunked_reader import column_names
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.data.schema import Schema


def completed(
    model: Any, schema: Schema, given: Any, n: int | None, generator: np.random.Generator, written: bool = False
) -> Any:
    """See `Synthesizer.sample(given=)`: a pandas table with the columns of the schema, a row for each row of `given`.

    Rows that are coded alike are drawn together, from the model conditioned on their codes.
    """
    if n is not None:
        raise ArgumentError.of("n", n, "None where given= says which rows to complete")
    names = _known(schema, given)
    part = dataclasses.replace(schema, columns=tuple(schema.column(name) for name in names), unit=None)
    known = part.encode(given)
    if not hasattr(model, "condition"):
        raise QueryError(f"a {type(model).__name__} cannot be conditioned on what is given.")
    codes = _filled(model, known, names, generator)
    domain = schema.domain
    columns = [codes[name].astype(code_type(size)) for name, size in domain.items()]
    table = schema.decode(Dataset.from_codes(columns, domain), generator, "pandas", written=written)
    for name in names:
        table[name] = _column(given, name)
    return table


def _known(schema: Schema, given: Any) -> list[str]:
    """The columns that are given, in the order of the schema."""
    present = column_names(given)
    unknown = [name for name in present if name not in schema.domain]
    if unknown or not present:
        raise DataError(f"given= has the columns {listed(present)}; the schema has {listed(schema.domain)}.")
    return [name for name in schema.domain if name in present]


def _filled(model: Any, known: Dataset, names: list[str], generator: np.random.Generator) -> dict[str, np.ndarray]:
    """The codes of all attributes, those not known drawn."""
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
