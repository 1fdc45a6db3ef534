"""TreeOrder: the codes of attributes with hierarchies in the order of their trees, in which groups are ranges.

LAMP measures groups of neighboring codes (`groups`). In the order of the tree, the values of each branch are neighbors.
The order is public. `OrderedCurator` asks the curator of the records, whose codes keep their order, and the
measurements that it hands out are about ordered codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.held_records import KNOWN_STDDEV
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.grouped_distances import GroupedDistances
from pgmest.queries import Kron, MatrixQuery, compress, identity
from pgmest.queries.matrices import Grouping, Identity, as_matrix_query
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.tables.groups import is_identity
from pgmest.tables.hierarchy import Hierarchy
from pgmest.zeros import Combinations, Function


@dataclass(frozen=True, eq=False)
class TreeOrder:
    """The order of the codes of some attributes.

    Attributes:
        domain: The attributes.
        orders: For each attribute whose codes change places, the code at each place.
    """

    domain: Domain
    orders: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, domain: Domain) -> TreeOrder:
        """Return the order of the trees of a domain."""
        orders = {name: tree.order for name, tree in domain.hierarchies.items()}
        return cls(domain, {name: order for name, order in orders.items() if not _is_range(order)})

    @cached_property
    def ordered(self) -> Domain:
        """The attributes with their trees in the new order."""
        trees = [
            Hierarchy(name, {level: _numbered(groups[self.order(name)]) for level, groups in tree.levels.items()})
            for name, tree in self.domain.hierarchies.items()
        ]
        return Domain(dict(self.domain)).with_hierarchies(*trees) if trees else self.domain

    def curator(self, curator: Curator) -> Any:
        """Return a curator that is asked about ordered codes; the given one if there are no trees."""
        return OrderedCurator(curator, self) if self.domain.hierarchies else curator

    def order(self, name: str) -> np.ndarray:
        """Return the code at each place."""
        return self.orders[name] if name in self.orders else np.arange(self.domain[name])

    @cached_property
    def places(self) -> dict[str, np.ndarray]:
        """For each attribute of `orders`, the place of each code."""
        return {name: np.argsort(order) for name, order in self.orders.items()}

    def restored(self, data: Dataset) -> Dataset:
        """Return records of ordered codes with the codes of the domain."""
        columns = [
            self.orders[name].astype(code_type(self.domain[name]))[np.asarray(column)]
            if name in self.orders
            else column
            for name, column in zip(data.domain, data.columns, strict=True)
        ]
        return Dataset.from_codes(columns, self.domain, data.weights, trusted=True)

    def table(self, values: np.ndarray, clique: Clique) -> np.ndarray:
        """Return a table over ordered codes."""
        for axis, name in enumerate(clique):
            if name in self.orders:
                values = np.take(values, self.orders[name], axis=axis)
        return values

    def demand(self, demand: WorkloadDemand) -> WorkloadDemand:
        """Return the demand of a workload about ordered codes."""
        return _reordered(demand, self.orders)

    def tables(self, public: PublicTables | None) -> PublicTables | None:
        """Return public tables over ordered codes."""
        return None if public is None else replace(public, source=OrderedTables(public.source, self), _known={})

    def rules(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Return structural zeros about ordered codes."""
        return tuple(rule if not set(self.orders).intersection(rule.attributes) else self._rule(rule) for rule in rules)

    def _rule(self, rule: Rule) -> Rule:
        if isinstance(rule, Function):
            codes = self.table(rule.table(self.domain), (rule.of,))
            return replace(rule, codes=self.places[rule.attribute][codes] if rule.attribute in self.places else codes)
        return Combinations(rule.attributes, self.table(rule.mask(self.domain), rule.attributes), possible=False)

    # -- queries ------------------------------------------------------------------------------------------------------

    def asked(self, clique: Clique, query: Kron | None) -> Kron | None:
        """Return a query of `grouping_query` about ordered codes as one about the codes of the domain."""
        if not set(self.orders).intersection(clique):
            return query
        factors = {name: identity(self.domain[name]) for name in clique} if query is None else query.factors
        return Kron({name: self._moved(name, factor, self.places) for name, factor in factors.items()})

    def answered(self, measurement: LinearMeasurement) -> LinearMeasurement:
        """Return a measurement whose query was that of `asked` as one about ordered codes.

        The query for all codes of an attribute in another order is that for its codes, with the answers in this order.
        """
        codes = _codes_of(measurement)
        if codes is not None and measurement.noisy:
            place = codes[self.order(*measurement.clique)]
            stddev = measurement.stddev if np.ndim(measurement.stddev) == 0 else np.asarray(measurement.stddev)[place]
            return replace(measurement, values=measurement.values[place], stddev=stddev, query=None)
        if not set(self.orders).intersection(measurement.clique):
            return measurement
        factors = measurement.query.factors if isinstance(measurement.query, Kron) else {}
        assert set(factors) == set(measurement.clique)
        query = Kron({name: self._moved(name, factor, self.orders) for name, factor in factors.items()})
        plain = len(query.matrices) == 1 and isinstance(query.matrices[0], Identity)
        query = None if plain else query
        if not measurement.noisy:
            return LinearMeasurement.exact(measurement.values, measurement.clique, query)
        return replace(measurement, query=query)

    def factor(self, name: str, matrix: MatrixQuery) -> MatrixQuery:
        """Return a query about an attribute as one about its ordered codes."""
        return self._moved(name, matrix, self.orders)

    def _moved(self, name: str, factor: Any, known: Mapping[str, np.ndarray]) -> MatrixQuery:
        """Return a query with its columns taken in another order."""
        if name not in known:
            return factor
        if not isinstance(factor, Identity | Grouping):
            return as_matrix_query(np.ascontiguousarray(factor.matrix()[:, known[name]]))
        groups = factor.groups if isinstance(factor, Grouping) else np.arange(factor.cells)
        moved = groups[known[name]]
        return identity(len(moved)) if _is_range(moved) and is_identity(moved) else compress(len(moved), moved.tolist())


@dataclass(eq=False)
class OrderedCurator:
    """A curator that is asked about ordered codes.

    Attributes:
        curator: The curator of the records.
        order: The order.
    """

    curator: Curator
    order: TreeOrder

    def __post_init__(self) -> None:
        self.domain = self.order.ordered
        self.budget, self.neighbors, self.public_total = (
            self.curator.budget,
            self.curator.neighbors,
            self.curator.public_total,
        )
        self.structural_zeros = self.order.rules(self.curator.structural_zeros)

    @property
    def remaining(self) -> Any:
        """The part of the budget that is left."""
        return self.curator.remaining

    @property
    def fixed_total(self) -> int | None:
        """The number of records, if it is known."""
        return self.curator.fixed_total

    @property
    def invariants(self) -> tuple[LinearMeasurement, ...]:
        """The invariants, about codes in the order of the domain."""
        return self.curator.invariants

    @cached_property
    def known_branches(self) -> list[LinearMeasurement]:
        """The invariants about branches of single attributes, as answers of very little noise about ordered codes."""
        found = []
        for one in self.curator.invariants:
            name = one.clique[0] if len(one.clique) == 1 else ""
            exact = name in self.domain.hierarchies and bool(one.exact_rows.all())
            if exact and isinstance(one.query, MatrixQuery | Kron) and self.curator.known(one.clique) is None:
                matrix = one.query.matrices[0] if isinstance(one.query, Kron) else one.query
                query = Kron({name: self.order.factor(name, matrix)})
                found.append(LinearMeasurement(one.values, one.clique, KNOWN_STDDEV, query))
        return [*found, *self._known_levels({one.clique[0] for one in found})]

    def _known_levels(self, others: set[str]) -> Iterator[LinearMeasurement]:
        """Yield the levels that invariants about several attributes determine, without those of some attributes."""
        several = {name for one in self.curator.invariants if len(one.clique) > 1 for name in one.clique}
        for name, tree in self.curator.domain.hierarchies.items():
            if name in several - others and self.curator.known((name,)) is None:
                for labels in tree.levels.values():
                    query = compress(len(labels), labels.tolist())
                    asked = LinearMeasurement(np.zeros(query.rows), (name,), KNOWN_STDDEV, query)
                    exact = self.curator.exactly(asked)
                    if exact is not None:
                        ordered = Kron({name: self.order.factor(name, query)})
                        yield LinearMeasurement(exact.values, (name,), KNOWN_STDDEV, ordered)

    def known(self, clique: Clique) -> Factor | None:
        """Return the table of ordered codes that invariants determine, or None."""
        table = self.curator.known(clique)
        return None if table is None else Factor(table.domain, self.order.table(table.values, tuple(table.domain)))

    def unknown(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return the cliques whose tables no invariant determines."""
        return self.curator.unknown(cliques)

    @property
    def measurements(self) -> tuple[LinearMeasurement, ...]:
        """All measurements so far, about ordered codes."""
        return tuple(map(self.order.answered, self.curator.measurements))

    def measure_all(
        self, cliques: Sequence[Clique], spend: Budget, *, weights: Iterable[float], queries: Iterable[Kron | None]
    ) -> list[LinearMeasurement]:
        """Measure marginals as `Curator.measure_all` does."""
        asked = [self.order.asked(clique, query) for clique, query in zip(cliques, queries, strict=True)]
        found = self.curator.measure_all(cliques, spend, weights=weights, queries=asked)
        return list(map(self.order.answered, found))

    def select(self, candidates: Any, scores: GroupedDistances, *others: Any, **named: Any) -> Any:
        """Choose one of the distances as `Curator.select` does."""
        return self.curator.select(candidates, self.about_codes(scores), *others, **named)

    def about_codes(self, scores: GroupedDistances) -> GroupedDistances:
        """Return distances over groups of ordered codes as functions of the records."""
        orders = self.order.orders
        return GroupedDistances(
            tuple(
                replace(one, orders=tuple(orders.get(name) for name in one.clique))
                if set(orders).intersection(one.clique)
                else one
                for one in scores.of
            )
        )


@dataclass(frozen=True, eq=False)
class OrderedTables:
    """The marginals of a public table or model over ordered codes."""

    source: Any
    order: TreeOrder

    @property
    def domain(self) -> Domain:
        """The attributes, with their trees in the new order."""
        return self.order.ordered

    def project(self, clique: Clique) -> Factor:
        """Return a marginal."""
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Return several marginals."""
        tables = self.source.project_many(list(cliques))
        return [
            Factor(table.domain, self.order.table(table.values, c)) for c, table in zip(cliques, tables, strict=True)
        ]


def _codes_of(measurement: LinearMeasurement) -> np.ndarray | None:
    """Return the place of each code among answers about all codes of an attribute in another order, or None."""
    query = measurement.query
    factor = query.matrices[0] if isinstance(query, Kron) and len(query.matrices) == 1 else query
    return factor.groups if isinstance(factor, Grouping) and factor.rows == factor.cells else None


def _reordered(demand: WorkloadDemand, orders: Mapping[str, np.ndarray]) -> WorkloadDemand:
    """Return a demand about the codes at some places."""

    def ordered(factors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: rows[:, orders[name]] if name in orders else rows for name, rows in factors.items()}

    items, at_levels = (
        tuple(replace(item, factors=ordered(item.factors)) for item in items)
        for items in (demand.items, demand.at_levels)
    )
    return replace(demand, items=items, at_levels=at_levels)


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Return groups numbered in the order of their first values."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def _is_range(groups: np.ndarray) -> bool:
    return bool((np.diff(groups) >= 0).all())
