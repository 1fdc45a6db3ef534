"""Queries answered from the one table that they read, rather than from a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.errors import QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, LinearQuery, MatrixQuery, as_query
from pgmest.queries.levels import level_kron, named_levels, without_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

MOST_COEFFICIENTS = 5_000_000
"""Matrices with more coefficients are not read to find out whether these are whole numbers."""


def answer_table(table: Factor, query: Any, clique: Iterable[str] | str | None = None) -> Factor:
    """Return the answer of `Model.answer` from the marginal on exactly the attributes that the query reads.

    With a clique, a function of the table that makes a Factor or a number is a query, too.

    Raises:
        QueryError: a query that does not fit.
    """
    if clique is not None and callable(query):
        return as_factor(query(table))
    query, clique = _query_and_clique(query, clique)
    if isinstance(query, Kron):
        values = query.apply(table)
        return Factor(dict(zip(query.axes, query.answer_shape, strict=True)), values)
    if clique is None:
        return table
    matrix = _matrix(query, table.domain)
    return Factor({",".join(table.domain) or "total": matrix.rows}, matrix.apply(table.datavector()))


def answer_tables(tables: np.ndarray, domain: Domain, query: Any, clique: Iterable[str] | str | None) -> np.ndarray:
    """Return what `answer_table` does for a linear query, for many tables at once.

    Args:
        tables: the marginals on exactly the attributes that the query reads, shape (tables, *domain.shape).
        domain: the domain of each.
        query, clique: as for `answer_table`.

    Returns:
        an array of shape (tables, *shape of an answer).

    Raises:
        QueryError: a query that does not fit.
    """
    query, clique = _query_and_clique(query, clique)
    if isinstance(query, Kron):
        query.check(domain)
        return query.apply_many(tables.transpose(0, *(axis + 1 for axis in domain.axes(query.attributes))))
    if clique is None:
        return tables
    matrix, flat = _matrix(query, domain), tables.reshape(len(tables), -1)
    if isinstance(matrix, MatrixQuery):
        return matrix.apply(flat, axis=1)
    return np.stack([matrix.apply(table) for table in flat])


def _query_and_clique(query: Any, clique: Any) -> tuple[Any, Any]:
    """Return a query, that of a measurement, and the attributes of a matrix; None for the cells of the table."""
    if not isinstance(query, LinearMeasurement):
        return query, clique
    return query.query, None if query.query is None or isinstance(query.query, Kron) else query.clique


def _matrix(query: Any, domain: Domain) -> LinearQuery:
    """Return a query about the cells of a table as a matrix, after checking that it fits."""
    one_row = not isinstance(query, MatrixQuery) and np.ndim(query) == 1
    matrix = as_query([query] if one_row else query)
    matrix.check(domain, domain.attributes)
    return matrix


def has_whole_coefficients(query: Any, clique: Iterable[str] | str | None) -> bool:
    """Return whether the answers are counts, or sums and differences of counts, so that they are whole numbers.

    Args:
        query, clique: as for `answer_table`, or attributes, for their cells.
    """
    query, clique = _query_and_clique(query, clique)
    if query is None or (clique is None and is_names(query)):
        return True
    if isinstance(query, Kron):
        return all(map(_is_whole, query.matrices))
    if callable(query) and not isinstance(query, LinearQuery):
        return False
    one_row = not isinstance(query, LinearQuery) and np.ndim(query) == 1
    return _is_whole(as_query([query] if one_row else query))


def _is_whole(query: LinearQuery) -> bool:
    if query.rows * query.cells > MOST_COEFFICIENTS:
        return False
    matrix = np.asarray(query.matrix())
    return np.array_equal(matrix, np.rint(matrix))


def on_attributes(domain: Domain, query: Any, clique: Any) -> tuple[Any, Any]:
    """Return a query and its clique without levels of hierarchies; others as they are.

    Raises:
        UnknownAttributeError, DuplicateAttributeError, QueryError: the levels or the query do not fit.
    """
    if not domain.hierarchies:
        return query, clique
    if clique is None and is_names(query):
        return (level_kron(domain, query) if domain.names_levels(query) else query), None
    if clique is not None and callable(query) and not isinstance(query, LinearQuery) and domain.names_levels(clique):
        names = (clique,) if isinstance(clique, str) else tuple(clique)
        asked = query
        return (lambda table: asked(table.project(names))), tuple(one.attribute for one in named_levels(domain, names))
    if isinstance(query, LinearMeasurement):
        return query.without_levels(domain), clique
    if clique is not None and not isinstance(query, LinearQuery) and domain.names_levels(clique):
        query = np.atleast_2d(query) if isinstance(query, list | tuple | np.ndarray) else query
    return without_levels(domain, query, clique)


def as_factor(found: Any) -> Factor:
    """Return the value of a function of a table or a model as a Factor.

    Raises:
        QueryError: it is neither a Factor nor a number nor a row of numbers.
    """
    if isinstance(found, Factor):
        return found
    wanted = "a function must make a Factor, a number or a row of numbers"
    try:
        values = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or found is None or isinstance(found, str):
        raise QueryError(f"{wanted}, not {found!r:.60}.")
    if values.ndim > 1:
        raise QueryError(f"{wanted}, not an array of shape {values.shape}: return its ravel(), or a pg.Factor.")
    return Factor({} if values.ndim == 0 else {"answer": len(values)}, values)


def is_names(query: Any) -> bool:
    """Return whether a query consists of attributes, for their marginal."""
    names = (query,) if isinstance(query, str) else query
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def attributes_of(query: Any, clique: Any, domain: Domain) -> Clique | None:
    """Return the attributes that a query reads; None for a function of a model."""
    if clique is not None:
        return domain.clique(clique)
    if isinstance(query, LinearMeasurement):
        return domain.clique(query.clique)
    if isinstance(query, Kron):
        query.check(domain)
        return domain.clique(query.attributes)
    if is_names(query):
        return domain.clique(query)
    return None
