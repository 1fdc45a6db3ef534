"""WorkloadDemand: the items of a workload, and the marginals whose interactions determine their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, QueryError
from pgmest.queries import MatrixQuery
from pgmest.queries.levels import cliques_by_level
from pgmest.queries.matrices import Identity
from pgmest.queries.norms import largest_l1
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload, as_workload

MOST_WAYS = 3
"""The largest number of attributes of a measured interaction."""
MOST_ROWS = 64
"""The largest number of rows of a matrix; if there are more, a sample represents them."""
AT_LEVELS = 0.5
"""The weight of all coarser levels of a pair together, relative to that of the pair at its codes, in the choice of the
groups over which the pair is measured."""
Factors = Mapping[str, np.ndarray]
"""For some attributes, rows of the query matrix W, divided by its largest l1 norm of a column and scaled to represent
all of its rows. The other attributes are asked for code by code."""


@dataclass(frozen=True, eq=False)
class DemandItem:
    r"""An item of a workload, whose error is $w \lVert W (x - y) \rVert_1$.

    W is divided by its l1 sensitivity. Otherwise prefix sums of a marginal would have a larger weight than its cells,
    by a factor of the number of prefixes.

    Attributes:
        clique: The attributes, in the domain's order.
        importance: The weight w.
        factors: The matrices of the attributes that are not asked for code by code.
        matters: Whether the marginals inside are measured first (`pgmest.workloads.Item`).
    """

    clique: Clique
    importance: float
    factors: Factors
    matters: bool = False

    def inside(self, part: Clique) -> Factors:
        """Return the factors of some of the attributes."""
        return {name: self.factors[name] for name in part if name in self.factors}


@dataclass(frozen=True, eq=False)
class WorkloadDemand:
    """The demand of a workload.

    Attributes:
        items: The items; those with the same queries are combined, and matter if one of them does.
        attributes: All attributes that occur.
        at_levels: Without a workload, all pairs at the coarser levels of trees. They decide over which groups a pair is
            measured, but not its share of the budget. So no other marginal pays for a tree.
    """

    items: tuple[DemandItem, ...]
    attributes: list[str]
    at_levels: tuple[DemandItem, ...] = ()

    @classmethod
    def of(cls, domain: Domain, workload: Any) -> WorkloadDemand:
        """Create the demand of a workload; None asks for all pairs.

        Raises:
            ArgumentError, UnknownAttributeError, QueryError: The workload is invalid.
        """
        if workload is None:
            pairs = tuple(DemandItem(pair, 1.0, {}) for pair in combinations(domain.attributes, 2))
            return cls(pairs, list(domain), _pairs_at_levels(domain))
        found: dict[tuple[Any, ...], DemandItem] = {}
        names: set[str] = set()
        for item in as_workload(domain, workload):
            if item.weight > 0:
                names.update(item.clique)
                asked = _asked(item, domain)
                key = asked.clique, tuple((name, matrix.tobytes()) for name, matrix in sorted(asked.factors.items()))
                if before := found.get(key):
                    importance, matters = before.importance + asked.importance, before.matters or asked.matters
                    asked = replace(before, importance=importance, matters=matters)
                found[key] = asked
        if not names:
            raise ArgumentError.of("workload", workload, "a workload with a marginal of positive weight")
        return cls(tuple(asked for asked in found.values() if asked.clique), [name for name in domain if name in names])

    @cached_property
    def pairs(self) -> dict[Clique, float]:
        """The pairs inside the items, with the sum of the importance of these items."""
        return self._inside(2)

    def _inside(self, ways: int) -> dict[Clique, float]:
        found: dict[Clique, float] = {}
        for asked in self.items:
            for part in combinations(asked.clique, ways):
                found[part] = found.get(part, 0.0) + asked.importance
        return found

    @property
    def has_range_queries(self) -> bool:
        """Return whether some item asks for other queries than codes."""
        return any(asked.factors for asked in self.items)

    def asks_ranges(self, name: str) -> bool:
        """Return whether some item asks for other queries than codes about an attribute."""
        return any(name in asked.factors for asked in self.items)

    @cached_property
    def triples(self) -> dict[Clique, float]:
        """The triples inside the items, with the sum of the importance of these items."""
        return self._inside(MOST_WAYS)

    @cached_property
    def items_by_marginal(self) -> dict[Clique, list[DemandItem]]:
        """For each marginal, the items that contain it; for a pair, also the same pair at coarser levels."""
        found: dict[Clique, list[DemandItem]] = {}
        for asked in self.items:
            for part in sub_marginals(asked.clique):
                found.setdefault(part, []).append(asked)
        for asked in self.at_levels:
            found[asked.clique].append(asked)
        return found


def _pairs_at_levels(domain: Domain) -> tuple[DemandItem, ...]:
    """Return all pairs at all combinations of coarser levels, with the weight `AT_LEVELS` for each pair together."""
    found = []
    for pair in combinations(domain.attributes, 2):
        coarser = cliques_by_level(domain, pair)[1:]
        found += [Item(names, None, AT_LEVELS / len(coarser)) for names in coarser]
    return tuple(_asked(item, domain) for item in as_workload(domain, Workload(found))) if found else ()


def sub_marginals(clique: Clique) -> Iterator[Clique]:
    """Yield the marginals whose interactions determine a clique's error: pairs, attributes, triples, and the total."""
    for ways in (2, 1, 3, 0):
        yield from combinations(clique, ways)


def _asked(item: Item, domain: Domain) -> DemandItem:
    """Return the demand of an item, without the attributes that it sums out."""
    importance, factors, names = item.weight, dict[str, np.ndarray](), set(item.clique)
    for name, query in _matrices(item, domain).items():
        rows = _rows(query)
        if domain[name] > 1 and (rows == rows[:, :1]).all():
            names.discard(name)  # all codes count alike, so the query is about the other attributes
            importance *= float(np.abs(rows[:, 0]).sum())
        else:
            factors[name] = rows
    return DemandItem(tuple(name for name in domain if name in names), importance, factors, item.matters)


def _rows(query: MatrixQuery) -> np.ndarray:
    """Return at most `MOST_ROWS` rows of a matrix, divided by its largest l1 norm of a column."""
    chosen = evenly_spaced(query.rows, MOST_ROWS)
    rows = np.array([query.row(place) for place in chosen]).reshape(len(chosen), query.cells)
    return rows * (query.rows / len(chosen) / max(float(largest_l1(query)), 1e-300))


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """Return at most `most` evenly spaced positions among `count`.

    >>> evenly_spaced(10, 2).tolist(), evenly_spaced(2, 5).tolist()
    ([2, 7], [0, 1])
    """
    return np.unique((np.arange(min(count, most)) + 0.5) * (count / max(1, min(count, most)))).astype(np.int64)


def _matrices(item: Item, domain: Domain) -> dict[str, MatrixQuery]:
    """Return the matrix of each attribute that is not asked for code by code.

    A query that is not a Kronecker product has none; such an item is treated as a request for the whole marginal.
    """
    if item.query is None:
        return {}
    try:
        factors = item.kron(domain).factors
    except QueryError:
        return {}
    return {name: query for name, query in factors.items() if not isinstance(query, Identity)}
