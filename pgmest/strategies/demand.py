"""Demand: the queries of a workload's item as one Gram matrix for each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Identity
from pgmest.queries.ranges import Ranges
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload

ENTRIES_AT_ONCE = 1 << 23
"""Products of a query matrix are computed in blocks of at most this many entries (64 MB)."""


@dataclass(frozen=True, eq=False)
class Demand:
    """The queries of one item, W = W_1 x ... x W_k, reduced to the Gram matrices that determine their expected error.

    Attributes:
        clique: the attributes, without those that are only summed over.
        grams: attribute -> W_i^T W_i, or None for the identity.
        weight: the weight of the item.
    """

    clique: Clique
    grams: Mapping[str, np.ndarray | None]
    weight: float


def demands_of(domain: Domain, workload: Workload) -> list[Demand]:
    """Return the demand of each item with a positive weight.

    Raises:
        QueryError: an item's queries are not a Kronecker product.
        ArgumentError: no item has a positive weight.
    """
    cache: dict[str, np.ndarray] = {}
    demands = [_demand(domain, item.clique, item.kron(domain).factors, item.weight, cache) for item in workload]
    demands = [demand for demand in demands if demand.weight > 0]
    if not demands:
        raise ArgumentError.of("workload", workload, "a workload with at least one item of positive weight")
    return demands


def _demand(
    domain: Domain, clique: Clique, factors: Mapping[str, MatrixQuery], weight: float, cache: dict[str, np.ndarray]
) -> Demand:
    """Return the demand of an item; attributes that are only summed over are left out."""
    grams: dict[str, np.ndarray | None] = {}
    for name in domain.ordered(clique):
        query = factors[name]
        if query.rows > 1 or not np.all(query.matrix() == 1.0):  # otherwise the sum over all codes
            grams[name] = None if isinstance(query, Identity) else _cached_gram(query, cache)
    return Demand(tuple(grams), grams, weight)


def gram(query: MatrixQuery) -> np.ndarray:
    """Return Q^T Q, (n, n), without materializing Q."""
    identity = np.eye(query.cells)
    step = max(1, ENTRIES_AT_ONCE // query.rows)
    parts = [query.transpose(query.apply(identity[:, start : start + step])) for start in range(0, query.cells, step)]
    return np.hstack(parts)


def _cached_gram(query: MatrixQuery, cache: dict[str, np.ndarray]) -> np.ndarray:
    """Return the Gram matrix; those of prefixes and other ranges, whose text identifies them, are computed once."""
    text = str(query)
    if not isinstance(query, Ranges) or "..." in text:
        return gram(query)
    if text not in cache:
        cache[text] = gram(query)
    return cache[text]
