"""Record both losses and the error while a loss is minimized: Algorithm 2 for Figures 1d and 2a, all for Figure 3.

Each path is a run of one solver on HDMM's measurements of one of the paper's problems, noted at iterations that grow by
a fifth.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem, problem
from experiments.pgm_icml2019.published import algorithm1, algorithm2, hdmm
from pgmest.losses import L1Loss, L2Loss
from pgmest.solvers import MirrorDescent
from pgmest.solvers.run import Progress
from pgmest.tables.clique_vector import CliqueVector
from pgmest.workloads import Projectable

PAPERS, OURS = "Algorithm 2, the paper's K", "Algorithm 2, our K"
AUTHORS = "Algorithm 1, the authors' line search"
SMALLEST = "Algorithm 2, K / 1000"
SMALLER = {PAPERS: 1.0, "Algorithm 2, K / 100": 100.0, SMALLEST: 1000.0}
"""By what the paper's K is divided."""

METHODS = {
    **dict.fromkeys(SMALLER, "l2"),
    OURS: "l2",
    AUTHORS: "l2",
    "Algorithm 1, line search": "l2",
    "L-BFGS on potentials": "l2",
    "accelerated": "l2",
    "smoothing": "l1",
}
"""A solver and its loss."""

LISTS = ("iteration", "seconds", "l1", "l2", "error")
"""What is noted at each iteration noted; seconds of processor, without the noting."""


@dataclass(frozen=True)
class Path:
    """One run: `row` has lists of equal length, one entry for each iteration noted."""

    method: str
    seed: int
    iterations: int
    epsilon: float = 1.0
    repeats: int = 1
    dataset: str = "adult"

    @property
    def name(self) -> str:
        """Names the file of the result."""
        method = self.method.lower().replace(" ", "_").replace(",", "").replace("'", "")
        method = method.replace("/", "over")
        table = "" if self.dataset == "adult" else f"{self.dataset}-"
        return f"{table}{method}-{self.epsilon:g}-{self.repeats}-{self.seed}-{self.iterations}-equal"

    def row(self) -> dict[str, Any]:
        """Run it."""
        known = problem(self.dataset)
        measurements = repeated(known, self.epsilon, self.seed, self.repeats)
        notes = Notes(known, measurements)
        of = measurements, known.domain, float(known.data.records)
        same = {"method": self.method, "loss": METHODS[self.method], "seed": self.seed, "epsilon": self.epsilon}
        same |= {"repeats": self.repeats, "dataset": self.dataset}
        if self.method in (*SMALLER, OURS):
            k = L2Loss(of[0], known.domain).lipschitz * of[2] ** 2
            if self.method != OURS:
                k = algorithm2.largest_eigenvalue(*of) / SMALLER[self.method]
            model: Projectable = algorithm2.algorithm_2(*of, self.iterations, k, notes.averages)
            same["constant"] = k
        elif self.method == AUTHORS:
            model = algorithm1.algorithm_1(*of, self.iterations, notes.averages)
        else:
            model = pg.estimate(
                of[0], of[1], total=of[2], loss=METHODS[self.method], method=self.solver(), tolerance=1e-4,
                max_iterations=self.iterations, callback=notes,
            )  # fmt: skip
            same["gap"] = model.report.relative_gap
        once = measurements[: len(known.workload)]
        fitted = [measurement.answer(model.project(measurement.clique)) for measurement in once]
        return {
            **same,
            "end": known.error(model),
            "local": known.error_of(hdmm.local_least_squares(known, once)),
            "measured_end": hdmm.measured_error(known, fitted),
            "measured_local": hdmm.measured_error(known, hdmm.local_fits(known, once)),
            **notes.columns(),
        }

    def solver(self) -> Any:
        """The solver of pgmest, for what is not one of the authors'."""
        named = {"L-BFGS on potentials": "lbfgs", "Algorithm 1, line search": MirrorDescent()}
        return named.get(self.method, self.method)


def repeated(known: Problem, epsilon: float, seed: int, repeats: int) -> list[pg.LinearMeasurement]:
    """HDMM's measurements, all of them `repeats` times with the budget split over these."""
    return [
        measurement
        for again in range(repeats)
        for measurement in hdmm.measure(known, epsilon / repeats, seed + 1000 * again)
    ]


@dataclass
class Notes:
    """A callback that notes iteration, seconds, both losses per answer, and the workload error."""

    known: Problem
    measurements: Sequence[pg.LinearMeasurement]
    kept: list[tuple[float, ...]] = field(default_factory=list)
    due: float = 1.0

    def __post_init__(self) -> None:
        domain = self.known.domain
        self.l1, self.l2 = L1Loss(self.measurements, domain), L2Loss(self.measurements, domain)
        self.answers = sum(measurement.rows for measurement in self.measurements)
        self.start, self.noting = time.process_time(), 0.0

    def __call__(self, progress: Progress) -> None:
        """Note the state of one of pgmest's solvers."""
        self._note(progress.iteration, progress.marginals[: self.l2.layout.cells])

    def averages(self, iteration: int, mu: CliqueVector, nu: CliqueVector) -> None:
        """Note mu of Algorithm 2."""
        self._note(iteration, mu.flat)

    def _note(self, iteration: int, flat: np.ndarray) -> None:
        self.latest = iteration, flat
        if iteration >= self.due:
            self.kept.append(self._row())
            self.due = max(iteration + 1, iteration * 1.2)

    def columns(self) -> dict[str, list[float]]:
        """Return the recorded values, the end included."""
        rows = [*(row for row in self.kept if row[0] < self.latest[0]), self._row()]
        return {name: [float(row[place]) for row in rows] for place, name in enumerate(LISTS)}

    def _row(self) -> tuple[float, ...]:
        began = time.process_time()
        iteration, flat = self.latest
        tables = CliqueVector.of(self.l2.layout, flat)
        error = self.known.error_of([item.answer(tables[item.clique]) for item in self.known.workload])
        l1, l2 = (loss.flat_value_and_gradient(flat)[0] / self.answers for loss in (self.l1, self.l2))
        self.noting += time.process_time() - began
        return iteration, time.process_time() - self.start - self.noting, l1, l2, error
