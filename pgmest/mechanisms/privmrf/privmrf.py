"""PrivMRF: a graph of dependent attributes, and marginals inside its cliques that the noise leaves useful."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, beyond_noise, most_wrong
from pgmest.mechanisms.mechanism import Mechanism, Outcome, cliques_of
from pgmest.mechanisms.privmrf.attribute_graph import attribute_graph, initial_marginals, useful_marginals
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique


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
       again.

    **Where the budget goes.** The published code adds noise for constants (a sensitivity divided by the number of
    records, a number of marginals, shares beta) that do not add up to the budget that it states. Here every step is
    charged at its own price in rho:

    - Step 1: discrete Gaussian noise, c^(2/3) shares; step 3 and the measurements of step 4: one price for each, so
      that one theta fits all.
    - Step 2: the vector of all m distances ||M_ab(x) - M_a M_b / n||_1, whose product comes from noisy answers that
      were paid for and is the same for neighbors. One record changes one cell of each marginal by one, hence each
      distance by at most 1 (2 when a record is replaced) and their vector by sqrt(m) in l2, and Gaussian noise of
      sigma^2 = m / (2 rho) makes it rho-zCDP. (With the true one-way marginals in the product each distance could
      change by 4.) The distances are rounded to a grid first; the noise is made for one step of it more.
    - Step 4: the exponential mechanism, for `selecting` of what the step pays, on scores ||M_r(x) - M_r(model)||_1
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
        selecting: the share of a round of step 4 that pays for the selection.
        max_attributes: marginals have at most so many attributes.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        method: the solver of the last estimate. "mirror_flow", stopped early, is closer to the truth than the optimum.
        tolerance, max_iterations: of the solver in each round before.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    theta: float = 4.0
    one_way: float = 0.2
    graph: float = 0.1
    adaptive: float = 0.8
    selecting: float = 0.1
    max_attributes: int = 5
    max_megabytes: float = 80.0
    method: str = "mirror_flow"
    tolerance: float = 1e-2
    max_iterations: int = 5000

    definition: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("one_way", "graph", "selecting"):
            if not 0 < getattr(self, name) < 1:
                raise ArgumentError.of(name, getattr(self, name), "a share between 0 and 1")
        if not self.one_way + self.graph < 1:
            raise ArgumentError.of("graph", self.graph, "a share that leaves something beside one_way")
        for name in ("theta", "max_megabytes", "tolerance"):
            if not getattr(self, name) > 0:
                raise ArgumentError.of(name, getattr(self, name), "a positive number")
        if not self.adaptive >= 0:
            raise ArgumentError.of("adaptive", self.adaptive, "a number of at least 0")
        if not isinstance(self.max_attributes, int) or self.max_attributes < 2:
            raise ArgumentError.of("max_attributes", self.max_attributes, "an integer of at least 2")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        named = {name for clique in cliques_of(workload, curator.domain) for name in clique}
        domain = curator.domain.project([name for name in curator.domain if name in named])
        if len(domain) < 2:
            curator.measure_all([(name,) for name in domain], curator.budget)
            return Outcome(self._estimate(curator, last=True), {"graph": [(name,) for name in domain]})
        ones = [(name,) for name in domain]
        shares = least_error_weights(domain, ones, Rho)
        curator.measure_all(ones, curator.budget * self.one_way, weights=shares)
        model = self._estimate(curator)
        pairs = list(combinations(domain.attributes, 2))
        distances, spread = self._dependence(curator, model, pairs)
        dependence = dict(zip(map(frozenset, pairs), distances, strict=True))

        rounds = math.ceil(self.adaptive * len(domain))
        price = curator.remaining / (len(domain) + rounds)
        cells = model.total / (self.theta * noise_for(price * (1 - self.selecting), curator.neighbors).stddev)
        useful = {pair: found for pair, found in dependence.items() if domain.size(tuple(pair)) <= cells}
        graph = attribute_graph(domain, useful, spread, self.max_megabytes)
        initial = initial_marginals(domain, graph, dependence, cells, rng)[: len(domain)]
        candidates = [*ones, *useful_marginals(domain, graph, self.max_attributes, cells)]
        rounds = max(1, min(rounds, len(candidates)))
        price = curator.remaining / (len(initial) + rounds)
        curator.measure_all(initial, price * len(initial))
        added = self._add(curator, self._estimate(curator, model), candidates, rounds)
        return Outcome(added[0], {"graph": list(graph), "initial": initial, "chosen": added[1]})

    def _add(
        self, curator: Curator, model: Model, candidates: Sequence[Clique], rounds: int
    ) -> tuple[Model, list[Clique]]:
        """Step 4: marginals that the model gets most wrong, one after the other, for what remains of the budget."""
        chosen: list[Clique] = []
        for left in range(rounds, 0, -1):
            price = curator.remaining / left
            clique = self._select(curator, model, candidates, price)
            curator.measure(clique, curator.remaining if left == 1 else price * (1 - self.selecting))
            chosen.append(clique)
            model = self._estimate(curator, model, last=left == 1)
        return model, chosen

    def _estimate(self, curator: Curator, init: Model | None = None, last: bool = False) -> Model:
        if last:
            return estimate_measured(curator, init, method=self.method)
        return estimate_measured(curator, init, tolerance=self.tolerance, max_iterations=self.max_iterations)

    def _dependence(self, curator: Curator, model: Model, pairs: Sequence[Clique]) -> tuple[list[float], float]:
        """Step 2: for each pair about the total variation distance from independence, with noise; its stddev."""
        independent = [marginal.values for marginal in model.project_many(pairs)]

        def distances(data: Dataset) -> list[float]:
            truth = data.project_many(pairs)
            return [float(np.abs(t.values - m).sum()) for t, m in zip(truth, independent, strict=True)]

        spend, label = curator.budget * self.graph, f"dependence of {len(pairs)} pairs"
        noisy = curator.measure_values(distances, len(pairs), curator.neighbors.l1_sensitivity(), spend, label=label)
        stddev = float(curator.ledger[-1].parameters["stddev"])
        return (noisy / (2 * model.total)).tolist(), stddev / (2 * model.total)

    def _select(self, curator: Curator, model: Model, candidates: Sequence[Clique], price: Budget) -> Clique:
        noise = MEAN_ABSOLUTE * noise_for(price * (1 - self.selecting), curator.neighbors).stddev

        def gain(clique: Clique, errors: np.ndarray) -> float:
            return beyond_noise(errors, noise)

        return most_wrong(curator, model, dict.fromkeys(candidates, 1.0), gain, price * self.selecting)
