"""AIM: measure, round after round, the marginal of the workload that the model gets most wrong for its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.mechanisms.adaptive import Adaptive, Annealing, Round, planned_rounds
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.parameters import (
    CELLS,
    COUNT,
    MEASURING,
    MEGABYTES,
    METHOD,
    POSITIVE,
    SHARE,
    TREE_MEGABYTES,
    Renaming,
    optional,
    parameter,
)
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries.workloads import Item, Workload
from pgmest.solvers.solver import Solver
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, kw_only=True)
class AIM(Mechanism):
    r"""Adaptive and iterative measurements (McKenna, Mullins, Sheldon, Miklau 2022, Algorithms 2-4).

    The one-way marginals first. Then in each round a marginal r among all subsets of the workload's cliques, of those
    that keep the junction tree within its limit, is selected by the score

    .. math:: w_r \, (\lVert M_r(x) - M_r(\hat x) \rVert_1 - \sqrt{2 / \pi} \, \sigma n_r)

    with n_r cells, the noise sigma that it would be measured with, and the relevance w_r to the workload (the sum over
    its cliques c of weight_c |r & c|). It is measured and the model estimated again. When the model moved less than
    noise alone would move it, the rounds after it cost four times as much, so that their noise is half as large.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = AIM(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    The limit on the tree grows with the share of the budget that is spent: the first rounds, which know least, cannot
    use it up.

    Args:
        rounds: how many rounds the first round budgets are made for, by default 16 per attribute. There will be fewer.
        measuring: the share of a round that pays for the measurement; the rest pays for the selection (alpha).
        max_megabytes: the largest junction tree, 8 bytes a cell.
        max_cells: marginals with more cells are not measured.
        method: the solver of the last estimate. "mirror_flow", stopped early, is closer to the truth than the optimum.
        tolerance, max_iterations: of the solver in each round before, which only has to show what is most wrong; each
            starts from the last one.

    Raises:
        ArgumentError: a parameter out of its range; before anything is spent, one-way marginals that
            exceed `max_megabytes` already.
    """

    rounds: int | None = parameter(None, optional(COUNT))
    measuring: float = parameter(MEASURING, SHARE)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    max_cells: float = parameter(1e6, CELLS)
    method: str | Solver[Any] = parameter("mirror_flow", METHOD)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(40, COUNT)

    definition: ClassVar[str] = "zcdp"
    accountings: ClassVar[tuple[str, ...]] = ("auto", "zcdp", "gdp")
    old_names: ClassVar[Mapping[str, Renaming]] = {"round_iterations": Renaming("max_iterations")}

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = relevant_cliques(curator.domain, workload, self.max_cells)
        one_way = [clique for clique in relevance if len(clique) == 1]
        limit = tree_limit(curator, one_way, self.max_megabytes)
        if limit.tree.megabytes > self.max_megabytes:
            raise ArgumentError.of("max_megabytes", self.max_megabytes, f"at least {limit.tree.megabytes:.2g}")
        first = curator.budget / max(planned_rounds(self.rounds, curator.domain), len(one_way) + 1)
        curator.measure_all(one_way, first * self.measuring * len(one_way))
        effort = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        estimator = GraphicalModel(curator, limit, method=self.method, **effort)
        candidates = partial(self._candidates, curator, relevance, estimator, {})
        chosen = Adaptive(candidates, Annealing(first), estimator, self.measuring).run(curator)
        return Outcome(estimator.model, {"chosen": chosen})

    def _candidates(
        self,
        curator: Curator,
        relevance: Mapping[Clique, float],
        estimator: GraphicalModel,
        made: dict[float, dict[Clique, Candidate]],
        turn: Round,
        model: Any,
    ) -> Sequence[Candidate]:
        """The marginals for which there is room, with the error to expect of measuring them in this round.

        Args:
            made: for the noise of the last round, all candidates.
        """
        noise = MEAN_ABSOLUTE * noise_for(turn.budget * self.measuring, curator.neighbors).stddev
        moved = curator.neighbors.l1_sensitivity()
        if noise not in made:
            made.clear()
            made[noise] = {
                clique: Candidate(
                    item=Item(clique),
                    weight=weight,
                    expected_error=noise * curator.domain.size(clique),
                    sensitivity=weight * moved,
                )
                for clique, weight in relevance.items()
            }
        return [made[noise][clique] for clique in estimator.admissible(relevance, turn.spent(curator))]


def relevant_cliques(
    domain: Domain, workload: Workload | None, max_cells: float, dimensions: float = float("inf")
) -> dict[Clique, float]:
    """The subsets of the workload's cliques, with their relevance w_r to it; larger marginals are left out.

    Args:
        domain: the attributes.
        workload: None for all pairs.
        max_cells: the most cells of a marginal of several attributes.
        dimensions: the most attributes.
    """
    relevant = relevant_workload(domain, workload).closure()
    return {
        clique: weight
        for clique, weight in relevant.items()
        if len(clique) == 1 or (len(clique) <= dimensions and domain.size(clique) <= max_cells)
    }
