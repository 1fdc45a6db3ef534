"""PPSyn as it was published (Zhang, Deng, Yin; Algorithms 1 and 2), which is not private: for comparison only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.ppsyn.marginal_partition import Steps, partition_steps
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.adaptive import planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.estimation import estimate_measured, tree_limit
from pgmest.mechanisms.mechanism import cliques_of
from pgmest.mechanisms.parameters import COUNT, MEASURING_SHARE, choice, optional, parameter
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.mechanisms.ppsyn.ppsyn import ONE_WAY_SHARE, UP_TO_ONE, PPSyn
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors
from pgmest.tables.domain import Clique
from pgmest.workloads import Workload

LABEL = "NOT PRIVATE: chosen from the true marginals, without noise; no budget pays for it"


class Selected(NamedTuple):
    """The output of Algorithm 2: a marginal m, its partition P_m and the required budget rho_m."""

    clique: Clique
    partition: Partition
    rho: float


@dataclass(frozen=True, kw_only=True)
class PPSynAsPublishedNotPrivate(PPSyn):
    r"""PPSyn (Zhang, Deng, Yin), Algorithms 1 to 4, step by step as published. **It is not differentially private.**

    The one-way marginals get a tenth of the budget, in proportion to c^(2/3) for c cells. Algorithm 1
    then repeats three steps until the budget is spent:

    1. For every marginal w it computes the contribution ||M_w(D) - M_w(model)||_1, the partition of the true counts
       with the least required budget rho_w (Algorithms 3 and 4: `marginal_partition`), and the score
       contribution / rho_w.
    2. The exponential mechanism selects a marginal, with rho_exp = 0.1 rho / T (Algorithm 2).
    3. The sums over the intervals of the selected marginal are measured with budget rho_w. Each sum is shared equally
       among the cells of its interval (Definition 9), the result counts as a measurement of the whole marginal, and the
       model is estimated again.

    The partition, the required budget and the selection are functions of the true marginals, and the output reveals all
    three: one record more changes the required budget exactly and without noise. The selection gives no protection
    either: no sensitivity bounds contribution / rho_w. With the sensitivity of the contribution, 1, the scores are of
    the order of 1e9, and the largest always wins. The ledger charges the paper's price of the selection in each round,
    under a label that says so; its total is therefore no privacy guarantee. `pgmest.mechanisms.PPSyn` is the private
    mechanism.

    With `candidates="workload"` and `weights="stddev"` it is the letter: the candidates are the marginals of the
    workload W, and the objective weighs a measurement by 1 / sigma (equation 6). By default the candidates are, as in
    AIM, also all marginals of their attributes, and the weight is 1 / sigma^2, as the likelihood has it. Two choices
    are open in the paper: the candidates are those that keep the junction tree within `max_megabytes`, and the last
    measurement gets the remaining budget if that is less than its required budget.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSynAsPublishedNotPrivate(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> any("NOT PRIVATE" in entry.label for entry in result.ledger)
    True

    Args:
        eta: the error that noise and partition may cause, as a fraction of the contribution; the paper recommends
            about 0.7.
        rounds: T, by default 16 per attribute, as in AIM; the paper does not give a number. The selection of each round
            costs 0.1 rho / T, so there are at most 9 T rounds.
        candidates: "workload" or "closure".
        weights: "stddev" for 1 / sigma, or "variance" for 1 / sigma^2.

    The other arguments and the errors are those of `PPSyn`; `fineness` has no effect.
    """

    eta: float = parameter(0.7, UP_TO_ONE)
    rounds: int | None = parameter(None, optional(COUNT))
    candidates: str = parameter("closure", choice(("closure", "workload")))
    weights: str = parameter("variance", choice(("variance", "stddev")))

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        """Run Algorithm 1."""
        relevant = list(relevant_cliques(curator.domain, workload, self.max_cells))
        one_way = [clique for clique in relevant if len(clique) == 1]
        if self.candidates == "workload":
            asked = {frozenset(clique) for clique in cliques_of(workload, curator.domain)}
            relevant = [clique for clique in relevant if len(clique) > 1 and frozenset(clique) in asked]
        limit = tree_limit(curator, one_way, self.max_megabytes)
        weights = least_error_weights(curator.domain, one_way, Rho)
        measures = list(curator.measure_all(one_way, curator.budget * ONE_WAY_SHARE, weights=weights))
        model = self._estimated(curator, measures)
        rho_exp = curator.budget * (1 - MEASURING_SHARE) / planned_rounds(self.rounds, curator.domain)
        select = self.selection(curator, relevant, rng)
        chosen, last = list[Clique](), False
        while not last:
            selected = select.selected(limit.fitting(relevant), model, rho_exp)
            spend = Rho(selected.rho)
            last = curator.remaining <= spend + rho_exp
            noisy = curator.measure(
                selected.clique,
                curator.remaining if last else spend,
                selected.partition.query,
                label=f"round {len(chosen) + 1}: {' x '.join(selected.clique)}",
            )
            measures.append(uniform_estimate(noisy, selected.partition))
            limit.add(selected.clique)
            chosen.append(selected.clique)
            model = self._estimated(curator, measures, model, last)
        return Outcome(model, {"chosen": chosen, "private": False})

    def selection(self, curator: Curator, cliques: Sequence[Clique], rng: np.random.Generator) -> PartSele:
        """Return Algorithm 2 for this run."""
        return PartSele(curator, TrueMarginals(tuple(cliques), self.eta, curator.neighbors), rng)

    def _estimated(
        self,
        curator: Curator,
        measures: Sequence[LinearMeasurement],
        before: Model | None = None,
        last: bool = False,
    ) -> Model:
        effort = 10 if last else 1
        return estimate_measured(
            curator,
            before,
            measurements=measures if self.weights == "variance" else [weighed_by_stddev(one) for one in measures],
            tolerance=self.tolerance / effort,
            max_iterations=self.max_iterations * effort,
        )


@dataclass(frozen=True, eq=False)
class PartSele:
    """Algorithm 2, which reads the true marginals.

    Attributes:
        curator: the curator of the records.
        truth: the true marginals.
        rng: the source of the exponential mechanism's randomness.
    """

    curator: Curator
    truth: TrueMarginals
    rng: np.random.Generator

    def selected(self, candidates: Sequence[Clique], model: Model, rho_exp: Rho) -> Selected:
        """Return the candidate to measure next, its partition and its required budget."""
        estimated = [marginal.values for marginal in model.project_many(list(candidates))]
        question = Question(tuple(candidates), estimated, rho_exp.rho, self.rng.gumbel(size=len(candidates)))
        found = self.curator.release(lambda data, _: self.truth.answer(data, question), rho_exp, label=LABEL)
        partition = Partition(np.array(found["boxes"]), found["count"])
        return Selected(candidates[found["candidate"]], partition, found["rho"])


def uniform_estimate(noisy: LinearMeasurement, partition: Partition) -> LinearMeasurement:
    """Return Est(m, P_m) (Definition 9): the noisy sum of each interval, shared equally among its cells.

    The standard deviation is that of the sums, as in the paper's objective (equation 6).

    >>> uniform_estimate(LinearMeasurement([6.0, 1.0], "a", 2.0), Partition(np.array([0, 0, 1]), 2)).values
    array([3., 3., 1.])
    """
    sizes = np.bincount(partition.boxes, minlength=partition.count)
    return LinearMeasurement((noisy.values / sizes)[partition.boxes], noisy.clique, noisy.stddev)


def weighed_by_stddev(measurement: LinearMeasurement) -> LinearMeasurement:
    """Return the measurement with the square root of its standard deviation, so that its weight is 1 / sigma.

    >>> weighed_by_stddev(LinearMeasurement([6.0, 1.0], "a", 4.0)).stddev
    2.0
    """
    return replace(measurement, stddev=np.sqrt(measurement.stddev))


def contribution(true: np.ndarray, estimated: np.ndarray) -> float:
    """Return Contr_w, the l1 distance of a marginal from the model's (Algorithm 2, line 2), in counts."""
    return float(np.abs(true - estimated).sum())


def exponential_mechanism(scores: np.ndarray, rho: float, sensitivity: float, gumbels: np.ndarray) -> int:
    """Return the selected position: the largest score after standard Gumbel noise is added.

    A position has a probability proportional to exp(epsilon score / (2 sensitivity)), where epsilon^2 / 8 is rho
    (Definition 5, Proposition 2).

    >>> exponential_mechanism(np.array([1.0, 3.0]), 0.5, 1.0, np.zeros(2))
    1
    """
    return int(np.argmax(math.sqrt(8 * rho) / (2 * sensitivity) * scores + gumbels))


class Question(NamedTuple):
    """The input of Algorithm 2 in one round.

    Attributes:
        candidates: the marginals.
        estimated: the model's marginal of each candidate.
        rho_exp: the budget of the selection.
        gumbels: a draw from the standard Gumbel distribution for each candidate.
    """

    candidates: tuple[Clique, ...]
    estimated: Sequence[np.ndarray]
    rho_exp: float
    gumbels: np.ndarray


@dataclass(frozen=True, eq=False)
class TrueMarginals:
    """The true marginals of one run, and the partitions that Algorithms 3 and 4 make of them. Nothing here is private.

    Attributes:
        cliques: all candidates.
        eta: the allowed error, as a fraction of the contribution.
        neighbors: the neighboring relation.
        tables: the true counts of each candidate, empty before the first access.
        steps: the partitions made so far.
    """

    cliques: tuple[Clique, ...]
    eta: float
    neighbors: Neighbors
    tables: dict[Clique, np.ndarray] = field(default_factory=dict, repr=False)
    steps: dict[Clique, Steps] = field(default_factory=dict, repr=False)

    def count(self, data: Dataset) -> None:
        """Count the true marginals, once in a run."""
        if not self.tables:
            marginals = data.project_many(list(self.cliques))
            self.tables.update({clique: one.values for clique, one in zip(self.cliques, marginals, strict=True)})

    def steps_of(self, clique: Clique) -> Steps:
        """Return the partitions of a marginal (the paper's "skill to improve efficiency": each is made once)."""
        if clique not in self.steps:
            self.steps[clique] = partition_steps(self.tables[clique])
        return self.steps[clique]

    def answer(self, data: Dataset, question: Question) -> dict[str, Any]:
        """Return the output of Algorithm 2 in JSON's types: candidate, interval of each cell, required budget."""
        self.count(data)
        candidates, estimated = question.candidates, question.estimated
        errors = [contribution(self.tables[c], marginal) for c, marginal in zip(candidates, estimated, strict=True)]
        stops = [
            self.steps_of(clique).first_increase(self.eta * error)
            for clique, error in zip(candidates, errors, strict=True)
        ]
        # A marginal without contribution has an infinite required budget, so its score is 0.
        squared = self.neighbors.l2_sensitivity() ** 2
        scores = np.array([error / (rho * squared) for error, (_, rho) in zip(errors, stops, strict=True)])
        best = exponential_mechanism(scores, question.rho_exp, self.neighbors.l1_sensitivity(), question.gumbels)
        step, rho = stops[best]
        boxes = self.steps_of(candidates[best]).partition(step)
        required = min(rho * squared, LARGEST_RHO)
        return {"candidate": best, "rho": required, "boxes": boxes.tolist(), "count": int(boxes.max()) + 1}


LARGEST_RHO = 1e9
"""The finite required budget (rho) of a selected marginal without contribution; larger than any total budget."""
