"""Counts of records with given values, and their intervals, of any model; tables of both with labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.models.error_bars import interval
from pgmest.models.intervals import Interval
from pgmest.queries.levels import named_levels, weighted_kron
from pgmest.schema import Schema
from pgmest.schema.given import read_given
from pgmest.synthesizer.how_many import HowMany
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def check_question(attributes: Any, given: Any) -> None:
    """Check the kinds of the arguments of a question about a fitted table.

    Raises:
        ArgumentError: the attributes are neither names nor functions, or the conditions are no mapping.
    """
    if not isinstance(attributes, str | Iterable | HowMany) and not callable(attributes):
        expected = "names of columns; model_.interval and model_.answer take queries such as a Kron"
        raise ArgumentError.of("attributes", attributes, expected)
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError.of("given", given, "a mapping of columns to values, such as {'sex': 'F'}")


def domain_of(model: Any, schema: Schema) -> Domain:
    """Return the domain of a model with the hierarchies of its schema, which older files of models lack."""
    known = [one for name, one in schema.domain.hierarchies.items() if model.domain.get(name) == one.values]
    return model.domain.with_hierarchies(*known) if known else model.domain


def counts_of(model: Any, domain: Domain, clique: Iterable[str] | str, weights: Mapping[str, np.ndarray]) -> Factor:
    """Return the table of the records with given values; the arguments are those of `ends_of`."""
    if not weights and not domain.names_levels(clique):
        return model.project(clique)
    query = weighted_kron(domain, clique, weights)
    return _reshaped(model.answer(query), domain, clique)


def ends_of(
    model: Any, domain: Domain, clique: Iterable[str] | str, weights: Mapping[str, np.ndarray], **options: Any
) -> Interval:
    """Return the intervals of a table of the records with given values.

    Args:
        model: the model of all records.
        domain: its domain, with hierarchies.
        clique: the attributes and levels of the table, in its order.
        weights: attribute -> the weight of each code, such as 1 for given values and 0 for others.
        options: as for `pgmest.interval`.
    """
    if not weights and not domain.names_levels(clique):
        return interval(model, clique, **options)
    found = interval(model, weighted_kron(domain, clique, weights), **options)
    low, high = (_reshaped(end, domain, clique) for end in found)
    return Interval(low, high, found.level, found.kind, found.about, found.basis)


def _reshaped(answer: Factor, domain: Domain, clique: Iterable[str] | str) -> Factor:
    """Return an answer of `weighted_kron` as a table of the clique."""
    sizes = {one.name: one.size or domain[one.attribute] for one in named_levels(domain, clique)}
    return Factor.owning(Domain(sizes), answer.values.reshape(tuple(sizes.values())))


def labeled_counts(
    model: Any,
    schema: Schema,
    attributes: Iterable[str] | str,
    given: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a table of the library of the schema: labels, "count", "low" and "high", a row for each cell.

    Args:
        model: the model of all records.
        schema: its schema.
        attributes: the attributes and levels of the table.
        given: conditions in terms of values, as for `Synthesizer.sample`.
        options: as for `pgmest.interval`; None for a table without "low" and "high".
    """
    domain = domain_of(model, schema)
    clique = tuple(one.name for one in named_levels(domain, attributes))
    weights = read_given(schema, given).weights
    labels = {name: schema.labels(name) for name in clique}
    return counts_table(model, domain, labels, clique, weights, schema.library, options)


def counts_table(
    model: Any,
    domain: Domain,
    labels: Mapping[str, Sequence[str]],
    clique: Clique,
    weights: Mapping[str, np.ndarray],
    library: Any,
    options: Mapping[str, Any] | None,
) -> Any:
    """Return the counts and intervals of a table as a dataframe.

    Args:
        model: the model of all records.
        domain: its attributes, with their hierarchies if it has some.
        labels: a name for each attribute of the table, in its order -> the labels of its codes.
        clique: the attributes, or their levels.
        weights: attribute -> the weight of each code, for conditions.
        library: the library of the dataframe.
        options: as for `pgmest.interval`; None for a table without "low" and "high".
    """
    import narwhals as nw

    found = {"count": counts_of(model, domain, clique, weights)}
    if options is not None:
        found["low"], found["high"] = ends_of(model, domain, clique, weights, **options)
    counts = found["count"].values
    codes = zip(labels.items(), np.indices(counts.shape).reshape(len(clique), counts.size), strict=True)
    columns: dict[str, Any] = {name: np.array(texts, dtype=object)[own].tolist() for (name, texts), own in codes}
    for name, factor in found.items():
        columns[_unused(name, columns)] = factor.values.ravel()
    return nw.from_dict(columns, backend=library).to_native()


def _unused(name: str, used: Iterable[str]) -> str:
    """Return a name that no attribute has."""
    while name in used:
        name += "_"
    return name
