"""DualQuery: find synthetic records that answer privately sampled queries (Gaboardi et al. 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.estimation.estimate import estimate
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.inference.support.support import Support
from pgmest.losses.dual_query import DualQueryLoss, DualQueryTranscript, cells_of_records
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.dual_query.best_record import WeightedCell, best_record
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    COUNT,
    COUNT_SHARE,
    ESTIMATOR,
    MEGABYTES,
    MODEL_MEGABYTES,
    POSITIVE,
    integer,
    optional,
    parameter,
)
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.privacy.budgets import Budget, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.exponential import LEAST_POWER, MOST_CANDIDATES, CountExponents
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.workloads import Workload

RATE_BITS = 28
"""The bits of the integer learning rate: rounding lowers the rate by at most a hundred-millionth."""

ROUNDING = 3e-9
"""The relative amount subtracted from the learning rate before rounding, so that float errors never raise a cost."""


@dataclass(frozen=True, kw_only=True)
class DualQuery(Mechanism):
    r"""DualQuery (Gaboardi et al. 2014): a game between a query player and a data player.

    The query player samples cells that the records so far answer badly; the data player adds a record. The workload
    consists of every cell of its marginals and the negation of each cell; an item with other queries counts as its
    marginal. At step t = 0, 1, ..., T - 1 a query (cell or negation) q is drawn `samples` times from

    .. math:: Q^{(t)}_q \propto \exp\Bigl(\eta \sum_{s<t} (a_q - q(x_s))\Bigr),

    where a are the true answers divided by N. Mixed-integer programming then finds the record x_t with the largest sum
    of answers to the sampled queries (`pgmest.mechanisms.dual_query.best_record`).

    *Privacy.* Only the sampling reads the data; the records are functions of the samples. N is public, or a noisy count
    that costs 2 % of the budget, fixed before the first step. An individual of k records moves each a_q by at most
    k / N, so each exponent of step t by at most eta t k / N, and the difference of two exponents by at most
    b_t = 2 eta t k / N. A draw with probabilities proportional to such exponentials has bounded range b_t: it is b_t-DP
    and b_t^2 / 8-zCDP (Cesar, Rogers 2021), like the exponential mechanism with epsilon = b_t. The composition is:

    - pure: epsilon = samples * sum_t b_t = eta samples T (T - 1) k / N, the paper's own bound;
    - zCDP: rho = samples * sum_t b_t^2 / 8 = eta^2 samples (T - 1) T (2 T - 1) k^2 / (12 N^2), which implies more
      steps for the same (epsilon, delta) than the paper's advanced composition.

    The draws are exact (`pgmest.privacy.exponential`): exponents are integers in a unit that lowers the rate by less
    than a hundred-millionth, and no probability is rounded.

    estimator="original" returns the records, scaled to N. estimator="pgm" fits a graphical model to the likelihood of
    all samples (PGM C.3, `pgmest.losses.dual_query`). The samples are public: `result.details["transcript"]`.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K"])
    >>> result = DualQuery(epsilon=1.0, delta=1e-3, samples=500, backend="simulation").fit(data, seed=0)
    >>> result.details["greedy_records"], result.ledger.remaining / result.ledger.budget < 1e-9
    (0, True)

    Args:
        samples: the number of queries drawn in each step.
        eta: the least learning rate. The number of steps is the largest that the budget affords at this rate, at least
            2, and the actual rate spends the whole budget. It is below `eta` if the budget does not afford two steps.
        steps: the number of steps T, at least 2. The budget then determines the rate, and `eta` has no effect.
        estimator: "pgm" or "original".
        max_iterations: the most iterations of the "pgm" estimate, each about fifty passes over the cells. More
            iterations approach the maximum of the likelihood, which need not be closer to the truth.
        max_megabytes: the largest junction tree of "pgm", 8 bytes a cell.
        time_limit: the seconds for finding one record, after which a greedy search may replace it;
            `result.details["greedy_records"]` counts the replaced records.

    Raises:
        ArgumentError: if a parameter is not valid or the workload has too many cells.
        ModelTooLarge: before anything is spent, if the junction tree of "pgm" exceeds `max_megabytes`.
    """

    samples: int = parameter(50, COUNT)
    eta: float = parameter(2.0, POSITIVE)
    steps: int | None = parameter(None, optional(integer(2)))
    estimator: str = parameter("pgm", ESTIMATOR)
    time_limit: float = parameter(10.0, POSITIVE)
    max_iterations: int = parameter(100, COUNT)
    max_megabytes: float = parameter(MODEL_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        layout = _layout(curator, workload)
        if self.estimator == "pgm":
            ruled = [rule.attributes for rule in curator.structural_zeros]
            JunctionTree.from_cliques(curator.domain, [*layout.cliques, *ruled]).check_size(self.max_megabytes)
        if 2 * layout.cells > MOST_CANDIDATES:
            raise ArgumentError.of("workload", workload, f"one of {MOST_CANDIDATES // 2} cells at most")
        total = curator.public_total or max(1.0, curator.count(curator.budget * COUNT_SHARE).values.item())
        steps, eta = self.schedule(curator.remaining, total, curator.neighbors.records)
        game = _Game(layout, eta, total, steps)
        exact = 0
        for step in range(steps):
            spend = self._cost(curator, eta, step, total)
            try:
                queries = self._sample(curator, game, curator.remaining if step == steps - 1 else spend, rng)
            except KeyboardInterrupt:
                if step < 2:
                    raise
                break
            record, proven = best_record(curator.domain, game.cells(queries), rng, self.time_limit)
            game.play(queries, record)
            exact += proven
        made = len(game.queries)
        details = {"steps": made, "planned_steps": steps, "eta": eta, "samples": self.samples}
        transcript = game.transcript()
        details |= {"exact_records": exact, "greedy_records": made - exact, "transcript": transcript}
        return Outcome(self._estimate(transcript, curator.structural_zeros), details)

    def schedule(self, budget: Budget, total: float, records: int = 1) -> tuple[int, float]:
        """Return the number of steps and the learning rate that spend exactly this budget.

        Args:
            budget: an Epsilon or a Rho.
            total: N, the number of records.
            records: k, the most records of one individual.
        """
        scaled = total / records
        if self.steps is not None:
            return self.steps, _rate(budget, self.steps, self.samples, scaled)
        steps = 2
        while _rate(budget, steps + 1, self.samples, scaled) >= self.eta:
            steps += 1
        return steps, _rate(budget, steps, self.samples, scaled)

    def _cost(self, curator: Curator, eta: float, step: int, total: float) -> Budget:
        """Return the cost of the draws of one step."""
        bounded_range = 2 * eta * step * curator.neighbors.records / total
        if isinstance(curator.budget, Epsilon):
            return Epsilon(self.samples * bounded_range)
        return Rho(self.samples * bounded_range**2 / 8)

    def _sample(self, curator: Curator, game: _Game, spend: Budget, rng: np.random.Generator) -> np.ndarray:
        """Draw the queries of the next step. The first step draws uniformly, which costs nothing."""
        if not game.queries:
            return rng.integers(2 * game.layout.cells, size=self.samples)
        made = len(game.queries)
        moved = game.rate * made * curator.neighbors.records
        candidates, label = 2 * game.layout.cells, f"step {made}: {self.samples} queries"
        return np.array(
            curator.draw(game.exponents(), candidates, moved, game.unit_power, self.samples, spend, label=label)
        )

    def _estimate(self, transcript: DualQueryTranscript, rules: Sequence[Rule]) -> Any:
        if self.estimator == "original":
            none = CliqueVector.zeros(transcript.domain, [])
            return SupportModel(Support(transcript.records), none, transcript.total)
        return estimate(
            [],
            transcript.domain,
            total=transcript.total,
            loss=DualQueryLoss(transcript),
            init=_near_records(transcript, rules, self.max_megabytes),
            structural_zeros=rules,
            tolerance=1 / (transcript.queries.size * math.log(transcript.workload)),
            max_iterations=self.max_iterations,
            max_megabytes=self.max_megabytes,
        )


def _near_records(transcript: DualQueryTranscript, rules: Sequence[Rule], max_megabytes: float) -> Model:
    """Return a starting point: a model fitted to the records' marginals as if the records were a sample.

    The likelihood is steep far from the truth; a uniform start takes about fifty more iterations.
    """
    share = transcript.total / transcript.records.records
    stddev = transcript.total / math.sqrt(transcript.records.records)
    tables = transcript.records.project_many(transcript.cliques)
    taken = [
        LinearMeasurement(table.values * share, clique, stddev)
        for clique, table in zip(transcript.cliques, tables, strict=True)
    ]
    return estimate(
        taken,
        transcript.domain,
        total=transcript.total,
        structural_zeros=rules,
        tolerance=0.1,
        max_iterations=200,
        max_megabytes=max_megabytes,
    )


def _rate(budget: Budget, steps: int, samples: int, total: float) -> float:
    """Return the learning rate for which this number of steps costs the budget."""
    if isinstance(budget, Epsilon):
        return budget.epsilon * total / (samples * steps * (steps - 1))
    assert isinstance(budget, Rho)
    return math.sqrt(12 * budget.rho / (samples * (steps - 1) * steps * (2 * steps - 1))) * total


def _layout(curator: Curator, workload: Workload | None) -> Layout:
    """Return the marginals of the workload, each set of attributes once."""
    cliques = cliques_of(workload, curator.domain)
    return Layout.of(curator.domain, {frozenset(clique): clique for clique in reversed(cliques)}.values())


class _Game:
    """The state of the game: the sampled queries and the synthetic records of all steps.

    The exponents eta (t a_q - sum_s q(x_s)) are integers in units of 2^unit_power. `rate`, which is eta / N rounded
    down, counts for each step and each private record in the cell of q, and N times `rate` for each synthetic record.
    """

    def __init__(self, layout: Layout, eta: float, total: float, steps: int):
        self.layout, self.queries = layout, []
        bits = max(8, min(RATE_BITS, 60 - math.frexp(total)[1] - steps.bit_length()))
        self.unit_power = min(0, max(LEAST_POWER, math.frexp(eta / total)[1] - bits))
        self.rate = max(1, math.floor(math.ldexp(eta / total, -self.unit_power) * (1 - ROUNDING)))
        self._eta, self._total = math.ldexp(self.rate, self.unit_power) * total, total
        self._records: list[list[int]] = []
        self._taken = np.zeros(layout.cells, dtype=np.int64)  # the number of synthetic records in each cell

    def exponents(self) -> CountExponents:
        """Return the exponents of the next step's queries: the cells, then their negations."""
        taken = round(self.rate * self._total) * self._taken
        return CountExponents(self.layout.cliques, self.rate * len(self._records), taken)

    def cells(self, queries: np.ndarray) -> list[WeightedCell]:
        """Return the sampled cells, weighted by their number of samples minus that of their negations."""
        signs = np.where(queries < self.layout.cells, 1.0, -1.0)
        places, inverse = np.unique(queries % self.layout.cells, return_inverse=True)
        weights = np.bincount(inverse.reshape(-1), signs)
        return [self._cell(int(place), weight) for place, weight in zip(places, weights, strict=True) if weight]

    def _cell(self, place: int, weight: float) -> WeightedCell:
        position = int(np.searchsorted(self.layout.offsets, place, side="right")) - 1
        clique, shape = self.layout.cliques[position], self.layout.domains[position].shape
        codes = np.unravel_index(place - self.layout.offsets[position], shape)
        return WeightedCell(clique, tuple(int(code) for code in codes), float(weight))

    def play(self, queries: np.ndarray, record: dict[str, int]) -> None:
        """Record the sampled queries and the synthetic record of a step."""
        self.queries.append(queries)
        self._records.append([record[name] for name in self.layout.domain])
        self._taken[cells_of_records(self._dataset(self._records[-1:]), self.layout)] += 1

    def transcript(self) -> DualQueryTranscript:
        """Return the public outcome of the game."""
        queries = np.array(self.queries)
        return DualQueryTranscript(
            self._dataset(self._records), self.layout.cliques, queries, self._eta, self._total, negations=True
        )

    def _dataset(self, records: Sequence[Sequence[int]]) -> Dataset:
        return Dataset.from_codes(np.array(records), self.layout.domain)
