"""What a workload asks of PGM: its items, and the marginals whose interactions make up the errors of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Identity
from pgmest.queries.norms import largest_l1
from pgmest.queries.workloads import Item, as_workload
from pgmest.tables.domain import Clique, Domain

MOST_WAYS = 3
"""Interactions of more attributes are not bought."""
MOST_ROWS = 64
"""Of a matrix with more rows so many stand for all."""
Factors = Mapping[str, np.ndarray]
"""Of some attributes rows of the matrix W whose products with the counts are asked for, so scaled that they stand for
all, divided by the largest column's l1 norm; the other attributes are asked for code by code."""


@dataclass(frozen=True, eq=False)
class Asked:
    r"""An item of a workload: its error is $w \lVert W (x - y) \rVert_1$, W divided by the most that one record adds.

    Without that, a marginal asked for by its prefix sums would weigh as many times more as it has prefixes.

    Attributes:
        clique: the attributes, in the domain's order.
        importance: w.
        factors: of the attributes that are not asked for code by code.
    """

    clique: Clique
    importance: float
    factors: Factors

    def inside(self, part: Clique) -> Factors:
        """The factors of some of the attributes."""
        return {name: self.factors[name] for name in part if name in self.factors}


@dataclass(frozen=True, eq=False)
class Interest:
    """A workload as PGM sees it.

    Attributes:
        items: those that ask the same are put together.
        attributes: all that occur.
    """

    items: tuple[Asked, ...]
    attributes: list[str]

    @classmethod
    def of(cls, domain: Domain, workload: Any) -> Interest:
        """Of what a caller gave; of None all pairs.

        Raises:
            ArgumentError, UnknownAttributeError, QueryError: a workload that cannot be used.
        """
        if workload is None:
            pairs = tuple(Asked(pair, 1.0, {}) for pair in combinations(domain.attributes, 2))
            return cls(pairs, list(domain))
        found: dict[tuple[Any, ...], Asked] = {}
        names: set[str] = set()
        for item in as_workload(domain, workload):
            if item.weight > 0:
                names.update(item.clique)
                asked = _asked(item, domain)
                key = asked.clique, tuple((name, matrix.tobytes()) for name, matrix in sorted(asked.factors.items()))
                before = found[key].importance if key in found else 0.0
                found[key] = Asked(asked.clique, before + asked.importance, asked.factors)
        if not names:
            raise ArgumentError.of("workload", workload, "a workload with a marginal of positive weight")
        return cls(tuple(asked for asked in found.values() if asked.clique), [name for name in domain if name in names])

    @cached_property
    def pairs(self) -> dict[Clique, float]:
        """The pairs inside the items, with the sum of the importance of these."""
        return self._inside(2)

    def _inside(self, ways: int) -> dict[Clique, float]:
        found: dict[Clique, float] = {}
        for asked in self.items:
            for part in combinations(asked.clique, ways):
                found[part] = found.get(part, 0.0) + asked.importance
        return found

    @property
    def about_ranges(self) -> bool:
        """Whether anything but codes is asked for."""
        return any(asked.factors for asked in self.items)

    def ranged(self, name: str) -> bool:
        """Whether ranges of an attribute are asked for, or any other queries than its codes."""
        return any(name in asked.factors for asked in self.items)

    @cached_property
    def triples(self) -> dict[Clique, float]:
        """The triples inside the items, with the sum of the importance of these."""
        return self._inside(MOST_WAYS)

    @cached_property
    def by_part(self) -> dict[Clique, list[Asked]]:
        """The items that a marginal is inside of."""
        found: dict[Clique, list[Asked]] = {}
        for asked in self.items:
            for part in parts(asked.clique):
                found.setdefault(part, []).append(asked)
        return found


def parts(clique: Clique) -> Iterator[Clique]:
    """The marginals whose interactions make up a clique's error: pairs, attributes, triples, and the total."""
    for ways in (2, 1, 3, 0):
        yield from combinations(clique, ways)


def _asked(item: Item, domain: Domain) -> Asked:
    """An item, without the attributes that it sums out."""
    importance, factors, names = item.weight, dict[str, np.ndarray](), set(item.clique)
    for name, query in _matrices(item, domain).items():
        rows = _rows(query)
        if domain[name] > 1 and (rows == rows[:, :1]).all():
            names.discard(name)  # the same for all codes: an answer about the other attributes
            importance *= float(np.abs(rows[:, 0]).sum())
        else:
            factors[name] = rows
    return Asked(tuple(name for name in domain if name in names), importance, factors)


def _rows(query: MatrixQuery) -> np.ndarray:
    """Rows of a matrix, divided by its largest column's l1 norm; of many some that stand for all."""
    chosen = evenly(query.rows, MOST_ROWS)
    rows = np.array([query.row(place) for place in chosen]).reshape(len(chosen), query.columns)
    return rows * (query.rows / len(chosen) / max(float(largest_l1(query)), 1e-300))


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many places among `count`, evenly spaced.

    >>> evenly(10, 2).tolist(), evenly(2, 5).tolist()
    ([2, 7], [0, 1])
    """
    return np.unique((np.arange(min(count, most)) + 0.5) * (count / max(1, min(count, most)))).astype(np.int64)


def _matrices(item: Item, domain: Domain) -> dict[str, MatrixQuery]:
    """The matrix of each attribute that is not asked for code by code.

    A matrix about several attributes at once has none: such an item counts as the whole marginal.
    """
    if item.query is None:
        return {}
    try:
        factors = item.kron(domain).factors
    except QueryError:
        return {}
    return {name: query for name, query in factors.items() if not isinstance(query, Identity)}
