"""AIM: in each round, select and measure the marginal of the workload with the largest error for its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.adaptive import Adaptive, Annealing, Round, planned_rounds
from pgmest.mechanisms.emphasis import EMPHASIS_SHARE, emphasized_cliques, measure_carried
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.parameters import (
    CELLS,
    COUNT,
    FLAG,
    MEASURING_SHARE,
    MEGABYTES,
    METHOD,
    POSITIVE,
    TREE_MEGABYTES,
    optional,
    parameter,
)
from pgmest.mechanisms.result import Outcome
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries.levels import cliques_by_level, level_kron
from pgmest.solvers.solver import Solver
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload

MOST_PRESENCE_UNITS = 16
"""The most additional shares of a one-way marginal that structural zeros tie to other attributes."""


@dataclass(frozen=True, kw_only=True)
class AIM(Mechanism):
    r"""Adaptive and iterative measurements (McKenna, Mullins, Sheldon, Miklau 2022, Algorithms 2-4).

    The one-way marginals are measured first. Each round then selects a marginal r by the exponential mechanism with the
    score

    .. math:: w_r \, (\lVert M_r(x) - M_r(\hat x) \rVert_1 - \sqrt{2 / \pi} \, \sigma n_r),

    measures it and estimates the model again. The candidates are the subsets of the workload's cliques that keep the
    junction tree within its limit. n_r is the number of cells, sigma the standard deviation of the noise, and w_r the
    relevance to the workload, the sum of weight_c |r & c| over the cliques c. If a measurement moved the model less
    than noise alone would, later rounds cost four times as much, so their noise is half as large (annealing).

    Under (epsilon, delta) the budget is in mu: choices are a tenth of it, so noise is less than with a budget in rho.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = AIM(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Beyond the paper, marginals that matter (`Item.matters`, set by `pgmest.workloads.emphasized`) are measured after
    the one-way marginals, for a third of the remaining budget, if the noise leaves strong dependences visible. Without
    such marginals the algorithm is that of the paper, whatever the weights are.

    With structural zeros, an attribute that decides about the presence of others gets a larger share of the one-way
    marginals' budget (`presence_units`), which depends on the zeros only.

    The limit on the junction tree grows with the spent share of the budget, so that the first rounds, whose models are
    the least accurate, cannot fill the tree.

    Args:
        rounds: the number of rounds that the first round budget is planned for, by default 16 per attribute. Annealing
            makes the actual number smaller.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        max_cells: the most cells of a marginal of several attributes.
        method: the solver of the last estimate. "mirror_flow" stops early, which is closer to the truth than the
            optimum.
        tolerance: the relative tolerance of the solver in all rounds but the last. A coarse estimate suffices to rank
            the candidates.
        max_iterations: the most iterations of the solver in all rounds but the last.
        levels: whether the marginals of coarser levels of hierarchies, such as ("diagnosis@chapter", "sex"), are
            candidates, too, with the relevance of the marginal of their attributes.

    Raises:
        ArgumentError: if a parameter is out of its range or, before anything is spent, if the one-way marginals exceed
            `max_megabytes`.
    """

    rounds: int | None = parameter(None, optional(COUNT))
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    max_cells: float = parameter(1e6, CELLS)
    method: str | Solver[Any] = parameter("mirror_flow", METHOD)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(40, COUNT)
    levels: bool = parameter(False, FLAG)

    definition: ClassVar[str] = "zcdp"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = relevant_cliques(curator.domain, workload, self.max_cells)
        one_way = curator.unknown(clique for clique in relevance if len(clique) == 1)
        limit = tree_limit(curator, one_way, self.max_megabytes)
        if limit.tree.megabytes > self.max_megabytes:
            raise ArgumentError.of("max_megabytes", self.max_megabytes, f"at least {limit.tree.megabytes:.2g}")
        units = presence_units(one_way, curator)
        first = curator.budget / max(planned_rounds(self.rounds, curator.domain), sum(units) + 1)
        weights = units if curator.structural_zeros else None
        curator.measure_all(one_way, first * MEASURING_SHARE * sum(units), weights=weights)
        self._measure_emphasized(curator, workload, relevance, limit)
        effort = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        estimator = GraphicalModel(curator, limit, method=self.method, **effort)
        asked = {clique: relevance[clique] for clique in curator.unknown(relevance)} or relevance
        candidates = partial(self._candidates, curator, asked, estimator, {})
        chosen = Adaptive(candidates, Annealing(first), estimator).run(curator)
        return Outcome(estimator.model, {"chosen": chosen})

    def _measure_emphasized(
        self, curator: Curator, workload: Workload | None, relevance: Mapping[Clique, float], limit: TreeLimit
    ) -> None:
        """Measure those emphasized marginals that fit into the junction tree and that the budget can carry."""
        emphasized, cliques = emphasized_cliques(workload, curator.domain), []
        if not emphasized:
            return
        small, together = set(map(frozenset, relevance)), tree_limit(curator, limit.cliques, self.max_megabytes)
        for names in emphasized:
            clique = tuple(curator.domain.level(name).attribute for name in names)
            if frozenset(clique) in small and together.fitting([clique]):
                together.add(clique)
                cliques.append(names)
        counted = [measurement.values.sum() for measurement in curator.measurements] or [curator.fixed_total or 1.0]
        records = max(1.0, float(np.mean(counted)))
        for names in measure_carried(curator, cliques, curator.remaining * EMPHASIS_SHARE, records):
            limit.add(tuple(curator.domain.level(name).attribute for name in names))

    def _candidates(
        self,
        curator: Curator,
        relevance: Mapping[Clique, float],
        estimator: GraphicalModel,
        made: dict[float, dict[Clique, list[Candidate]]],
        turn: Round,
        model: Any,
    ) -> Sequence[Candidate]:
        """Return the candidates that fit into the junction tree, with the expected error of measuring them now.

        Args:
            curator: the curator of the records.
            relevance: the relevance of each marginal.
            estimator: the model and the limit on its junction tree.
            made: all candidates for the noise of the last round, as a cache.
            turn: the round.
            model: the current estimate.
        """
        noise = MEAN_ABSOLUTE * noise_for(turn.budget * MEASURING_SHARE, curator.neighbors).stddev
        moved = curator.neighbors.l1_sensitivity()
        if noise not in made:
            made.clear()
            made[noise] = {
                clique: [
                    Candidate(
                        item=item,
                        weight=weight,
                        expected_error=noise * item.rows(curator.domain),
                        sensitivity=weight * moved,
                    )
                    for item in self._items(curator.domain, clique)
                ]
                for clique, weight in relevance.items()
            }
        return [one for clique in estimator.admissible(relevance, turn.spent(curator)) for one in made[noise][clique]]

    def _items(self, domain: Domain, clique: Clique) -> list[Item]:
        """Return the marginal of a clique and, if `levels`, those of its coarser levels."""
        if not self.levels:
            return [Item(clique)]
        first, *coarser = cliques_by_level(domain, clique)
        return [Item(first), *(Item(clique, level_kron(domain, names)) for names in coarser)]


def presence_units(one_way: Sequence[Clique], curator: Curator) -> list[int]:
    """Return the share of each one-way marginal: 1, and 1 more for each rule of structural zeros that it decides.

    Without the zeros, rounds would measure pairs such as the size of a household and the age of its fourth member, and
    so the size many times. With the zeros only the size is needed, but no round would improve it: its error is spread
    over many pairs.

    Args:
        one_way: the one-way marginals.
        curator: the curator with the rules; each is decided by the attribute that is in the most rules.
    """
    rules = [curator.domain.clique(rule.attributes) for rule in curator.structural_zeros]
    degree = Counter(name for names in rules for name in names)
    decided = Counter(max(names, key=lambda name: degree[name]) for names in rules if len(names) > 1)
    return [1 + min(decided[name], MOST_PRESENCE_UNITS) for (name,) in one_way]


def relevant_cliques(domain: Domain, workload: Workload | None, max_cells: float) -> dict[Clique, float]:
    """Return the subsets of the workload's cliques with their relevance w_r, without those above the size limit.

    Args:
        domain: the attributes.
        workload: the workload; None for all pairs.
        max_cells: the most cells of a marginal of several attributes.
    """
    relevant = relevant_workload(domain, workload).closure()
    return {c: weight for c, weight in relevant.items() if len(c) == 1 or domain.size(c) <= max_cells}
