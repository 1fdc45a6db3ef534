"""The choice of a strategy: weighted marginals with shared queries, or a union of products, by expected error."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import Neighbors
from pgmest.queries import Kron
from pgmest.strategies.attribute import AttributeStrategy
from pgmest.strategies.demand import Demand, demands_of
from pgmest.strategies.least_squares import LeastSquaresModel
from pgmest.strategies.p_identity import p_identity
from pgmest.strategies.reconstruction import least_squares_parts
from pgmest.strategies.shared import SharedStrategy, allocate
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload, closure

MOST_CANDIDATES = 2048
"""Subsets of the workload's cliques are candidates if the cliques have at most 8 times this many subsets in all.

If there are more, the candidates are the cliques, single attributes and the total. The factor 8 allows for subsets that
several cliques share.
"""

LARGEST_CANDIDATE = 1 << 20
"""The clique of all attributes of the workload is a candidate if it has at most this many cells."""

CYCLES = 3
"""The number of rounds in which the strategies of the attributes are optimized in turn (OPT_x)."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """Groups of queries to measure, each with its share of the budget; each group answers a part of the workload.

    Attributes:
        name: "marginals", weighted marginals in one group (OPT_M, OPT_x), or "union", a union of products (OPT_+).
        groups: pairs of a strategy and its share of the budget.
    """

    name: str
    groups: tuple[tuple[SharedStrategy, float], ...]

    @property
    def cliques(self) -> list[Clique]:
        """The cliques to measure, group by group."""
        return [clique for group, _ in self.groups for clique in group.cliques]

    @property
    def queries(self) -> list[Kron | None]:
        """The query on each of the cliques; None for the cells."""
        return [group.query(clique) for group, _ in self.groups for clique in group.cliques]

    @property
    def shares(self) -> list[float]:
        """The share of the budget of each of the queries."""
        return [part * share for group, part in self.groups for share in group.shares.values()]

    def expected_error(self, spend: Budget, neighbors: Neighbors) -> float:
        """Return the expected sum of squared errors of all weighted queries, in counts^2, of `least_squares`."""
        parts = spend.split([share for _, share in self.groups])
        errors = [group.expected_error(part, neighbors) for (group, _), part in zip(self.groups, parts, strict=True)]
        return float(sum(errors))

    def least_squares(self, domain: Domain, measurements: Sequence[LinearMeasurement]) -> LeastSquaresModel:
        """Return the model of least squares, group by group, from measurements in the order of `cliques`."""
        rest, parts = list(measurements), []
        for group, _ in self.groups:
            own, rest = rest[: len(group.cliques)], rest[len(group.cliques) :]
            parts.append(least_squares_parts(domain, group, own))
        return LeastSquaresModel(tuple(parts))


def select_strategy(domain: Domain, workload: Workload, kind: type[Budget], neighbors: Neighbors) -> list[Strategy]:
    """Return the candidate strategies in order of increasing expected error.

    Args:
        domain: the attributes.
        workload: the queries: marginals, and Kronecker products of prefixes, ranges or other queries.
        kind: Epsilon for Laplace noise, another type of budget for Gaussian noise.
        neighbors: the neighboring relation.

    Raises:
        QueryError: an item's queries are not a Kronecker product.
    """
    demands = demands_of(domain, workload)
    order = 1 if kind is Epsilon else 2
    shared = shared_queries(domain, demands, order)
    candidates = _candidates(domain, demands, neighbors)
    strategies = [Strategy("marginals", ((allocate(shared, demands, candidates, kind, neighbors), 1.0),))]
    groups: dict[Clique, list[Demand]] = defaultdict(list)
    for demand in demands:
        groups[demand.clique].append(demand)
    if len(groups) > 1:
        parts = [
            allocate(shared_queries(domain, group, order), group, [clique], kind, neighbors)
            for clique, group in groups.items()
            if clique or neighbors.count_sensitivity
        ]
        strategies.append(_union(parts, kind, neighbors))
    unit = kind(1.0)  # type: ignore[call-arg]
    return sorted(strategies, key=lambda strategy: strategy.expected_error(unit, neighbors))


def _union(parts: Sequence[SharedStrategy], kind: type[Budget], neighbors: Neighbors) -> Strategy:
    """Return the union of products with the optimal shares.

    The sum of the errors e / share^p is least for shares proportional to e^(1 / (p + 1)), with p = 2 for Laplace noise
    and p = 1 for Gaussian noise.
    """
    power = 1 / 3 if kind is Epsilon else 1 / 2
    unit = kind(1e-4)  # type: ignore[call-arg]
    weights = np.array([part.expected_error(unit, neighbors) ** power for part in parts])
    return Strategy("union", tuple(zip(parts, (weights / weights.sum()).tolist(), strict=True)))


def shared_queries(domain: Domain, demands: Sequence[Demand], order: int) -> dict[str, AttributeStrategy]:
    """Return a strategy for each attribute, optimized in turn for the demands while the others are fixed (OPT_x)."""
    names = [name for name in domain if any(name in demand.clique for demand in demands)]
    asked = [name for name in names if any(demand.grams.get(name) is not None for demand in demands)]
    chosen = {name: AttributeStrategy(domain[name]) for name in names}
    for cycle in range(CYCLES if len(asked) > 1 else 1):
        for name in asked:
            summed = np.zeros((domain[name], domain[name]))
            for demand in demands:
                if name in demand.clique:
                    gram = demand.grams[name]
                    summed += _others(chosen, demand, name, order) * (np.eye(domain[name]) if gram is None else gram)
            chosen[name] = AttributeStrategy.rounded(p_identity(summed, order, seed=cycle))
    return chosen


def _others(chosen: Mapping[str, AttributeStrategy], demand: Demand, name: str, order: int) -> float:
    """Return the factor of a demand's error from its other attributes and its weight."""
    errors = demand.weight**2
    for other in demand.clique:
        if other != name:
            matrix = chosen[other].matrix
            norm = 1.0 if matrix is None else float(np.linalg.norm(matrix, order, axis=0).max())
            errors *= sum(chosen[other].errors(demand.grams[other])) * norm**2
    return errors


def _candidates(domain: Domain, demands: Sequence[Demand], neighbors: Neighbors) -> list[Clique]:
    """Return the cliques that may be measured: subsets of the workload's cliques, and the clique of all attributes."""
    cliques = list(dict.fromkeys(demand.clique for demand in demands))
    names = {name for clique in cliques for name in clique}
    if sum(2 ** len(clique) for clique in cliques) <= 8 * MOST_CANDIDATES:
        found = closure(cliques)
    else:
        found = ((), *((name,) for name in names), *cliques)
    everything = domain.ordered(names)
    if math.prod(domain[name] for name in everything) <= LARGEST_CANDIDATE:
        found = (*found, everything)
    ordered = dict.fromkeys(map(domain.ordered, found))
    # Under Replace the total is public, because no individual changes it.
    return [clique for clique in ordered if clique or neighbors.count_sensitivity]
