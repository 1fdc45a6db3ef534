"""AIM: measure, round after round, the marginal of the workload that the model gets most wrong for its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.tree_limit import TreeLimit
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, beyond_noise, most_wrong
from pgmest.mechanisms.mechanism import Mechanism, Outcome
from pgmest.models.exact import Model
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries.workloads import Workload, all_kway, as_workload
from pgmest.tables.domain import Clique

TOLERANCE = 1e-2
"""How exactly each round's estimate is fitted, if its iterations are enough."""


@dataclass(frozen=True, kw_only=True)
class AIM(Mechanism):
    r"""Adaptive and iterative measurements (McKenna, Mullins, Sheldon, Miklau 2022, Algorithms 2-4).

    The one-way marginals first. Then in each round a marginal r among all subsets of the workload's cliques, of those
    that keep the junction tree within its limit, is selected by the score

    .. math:: w_r \, (\lVert M_r(x) - M_r(\hat x) \rVert_1 - \sqrt{2 / \pi} \, \sigma n_r)

    with n_r cells, the noise sigma that it would be measured with, and the relevance w_r to the workload (the sum over
    its cliques c of weight_c |r & c|). It is measured and the model estimated again. When the model moved less than
    noise alone would move it, the rounds after it pay four times as much, so that their noise is half as large.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = AIM(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    The limit on the tree grows with the share of the budget that is spent: the first rounds, which know least, cannot
    use it up.

    Args:
        rounds: how many rounds the first prices are made for, by default 16 per attribute. There will be fewer.
        measuring: the share of a round that pays for the measurement; the rest pays for the selection (alpha).
        max_megabytes: the largest junction tree, 8 bytes a cell.
        max_cells: marginals with more cells are not measured.
        method: the solver of the last estimate. "mirror_flow", stopped early, is closer to the truth than the optimum.
        round_iterations: the most iterations of each round's estimate, which only has to show what is most wrong; each
            starts from the last one.

    Raises:
        ArgumentError: a parameter out of its range; before anything is spent, one-way marginals that
            exceed `max_megabytes` already.
    """

    rounds: int | None = None
    measuring: float = 0.9
    max_megabytes: float = 80.0
    max_cells: float = 1e6
    method: str = "mirror_flow"
    round_iterations: int = 200

    definition: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is not None and (not isinstance(self.rounds, int) or self.rounds < 1):
            raise ArgumentError.of("rounds", self.rounds, "a positive integer, or None")
        if not 0 < self.measuring < 1:
            raise ArgumentError.of("measuring", self.measuring, "a share between 0 and 1")
        for name in ("max_megabytes", "max_cells", "round_iterations"):
            if not getattr(self, name) > 0:
                raise ArgumentError.of(name, getattr(self, name), "a positive number")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        relevance = self._relevance(curator, workload)
        one_way = [clique for clique in relevance if len(clique) == 1]
        ruled = [rule.attributes for rule in curator.structural_zeros]
        limit = TreeLimit(curator.domain, [*one_way, *ruled], self.max_megabytes)
        if limit.tree.megabytes > self.max_megabytes:
            raise ArgumentError.of("max_megabytes", self.max_megabytes, f"at least {limit.tree.megabytes:.2g}")
        rounds = self.rounds or 16 * len(curator.domain)
        price = curator.budget / max(rounds, len(one_way) + 1)
        curator.measure_all(one_way, price * self.measuring * len(one_way))
        model = estimate_measured(curator, tolerance=TOLERANCE, max_iterations=self.round_iterations)
        chosen: list[Clique] = []
        last = False
        while not last:
            last = curator.remaining / price < 2
            price = curator.remaining if last else price
            spent = 1 - (curator.remaining - price) / curator.budget
            candidates = {clique: relevance[clique] for clique in limit.fitting(relevance, spent)}
            clique = self._select(curator, model, candidates, price)
            measurement = curator.measure(clique, curator.remaining if last else price * self.measuring)
            limit.add(clique)
            chosen.append(clique)
            before = model
            model = estimate_measured(curator, model, tolerance=TOLERANCE, max_iterations=self.round_iterations)
            moved = float(np.abs(model.project(clique).values - before.project(clique).values).sum())
            if moved <= MEAN_ABSOLUTE * float(np.mean(measurement.stddev)) * measurement.rows:
                price = price * 4
        return Outcome(estimate_measured(curator, model, method=self.method), {"chosen": chosen})

    def _relevance(self, curator: Curator, workload: Any) -> dict[Clique, float]:
        """What could be measured, with its relevance to the workload."""
        domain = curator.domain
        default = all_kway(domain, min(2, len(domain)))
        wanted = as_workload(domain, default if workload is None else workload)
        relevant = Workload(tuple(item for item in wanted if item.weight > 0)).closure()
        if not relevant:
            raise ArgumentError.of("workload", workload, "a workload with a marginal of positive weight")
        return {r: weight for r, weight in relevant.items() if len(r) == 1 or domain.size(r) <= self.max_cells}

    def _select(self, curator: Curator, model: Model, weights: Mapping[Clique, float], price: Budget) -> Clique:
        """The marginal that the model gets most wrong, beyond the noise that a measurement of it would have."""
        noise = MEAN_ABSOLUTE * noise_for(price * self.measuring, curator.neighbors).stddev

        def gain(clique: Clique, errors: np.ndarray) -> float:
            return beyond_noise(errors, noise)

        return most_wrong(curator, model, weights, gain, price * (1 - self.measuring))
