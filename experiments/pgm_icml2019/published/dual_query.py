r"""DualQuery on the workload's own queries (PGM C.3, Algorithm 4) and the likelihood of its output (Algorithm 5).

The workload is closed under negation, as DualQuery's analysis asks: beside each query q (a prefix or a cell) there is
1 - q. At step t = 0, 1, ... `SAMPLES` queries are drawn from Q^t, the record x^t that maximizes the sum over them of
q(mu) - q(x) is found exactly, by max-product on the junction tree, and Q^{t+1} is Q^t exp(-eta (y - W mu_x)). As many
steps are made as advanced composition pays for with (epsilon, delta), by the formula of the authors' published script.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

import pgmest as pg
from experiments.pgm_icml2019.kernels import normalizer_slopes, normalizers
from experiments.pgm_icml2019.problem import Problem
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses.base import FlatLoss
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique

ETA, SAMPLES = 2.0, 50
TIES = 1e-6
"""Potentials of about this break ties between best records; queries count whole."""
Ties = Literal["random", "first"]
"""Which of the best records is made: any, or one of low codes, as in the authors' script, whose argmax is the first."""


def steps_paid(records: int, epsilon: float, delta: float, eta: float = ETA, samples: int = SAMPLES) -> int:
    """The most steps T whose advanced composition stays below (epsilon, delta)."""

    def cost(made: int) -> float:
        draw = 2 * eta * made / records
        return draw * (math.sqrt(2 * samples * made * math.log(1 / delta)) + samples * made * math.expm1(draw))

    steps = 1
    while cost(steps) < epsilon:
        steps += 1
    return steps


@dataclass(frozen=True, eq=False)
class Transcript:
    """The transcript of DualQuery, on a workload of n queries and their negations.

    Attributes:
        problem: the workload.
        queries: the numbers of the queries drawn, shape (steps, samples); n + i is the negation of query i.
        records: the record made in each step.
        eta: the learning rate.
    """

    problem: Problem
    queries: np.ndarray
    records: Dataset
    eta: float

    @cached_property
    def answers(self) -> np.ndarray:
        """W mu_x of each record x: 0 or 1 for each query, shape (n, steps)."""
        each = [self.records.take(slice(t, t + 1)) for t in range(self.records.records)]
        return np.array([record_answers(self.problem, record) for record in each], dtype=np.uint8).T.copy()


def record_answers(problem: Problem, record: Dataset) -> np.ndarray:
    """Of all the workload's queries about one record."""
    return np.concatenate([item.answer(record.project(item.clique)) for item in problem.workload])


def dual_query(
    problem: Problem,
    epsilon: float,
    delta: float,
    seed: int,
    eta: float = ETA,
    samples: int = SAMPLES,
    ties: Ties = "random",
) -> Transcript:
    """Algorithm 4."""
    generator = np.random.default_rng(seed)
    total = problem.data.records
    y = np.concatenate(problem.truth) / total
    game = _Record(problem, generator, ties)
    log_weights = np.zeros(2 * len(y))
    drawn, records = [], []
    for _ in range(steps_paid(total, epsilon, delta, eta, samples)):
        weights = np.exp(log_weights - log_weights.max())
        queries = generator.choice(len(weights), samples, p=weights / weights.sum())
        record = game.best(queries)
        difference = y - record_answers(problem, record)
        log_weights -= eta * np.concatenate([difference, -difference])  # of a negation: (1 - y) - (1 - q(x))
        drawn.append(queries)
        records.append([int(record.column(name)[0]) for name in problem.domain])
    return Transcript(problem, np.array(drawn), Dataset.from_codes(np.array(records), problem.domain), eta)


class _Record:
    """The record with the fewest of the drawn queries (and most of those whose negation was drawn)."""

    def __init__(self, problem: Problem, generator: np.random.Generator, ties: Ties = "random"):
        self.problem, self.generator, self.ties = problem, generator, ties
        cliques = [item.clique for item in problem.workload]
        self.layout = Layout.of(problem.domain, cliques)
        self.oracle = ExactOracle(PropagationPlan.of(self.layout, JunctionTree.from_cliques(problem.domain, cliques)))
        rows = [item.rows(problem.domain) for item in problem.workload]
        self.starts = np.concatenate([[0], np.cumsum(rows)])

    def best(self, queries: np.ndarray) -> Dataset:
        """argmax over all records of sum_i q_i(mu) - q_i(x); ties as `ties` says, attributes in no triple, too."""
        signs = np.zeros(self.starts[-1])
        np.add.at(signs, queries % len(signs), np.where(queries < len(signs), -1.0, 1.0))
        tables = {}
        for item, start, stop in zip(self.problem.workload, self.starts[:-1], self.starts[1:], strict=True):
            cells = signs[start:stop] if item.query is None else item.query.transpose(signs[start:stop])
            shape = self.problem.domain.project(item.clique).shape
            tables[item.clique] = cells.reshape(shape) + self._preferred(item.clique, shape)
        vector = CliqueVector(self.problem.domain, {
            clique: pg.Factor(self.problem.domain.project(clique), table) for clique, table in tables.items()
        })  # fmt: skip
        gains = CliqueVector.of(self.layout, self.oracle.max_marginals(vector.expand(self.layout.cliques).flat))
        free = self.ties == "random"
        codes = {name: int(self.generator.integers(size)) if free else 0 for name, size in self.problem.domain.items()}
        for clique in self.layout.cliques:
            table = gains[clique].values
            codes |= dict(
                zip(gains[clique].domain, map(int, np.unravel_index(table.argmax(), table.shape)), strict=True)
            )
        return Dataset.from_codes(np.array([[codes[name] for name in self.problem.domain]]), self.problem.domain)

    def _preferred(self, clique: Clique, shape: tuple[int, ...]) -> np.ndarray:
        """What breaks ties; that of low codes differs by attribute, so that no two records are as good."""
        if self.ties == "random":
            return TIES * self.generator.random(shape)
        places = [self.problem.domain.attributes.index(name) for name in clique]
        weights = 1.0 + np.sqrt(np.array(places) + 2.0) / 100
        return -TIES * np.tensordot(weights, np.indices(shape), 1)


class WorkloadLikelihood(FlatLoss):
    """Algorithm 5: the negative log-likelihood of the queries drawn, as a function of the marginals in counts."""

    def __init__(self, transcript: Transcript):
        self.transcript = transcript
        problem, steps = transcript.problem, len(transcript.queries)
        self.items = tuple(problem.workload)
        self.total = float(problem.data.records)
        self.layout = Layout.of(problem.domain, [item.clique for item in self.items])
        count = len(transcript.answers)
        signs = np.where(transcript.queries < count, -transcript.eta, transcript.eta)
        taken = np.vstack([np.zeros(count), np.cumsum(transcript.answers.T, axis=0, dtype=np.int64)[:-1]])
        places = transcript.queries % count
        # The log-weight of query q before step t is -eta (t y_q - taken[t, q]), of its negation minus that.
        self.linear = np.bincount(places.ravel(), (signs * np.arange(steps)[:, None]).ravel(), minlength=count)
        self.constant = -float(np.sum(signs * np.take_along_axis(taken, places, axis=1)))

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says."""
        transcript, samples = self.transcript, self.transcript.queries.shape[1]
        tables = CliqueVector.of(self.layout, flat / self.total)
        y = np.concatenate([item.answer(tables[item.clique]) for item in self.items])
        sums = normalizers(y, transcript.answers, transcript.eta)
        value = samples * float(np.log(sums).sum()) - float(self.linear @ y) - self.constant
        slopes = samples * normalizer_slopes(y, transcript.answers, transcript.eta, sums) - self.linear
        gradient = np.zeros_like(flat) if out is None else out
        gradient[:] = 0.0
        start = 0
        for item in self.items:
            rows = item.rows(self.layout.domain)
            part = slopes[start : start + rows]
            cells = part if item.query is None else item.query.transpose(part).reshape(-1)
            position = self.layout.cliques.index(item.clique)
            gradient[self.layout.offsets[position] : self.layout.offsets[position + 1]] += cells / self.total
            start += rows
        return value, gradient


def most_likely(
    transcript: Transcript, max_iterations: int, tolerance: float = 0.0, method: str = "mirror_descent"
) -> pg.Model:
    """With PGM: by default the paper's Algorithm 1 with its line search on that loss, from the uniform distribution."""
    problem = transcript.problem
    return pg.estimate(
        [], problem.domain, total=problem.data.records, loss=WorkloadLikelihood(transcript),
        method=method, max_iterations=max_iterations, tolerance=tolerance,
    )  # fmt: skip
