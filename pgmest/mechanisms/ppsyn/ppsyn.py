"""PPSyn, made private: measure marginals as sums over boxes that are only as fine as the noise allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from pgmest.mechanisms.adaptive import Adaptive, Annealing, Round, planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import (
    CELLS,
    COUNT,
    MEASURING,
    MEGABYTES,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TREE_MEGABYTES,
    number,
    optional,
    parameter,
)
from pgmest.mechanisms.ppsyn.partitions import Grids, MergingPath, Partition, denoised, joint_mass
from pgmest.mechanisms.result import Outcome
from pgmest.models.distribution import Distribution
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries import LinearQuery
from pgmest.queries.workloads import Item, Workload
from pgmest.tables.domain import Clique

UP_TO_ONE = number("a number above 0, and at most 1", lambda value: 0 < value <= 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedMarginal(Candidate):
    """A marginal that would be measured as sums over boxes.

    Attributes:
        partition: the boxes.
    """

    partition: Partition

    @property
    def measured(self) -> LinearQuery | None:
        """The sums over the boxes."""
        return self.partition.query

    @property
    def groups(self) -> np.ndarray:
        """The box of each cell."""
        return self.partition.boxes


@dataclass(frozen=True, kw_only=True)
class PPSyn(Mechanism):
    r"""Partition-based synthesis (Zhang, Deng, Yin; Algorithms 1-4), with partitions that cost no privacy.

    1. The one-way marginals are measured, with shares of the budget proportional to c^(2/3) for c cells. Neighboring
       codes are merged where the noisy answers themselves say that this brings them closer to the truth, and the sums
       are what the model is fitted to.
    2. From the model's one-way marginals a merging path is made for each attribute, and from these a splitting path for
       each candidate marginal: ever finer grids, heavy buckets split first.
    3. In each round every candidate r has the finest grid P_r whose boxes hold `fineness` times the noise's standard
       deviation on average. The candidate that contributes most per unit of budget is selected: all would cost the
       round budget, so that is the largest

       .. math:: w_r \, (\lVert P_r (M_r(x) - M_r(\hat x)) \rVert_1 - \sqrt{2 / \pi} \, \sigma \lvert P_r \rvert).

       Its sums over boxes are measured, as the linear measurement that they are: boxes are not
       assumed to be uniform in the model, which other measurements shape inside of them.
    4. When the noise of a measurement is more than `eta` times what it changed, later rounds cost four times as much.

    **Why it is private.** As published, the partition of a marginal and the budget asked for it are computed from the
    true marginal and used without noise, and the score that selects it is an error divided by that budget, which no
    sensitivity bounds. Here the records are read by the curator alone, in two ways. (a) `measure`: queries and spends
    are functions of the domain, the workload and of answers that were paid for before: the paths come from the first
    model, the fineness from the round budget, the round budget from the model's changes; so each is the Gaussian
    mechanism chosen by post-processing. (b) `select`: the scores are those above. P_r sums disjoint cells, so
    ||P_r v||_1 <= ||v||_1, and
    the model and P_r are the same for neighbors: one record moves a score by at most w_r, and the largest w_r is what
    the exponential mechanism is calibrated to. Both compose adaptively under zCDP, and the curator refuses what the
    budget does not cover.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSyn(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Args:
        dimensions: the most attributes of a marginal that is measured (d). Without a workload all pairs matter.
        eta: how much noise a measurement may have, as a share of what it changes. At 1 as in AIM; below 1 the rounds
            are fewer and more accurate.
        fineness: how full boxes are, in standard deviations of the noise; 0 measures every cell.
        rounds: how many rounds the first round budgets are made for, by default 16 per attribute. There will be fewer.
        one_way: the share of the budget for the one-way marginals.
        measuring: the share of a round that pays for the measurement; the rest pays for the selection.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        max_cells: marginals with more cells are not measured.
        tolerance: of the solver in each round; a tenth of it in the last.
        max_iterations: of the solver in each round; ten times as many in the last. (Sums over boxes have no sharp
            certificate, so that most rounds end here.)

    Raises:
        ArgumentError: a parameter out of its range.
    """

    dimensions: int = parameter(3, COUNT)
    eta: float = parameter(1.0, UP_TO_ONE)
    fineness: float = parameter(4.0, NOT_NEGATIVE)
    rounds: int | None = parameter(None, optional(COUNT))
    one_way: float = parameter(0.1, SHARE)
    measuring: float = parameter(MEASURING, SHARE)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    max_cells: float = parameter(1e6, CELLS)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(60, COUNT)

    definition: ClassVar[str] = "zcdp"
    accountings: ClassVar[tuple[str, ...]] = ("auto", "zcdp", "gdp")

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = relevant_cliques(curator.domain, workload, self.max_cells, self.dimensions)
        estimator = self._started(curator, relevance)
        paths = merging_paths(estimator.model)
        first = curator.remaining / planned_rounds(self.rounds, curator.domain)
        candidates = partial(self._candidates, curator, relevance, Grids(paths), estimator, {})
        chosen = Adaptive(candidates, Annealing(first, self.eta), estimator, self.measuring).run(curator)
        return Outcome(estimator.model, {"chosen": chosen})

    def _started(self, curator: Curator, relevance: Mapping[Clique, float]) -> GraphicalModel:
        """The model of the one-way marginals, measured with budgets proportional to c^(2/3), and neighbors merged."""
        one_way = [clique for clique in relevance if len(clique) == 1]
        limit = tree_limit(curator, one_way, self.max_megabytes)
        weights = least_error_weights(curator.domain, one_way, Rho)
        measured = curator.measure_all(one_way, curator.budget * self.one_way, weights=weights)
        return GraphicalModel(
            curator,
            limit,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            final_iterations=10 * self.max_iterations,
            method=None,
            first=[denoised(measurement) for measurement in measured],
        )

    def _candidates(
        self,
        curator: Curator,
        relevance: Mapping[Clique, float],
        grids: Grids,
        estimator: GraphicalModel,
        made: dict[Clique, PartitionedMarginal],
        turn: Round,
        model: Distribution,
    ) -> Sequence[Candidate]:
        """The marginals for which there is room, each on the grid on which this round's noise lets it be measured.

        Args:
            made: the candidates of rounds before; those that have not changed are offered again.
        """
        stddev = noise_for(turn.budget * self.measuring, curator.neighbors).stddev
        buckets = model.total / (self.fineness * stddev) if self.fineness else np.inf
        moved = curator.neighbors.l1_sensitivity()
        noise = MEAN_ABSOLUTE * stddev
        candidates = []
        for clique in estimator.admissible(relevance, turn.spent(curator)):
            partition, before = grids.finest(clique, buckets), made.get(clique)
            error = noise * partition.count
            if before is None or before.partition is not partition or before.expected_error != error:
                before = made[clique] = PartitionedMarginal(
                    item=Item(clique) if before is None else before.item,
                    weight=relevance[clique],
                    expected_error=error,
                    sensitivity=relevance[clique] * moved,
                    partition=partition,
                )
            candidates.append(before)
        return candidates


def merging_paths(model: Distribution) -> dict[str, MergingPath]:
    """A path for each attribute that merges the lightest neighbors first, with costs as shares of the records."""
    return {name: MergingPath.of(model.project((name,)).values / model.total, joint_mass) for name in model.domain}
