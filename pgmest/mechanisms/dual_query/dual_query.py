"""DualQuery: find synthetic records that answer privately sampled queries (Gaboardi et al. 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.estimation.estimate import estimate
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.dual_query.best_record import best_record
from pgmest.mechanisms.dual_query.best_record_of_tables import best_record_of_tables
from pgmest.mechanisms.dual_query.game import Game
from pgmest.mechanisms.dual_query.likelihood import DualQueryLoss, DualQueryTranscript
from pgmest.mechanisms.dual_query.workload_rows import WorkloadRows
from pgmest.mechanisms.invariants import possible_total, within_bounds
from pgmest.mechanisms.mechanism import Mechanism
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
from pgmest.privacy.exponential import MOST_CANDIDATES
from pgmest.tables.clique_vector import CliqueVector
from pgmest.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class DualQuery(Mechanism):
    r"""DualQuery (Gaboardi et al. 2014): a game between a query player and a data player.

    The query player samples queries that the records so far answer badly; the data player adds a record. The queries
    are those of the workload (the cells of a marginal, prefixes, any `Kron` or matrix on a marginal) and the negation
    of each. The queries of an item are divided by its largest entry, so that a record counts for 1 at most; entries
    that are then no integers are rounded to 12 bits. Weights have no effect. At step t = 0, 1, ..., T - 1 a query or
    negation q is drawn `samples` times from

    .. math:: Q^{(t)}_q \propto \exp\Bigl(\eta \sum_{s<t} (a_q - q(x_s))\Bigr),

    where a are the true answers divided by N. Then the record x_t with the largest sum of answers to the sampled
    queries is found (`pgmest.mechanisms.dual_query.best_record`): for cells by mixed-integer programming, for other
    queries by max-product on the junction tree of the sampled queries.

    *Privacy.* Only the sampling reads the data; the records are functions of the samples. N is public, or a noisy count
    that costs 2 % of the budget, fixed before the first step. An individual of k records moves each a_q by at most
    k / N (by 2 k / N if records are replaced and entries have both signs; read 2 k for k then), so each exponent of
    step t by at most eta t k / N, and the difference of two exponents by at most b_t = 2 eta t k / N. A draw with
    probabilities proportional to such exponentials has bounded range b_t: it is b_t-DP and b_t^2 / 8-zCDP (Cesar,
    Rogers 2021), like the exponential mechanism with epsilon = b_t. The composition is:

    - pure: epsilon = samples * sum_t b_t = eta samples T (T - 1) k / N, the paper's own bound;
    - zCDP: rho = samples * sum_t b_t^2 / 8 = eta^2 samples (T - 1) T (2 T - 1) k^2 / (12 N^2), which implies more
      steps for the same (epsilon, delta) than the paper's advanced composition.

    The draws are exact (`pgmest.privacy.exponential`): exponents are integers in a unit that lowers the rate by less
    than a hundred-millionth, and no probability is rounded.

    estimator="original" returns the records, scaled to N. estimator="pgm" fits a graphical model to the likelihood of
    all samples (PGM C.3, likelihood.py). The samples are public: `result.details["transcript"]`.

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
        max_megabytes: the largest junction tree of "pgm", 8 bytes a cell, and of max-product in one step.
        time_limit: the seconds for finding one record among cells, after which a greedy search may replace it. A
            greedy search also replaces a max-product that is too large; `result.details["greedy_records"]` counts both.

    Raises:
        ArgumentError: if a parameter is not valid, or the workload has too many queries or only queries of zeros.
        QueryError: before anything is spent, if an item is a LinearOperator, whose entries are not known.
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
    uses: ClassVar[str] = "queries"

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        queries = WorkloadRows.of(curator.domain, workload)
        rows, reach = queries.rows, queries.reach(curator.neighbors)
        if self.estimator == "pgm":
            fixed = curator.constrained_cliques
            JunctionTree.from_cliques(curator.domain, [*rows.layout.cliques, *fixed]).check_size(self.max_megabytes)
        if 2 * rows.count > MOST_CANDIDATES:
            raise ArgumentError.of("workload", workload, f"one of {MOST_CANDIDATES // 2} queries at most")
        total = curator.fixed_total or max(
            1.0, possible_total(curator, curator.count(curator.budget * COUNT_SHARE).values.item())
        )
        moved = reach / queries.units
        steps, eta = self.schedule(curator.remaining, total, moved)
        game = Game(rows, eta, total, steps, queries.units)
        exact = 0
        for step in range(steps):
            spend = curator.remaining if step == steps - 1 else self._cost(curator, eta, step, total / moved)
            try:
                sampled = self._sample(curator, game, reach, spend, rng)
            except KeyboardInterrupt:
                if step < 2:
                    raise
                break
            record, proven = self._best_record(game, sampled, rng)
            game.play(sampled, record)
            exact += proven
        made = len(game.queries)
        details = {"steps": made, "planned_steps": steps, "eta": eta, "samples": self.samples}
        transcript = game.transcript()
        details |= {"exact_records": exact, "greedy_records": made - exact, "transcript": transcript}
        model = self._estimate(transcript, curator.structural_zeros, curator.invariants)
        model.without_error_bars("DualQuery publishes queries and records, and no noisy answers")
        return Outcome(model, details)

    def schedule(self, budget: Budget, total: float, moved: float = 1) -> tuple[int, float]:
        """Return the number of steps and the learning rate that spend exactly this budget.

        Args:
            budget: an Epsilon or a Rho.
            total: N, the number of records.
            moved: the most by which one individual moves an answer, in counts: k, or 2 k.
        """
        scaled = total / moved
        if self.steps is not None:
            return self.steps, _rate(budget, self.steps, self.samples, scaled)
        steps = 2
        while _rate(budget, steps + 1, self.samples, scaled) >= self.eta:
            steps += 1
        return steps, _rate(budget, steps, self.samples, scaled)

    def _cost(self, curator: Curator, eta: float, step: int, scaled: float) -> Budget:
        """Return the cost of the draws of one step; `scaled` is N divided by the most that an answer moves."""
        bounded_range = 2 * eta * step / scaled
        if isinstance(curator.budget, Epsilon):
            return Epsilon(self.samples * bounded_range)
        return Rho(self.samples * bounded_range**2 / 8)

    def _sample(self, curator: Curator, game: Game, reach: int, spend: Budget, rng: np.random.Generator) -> np.ndarray:
        """Draw the queries of the next step. The first step draws uniformly, which costs nothing."""
        made, candidates = len(game.queries), 2 * game.rows.count
        if not made:
            return rng.integers(candidates, size=self.samples)
        moved, label = game.rate * made * reach, f"step {made}: {self.samples} queries"
        return np.array(
            curator.draw(game.exponents(), candidates, moved, game.unit_power, self.samples, spend, label=label)
        )

    def _best_record(self, game: Game, sampled: np.ndarray, rng: np.random.Generator) -> tuple[dict[str, int], bool]:
        """Return the record with the largest sum of answers to the sampled queries, and whether that is proven."""
        if game.rows.cells_only:
            return best_record(game.rows.domain, game.cells(sampled), rng, self.time_limit)
        return best_record_of_tables(game.rows.domain, game.gains(sampled), rng, self.max_megabytes)

    def _estimate(
        self, transcript: DualQueryTranscript, rules: Sequence[Rule], invariants: Sequence[LinearMeasurement]
    ) -> Any:
        if self.estimator == "original":
            none = CliqueVector.zeros(transcript.domain, [])
            return SupportModel(Support(transcript.records), none, transcript.total)
        near = _near_records(transcript, rules, invariants, self.max_megabytes)

        def estimated(facts: Sequence[LinearMeasurement]) -> Any:
            return estimate(
                facts,
                transcript.domain,
                total=transcript.total,
                loss=DualQueryLoss(transcript),
                init=near,
                structural_zeros=rules,
                tolerance=1 / (transcript.queries.size * math.log(transcript.workload)),
                max_iterations=self.max_iterations,
                max_megabytes=self.max_megabytes,
            )

        return within_bounds(estimated(invariants), invariants, lambda facts, _: estimated(facts))


def _near_records(
    transcript: DualQueryTranscript,
    rules: Sequence[Rule],
    invariants: Sequence[LinearMeasurement],
    max_megabytes: float,
) -> Model:
    """Return a starting point: a model fitted to the records' marginals as if the records were a sample.

    The likelihood is steep far from the truth; a uniform start takes about fifty more iterations.
    """
    share = transcript.total / transcript.records.records
    stddev = transcript.total / math.sqrt(transcript.records.records)
    cliques = transcript.layout.cliques
    tables = transcript.records.project_many(cliques)
    taken = [
        LinearMeasurement(table.values * share, clique, stddev) for clique, table in zip(cliques, tables, strict=True)
    ]
    return estimate(
        [*invariants, *taken],
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
