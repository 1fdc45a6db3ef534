"""One run of one published mechanism on one table: the error with its own estimator and with PGM."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem, problem
from experiments.pgm_icml2019.published import dual_query, hdmm, mwem, privbayes
from pgmest.tables.clique_vector import CliqueVector

MECHANISMS = ("PrivBayes", "DualQuery", "MWEM", "HDMM")
DELTA = 1e-3
"""DualQuery's."""
LikelihoodSolver = Literal["accelerated", "mirror_descent"]


@dataclass(frozen=True)
class Effort:
    """How long an estimate may take: the paper has 10,000 iterations for every one.

    The graphical model is at its optimum, to `tolerance`, after far fewer, by a faster solver; so is DualQuery's
    likelihood after `likelihood_iterations`, which the paper's own Algorithm 1 minimizes, too.
    """

    tolerance: float = 3e-3
    iterations: int = 200
    likelihood_iterations: int = 300
    likelihood_solver: LikelihoodSolver = "accelerated"


@dataclass(frozen=True)
class Cell:
    """One run."""

    dataset: str
    mechanism: str
    seed: int
    epsilon: float = 1.0
    effort: Effort = Effort()
    split: hdmm.Split = "best"
    draw: int = 0

    @property
    def name(self) -> str:
        """Names the file of the result."""
        effort = f"{self.effort.tolerance:g}-{self.effort.iterations}"
        if self.mechanism == "DualQuery":
            solver = "" if self.effort.likelihood_solver == "mirror_descent" else f"{self.effort.likelihood_solver}-"
            effort = f"{solver}{self.effort.likelihood_iterations}"
        split = "" if self.split == "best" else f"-{self.split}"
        draw = f"-draw{self.draw}" if self.draw else ""
        return f"{self.dataset}{draw}-{self.mechanism}{split}-{self.epsilon:g}-{self.seed}-{effort}"

    def row(self) -> dict[str, Any]:
        """The errors by estimator, and the seconds of PGM's estimate."""
        run = {"HDMM": _hdmm, "MWEM": _mwem, "PrivBayes": _privbayes, "DualQuery": _dual_query}[self.mechanism]
        known = {"dataset": self.dataset, "mechanism": self.mechanism, "seed": self.seed, "epsilon": self.epsilon}
        return {**known, "split": self.split, "draw": self.draw, **run(self, problem(self.dataset, self.draw))}


def _estimate(cell: Cell, known: Problem, measurements: list[pg.LinearMeasurement]) -> pg.Model:
    return pg.estimate(
        measurements, known.domain, total=known.data.records, tolerance=cell.effort.tolerance,
        max_iterations=cell.effort.iterations,
    )  # fmt: skip


def _hdmm(cell: Cell, known: Problem) -> dict[str, Any]:
    """Local least squares, global least squares and PGM on one set of measurements.

    `measured_*` are errors on the measured queries instead of the workload's.
    """
    measurements = hdmm.measure(known, cell.epsilon, cell.seed, cell.split)
    start = time.perf_counter()
    model = _estimate(cell, known, measurements)
    seconds = time.perf_counter() - start
    fitted = hdmm.measured_error(known, [m.answer(model.project(m.clique)) for m in measurements])
    return {
        "error_original": known.error_of(hdmm.local_least_squares(known, measurements)),
        "error_global": known.error(hdmm.global_least_squares(known, measurements)),
        "error_pgm": known.error(model),
        "measured_original": hdmm.measured_error(known, hdmm.local_fits(known, measurements)),
        "measured_pgm": fitted,
        "seconds": seconds,
    }


def _mwem(cell: Cell, known: Problem) -> dict[str, Any]:
    total = float(known.data.records)
    plain = mwem.mwem(known, mwem.FactoredWeights(known.domain, total), cell.epsilon, cell.seed)
    start = time.perf_counter()
    graphical = mwem.GraphicalModel(known.domain, total)
    fitted = mwem.mwem(known, graphical, cell.epsilon, cell.seed)
    return {
        "error_original": known.error(plain.model),
        "error_pgm": known.error(fitted.model),
        "rounds": plain.rounds,
        "planned": plain.planned,
        "seconds": time.perf_counter() - start,
    }


def _privbayes(cell: Cell, known: Problem) -> dict[str, Any]:
    result = privbayes.measure(known, cell.epsilon, cell.seed)
    start = time.perf_counter()
    model = privbayes.graphical_model(known, result, cell.effort.tolerance, cell.effort.iterations)
    seconds = time.perf_counter() - start
    return {
        "error_original": known.error(privbayes.sampled(known, result, cell.seed)),
        "error_network": known.error(result.model),
        "error_pgm": known.error(model),
        "seconds": seconds,
    }


def _dual_query(cell: Cell, known: Problem) -> dict[str, Any]:
    transcript = dual_query.dual_query(known, cell.epsilon, DELTA, cell.seed)
    made = transcript.records
    share = known.data.records / made.records
    start = time.perf_counter()
    model = dual_query.most_likely(transcript, cell.effort.likelihood_iterations, method=cell.effort.likelihood_solver)
    return {
        "error_original": known.error_of([share * i.answer(made.project(i.clique)) for i in known.workload]),
        "error_pgm": known.error(model),
        "steps": made.records,
        "nats": model.report.loss,
        "nats_truth": dual_query.WorkloadLikelihood(transcript).value(_true_marginals(known)),
        "iterations": model.report.iterations,
        "likelihood_solver": cell.effort.likelihood_solver,
        "seconds": time.perf_counter() - start,
    }


def _true_marginals(known: Problem) -> CliqueVector:
    tables = {item.clique: known.data.project(item.clique) for item in known.workload}
    return CliqueVector(known.domain, tables)
