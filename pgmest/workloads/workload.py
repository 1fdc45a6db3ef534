"""Item and Workload: weighted linear queries, grouped by the marginal that they are about."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from pgmest.domain import Clique, Domain, as_domain
from pgmest.errors import ArgumentError, DuplicateAttributeError, QueryError, listed, plural
from pgmest.factor import Factor
from pgmest.privacy.neighbours import largest_l1, largest_l2_squared
from pgmest.queries import Kron, Query, as_query, identity
from pgmest.workloads.answers import Projectable, answers


@dataclass(frozen=True, eq=False)
class Item:
    """Linear queries about one marginal, and how much they matter.

    Args:
        clique: the attributes of the marginal, or one name.
        query: None for the cells themselves; a Kron over exactly these attributes; or a `pgmest.queries` query, array,
            sparse matrix or LinearOperator with a column per cell, row-major in the clique's order.
        weight: finite, at least 0. Answers are not multiplied by it; errors and sensitivities are.

    Raises:
        ArgumentError: a weight that is none, or a clique that does not hold names.
        DuplicateAttributeError: the clique names an attribute twice.
        QueryError: a query that cannot be used, or a Kron over other attributes.
    """

    clique: Clique
    query: Query | Kron | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        names = (self.clique,) if isinstance(self.clique, str) else tuple(self.clique)
        if not all(isinstance(name, str) for name in names):
            raise ArgumentError.of("clique", names, "attribute names, such as ('age', 'sex')")
        if len(set(names)) != len(names):
            raise DuplicateAttributeError.of(names, f"the clique {names}")
        if self.query is not None and not isinstance(self.query, Kron):
            object.__setattr__(self, "query", as_query(self.query))
        if isinstance(self.query, Kron) and set(self.query.attributes) != set(names):
            raise QueryError(
                f"the Kron over {self.query.attributes} on the clique {names}: it must be over exactly the clique's "
                "attributes. Leave the others out of the clique, or sum them out with pg.queries.total(n)."
            )
        object.__setattr__(self, "clique", names)
        object.__setattr__(self, "weight", _weight(self.weight))

    def rows(self, domain: Domain) -> int:
        """The number of queries."""
        return domain.size(self.clique) if self.query is None else self.query.rows

    def answer(self, marginal: Factor) -> np.ndarray:
        """The answers in counts about a marginal that covers the clique, shape (rows,), not weighted."""
        if isinstance(self.query, Kron):
            return self.query.apply(marginal).reshape(-1)
        cells = marginal.project(self.clique).datavector()
        return cells if self.query is None else self.query.apply(cells)

    def check(self, domain: Domain) -> None:
        """See that the queries fit a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: a query made for another number of values.
        """
        cells = domain.size(self.clique)
        if isinstance(self.query, Kron):
            self.query.check(domain)
        elif self.query is not None and self.query.columns != cells:
            raise QueryError(
                f"the query on {self.clique}: expected {cells:,} columns, one per cell, got a matrix of shape "
                f"{self.query.shape}."
            )

    def kron(self, domain: Domain) -> Kron:
        """The same queries as a Kron; a plain marginal becomes identities.

        Raises:
            QueryError: a query matrix on several attributes, which has no factors.
        """
        if isinstance(self.query, Kron):
            return self.query
        if self.query is None:
            return Kron({name: identity(domain[name]) for name in self.clique})
        if len(self.clique) == 1:
            return Kron({self.clique[0]: self.query})
        raise QueryError(f"the query {self.query} on {self.clique} is no Kronecker product; give it as a pg.Kron.")

    def max_column_norm(self, order: int = 2) -> float:
        """The largest l1 or l2 norm of a column of the query matrix, without the weight."""
        return largest_l1(self.query) if order == 1 else math.sqrt(largest_l2_squared(self.query))


@dataclass(frozen=True, eq=False)
class Workload(Sequence[Item]):
    """Weighted linear queries, grouped by the marginal they are about; `+` joins two, a number times it scales weights.

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
        scale = _weight(factor)
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


def _weight(weight: Any) -> float:
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentError.of("weight", weight, "a finite number of at least 0")
    return number
