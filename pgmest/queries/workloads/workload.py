"""Workload: weighted linear queries, grouped by the marginal that they are about."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from pgmest._base.errors import ArgumentError, listed, plural
from pgmest.queries.workloads.answers import Projectable, answers
from pgmest.queries.workloads.item import Item, checked_weight
from pgmest.tables.domain import Clique, Domain, as_domain


@dataclass(frozen=True, eq=False)
class Workload(Sequence[Item]):
    """Weighted linear queries, grouped by the marginal they are about; `+` joins two, a number times it scales weights.

    >>> from pgmest.queries.workloads import all_kway, ranges
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
        items: in order; several may be about one marginal, which is then computed once.
    """

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))
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
        """The number of queries in all."""
        known = as_domain(domain)
        return sum(item.rows(known) for item in self.items)

    def check(self, domain: Domain | Mapping[str, int]) -> None:
        """See that every item fits a domain; raises as `Item.check`."""
        known = as_domain(domain)
        for item in self.items:
            item.check(known)

    def answer(self, source: Projectable) -> list[np.ndarray]:
        """The answers of every item, in counts, each of shape (rows,), row-major in the order of the clique or Kron.

        Marginals are asked for together and once each. Weights are not applied.

        Args:
            source: a Dataset, a Model, a mechanism's result, or anything whose `project(clique)` is a Factor of counts.
        """
        return list(self.iterate(source))

    def iterate(self, source: Projectable) -> Iterator[np.ndarray]:
        """As `answer`, an item at a time: for workloads whose marginals together do not fit in memory."""
        return answers(source, self.items)

    def closure(self) -> dict[Clique, float]:
        """Every non-empty subset of a clique of the workload, smallest first, with its relevance.

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
        # sum_i w_i |r & C_i| = sum over attributes a of r of the weight of the items about a
        return {clique: float(sum(by_attribute[name] for name in clique)) for clique in closure(self.cliques) if clique}

    def sensitivity(self, order: int = 1) -> float:
        """How far, in l1 or l2, one record can move all the weighted answers together.

        It is exact where the largest columns of all items meet in one record (marginals, prefixes), else a bound.

        Args:
            order: 1 or 2.

        Raises:
            ArgumentError: another order.
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
        return Workload(tuple(Item(item.clique, item.query, item.weight * scale) for item in self.items))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        rows = [
            (" × ".join(item.clique) or "total", "" if item.query is None else str(item.query), item.weight)
            for item in self.items[:12]
        ]
        across = (
            max((len(name) for name, _, _ in rows), default=0),
            max((len(query) for _, query, _ in rows), default=0),
        )
        lines = [f"Workload: {plural(len(self.items), 'item')}"]
        for name, query, weight in rows:
            shown = "" if weight == 1 else f"weight {weight:g}"
            lines.append(f"  {name:{across[0]}s}  {query:{across[1]}s}  {shown}".rstrip())
        return "\n".join([*lines, f"  ... {len(self.items) - 12:,} more"] if len(self.items) > 12 else lines)


def closure(cliques: Iterable[Iterable[str] | str]) -> tuple[Clique, ...]:
    """Every subset of the cliques, the empty one and the cliques themselves among them; each once, smallest first.

    Attributes are in the order in which the cliques first name them.

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
