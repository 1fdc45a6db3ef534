"""Record both losses and the error while a loss is minimized, for Figure 3 and for the end of Figure 2a.

Each path is a run of one solver on HDMM's measurements of the paper's problem on Adult, noted at iterations that grow
by a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem, problem
from experiments.pgm_icml2019.published import hdmm
from pgmest.graph.junction_tree import JunctionTree
from pgmest.losses import L1Loss, L2Loss
from pgmest.solvers import DualAveraging, MirrorDescent
from pgmest.solvers.run import Progress
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

METHODS = {
    "Algorithm 2, the paper's K": "l2",
    "Algorithm 2, our K": "l2",
    "Algorithm 1, line search": "l2",
    "accelerated": "l2",
    "Algorithm 1, decreasing steps": "l1",
    "Algorithm 1 on L1, line search": "l1",
    "smoothing": "l1",
}
"""A solver and its loss."""

LISTS = ("iteration", "seconds", "l1", "l2", "error")
"""What is noted at each iteration noted."""


@dataclass(frozen=True)
class Path:
    """One run: `row` has lists of equal length, one entry for each iteration noted."""

    method: str
    seed: int
    iterations: int
    epsilon: float = 1.0
    repeats: int = 1
    split: hdmm.Split = "best"

    @property
    def name(self) -> str:
        """Names the file of the result."""
        method = self.method.lower().replace(" ", "_").replace(",", "").replace("'", "")
        split = "" if self.split == "best" else f"-{self.split}"
        return f"{method}-{self.epsilon:g}-{self.repeats}-{self.seed}-{self.iterations}{split}"

    def row(self) -> dict[str, Any]:
        """Run it."""
        known = problem("adult")
        measurements = repeated(known, self.epsilon, self.seed, self.repeats, self.split)
        notes = Notes(known, measurements)
        loss = METHODS[self.method]
        model = pg.estimate(
            measurements, known.domain, total=known.data.records, loss=loss, method=self.solver(known, measurements),
            tolerance=1e-4, max_iterations=self.iterations, callback=notes,
        )  # fmt: skip
        same = {"method": self.method, "loss": loss, "seed": self.seed, "epsilon": self.epsilon}
        same |= {
            "repeats": self.repeats,
            "split": self.split,
            "gap": model.report.relative_gap,
            "end": known.error(model),
        }
        local = known.error_of(hdmm.local_least_squares(known, measurements[: len(known.workload)]))
        return {**same, "local": local, **notes.columns()}

    def solver(self, known: Problem, measurements: Sequence[pg.LinearMeasurement]) -> Any:
        """The solver of the method."""
        return {
            "Algorithm 2, the paper's K": lambda: DualAveraging(lipschitz=papers_constant(known, measurements)),
            "Algorithm 2, our K": DualAveraging,
            "Algorithm 1, line search": MirrorDescent,
            "accelerated": lambda: "accelerated",
            "Algorithm 1, decreasing steps": lambda: MirrorDescent(rule="decreasing"),
            "Algorithm 1 on L1, line search": MirrorDescent,
            "smoothing": lambda: "smoothing",
        }[self.method]()


def repeated(
    known: Problem, epsilon: float, seed: int, repeats: int, split: hdmm.Split = "best"
) -> list[pg.LinearMeasurement]:
    """HDMM's measurements, all of them `repeats` times with the budget split over these."""
    return [
        measurement
        for again in range(repeats)
        for measurement in hdmm.measure(known, epsilon / repeats, seed + 1000 * again, split)
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

    def __call__(self, progress: Progress) -> None:
        self.latest = progress.iteration, progress.seconds, progress.marginals
        if progress.iteration >= self.due:
            self.kept.append(self._row())
            self.due = max(progress.iteration + 1, progress.iteration * 1.2)

    def columns(self) -> dict[str, list[float]]:
        """Return the recorded values, the end included."""
        rows = [*(row for row in self.kept if row[0] < self.latest[0]), self._row()]
        return {name: [float(row[place]) for row in rows] for place, name in enumerate(LISTS)}

    def _row(self) -> tuple[float, ...]:
        iteration, seconds, flat = self.latest
        tables = CliqueVector.of(self.l2.layout, flat[: self.l2.layout.cells])
        error = self.known.error_of([item.answer(tables[item.clique]) for item in self.known.workload])
        l1, l2 = (loss.flat_value_and_gradient(flat)[0] / self.answers for loss in (self.l1, self.l2))
        return iteration, seconds, l1, l2, error


def papers_constant(known: Problem, measurements: Sequence[pg.LinearMeasurement], rounds: int = 15) -> float:
    """The largest eigenvalue of Q^T Q over the junction tree's tables (PGM 3.2), for a loss of fractions.

    As in the authors' published code each measurement is about one clique of the tree, and the constant is that of the
    clique with the largest; found by power iteration.
    """
    tree = JunctionTree.from_cliques(known.domain, [measurement.clique for measurement in measurements])
    groups: dict[int, list[pg.LinearMeasurement]] = {}
    for measurement in measurements:
        place = tree.containing(measurement.clique)
        assert place is not None
        groups.setdefault(place, []).append(measurement)
    largest = max(_eigenvalue(known, tree.cliques[place], group, rounds) for place, group in groups.items())
    return float(known.data.records) ** 2 * largest


def _eigenvalue(known: Problem, clique: tuple[str, ...], group: Sequence[pg.LinearMeasurement], rounds: int) -> float:
    domain = known.domain.project(clique)
    vector = Factor(domain, np.random.default_rng(0).random(domain.shape))
    value = 0.0
    for _ in range(rounds):
        vector = vector * (1.0 / np.linalg.norm(vector.values))
        total = Factor(domain, np.zeros(domain.shape))
        for measurement in group:
            answers = measurement.answer(vector.project(measurement.clique)) / np.square(measurement.stddev)
            cells = measurement.transpose_cells(answers).reshape(known.domain.project(measurement.clique).shape)
            total = total + Factor(known.domain.project(measurement.clique), cells).expand(domain)
        value = float(np.sum(vector.values * total.values))
        vector = total
    return value
