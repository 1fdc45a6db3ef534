"""Queries that name attributes of one code, as queries on the other attributes: their cells are the same."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from pgmest.queries.kron import Kron
from pgmest.queries.matrices import as_matrix_query
from pgmest.tables.domain import Clique


def without_attributes(query: Any, clique: Clique, dropped: Collection[str]) -> tuple[Any, Clique]:
    """Return the same query on the cells of a clique without some attributes, or levels, of one code.

    >>> from pgmest.queries import identity, prefix
    >>> query, clique = without_attributes(Kron({"year": identity(1), "age": prefix(3)}), ("year", "age"), {"year"})
    >>> clique, query.attributes
    (('age',), ('age',))

    Args:
        query: None for the cells, or a `LinearQuery`.
        clique: the attributes or levels of its columns.
        dropped: the attributes or levels of one code.
    """
    kept = tuple(name for name in clique if name not in dropped)
    if query is None or len(kept) == len(clique):
        return query, kept
    if isinstance(query, Kron):
        own = [matrix for name, matrix in query.factors.items() if name in dropped]
        if all(np.array_equal(matrix.matrix(), [[1.0]]) for matrix in own):
            factors = {name: matrix for name, matrix in query.factors.items() if name not in dropped}
            return Kron(factors) if factors else None, kept
        query = as_matrix_query(query.in_order(clique).matrix())
    return query, kept
