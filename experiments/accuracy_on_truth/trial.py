"""One trial: a case, a noise level, a seed; every estimator, scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from experiments.accuracy_on_truth.cases import Case
from experiments.accuracy_on_truth.estimators import (
    Estimate,
    Watched,
    flow_path,
    penalty_path,
    squares,
    thresholded,
)
from experiments.accuracy_on_truth.rules import CAUTIOUS, FIXED, HELD_OUT, Row, chosen, thresholds
from experiments.accuracy_on_truth.scoring import Judge
from pgmest.losses.l2 import L2Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.acceleration import AcceleratedState
from pgmest.solvers.held_out import HeldOut, split_noise
from pgmest.solvers.independent import independent_potentials, one_way_shares
from pgmest.solvers.mirror_descent import MirrorDescent
from pgmest.solvers.problem import Problem
from pgmest.solvers.run import Minimization, Stopping
from pgmest.solvers.solver import Solver, State

PathOf = Callable[[Problem, np.ndarray], Iterator[Estimate]]
"""`penalty_path` or `flow_path`."""

TOLERANCE = 1e-3
MOST_STEPS = 6000
PATH_STEPS = {"accelerated": 3000, "mirror descent": 1000}
EVERY = 1.2
"""Steps at which a path is scored grow by this factor."""


class Trial:
    """All estimators on one set of noisy answers; the slow ones and the less likely ones only if `thorough`."""

    def __init__(self, case: Case, stddev: float, seed: int, thorough: bool):
        self.case, self.seed = case, seed
        self.thorough = thorough
        self.measurements = case.measurements(stddev, seed)
        self.problem = self.problem_of(self.measurements)
        self.floor = self.problem.loss.noise_floor
        self.judge = Judge(case, self.problem, stddev)
        self.shares = one_way_shares(squares(self.problem))
        self.starts = {
            "uniform": self.problem.base,
            "independent": independent_potentials(self.problem, self.shares),
        }

    def problem_of(self, measurements: list[LinearMeasurement]) -> Problem:
        return Problem.of(L2Loss(measurements, self.case.domain), self.case.data.total)

    def rows(self) -> Iterator[Row]:
        self.optimum = self.exact("exact optimum", 0.0, self.problem)
        yield self.optimum
        for start in self.starts:
            if self.thorough or start == "independent":
                yield from self.solver_path("accelerated", AcceleratedMirrorDescent(), start)
            if self.thorough:
                yield from self.solver_path("mirror descent", MirrorDescent(), start)
                yield from self.regularized("KL penalty", penalty_path, start)
            if self.thorough or start == "independent":
                yield from self.regularized("mirror flow", flow_path, start)
        if self.thorough:
            yield from self.with_thresholds()

    def row(self, family: str, rule: str, parameter: float, calls: int, theta: np.ndarray) -> Row:
        p, _ = self.problem.marginals(theta)
        loss, _ = self.problem.loss_and_gradient(p)
        return Row(family, rule, parameter, loss / self.floor, calls, self.judge.model(theta, p))

    def exact(self, family: str, parameter: float, problem: Problem, tolerance: float = TOLERANCE) -> Row:
        run = Minimization(problem, AcceleratedMirrorDescent(), Stopping(tolerance, MOST_STEPS))
        state, report = run.run(self.starts["independent"].copy())
        return self.row(family, FIXED, parameter, report.oracle_calls, state.theta)

    def solver_path(self, name: str, solver: Solver, start: str) -> Iterator[Row]:
        """Some steps of a solver, and where each rule would have stopped it."""
        path = _Path(self, f"{name} from {start}")
        watched = Watched(solver, path.visit)
        stopping = Stopping(0.0, PATH_STEPS[name], path.complete)
        Minimization(self.problem, watched, stopping).run(self.starts[start].copy())
        yield from path.points
        yield from chosen(path.points, self.optimum)
        yield from path.averages

    def regularized(self, name: str, method: PathOf, start: str) -> Iterator[Row]:
        """Every strength of a penalty or time of the flow, and which each rule chooses."""
        family = f"{name} from {start}"
        found = list(method(self.problem, self.starts[start]))
        points = [self.row(family, "path", each.parameter, each.calls, each.theta) for each in found]
        yield from points
        yield from (replace(row, rule=FIXED) for row in points)
        yield from chosen(points, self.optimum)
        if start == "independent":
            best, last, calls = self.held_out(method)
            for rule, point in ((HELD_OUT, points[best]), (CAUTIOUS, points[last])):
                yield replace(point, rule=rule, calls=point.calls + calls)

    def held_out(self, method: PathOf) -> tuple[int, int, int]:
        """Return the point of the path that predicts best: fitted to half of the information, tested on the other.

        Returns:
            the point of least held-out loss, the last one after it that is not worse by more than a standard error of
            the difference, and the oracle calls; the search ends one point later.
        """
        fitted, held = split_noise(self.problem, np.random.default_rng(1_000 + self.seed))
        rule, best, last, calls = HeldOut(held), 0, 0, 0
        for index, each in enumerate(method(fitted, independent_potentials(fitted, one_way_shares(squares(fitted))))):
            calls = each.calls
            if not rule.accepts(each.p):
                break
            last = index
            best = index if rule.best is each.p else best
        return best, last, calls

    def with_thresholds(self) -> Iterator[Row]:
        replaced = partial(thresholded, self.measurements, self.shares, self.problem.total)
        for level, both in ((1.0, False), (1.0, True), (2.0, True), (3.0, True)):
            name = "threshold, answer and expectation small" if both else "threshold, answer small"
            yield self.exact(name, level, self.problem_of(replaced(level, both)), 5e-3)


class _Path:
    """Scores the states of a solver: some steps evenly by the logarithm, and each where a rule would have stopped."""

    def __init__(self, trial: Trial, family: str):
        self.trial, self.family = trial, family
        self.first_calls = trial.problem.oracle.calls
        self.points: list[Row] = []
        self.averages: list[Row] = []
        self.step, self.next = -1, 0
        self.open = {rule: stop for rule, stop in thresholds(trial.optimum.loss).items() if stop > trial.optimum.loss}

    def visit(self, state: State) -> None:
        self.step += 1
        loss = self.trial.problem.loss_and_gradient(state.p)[0] / self.trial.floor
        passed = [key for key, stop in self.open.items() if loss <= stop]
        if not passed and self.step < self.next:
            return
        calls = self.trial.problem.oracle.calls - self.first_calls
        scores = self.trial.judge.model(state.theta, state.p)
        self.points.append(Row(self.family, "path", self.step, loss, calls, scores))
        self.next = max(self.step + 1, int(self.step * EVERY))
        for rule, parameter in passed:
            del self.open[rule, parameter]
            if isinstance(state, AcceleratedState):
                scores = self.trial.judge.measured(state.average)
                family = f"{self.family}, averaged marginals"
                self.averages.append(Row(family, rule, parameter, loss, calls, scores))

    def complete(self, progress: object) -> bool:
        """Return whether every rule that can be met was met, and a few points more."""
        return not self.open and self.step >= 1.5 * self.points[-1].parameter
