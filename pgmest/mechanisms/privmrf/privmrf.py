"""PrivMRF: select marginals inside the cliques of a graph of dependent attributes (Cai, Lei, Wei, Xiao 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.adaptive import Adaptive, EqualRounds, Round
from pgmest.mechanisms.estimation import GraphicalModel, estimate_measured
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    COUNT,
    MEASURING_SHARE,
    MEGABYTES,
    METHOD,
    NOT_NEGATIVE,
    POSITIVE,
    TREE_MEGABYTES,
    parameter,
)
from pgmest.mechanisms.privmrf.attribute_graph import attribute_graph, initial_marginals, useful_marginals
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.privacy.scores import Distance, Distances, noisy_scores, score_noise
from pgmest.solvers.solver import Solver
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload

ONE_WAY_SHARE, GRAPH_SHARE = 0.2, 0.1
"""The shares of the budget for the one-way marginals, and for the dependence of pairs."""

MOST_ATTRIBUTES = 5
"""The most attributes of a marginal."""

MOST_CANDIDATES = 4096
"""The most marginals that one round scores. A larger set is sampled uniformly, independently of the records."""


@dataclass(frozen=True, kw_only=True)
class PrivMRF(Mechanism):
    r"""Differentially private Markov random fields (Cai, Lei, Wei, Xiao 2021).

    1. The one-way marginals are measured with a fifth of the budget.
    2. The dependence of every pair of attributes is measured with a tenth of the budget: the l1 distance between
       the pair's marginal and the product of the measured one-way marginals. Pairs are joined, the most dependent
       first, while the junction tree of the triangulated graph stays within `max_megabytes`. Only theta-useful pairs
       can be joined. A marginal is theta-useful if the mean count of its cells is at least `theta` standard deviations
       of the noise, so if it has at most n / (theta sigma) cells.
    3. Inside each clique of the graph a Bayesian network of theta-useful marginals is built from the noisy dependence.
       The best marginals, at most one per attribute, are measured.
    4. Each round selects, among the one-way marginals and the theta-useful marginals inside the cliques, the one that
       the model approximates worst; it is measured and the model is estimated again. There are
       `rounds_per_attribute` rounds per attribute. A round scores at most 4,096 marginals, drawn at random.

    With a workload, steps 2 to 4 are about its attributes. The published mechanism has no workload.

    **Budget.** The published code scales its noise by constants (a sensitivity divided by the number of records, a
    number of marginals, shares beta) that do not add up to the stated budget. Here every step is charged:

    - Step 1 is discrete Gaussian noise with c^(2/3) shares. Step 3 and the measurements of step 4 have equal budgets,
      so one theta serves for both.
    - Step 2 releases the vector of all m distances ||M_ab(x) - M_a M_b / n||_1. The product is computed from released
      answers, so it is the same for neighbors. One record changes one cell of each marginal by one, hence each
      distance by at most 1 (2 if a record is replaced) and their vector by sqrt(m) in l2. Gaussian noise of
      sigma^2 = m / (2 rho) makes the release rho-zCDP. (With the true one-way marginals in the product each distance
      could change by 4.) The distances are rounded to a fine grid first, and the noise accounts for the rounding
      (`pgmest.privacy.scores.score_noise`).
    - Step 4 is the exponential mechanism on the scores ||M_r(x) - M_r(model)||_1 - sqrt(2 / pi) sigma c_r, of
      sensitivity 1.

    The value hierarchies of the published code are not implemented: they need more than a domain.

    Under (epsilon, delta) the budget is in mu: choices are a small part, so noise is less than with one in rho.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PrivMRF(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    Args:
        theta: the least mean count of a marginal's cells, in standard deviations of the noise.
        rounds_per_attribute: the rounds of step 4, per attribute (t).
        max_megabytes: the largest junction tree, 8 bytes a cell.
        method: the solver of the last estimate. "mirror_flow" stops early, which is closer to the truth than the
            optimum.
        tolerance: the relative tolerance of the solver in all rounds but the last.
        max_iterations: the most iterations of the solver in all rounds but the last.

    Raises:
        ArgumentError: if a parameter is out of its range.
    """

    theta: float = parameter(4.0, POSITIVE)
    rounds_per_attribute: float = parameter(0.8, NOT_NEGATIVE)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)
    method: str | Solver[Any] = parameter("mirror_flow", METHOD)
    tolerance: float = parameter(1e-2, POSITIVE)
    max_iterations: int = parameter(40, COUNT)

    definition: ClassVar[str] = "zcdp"
    uses: ClassVar[str] = "marginals"
    gaussian_curve: ClassVar[bool] = True

    def covering_workload(self, domain: Domain, workload: Workload) -> Workload:
        return workload

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        named = {name for clique in cliques_of(workload, curator.domain) for name in clique}
        domain = curator.domain.project(curator.domain.ordered(named))
        ones = [(name,) for name in domain]
        every = [(name,) for name in curator.domain]
        if len(domain) < 2:
            curator.measure_all(every, curator.budget)
            return Outcome(estimate_measured(curator, method=self.method), {"graph": ones})
        weights = least_error_weights(curator.domain, every, Rho)
        curator.measure_all(every, curator.budget * ONE_WAY_SHARE, weights=weights)
        effort = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        model = estimate_measured(curator, **effort)
        dependence = self._dependence(curator, model, list(combinations(domain.attributes, 2)))
        rounds = math.ceil(self.rounds_per_attribute * len(domain))
        cells = self._useful_cells(curator, model.total, curator.remaining / (len(domain) + rounds))
        graph = self._graph(curator, domain, model, dependence, cells)
        initial = initial_marginals(domain, graph, dependence, cells, rng)[: len(domain)]
        useful = [*ones, *useful_marginals(domain, graph, MOST_ATTRIBUTES, cells)]
        useful = curator.unknown(useful) or useful
        rounds = max(1, min(rounds, len(useful)))
        curator.measure_all(initial, curator.remaining / (len(initial) + rounds) * len(initial))
        estimator = GraphicalModel(curator, method=self.method, init=model, **effort)

        def candidates(turn: Round, model: Any) -> list[Candidate]:
            return self._candidates(curator, some_of(useful, MOST_CANDIDATES, rng), turn)

        chosen = Adaptive(candidates, EqualRounds(rounds), estimator).run(curator)
        return Outcome(estimator.model, {"graph": list(graph), "initial": initial, "chosen": chosen})

    def _dependence(self, curator: Curator, model: Model, pairs: Sequence[Clique]) -> dict[frozenset[str], float]:
        """Return the noisy total variation distance of each pair from independence (step 2)."""
        independent = model.project_many(pairs)
        distances = {
            pair: Distance(Item(pair), marginal.datavector()) for pair, marginal in zip(pairs, independent, strict=True)
        }
        spend, label = curator.budget * GRAPH_SHARE, f"dependence of {len(pairs)} pairs"
        sensitivity = curator.neighbors.l1_sensitivity()
        noisy = noisy_scores(curator, pairs, Distances(distances), sensitivity, spend, label=label)
        return {frozenset(pair): float(d) / (2 * model.total) for pair, d in zip(pairs, noisy, strict=True)}

    def _useful_cells(self, curator: Curator, total: float, budget: Budget) -> float:
        """Return the most cells of a theta-useful marginal that is measured with a round's budget."""
        return total / (self.theta * noise_for(budget * MEASURING_SHARE, curator.neighbors).stddev)

    def _graph(
        self,
        curator: Curator,
        domain: Domain,
        model: Model,
        dependence: Mapping[frozenset[str], float],
        cells: float,
    ) -> tuple[Clique, ...]:
        """Return the attribute graph of the theta-useful pairs whose dependence exceeds the noise."""
        useful = {pair: found for pair, found in dependence.items() if domain.size(tuple(pair)) <= cells}
        sensitivity, spend = curator.neighbors.l1_sensitivity(), curator.budget * GRAPH_SHARE
        spread = score_noise(sensitivity, len(dependence), spend).stddev / (2 * model.total)
        return attribute_graph(domain, useful, spread, self.max_megabytes)

    def _candidates(self, curator: Curator, cliques: Sequence[Clique], turn: Round) -> list[Candidate]:
        """Return the candidates of step 4, with the expected error of measuring them in this round."""
        noise = MEAN_ABSOLUTE * noise_for(turn.budget * MEASURING_SHARE, curator.neighbors).stddev
        moved = curator.neighbors.l1_sensitivity()
        return [
            Candidate(item=Item(clique), expected_error=noise * curator.domain.size(clique), sensitivity=moved)
            for clique in cliques
        ]


def some_of(cliques: Sequence[Clique], most: int, rng: np.random.Generator) -> list[Clique]:
    """Return at most `most` of the cliques in their order, drawn at random if there are more."""
    if len(cliques) <= most:
        return list(cliques)
    return [cliques[place] for place in np.sort(rng.choice(len(cliques), most, replace=False)).tolist()]
