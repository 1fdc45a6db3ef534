"""PPSyn, made private: measure marginals as sums over boxes, as fine as the noise allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.adaptive import Adaptive, Annealing, Round, planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import (
    CELLS,
    COUNT,
    MEASURING_SHARE,
    MEGABYTES,
    NOT_NEGATIVE,
    POSITIVE,
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
from pgmest.tables.domain import Clique
from pgmest.workloads import Item, Workload

ONE_WAY_SHARE = 0.1
"""The share of the budget for the one-way marginals."""

UP_TO_ONE = number("a number above 0, and at most 1", lambda value: 0 < value <= 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedMarginal(Candidate):
    """A candidate marginal that is measured as sums over boxes.

    Attributes:
        partition: the partition of the cells into boxes.
    """

    partition: Partition

    @property
    def measured(self) -> LinearQuery | None:
        """The query of the sums over boxes; None if every cell is a box."""
        return self.partition.query

    @property
    def groups(self) -> np.ndarray:
        """The box of each cell."""
        return self.partition.boxes


@dataclass(frozen=True, kw_only=True)
class PPSyn(Mechanism):
    r"""Partition-based synthesis, a private redesign of PPSyn (Zhang, Deng, Yin): partitions follow from paid answers.

    The published Algorithms 1 to 4 are not private. Their letter is `experiments/ppsyn/published.py`, for comparison.

    1. The one-way marginals are measured with a tenth of the budget, in shares proportional to c^(2/3) for c cells.
       Neighboring codes are merged if the noisy answers indicate that the merge lowers the error (`denoised`), and the
       model is fitted to the sums.
    2. The model's one-way marginals determine a merging path for each attribute, and the merging paths a splitting path
       for each candidate marginal: a sequence of finer grids that splits heavy buckets first.
    3. Each round gives every candidate r the finest grid P_r whose mean box count is at least `fineness` standard
       deviations of the noise. All candidates cost the round budget, so the largest contribution per unit of budget is
       the largest

       .. math:: w_r \, (\lVert P_r (M_r(x) - M_r(\hat x)) \rVert_1 - \sqrt{2 / \pi} \, \sigma \lvert P_r \rvert),

       which the exponential mechanism selects. The sums over boxes are measured and used as a linear measurement; the
       model need not be uniform inside a box.
    4. If the noise of a measurement exceeds `eta` times the change of the model, later rounds cost four times as much.

    **Privacy.** The published algorithm computes the partition of a marginal and its required budget from the true
    marginal, without noise, and its score divides an error by that budget, so no sensitivity bounds the score. Here the
    curator reads the records in two ways. (a) `measure`: queries and costs are functions of the domain, the workload
    and released answers. The paths follow from the first model, the fineness from the round budget, and the round
    budget from the changes of the model. So each measurement is a Gaussian mechanism chosen by post-processing.
    (b) `select`: the scores are those above. P_r sums disjoint cells, so ||P_r v||_1 <= ||v||_1, and the model and P_r
    are the same for neighbors. So one record moves a score by at most w_r, and the exponential mechanism is calibrated
    to the largest w_r. Both compose adaptively.

    Under (epsilon, delta) the budget is in mu: choices are a tenth of it, so noise is less than with a budget in rho.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSyn(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Args:
        eta: the largest noise of a measurement, as a fraction of the change of the model. 1 is AIM's rule; a smaller
            eta makes fewer and more accurate rounds.
        fineness: the least mean count of a box, in standard deviations of the noise; 0 measures every cell.
        rounds: the number of rounds that the first round budget is planned for, by default 16 per attribute. Annealing
            makes the actual number smaller.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        max_cells: the most cells of a marginal of several attributes.
        tolerance: the relative tolerance of the solver in each round; a tenth of it in the last round.
        max_iterations: the most iterations of the solver in each round; ten times as many in the last round. Most
            rounds end at this limit, as sums over boxes have no sharp certificate.

    Raises:
        ArgumentError: if a parameter is out of its range.
    """

    eta: float = parameter(1.0, UP_TO_ONE)
    fineness: float = parameter(4.0, NOT_NEGATIVE)
    rounds: int | None = parameter(None, optional(COUNT))
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    max_cells: float = parameter(1e6, CELLS)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(60, COUNT)

    definition: ClassVar[str] = "zcdp"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = relevant_cliques(curator.domain, workload, self.max_cells)
        estimator = self._started(curator, relevance)
        paths = merging_paths(estimator.model)
        first = curator.remaining / planned_rounds(self.rounds, curator.domain)
        asked = {clique: relevance[clique] for clique in curator.unknown(relevance)} or relevance
        candidates = partial(self._candidates, curator, asked, Grids(paths), estimator, {})
        chosen = Adaptive(candidates, Annealing(first, self.eta), estimator).run(curator)
        return Outcome(estimator.model, {"chosen": chosen})

    def _started(self, curator: Curator, relevance: Mapping[Clique, float]) -> GraphicalModel:
        """Return the model of the one-way marginals, measured with c^(2/3) shares and denoised."""
        one_way = curator.unknown(clique for clique in relevance if len(clique) == 1)
        limit = tree_limit(curator, one_way, self.max_megabytes)
        weights = least_error_weights(curator.domain, one_way, Rho)
        measured = curator.measure_all(one_way, curator.budget * ONE_WAY_SHARE, weights=weights)
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
        """Return the candidates that fit into the junction tree, each with the finest grid that the noise allows.

        Args:
            curator: the curator of the records.
            relevance: the relevance of each marginal.
            grids: the grids of all marginals.
            estimator: the model and the limit on its junction tree.
            made: the candidates of earlier rounds, which are returned again if they have not changed.
            turn: the round.
            model: the current estimate.
        """
        stddev = noise_for(turn.budget * MEASURING_SHARE, curator.neighbors).stddev
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
    """Return the path of each attribute that merges the lightest neighbors first, with costs as fractions."""
    return {name: MergingPath.of(model.project((name,)).values / model.total, joint_mass) for name in model.domain}
