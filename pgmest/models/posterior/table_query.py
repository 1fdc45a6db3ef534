"""A query answered from the one table that it is about, rather than from a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, MatrixQuery, as_query
from pgmest.tables.factor import Factor


def answer_table(table: Factor, query: Any, clique: Iterable[str] | str | None = None) -> Factor:
    """What `Model.answer` gives, from the marginal on exactly the attributes that the query reads.

    Raises:
        QueryError: a query that does not fit.
    """
    if isinstance(query, LinearMeasurement):
        query, clique = query.query, query.clique
        if query is None:
            return table
        clique = None if isinstance(query, Kron) else clique
    if isinstance(query, Kron):
        values = query.apply(table)
        return Factor(dict(zip(query.attributes, query.answer_shape, strict=True)), values)
    if clique is None:
        return table
    one_row = not isinstance(query, MatrixQuery) and np.ndim(query) == 1
    matrix = as_query([query] if one_row else query)
    if matrix.columns != table.domain.size():
        raise QueryError(
            f"the query on {table.domain.attributes}: expected {table.domain.size():,} columns, one per cell, got a "
            f"matrix of shape {matrix.shape}."
        )
    return Factor({",".join(table.domain) or "total": matrix.rows}, matrix.apply(table.datavector()))
