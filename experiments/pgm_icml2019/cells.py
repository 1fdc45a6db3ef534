"""One run of one published mechanism on one table: the error with its own estimator, or with PGM's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem, problem
from experiments.pgm_icml2019.published import algorithm2, dual_query, hdmm, mwem, privbayes
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.clique_vector import CliqueVector
from pgmest.workloads import Projectable

MECHANISMS = ("PrivBayes", "DualQuery", "MWEM", "HDMM")
DELTA = 1e-3
"""DualQuery's."""
Way = Literal["published", "ours", "script", "plain"]
"""How PGM estimates: by the paper's algorithm with its constant and number of iterations; by pgmest's solver; by the
same where the authors' script differs from the paper (PrivBayes: it measures anew with all of the budget; DualQuery: of
the best records it takes the first); not at all (plain MWEM)."""


@dataclass(frozen=True)
class Effort:
    """How long an estimate may take: the paper has 10,000 iterations for every one.

    Attributes:
        published: iterations of Algorithm 2, and of Algorithm 1 for DualQuery's likelihood.
        round: iterations of Algorithm 2 in a round of MWEM: the default of the authors' script.
        tolerance, ours: where pgmest's accelerated solver stops, and after how many iterations at the latest.
        likelihood: its iterations on DualQuery's likelihood.
    """

    published: int = algorithm2.ITERATIONS
    round: int = 1000
    tolerance: float = 3e-3
    ours: int = 200
    likelihood: int = 300


@dataclass(frozen=True)
class Cell:
    """One run."""

    dataset: str
    mechanism: str
    seed: int
    way: Way = "ours"
    epsilon: float = 1.0
    effort: Effort = Effort()

    @property
    def name(self) -> str:
        """Names the file of the result."""
        split = "-equal" if self.mechanism == "HDMM" else ""
        return f"{self.dataset}-{self.mechanism}{split}-{self.epsilon:g}-{self.seed}-{self.way}"

    def row(self) -> dict[str, Any]:
        """The errors by estimator, and the seconds of PGM's estimate."""
        run = {"HDMM": _hdmm, "MWEM": _mwem, "PrivBayes": _privbayes, "DualQuery": _dual_query}[self.mechanism]
        known = {"dataset": self.dataset, "mechanism": self.mechanism, "way": self.way, "seed": self.seed}
        return {**known, "epsilon": self.epsilon, **run(self, problem(self.dataset))}


def _timed(make: Callable[[], Projectable]) -> tuple[Projectable, float]:
    start = time.process_time()
    return make(), time.process_time() - start


def _estimate(cell: Cell, known: Problem, measurements: list[LinearMeasurement]) -> pg.Model:
    return pg.estimate(
        measurements, known.domain, total=known.data.records, tolerance=cell.effort.tolerance,
        max_iterations=cell.effort.ours,
    )  # fmt: skip


def _hdmm(cell: Cell, known: Problem) -> dict[str, Any]:
    """Local least squares, global least squares and PGM on one set of measurements.

    `measured_*` are errors on the measured queries instead of the workload's.
    """
    measurements = hdmm.measure(known, cell.epsilon, cell.seed)
    of = measurements, known.domain, float(known.data.records)
    published = cell.way == "published"
    model, seconds = _timed(
        lambda: algorithm2.algorithm_2(*of, cell.effort.published) if published else _estimate(cell, known, of[0])
    )
    fitted = [measurement.answer(model.project(measurement.clique)) for measurement in measurements]
    return {
        "error_original": known.error_of(hdmm.local_least_squares(known, measurements)),
        "error_global": known.error(hdmm.global_least_squares(known, measurements)),
        "error_pgm": known.error(model),
        "measured_original": hdmm.measured_error(known, hdmm.local_fits(known, measurements)),
        "measured_pgm": hdmm.measured_error(known, fitted),
        "seconds": seconds,
    }


def _mwem(cell: Cell, known: Problem) -> dict[str, Any]:
    total = float(known.data.records)
    if cell.way == "plain":
        return _plain(cell, known, total)
    iterations = cell.effort.round if cell.way == "published" else None
    outcome: list[mwem.Outcome] = []

    def run() -> Projectable:
        outcome.append(mwem.mwem(known, mwem.GraphicalModel(known.domain, total, iterations), cell.epsilon, cell.seed))
        return outcome[0].model

    model, seconds = _timed(run)
    return {"error_pgm": known.error(model), "rounds": outcome[0].rounds, "seconds": seconds}


def _plain(cell: Cell, known: Problem, total: float) -> dict[str, Any]:
    """Without PGM: to the round whose table is larger than the memory, and as if there were no end to that."""
    errors: list[float] = []
    weights = mwem.WeightsAtOnce(known.domain, total)
    outcome = mwem.mwem(known, weights, cell.epsilon, cell.seed, after=lambda model: errors.append(known.error(model)))
    sizes = [8.0 * cells for cells in weights.cells]
    fits = next((made for made, size in enumerate(sizes) if size > mwem.MEMORY), len(sizes))
    return {
        "error_original": errors[fits - 1] if fits else known.uniform_error,
        "error_unlimited": errors[-1],
        "rounds": fits,
        "planned": outcome.planned,
        "largest_gigabytes": max(sizes) / 1e9,
        "next_gigabytes": sizes[min(fits, len(sizes) - 1)] / 1e9,
    }


def _privbayes(cell: Cell, known: Problem) -> dict[str, Any]:
    result = privbayes.measure(known, cell.epsilon, cell.seed)
    taken = list(result.measurements)
    if cell.way == "script":
        taken = privbayes.measured_with_the_whole_budget(known, result, cell.seed)
    total = float(known.data.records)
    published = cell.way == "published"
    model, seconds = _timed(
        lambda: (
            algorithm2.graphical_model(taken, known.domain, total, cell.effort.published)
            if published
            else _estimate(cell, known, taken)
        )
    )
    return {
        "error_original": known.error(privbayes.sampled(known, result, cell.seed)),
        "error_network": known.error(result.model),
        "error_pgm": known.error(model),
        "seconds": seconds,
    }


def _dual_query(cell: Cell, known: Problem) -> dict[str, Any]:
    ties: dual_query.Ties = "first" if cell.way == "script" else "random"
    transcript = dual_query.dual_query(known, cell.epsilon, DELTA, cell.seed, ties=ties)
    made = transcript.records
    share = known.data.records / made.records
    method, iterations = ("accelerated", cell.effort.likelihood)
    if cell.way == "published":
        method, iterations = ("mirror_descent", cell.effort.published)
    start = time.process_time()
    model = dual_query.most_likely(transcript, iterations, method=method)
    return {
        "error_original": known.error_of([share * i.answer(made.project(i.clique)) for i in known.workload]),
        "error_pgm": known.error(model),
        "steps": made.records,
        "nats": model.report.loss,
        "nats_truth": dual_query.WorkloadLikelihood(transcript).value(_true_marginals(known)),
        "iterations": model.report.iterations,
        "seconds": time.process_time() - start,
    }


def _true_marginals(known: Problem) -> CliqueVector:
    tables = {item.clique: known.data.project(item.clique) for item in known.workload}
    return CliqueVector(known.domain, tables)
