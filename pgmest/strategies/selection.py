"""Choosing a strategy: weighted marginals with shared queries, or a union of products, whichever promises less."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.least_squares import LeastSquaresModel
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import Neighbors
from pgmest.queries import Kron
from pgmest.queries.workloads import Workload, closure
from pgmest.strategies.attribute import AttributeStrategy
from pgmest.strategies.demand import Demand, demands_of
from pgmest.strategies.p_identity import p_identity
from pgmest.strategies.reconstruction import least_squares_parts
from pgmest.strategies.shared import SharedStrategy, allocate
from pgmest.tables.domain import Clique, Domain

MOST_CANDIDATES = 2048
"""Where the workload's cliques have more subsets, only the cliques, single attributes and the total are candidates."""

LARGEST_CANDIDATE = 1 << 20
"""The product of all the workload's attributes is a candidate where it has at most this many cells."""

CYCLES = 3
"""How often the strategies of the attributes are optimized in turn (OPT_x)."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """What to measure: groups, each for a part of the workload, with its share of the budget and answers of its own.

    Attributes:
        name: "marginals", weighted marginals of one group (OPT_M, OPT_x), or "union" of products (OPT_+).
        groups: each with its share of the budget.
    """

    name: str
    groups: tuple[tuple[SharedStrategy, float], ...]

    @property
    def cliques(self) -> list[Clique]:
        """What is measured, group by group."""
        return [clique for group, _ in self.groups for clique in group.cliques]

    @property
    def queries(self) -> list[Kron | None]:
        """What is asked about each of them; None for the cells."""
        return [group.query(clique) for group, _ in self.groups for clique in group.cliques]

    @property
    def shares(self) -> list[float]:
        """The share of the budget of each of them."""
        return [part * share for group, part in self.groups for share in group.shares.values()]

    def expected_error(self, spend: Budget, neighbors: Neighbors) -> float:
        """The expected sum of squared errors of all weighted queries, in counts^2: exact for least squares by group."""
        parts = spend.split([share for _, share in self.groups])
        errors = [group.expected_error(part, neighbors) for (group, _), part in zip(self.groups, parts, strict=True)]
        return float(sum(errors))

    def least_squares(self, domain: Domain, measurements: Sequence[LinearMeasurement]) -> LeastSquaresModel:
        """The answers of least squares; measurements in the order of `cliques`."""
        rest, answers = list(measurements), []
        for group, _ in self.groups:
            mine, rest = rest[: len(group.cliques)], rest[len(group.cliques) :]
            answers.append(least_squares_parts(domain, group, mine))
        return LeastSquaresModel(tuple(answers))


def select_strategy(
    domain: Domain, workload: Workload, kind: type[Budget], neighbors: Neighbors, seed: int = 0
) -> list[Strategy]:
    """The strategies tried, that of least expected error first.

    Args:
        domain: the attributes.
        workload: the queries: marginals, and Kronecker products of prefixes, ranges or other queries.
        kind: Epsilon for Laplace noise, other types of budget for Gaussian noise.
        neighbors: the relation.
        seed: of the random starts.

    Raises:
        QueryError: an item that is no Kronecker product.
    """
    demands = demands_of(domain, workload)
    order = 1 if kind is Epsilon else 2
    shared = shared_queries(domain, demands, order, seed)
    candidates = _candidates(domain, demands, neighbors)
    strategies = [Strategy("marginals", ((allocate(shared, demands, candidates, kind, neighbors), 1.0),))]
    groups: dict[Clique, list[Demand]] = defaultdict(list)
    for demand in demands:
        groups[demand.clique].append(demand)
    if len(groups) > 1:
        parts = [
            allocate(shared_queries(domain, group, order, seed), group, [clique], kind, neighbors)
            for clique, group in groups.items()
            if clique or neighbors.count_sensitivity
        ]
        strategies.append(_union(parts, kind, neighbors))
    unit = kind(1.0)  # type: ignore[call-arg]
    return sorted(strategies, key=lambda strategy: strategy.expected_error(unit, neighbors))


def _union(parts: Sequence[SharedStrategy], kind: type[Budget], neighbors: Neighbors) -> Strategy:
    """Products side by side: the errors e / share^p add up to the least where the shares are as e^(1 / (p + 1))."""
    power = 1 / 3 if kind is Epsilon else 1 / 2
    unit = kind(1e-4)  # type: ignore[call-arg]
    weights = np.array([part.expected_error(unit, neighbors) ** power for part in parts])
    return Strategy("union", tuple(zip(parts, (weights / weights.sum()).tolist(), strict=True)))


def shared_queries(
    domain: Domain, demands: Sequence[Demand], order: int, seed: int = 0
) -> dict[str, AttributeStrategy]:
    """One strategy per attribute, optimized in turn for what the demands ask, with the others as they are (OPT_x)."""
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
            chosen[name] = AttributeStrategy.rounded(p_identity(summed, order, seed=seed + cycle))
    return chosen


def _others(chosen: Mapping[str, AttributeStrategy], demand: Demand, name: str, order: int) -> float:
    """The error that a demand has on its other attributes, with the weight of the demand."""
    errors = demand.weight**2
    for other in demand.clique:
        if other != name:
            matrix = chosen[other].matrix
            norm = 1.0 if matrix is None else float(np.linalg.norm(matrix, order, axis=0).max())
            errors *= sum(chosen[other].errors(demand.grams[other])) * norm**2
    return errors


def _candidates(domain: Domain, demands: Sequence[Demand], neighbors: Neighbors) -> list[Clique]:
    """What may be measured: the subsets of the workload's cliques, and all their attributes together where small."""
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
    # Under Replace the total is public, and no individual moves its answer.
    return [clique for clique in ordered if clique or neighbors.count_sensitivity]
