"""PPSyn as it was published (Zhang, Deng, Yin; Algorithms 1 and 2), which is not private: for comparison only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.adaptive import planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.estimation import estimate_measured, tree_limit
from pgmest.mechanisms.parameters import COUNT, optional, parameter
from pgmest.mechanisms.ppsyn.marginal_partition import Steps, partition_steps
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.mechanisms.ppsyn.ppsyn import UP_TO_ONE, PPSyn
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.scores import Prepared, release_remembering
from pgmest.queries.workloads import Workload
from pgmest.tables.domain import Clique

LABEL = "NOT PRIVATE: chosen from the true marginals, without noise; no budget pays for it"


class Selected(NamedTuple):
    """What Algorithm 2 returns: the marginal m, its partition P_m and the budget rho_m that it asks for."""

    clique: Clique
    partition: Partition
    rho: float


@dataclass(frozen=True, kw_only=True)
class PPSynAsPublishedNotPrivate(PPSyn):
    r"""PPSyn (Zhang, Deng, Yin), Algorithms 1 to 4, step by step as published. **It is not differentially private.**

    A tenth of the budget (`one_way`) is for the one-way marginals, each with a part in proportion to c^(2/3) for c
    cells. Then until the budget is spent (Algorithm 1):

    1. Of every marginal w the contribution ||M_w(D) - M_w(model)||_1 is computed, the partition of its true counts that
       asks for the least budget rho_w (Algorithms 3 and 4: `marginal_partition`), and the score contribution / rho_w.
    2. One is selected by the exponential mechanism, with rho_exp = 0.1 rho / T (Algorithm 2).
    3. The sums over its intervals are measured for rho_w, shared equally among the cells of each interval (Definition
       9), and used as a measurement of the whole marginal; the model is estimated again.

    Partition, budget and choice are functions of the true marginals, and all three can be read off what is released:
    one record more changes the budget asked for, exactly and without noise. Nor does the selection protect anything: no
    sensitivity bounds contribution / rho_w, and with that of the contribution, 1, scores are of the order of 1e9 and
    the largest always wins. The ledger says so in each round, where it charges what the paper charges for
    the selection; its total is therefore not a privacy guarantee. `PPSyn` is the private mechanism.

    Where the paper leaves something open: W are the marginals of the workload and, as in AIM, all marginals of their
    attributes, of which those are candidates that keep the junction tree within `max_megabytes`; the last measurement
    gets what is left when that is less than it asks for; estimates are those of private PGM, weighted by 1 / sigma^2.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSynAsPublishedNotPrivate(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> any("NOT PRIVATE" in entry.label for entry in result.ledger)
    True

    Args:
        eta: the share of the contribution that noise and partition may take; the paper recommends about 0.7.
        rounds: T, by default 16 per attribute, as in AIM; the paper does not say its own. Each round costs 0.1 rho / T
            for the selection alone, so there are at most 9 T.
        measuring: what is left of the budget by T selections.

    Other arguments and errors as for `PPSyn`; `fineness` is not used.
    """

    eta: float = parameter(0.7, UP_TO_ONE)
    rounds: int | None = parameter(None, optional(COUNT))

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        """Algorithm 1."""
        relevant = list(relevant_cliques(curator.domain, workload, self.max_cells, self.dimensions))
        one_way = [clique for clique in relevant if len(clique) == 1]
        limit = tree_limit(curator, one_way, self.max_megabytes)
        weights = least_error_weights(curator.domain, one_way, Rho)
        measures = list(curator.measure_all(one_way, curator.budget * self.one_way, weights=weights))
        model = self._estimated(curator, measures)
        rho_exp = curator.budget * (1 - self.measuring) / planned_rounds(self.rounds, curator.domain)
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
        """Algorithm 2, for this run."""
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
            measurements=measures,
            tolerance=self.tolerance / effort,
            max_iterations=self.max_iterations * effort,
        )


@dataclass(frozen=True, eq=False)
class PartSele:
    """Algorithm 2, which looks at the true marginals."""

    curator: Curator
    truth: TrueMarginals
    rng: np.random.Generator

    def selected(self, candidates: Sequence[Clique], model: Model, rho_exp: Rho) -> Selected:
        """The marginal to measure next, its partition and its budget, of these candidates."""
        estimated = [marginal.values for marginal in model.project_many(list(candidates))]
        question = Question(tuple(candidates), estimated, rho_exp.rho, self.rng.gumbel(size=len(candidates)))
        found = release_remembering(self.curator, self.truth, question, rho_exp, label=LABEL)
        partition = Partition(np.array(found["boxes"]), found["count"])
        return Selected(candidates[found["candidate"]], partition, found["rho"])


def uniform_estimate(noisy: LinearMeasurement, partition: Partition) -> LinearMeasurement:
    """Est(m, P_m) (Definition 9): the noisy sum of each interval, shared equally among its cells.

    Its standard deviation is that of the sums, as the objective of the paper (equation 6) has it.

    >>> uniform_estimate(LinearMeasurement([6.0, 1.0], "a", 2.0), Partition(np.array([0, 0, 1]), 2)).values
    array([3., 3., 1.])
    """
    sizes = np.bincount(partition.boxes, minlength=partition.count)
    return LinearMeasurement((noisy.values / sizes)[partition.boxes], noisy.clique, noisy.stddev)


def contribution(true: np.ndarray, estimated: np.ndarray) -> float:
    """Contr_w, the l1 distance of a marginal from the model's (Algorithm 2, line 2), in counts."""
    return float(np.abs(true - estimated).sum())


def exponential_mechanism(scores: np.ndarray, rho: float, sensitivity: float, gumbels: np.ndarray) -> int:
    """The position selected with probability proportional to exp(epsilon score / (2 sensitivity)), where epsilon^2 / 8
    is rho (Definition 5, Proposition 2): the largest sum with standard Gumbel noise.

    >>> exponential_mechanism(np.array([1.0, 3.0]), 0.5, 1.0, np.zeros(2))
    1
    """
    return int(np.argmax(math.sqrt(8 * rho) / (2 * sensitivity) * scores + gumbels))


class Question(NamedTuple):
    """What Algorithm 2 is asked in a round.

    Attributes:
        candidates: the marginals.
        estimated: of each what the model says.
        rho_exp: for the selection.
        gumbels: its randomness, one for each candidate.
    """

    candidates: tuple[Clique, ...]
    estimated: Sequence[np.ndarray]
    rho_exp: float
    gumbels: np.ndarray


@dataclass(frozen=True, eq=False)
class TrueMarginals(Prepared):
    """What Algorithm 2 reads off the true marginals. Nothing of it is private, and nothing is kept here.

    Attributes:
        cliques: all candidates.
        eta: the share of the contribution that may be error.
        neighbors: the relation that noise is made for.
    """

    cliques: tuple[Clique, ...]
    eta: float
    neighbors: Neighbors

    def prepare(self, data: Dataset) -> Tables:
        """The true marginals, and the partitions that Algorithms 3 and 4 go through, each made when it is needed."""
        tables = (marginal.values for marginal in data.project_many(list(self.cliques)))
        return Tables(dict(zip(self.cliques, tables, strict=True)), {})

    def answer(self, prepared: Tables, question: Question) -> dict[str, Any]:
        """Algorithm 2: the candidate selected, the intervals of its cells, and the budget asked for; JSON's types."""
        candidates, estimated = question.candidates, question.estimated
        errors = [contribution(prepared.tables[c], marginal) for c, marginal in zip(candidates, estimated, strict=True)]
        stops = [
            prepared.steps_of(clique).first_increase(self.eta * error)
            for clique, error in zip(candidates, errors, strict=True)
        ]
        # A marginal of no contribution asks for an infinite budget; its score is 0.
        squared = self.neighbors.l2_sensitivity() ** 2
        scores = np.array([error / (rho * squared) for error, (_, rho) in zip(errors, stops, strict=True)])
        best = exponential_mechanism(scores, question.rho_exp, self.neighbors.l1_sensitivity(), question.gumbels)
        step, rho = stops[best]
        boxes = prepared.steps_of(candidates[best]).partition(step)
        asked = min(rho * squared, LARGEST_RHO)
        return {"candidate": best, "rho": asked, "boxes": boxes.tolist(), "count": int(boxes.max()) + 1}


LARGEST_RHO = 1e9
"""Where a marginal of no contribution is selected after all; no budget is so large."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The true marginals, and the partitions of each: not private, and seen by the curator alone.

    Attributes:
        tables: counts, an axis for each attribute.
        steps: what was made so far.
    """

    tables: dict[Clique, np.ndarray]
    steps: dict[Clique, Steps]

    def steps_of(self, clique: Clique) -> Steps:
        """The partitions of a marginal (the paper's "skill to improve efficiency": each is made once)."""
        if clique not in self.steps:
            self.steps[clique] = partition_steps(self.tables[clique])
        return self.steps[clique]
