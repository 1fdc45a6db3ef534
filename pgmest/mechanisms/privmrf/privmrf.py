"""PrivMRF: a graph of dependent attributes, and marginals inside its cliques that the noise leaves useful."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.mechanisms.adaptive import Adaptive, EqualRounds, Round
from pgmest.mechanisms.estimation import GraphicalModel, estimate_measured
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    COUNT,
    MEASURING,
    MEGABYTES,
    METHOD,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TREE_MEGABYTES,
    Renaming,
    integer,
    parameter,
    share_of_selection,
)
from pgmest.mechanisms.privmrf.attribute_graph import attribute_graph, initial_marginals, useful_marginals
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.privacy.scores import Distance, Distances, noisy_scores, score_noise
from pgmest.queries.workloads import Item, Workload
from pgmest.solvers.solver import Solver
from pgmest.tables.domain import Clique, Domain

MOST_CANDIDATES = 4096
"""Marginals compared in one round; what the records say has no part in which these are."""


@dataclass(frozen=True, kw_only=True)
class PrivMRF(Mechanism):
    r"""Differentially private Markov random fields (Cai, Lei, Wei, Xiao 2021).

    1. The one-way marginals, for `one_way` of the budget.
    2. For every pair of attributes its dependence, the l1 distance between its marginal and the product of the measured
       one-way marginals, all with noise, for `graph` of the budget. Pairs are joined, the most dependent first, while
       the triangulated graph stays within its limit. A marginal is theta-useful when its cells hold `theta` standard
       deviations of noise on average, n / (theta sigma) cells at most; only pairs that are can be joined.
    3. Inside each clique of that graph a Bayesian network of theta-useful marginals is made from the noisy dependence.
       The best of them, at most one for each attribute, are measured.
    4. As often as `adaptive` times the number of attributes: among the one-way marginals and the theta-useful ones
       inside the cliques, the one that the model gets most wrong is selected and measured, and the model estimated
       again. Where there are more than 4,096 of them each round draws as many at random.

    **Where the budget goes.** The published code adds noise for constants (a sensitivity divided by the number of
    records, a number of marginals, shares beta) that do not add up to the budget that it states. Here every step is
    charged for what it costs in rho:

    - Step 1: discrete Gaussian noise, c^(2/3) shares; step 3 and the measurements of step 4: one budget for each,
      so that one theta fits all.
    - Step 2: the vector of all m distances ||M_ab(x) - M_a M_b / n||_1, whose product comes from noisy answers that
      were paid for and is the same for neighbors. One record changes one cell of each marginal by one, hence each
      distance by at most 1 (2 when a record is replaced) and their vector by sqrt(m) in l2, and Gaussian noise of
      sigma^2 = m / (2 rho) makes it rho-zCDP. (With the true one-way marginals in the product each distance could
      change by 4.) The distances are rounded to a fine grid first, for which the noise is made, too
      (`pgmest.privacy.scores.score_noise`).
    - Step 4: the exponential mechanism, on scores ||M_r(x) - M_r(model)||_1
      - sqrt(2 / pi) sigma c_r, of sensitivity 1.

    The hierarchies of values that the published code can use need more than a domain, and are not here.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PrivMRF(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Args:
        theta: how useful a marginal must be.
        one_way, graph: shares of the budget for steps 1 and 2.
        adaptive: how many marginals step 4 adds, for each attribute (t).
        measuring: the share of a round of step 4 that pays for the measurement; the rest pays for the selection.
        max_attributes: the most attributes of a marginal.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        method: the solver of the last estimate. "mirror_flow", stopped early, is closer to the truth than the optimum.
        tolerance, max_iterations: of the solver in each round before.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    theta: float = parameter(4.0, POSITIVE)
    one_way: float = parameter(0.2, SHARE)
    graph: float = parameter(0.1, SHARE)
    adaptive: float = parameter(0.8, NOT_NEGATIVE)
    measuring: float = parameter(MEASURING, SHARE)
    max_attributes: int = parameter(5, integer(2))
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    method: str | Solver[Any] = parameter("mirror_flow", METHOD)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(40, COUNT)

    definition: ClassVar[str] = "zcdp"
    accountings: ClassVar[tuple[str, ...]] = ("auto", "zcdp", "gdp")
    old_names: ClassVar[Mapping[str, Renaming]] = {"selecting": Renaming("measuring", share_of_selection)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.one_way + self.graph < 1:
            raise ArgumentError.of("graph", self.graph, "a share that leaves something beside one_way")

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        named = {name for clique in cliques_of(workload, curator.domain) for name in clique}
        domain = curator.domain.project(curator.domain.ordered(named))
        ones = [(name,) for name in domain]
        if len(domain) < 2:
            curator.measure_all(ones, curator.budget)
            return Outcome(estimate_measured(curator, method=self.method), {"graph": ones})
        curator.measure_all(ones, curator.budget * self.one_way, weights=least_error_weights(domain, ones, Rho))
        effort = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        model = estimate_measured(curator, **effort)
        dependence = self._dependence(curator, model, list(combinations(domain.attributes, 2)))
        rounds = math.ceil(self.adaptive * len(domain))
        cells = self._useful_cells(curator, model.total, curator.remaining / (len(domain) + rounds))
        graph = self._graph(curator, domain, model, dependence, cells)
        initial = initial_marginals(domain, graph, dependence, cells, rng)[: len(domain)]
        useful = [*ones, *useful_marginals(domain, graph, self.max_attributes, cells)]
        rounds = max(1, min(rounds, len(useful)))
        curator.measure_all(initial, curator.remaining / (len(initial) + rounds) * len(initial))
        estimator = GraphicalModel(curator, method=self.method, init=model, **effort)

        def candidates(turn: Round, model: Any) -> list[Candidate]:
            return self._candidates(curator, some_of(useful, MOST_CANDIDATES, rng), turn)

        chosen = Adaptive(candidates, EqualRounds(rounds), estimator, self.measuring).run(curator)
        return Outcome(estimator.model, {"graph": list(graph), "initial": initial, "chosen": chosen})

    def _dependence(self, curator: Curator, model: Model, pairs: Sequence[Clique]) -> dict[frozenset[str], float]:
        """Step 2: for each pair about the total variation distance from independence, with noise."""
        independent = model.project_many(pairs)
        distances = {
            pair: Distance(Item(pair), marginal.datavector()) for pair, marginal in zip(pairs, independent, strict=True)
        }
        spend, label = curator.budget * self.graph, f"dependence of {len(pairs)} pairs"
        sensitivity = curator.neighbors.l1_sensitivity()
        noisy = noisy_scores(curator, pairs, Distances(distances), sensitivity, spend, label=label)
        return {frozenset(pair): float(d) / (2 * model.total) for pair, d in zip(pairs, noisy, strict=True)}

    def _useful_cells(self, curator: Curator, total: float, budget: Budget) -> float:
        """The most cells of a theta-useful marginal, for a round budget."""
        return total / (self.theta * noise_for(budget * self.measuring, curator.neighbors).stddev)

    def _graph(
        self,
        curator: Curator,
        domain: Domain,
        model: Model,
        dependence: Mapping[frozenset[str], float],
        cells: float,
    ) -> tuple[Clique, ...]:
        """The attribute graph: pairs that are theta-useful and whose dependence stands out from its noise."""
        useful = {pair: found for pair, found in dependence.items() if domain.size(tuple(pair)) <= cells}
        sensitivity, spend = curator.neighbors.l1_sensitivity(), curator.budget * self.graph
        spread = score_noise(sensitivity, len(dependence), spend).stddev / (2 * model.total)
        return attribute_graph(domain, useful, spread, self.max_megabytes)

    def _candidates(self, curator: Curator, cliques: Sequence[Clique], turn: Round) -> list[Candidate]:
        """Step 4: the marginals, with the error to expect of measuring them in this round."""
        noise = MEAN_ABSOLUTE * noise_for(turn.budget * self.measuring, curator.neighbors).stddev
        moved = curator.neighbors.l1_sensitivity()
        return [
            Candidate(item=Item(clique), expected_error=noise * curator.domain.size(clique), sensitivity=moved)
            for clique in cliques
        ]


def some_of(cliques: Sequence[Clique], most: int, rng: np.random.Generator) -> list[Clique]:
    """The cliques, or where there are more than `most` that many of them drawn at random, in their order."""
    if len(cliques) <= most:
        return list(cliques)
    return [cliques[place] for place in np.sort(rng.choice(len(cliques), most, replace=False)).tolist()]
