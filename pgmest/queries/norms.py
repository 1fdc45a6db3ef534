"""What bounds a query's sensitivity: the norms of its columns, the signs of its entries, whether they are integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.matrices import DenseQuery, Grouping, Identity, SparseQuery, as_query, dense, sparse_query
from pgmest.queries.ranges import Differences, Ranges


def largest_l1(query: Any = None) -> float:
    """max_j ||Q e_j||_1; of a Kron the product of its factors' own."""
    return math.prod((_largest_sum(absolute(factor)) for factor in factors_of(query)), start=1.0)


def largest_l2_squared(query: Any = None) -> float:
    """max_j ||Q e_j||_2^2; of a Kron the product of its factors' own."""
    return math.prod((_largest_sum(factor.squared()) for factor in factors_of(query)), start=1.0)


def factors_of(query: Any) -> list[MatrixQuery]:
    """The matrices whose Kronecker product the query is; none for identity."""
    if query is None:
        return []
    return list(as_query(query).matrices)


def _largest_sum(query: MatrixQuery) -> float:
    return float(np.max(query.transpose(np.ones(query.rows))))


def integer_valued(query: MatrixQuery) -> bool:
    """Whether all entries are integers."""
    entries = entries_of(query)
    return entries is None or bool(np.all(entries == np.rint(entries)))


def non_negative(query: MatrixQuery) -> bool:
    """Whether no entry is negative."""
    entries = entries_of(query)
    return not isinstance(query, Differences) if entries is None else bool(entries.min(initial=0.0) >= 0)


def absolute(query: MatrixQuery) -> MatrixQuery:
    """The query whose entries are the absolute values of this one's; column sums of it are l1 norms."""
    if isinstance(query, DenseQuery):
        return dense(np.abs(query.values))
    if isinstance(query, SparseQuery):
        return sparse_query(abs(query.values))
    entries_of(query)
    return query.squared()  # of entries -1, 0 and 1


def entries_of(query: MatrixQuery) -> np.ndarray | None:
    """The entries that may be other than zero, or None where all are -1, 0 or 1 by construction.

    Raises:
        QueryError: they are not known.
    """
    if isinstance(query, DenseQuery):
        return query.values
    if isinstance(query, SparseQuery):
        return query.values.data
    if isinstance(query, Identity | Grouping | Ranges | Differences):
        return None
    raise QueryError(
        f"the entries of a {type(query).__name__} are not known, so its sensitivity cannot be bounded; measure with "
        "its matrix, dense or sparse."
    )
