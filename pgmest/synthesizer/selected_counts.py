"""Counts of records with given values, and their intervals, of any model; tables of both with labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.models.error_bars import interval
from pgmest.models.intervals import Interval
from pgmest.queries import Kron, identity
from pgmest.schema import Schema
from pgmest.schema.given import read_given
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def selected_counts(domain: Domain, clique: Clique, weights: Mapping[str, np.ndarray]) -> Kron:
    """Return the query that adds up the weights of the records in each cell of a clique.

    Args:
        domain: all attributes.
        clique: the attributes of the cells.
        weights: attribute -> the weight of each code.
    """
    cells = {name: np.diag(weights[name]) if name in weights else identity(domain[name]) for name in clique}
    return Kron(cells | {name: own[None, :] for name, own in weights.items() if name not in cells})


def ends_of(model: Any, clique: Clique, weights: Mapping[str, np.ndarray], **options: Any) -> Interval:
    """Return the intervals of a table of the records with given values.

    Args:
        model: the model of all records.
        clique: the attributes of the table, in its order.
        weights: attribute -> the weight of each code, such as 1 for given values and 0 for others.
        options: as for `pgmest.interval`.
    """
    if not weights:
        return interval(model, clique, **options)
    found = interval(model, selected_counts(model.domain, clique, weights), **options)
    domain = model.domain.project(clique)
    low, high = (Factor.owning(domain, end.values.reshape(domain.shape)) for end in found)
    return Interval(low, high, found.level, found.kind, found.about, found.basis)


def labeled_counts(
    model: Any, schema: Schema, attributes: Iterable[str] | str, given: Mapping[str, Any], **options: Any
) -> Any:
    """Return a table of the library of the schema: labels, "count", "low" and "high", a row for each cell.

    Args:
        model: the model of all records.
        schema: its schema.
        attributes: the attributes of the table.
        given: conditions in terms of values, as for `Synthesizer.sample`.
        options: as for `pgmest.interval`.
    """
    import narwhals as nw

    clique = model.domain.clique(attributes)
    weights = read_given(schema, given).weights
    counts = model.answer(selected_counts(model.domain, clique, weights)) if weights else model.project(clique)
    ends = ends_of(model, clique, weights, **options)
    shape = model.domain.project(clique).shape
    codes = zip(clique, np.indices(shape).reshape(len(clique), counts.values.size), strict=True)
    columns: dict[str, Any] = {name: np.array(schema.labels(name), dtype=object)[own].tolist() for name, own in codes}
    for name, factor in (("count", counts), ("low", ends.low), ("high", ends.high)):
        columns[_unused(name, columns)] = factor.values.ravel()
    library: Any = schema.library
    return nw.from_dict(columns, backend=library).to_native()


def _unused(name: str, used: Iterable[str]) -> str:
    """Return a name that no attribute has."""
    while name in used:
        name += "_"
    return name
