"""Workload: weighted linear queries, grouped by the marginal that they read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import ArgumentError, listed, plural
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.workloads.answers import Projectable, answers
from pgmest.workloads.item import Item, checked_weight

SHOWN_ITEMS = 12
"""The text of a workload lists at most this many items."""


@dataclass(frozen=True, eq=False, init=False)
class Workload(Sequence[Item]):
    """Weighted linear queries, grouped by the marginal that they read.

    The sum of two workloads has the items of both; a number times a workload scales the weights and nothing else.

    >>> from pgmest.workloads import all_kway, ranges
    >>> domain = Domain({"age": 85, "sex": 2, "income": 2})
    >>> workload = all_kway(domain, 2) + 0.5 * ranges(domain, ["age"])
    >>> print(workload)
    Workload: 4 items
      age × sex
      age × income
      sex × income
      age           Kron(age: all_range(85))  weight 0.5
    >>> workload.rows(domain)
    3999

    Attributes:
        items: the items in order; items on the same marginal share one computation of the marginal.

    Raises:
        ArgumentError: `items` holds other objects than items.
    """

    items: tuple[Item, ...]

    def __init__(self, items: Iterable[Item]) -> None:
        object.__setattr__(self, "items", tuple(items))
        if not all(isinstance(item, Item) for item in self.items):
            raise ArgumentError.of("items", listed(self.items, 3), "pgmest.workloads.Item values")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each item."""
        return tuple(item.clique for item in self.items)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each item."""
        return tuple(item.weight for item in self.items)

    def rows(self, domain: Domain | Mapping[str, int]) -> int:
        """Return the number of queries of all items."""
        known = as_domain(domain)
        return sum(item.rows(known) for item in self.items)

    def check(self, domain: Domain | Mapping[str, int]) -> None:
        """Check that every item fits a domain; raise the errors of `Item.check`."""
        known = as_domain(domain)
        for item in self.items:
            item.check(known)

    def without_levels(self, domain: Domain | Mapping[str, int]) -> Workload:
        """Return the same queries on attributes, where items name levels such as "diagnosis@chapter".

        Raises:
            UnknownAttributeError, DuplicateAttributeError, QueryError: the levels do not fit.
        """
        known = as_domain(domain)
        items = [item.without_levels(known) for item in self.items]
        same = all(one is other for one, other in zip(items, self.items, strict=True))
        return self if same else Workload(items)

    def answer(self, source: Projectable) -> list[np.ndarray]:
        """Return the unweighted answers of every item, in counts: shape (rows,), row-major in clique or Kron order.

        Each marginal is computed once, and many are computed together.

        Args:
            source: a Dataset, a Model, a mechanism's result, or another object whose `project(clique)` returns a Factor
                of counts.
        """
        return list(self.iterate(source))

    def iterate(self, source: Projectable) -> Iterator[np.ndarray]:
        """Return an iterator over the results of `answer`, for workloads whose marginals do not fit in memory."""
        return answers(source, self.items)

    def closure(self) -> dict[Clique, float]:
        """Return the relevance of every non-empty subset of a clique of the workload, smallest subsets first.

        The relevance of a set r is the sum over items of weight * |r & clique| (w_r of AIM, McKenna et al. 2022).
        """
        order = {name: place for place, name in enumerate(dict.fromkeys(itertools.chain(*self.cliques)))}
        weights: dict[frozenset[str], float] = {}
        for item in self.items:
            key = frozenset(item.clique)
            weights[key] = weights.get(key, 0.0) + item.weight
        sets, amounts = list(weights), np.array(list(weights.values()))
        held = np.array([[name in members for name in order] for members in sets], dtype=np.float64)
        by_attribute = dict(zip(order, amounts @ held, strict=True)) if sets else {}
        # sum_i w_i |r & C_i| = sum over the attributes a of r of the weights of the items that contain a
        return {clique: float(sum(by_attribute[name] for name in clique)) for clique in closure(self.cliques) if clique}

    def sensitivity(self, order: int = 1) -> float:
        """Return the sensitivity of all weighted answers together to one record, in l1 or l2.

        The result is exact if one record has the largest column of every item (marginals, prefixes), else an upper
        bound.

        Args:
            order: the norm, 1 or 2.

        Raises:
            ArgumentError: `order` is not 1 or 2.
        """
        if order not in (1, 2):
            raise ArgumentError.of("order", order, (1, 2))
        norms = np.array([item.weight * item.max_column_norm(order) for item in self.items])
        return float(np.linalg.norm(norms, order)) if norms.size else 0.0

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Workload: ...
    def __getitem__(self, index: int | slice) -> Item | Workload:
        return Workload(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.items + other.items) if isinstance(other, Workload) else NotImplemented

    def __mul__(self, factor: float) -> Workload:
        if not isinstance(factor, int | float | np.number):
            return NotImplemented
        scale = checked_weight(factor)
        return Workload(tuple(replace(item, weight=item.weight * scale) for item in self.items))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        names = tuple(dict.fromkeys(name for item in self.items for name in item.clique))
        rows = [
            (joined(item.clique, names), "" if item.query is None else str(item.query), _remarks(item))
            for item in self.items[:SHOWN_ITEMS]
        ]
        across = (
            max((len(name) for name, _, _ in rows), default=0),
            max((len(query) for _, query, _ in rows), default=0),
        )
        lines = [f"Workload: {plural(len(self.items), 'item')}"]
        lines += [f"  {name:{across[0]}s}  {query:{across[1]}s}  {remarks}".rstrip() for name, query, remarks in rows]
        if len(self.items) > SHOWN_ITEMS:
            lines.append(f"  ... {len(self.items) - SHOWN_ITEMS:,} more")
        return "\n".join(lines)


def _remarks(item: Item) -> str:
    """Return the weight of an item, if it is not 1, and whether the item matters."""
    weight = [] if item.weight == 1 else [f"weight {item.weight:g}"]
    return ", ".join([*weight, "matters"] if item.matters else weight)


def closure(cliques: Iterable[Iterable[str] | str]) -> tuple[Clique, ...]:
    """Return every subset of the cliques once, including the empty set and the cliques themselves, smallest first.

    The attributes of a subset are in the order in which the cliques first name them.

    >>> closure([("age", "sex"), ("sex", "income")])
    ((), ('age',), ('sex',), ('income',), ('age', 'sex'), ('sex', 'income'))
    """
    named = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
    place = {name: index for index, name in enumerate(dict.fromkeys(itertools.chain(*named)))}
    indexed = {tuple(sorted(place[name] for name in clique)) for clique in named}
    subsets = {
        part for clique in indexed for size in range(len(clique) + 1) for part in itertools.combinations(clique, size)
    }
    names = list(place)
    return tuple(tuple(names[index] for index in part) for part in sorted(subsets, key=lambda part: (len(part), part)))
