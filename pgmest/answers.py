"""The answers of a model to linear queries: what kinds of query there are, and how each is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.conditioning import checked_evidence
from pgmest.domain import Clique
from pgmest.errors import QueryError
from pgmest.factor import Factor
from pgmest.measurement import LinearMeasurement
from pgmest.queries import Kron, Query, as_query

if TYPE_CHECKING:
    from pgmest.model import Model
    from pgmest.prior.support_model import SupportModel


def answer(
    model: Model | SupportModel, query: Any, clique: Iterable[str] | str | None, given: Mapping[str, int] | None
) -> Factor | list[Factor]:
    """The answers in counts; `Model.answer` says to what."""
    if isinstance(query, LinearMeasurement) and clique is None:
        return _answer_measured(model, query, given)
    if isinstance(query, Kron) and clique is None:
        return _answer_krons(model, [query], given)[0]
    if clique is None and isinstance(query, list | tuple) and all(isinstance(one, Kron) for one in query):
        return _answer_krons(model, query, given)
    if clique is None or isinstance(query, Kron | LinearMeasurement):
        raise QueryError(
            f"a query of type {type(query).__name__} {'without' if clique is None else 'with'} clique= cannot be "
            "answered: give a pg.Kron, a list of these, or a query matrix and the clique= that it is about."
        )
    return _answer_matrix(model, query, model.domain.clique(clique), given)


def _answer_krons(
    model: Model | SupportModel, queries: Sequence[Kron], given: Mapping[str, int] | None
) -> list[Factor]:
    for query in queries:
        query.check(model.domain)
    evidence = checked_evidence(model.domain, given, (name for query in queries for name in query.attributes))
    answers = model.answer_krons(queries, evidence)
    return [
        Factor(dict(zip(query.attributes, query.shape, strict=True)), values)
        for query, values in zip(queries, answers, strict=True)
    ]


def _answer_matrix(model: Model | SupportModel, matrix: Any, clique: Clique, given: Mapping[str, int] | None) -> Factor:
    one_row = not isinstance(matrix, Query) and np.ndim(matrix) == 1
    query = as_query([matrix] if one_row else matrix)
    cells = model.domain.size(clique)
    if query.columns != cells:
        raise QueryError(
            f"the query on {clique}: expected {cells:,} columns, one per cell, got a matrix of shape {query.shape}."
        )
    return Factor({",".join(clique) or "total": query.rows}, query.apply(model.project(clique, given).datavector()))


def _answer_measured(
    model: Model | SupportModel, measurement: LinearMeasurement, given: Mapping[str, int] | None
) -> Factor:
    if measurement.query is None:
        return model.project(measurement.clique, given)
    if isinstance(measurement.query, Kron):
        return _answer_krons(model, [measurement.query], given)[0]
    return _answer_matrix(model, measurement.query, measurement.clique, given)
