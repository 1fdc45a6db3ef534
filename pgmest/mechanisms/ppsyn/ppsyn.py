"""PPSyn, made private: measure marginals as sums over boxes that are only as fine as the noise allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.tree_limit import TreeLimit
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, beyond_noise, most_wrong
from pgmest.mechanisms.mechanism import Mechanism, Outcome
from pgmest.mechanisms.ppsyn.partitions import MergingPath, Partition, denoised, finest_grid, joint_mass
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries.workloads import all_kway, as_workload
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, kw_only=True)
class PPSyn(Mechanism):
    r"""Partition-based synthesis (Zhang, Deng, Yin; Algorithms 1-4), with partitions that cost no privacy.

    1. The one-way marginals are measured, with shares of the budget proportional to c^(2/3) for c cells. Neighboring
       codes are merged where the noisy answers themselves say that this brings them closer to the truth, and the sums
       are what the model is fitted to.
    2. From the model's one-way marginals a merging path is made for each attribute, and from these a splitting path for
       each candidate marginal: ever finer grids, heavy buckets split first.
    3. In each round every candidate r has the finest grid P_r whose boxes hold `fineness` times the noise's standard
       deviation on average. The candidate that contributes most per unit of budget is selected: all are offered at the
       same price, so that is the largest

       .. math:: w_r \, (\lVert P_r (M_r(x) - M_r(\hat x)) \rVert_1 - \sqrt{2 / \pi} \, \sigma \lvert P_r \rvert).

       Its sums over boxes are measured, as the linear measurement that they are: the model is not told that boxes are
       uniform, and fills them with what it knows from elsewhere.
    4. When the noise of a measurement is more than `eta` times what it changed, later rounds pay four times as much.

    **Why it is private.** As published, the partition of a marginal and the budget asked for it are computed from the
    true marginal and used without noise, and the score that selects it is an error divided by that budget, which no
    sensitivity bounds. Here the records are read by the curator alone, in two ways. (a) `measure`: queries and spends
    are functions of the domain, the workload and of answers that were paid for before: the paths come from the first
    model, the fineness from the price, the price from the model's changes; so each is the Gaussian mechanism chosen by
    post-processing. (b) `select`: the scores are those above. P_r sums disjoint cells, so ||P_r v||_1 <= ||v||_1, and
    the model and P_r are the same for neighbors: one record moves a score by at most w_r, and the largest w_r is what
    the exponential mechanism is calibrated to. Both compose adaptively under zCDP, and the curator refuses what the
    budget does not cover.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSyn(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Args:
        dimensions: marginals of at most so many attributes are measured (d). Without a workload all pairs matter.
        eta: how much noise a measurement may have, as a share of what it changes. At 1 as in AIM; below 1 the rounds
            are fewer and more accurate.
        fineness: how full boxes are, in standard deviations of the noise; 0 measures every cell.
        rounds: how many rounds the first prices are made for, by default 16 per attribute. There will be fewer.
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

    dimensions: int = 3
    eta: float = 1.0
    fineness: float = 4.0
    rounds: int | None = None
    one_way: float = 0.1
    measuring: float = 0.9
    max_megabytes: float = 80.0
    max_cells: float = 1e6
    tolerance: float = 1e-2
    max_iterations: int = 60

    definition: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dimensions", "rounds"):
            number = getattr(self, name)
            if not (number is None and name == "rounds") and (not isinstance(number, int) or number < 1):
                raise ArgumentError.of(name, number, "a positive integer")
        for name in ("one_way", "measuring"):
            if not 0 < getattr(self, name) < 1:
                raise ArgumentError.of(name, getattr(self, name), "a share between 0 and 1")
        if not 0 < self.eta <= 1:
            raise ArgumentError.of("eta", self.eta, "a number above 0, and at most 1")
        if not self.fineness >= 0:
            raise ArgumentError.of("fineness", self.fineness, "a number of at least 0")
        for name in ("max_megabytes", "max_cells", "tolerance"):
            if not getattr(self, name) > 0:
                raise ArgumentError.of(name, getattr(self, name), "a positive number")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        relevance = self.relevance(curator.domain, workload)
        ruled = [rule.attributes for rule in curator.structural_zeros]
        one_way = [clique for clique in relevance if len(clique) == 1]
        limit = TreeLimit(curator.domain, [*one_way, *ruled], self.max_megabytes)
        used = self.measure_one_ways(curator, relevance)
        model = self.estimate(curator, used)
        paths = merging_paths(model)
        price = curator.remaining / (self.rounds or 16 * len(curator.domain))
        chosen: list[Clique] = []
        last = False
        while not last:
            last = curator.remaining / price < 2
            price = curator.remaining if last else price
            spent = 1 - (curator.remaining - price) / curator.budget
            offers = self._offers(curator, model, paths, limit.fitting(relevance, spent), price)
            clique = self._select(curator, model, offers, relevance, price)
            spend = curator.remaining if last else price * self.measuring
            measurement = curator.measure(clique, spend, offers[clique].query)
            used.append(measurement)
            limit.add(clique)
            chosen.append(clique)
            model, before = self.estimate(curator, used, model, last), model
            changed = np.abs(measurement.answer(model.project(clique)) - measurement.answer(before.project(clique)))
            if self.eta * float(changed.sum()) <= MEAN_ABSOLUTE * float(np.mean(measurement.stddev)) * measurement.rows:
                price = price * 4
        return Outcome(model, {"chosen": chosen})

    def relevance(self, domain: Domain, workload: Any) -> dict[Clique, float]:
        """What could be measured, with its relevance to the workload (as in AIM)."""
        relevant = as_workload(
            domain, all_kway(domain, min(2, len(domain))) if workload is None else workload
        ).closure()
        return {
            clique: weight
            for clique, weight in relevant.items()
            if weight > 0
            and (len(clique) == 1 or (len(clique) <= self.dimensions and domain.size(clique) <= self.max_cells))
        }

    def measure_one_ways(self, curator: Curator, relevance: Mapping[Clique, float]) -> list[LinearMeasurement]:
        """The one-way marginals, with budgets proportional to c^(2/3), and neighbors merged."""
        cliques = [clique for clique in relevance if len(clique) == 1]
        weights = least_error_weights(curator.domain, cliques, Rho)
        measured = curator.measure_all(cliques, curator.budget * self.one_way, weights=weights)
        return [denoised(measurement) for measurement in measured]

    def estimate(
        self, curator: Curator, used: Sequence[LinearMeasurement], init: Model | None = None, last: bool = False
    ) -> Model:
        """The model of the measurements used, starting from the last round's."""
        effort = 10 if last else 1
        return estimate_measured(
            curator,
            init,
            measurements=used,
            tolerance=self.tolerance / effort,
            max_iterations=self.max_iterations * effort,
        )

    def _offers(
        self,
        curator: Curator,
        model: Model,
        paths: Mapping[str, MergingPath],
        candidates: Sequence[Clique],
        price: Budget,
    ) -> dict[Clique, Partition]:
        """The grid on which each candidate would be measured at this price."""
        fullness = self.fineness * noise_for(price * self.measuring, curator.neighbors).stddev
        buckets = model.total / fullness if fullness else np.inf
        return {clique: Partition.of_grid(paths, clique, finest_grid(paths, clique, buckets)) for clique in candidates}

    def _select(
        self,
        curator: Curator,
        model: Model,
        offers: Mapping[Clique, Partition],
        relevance: Mapping[Clique, float],
        price: Budget,
    ) -> Clique:
        """The candidate whose sums over boxes the model gets most wrong, beyond the noise of measuring them."""
        noise = MEAN_ABSOLUTE * noise_for(price * self.measuring, curator.neighbors).stddev
        weights = {clique: relevance[clique] for clique in offers}

        def gain(clique: Clique, errors: np.ndarray) -> float:
            return beyond_noise(offers[clique].sums(errors), noise)

        return most_wrong(curator, model, weights, gain, price * (1 - self.measuring))


def merging_paths(model: Model) -> dict[str, MergingPath]:
    """A path for each attribute that merges the lightest neighbors first, with costs as shares of the records."""
    return {name: MergingPath.of(model.project((name,)).values / model.total, joint_mass) for name in model.domain}
