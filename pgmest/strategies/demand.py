"""Demand: what a workload's item asks about each of its attributes, as Gram matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Identity
from pgmest.queries.ranges import Ranges
from pgmest.queries.workloads import Workload
from pgmest.tables.domain import Clique, Domain

ENTRIES_AT_ONCE = 1 << 23
"""Products of a query matrix with at most this many numbers are made at once."""


@dataclass(frozen=True, eq=False)
class Demand:
    """The queries of one item, W = W_1 x ... x W_k, reduced to what their expected error depends on.

    Attributes:
        clique: the attributes, without those that are only summed over.
        grams: attribute -> W_i^T W_i, or None for the identity.
        weight: of the item.
    """

    clique: Clique
    grams: Mapping[str, np.ndarray | None]
    weight: float


def demands_of(domain: Domain, workload: Workload) -> list[Demand]:
    """The demand of each item with a positive weight.

    Raises:
        QueryError: an item whose queries are no Kronecker product.
        ArgumentError: no item has weight.
    """
    known: dict[str, np.ndarray] = {}
    demands = [_demand(domain, item.clique, item.kron(domain).factors, item.weight, known) for item in workload]
    demands = [demand for demand in demands if demand.weight > 0]
    if not demands:
        raise ArgumentError.of("workload", workload, "a workload with at least one item of positive weight")
    return demands


def _demand(
    domain: Domain, clique: Clique, factors: Mapping[str, MatrixQuery], weight: float, known: dict[str, np.ndarray]
) -> Demand:
    kept = [name for name in domain.ordered(clique) if not _is_total(factors[name])]
    grams: dict[str, np.ndarray | None] = {}
    for name in kept:
        query = factors[name]
        if isinstance(query, Identity):
            grams[name] = None
        else:
            grams[name] = _known_gram(query, known)
    return Demand(tuple(kept), grams, weight)


def gram(query: MatrixQuery) -> np.ndarray:
    """Q^T Q, (n, n), without writing Q down."""
    identity = np.eye(query.columns)
    step = max(1, ENTRIES_AT_ONCE // query.rows)
    parts = [query.transpose(query.apply(identity[:, start : start + step])) for start in range(0, query.columns, step)]
    return np.hstack(parts)


def _known_gram(query: MatrixQuery, known: dict[str, np.ndarray]) -> np.ndarray:
    """The Gram matrix; of prefixes, ranges and the like, which their text determines, made once."""
    text = str(query)
    if not isinstance(query, Ranges) or "..." in text:
        return gram(query)
    if text not in known:
        known[text] = gram(query)
    return known[text]


def _is_total(query: MatrixQuery) -> bool:
    return query.rows == 1 and bool(np.all(query.matrix() == 1.0))
