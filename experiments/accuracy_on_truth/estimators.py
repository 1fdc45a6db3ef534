"""Ways to an estimate: paths of solvers, penalties of relative entropy, thresholded answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.mirror_flow import mirror_flow, unit_strength
from pgmest.solvers.penalized import penalized
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State

STRENGTHS = (4.0, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06)
"""Penalties, in the unit of `unit_strength`."""


@dataclass(frozen=True)
class Watched(Solver[State]):
    """A solver whose every state is shown to `visit`."""

    solver: Solver
    visit: Callable[[State], None]
    name: str = "watched"

    def start(self, problem: Problem, theta: np.ndarray) -> State:
        state = self.solver.start(problem, theta)
        self.visit(state)
        return state

    def step(self, problem: Problem, state: State) -> State:
        state = self.solver.step(problem, state)
        self.visit(state)
        return state

    def lower_bound(self, problem: Problem, state: State, sufficient_gap: float) -> float:
        return self.solver.lower_bound(problem, state, sufficient_gap)


@dataclass(frozen=True)
class Estimate:
    """A point of a path of regularized estimates.

    Attributes:
        parameter: the strength of the penalty, or the time of the flow.
        theta, p: potentials, and marginals as fractions.
        calls: of the oracle, since the path began.
    """

    parameter: float
    theta: np.ndarray
    p: np.ndarray
    calls: int


def penalty_path(problem: Problem, prior: np.ndarray) -> Iterator[Estimate]:
    """f + strength * unit * KL(. || q) for every one of STRENGTHS, the strongest first."""
    theta, first, unit = prior, problem.oracle.calls, unit_strength(squares(problem))
    for strength in STRENGTHS:
        point = penalized(problem, prior, strength * unit, theta)
        theta = point.theta
        yield Estimate(strength, theta, point.p, problem.oracle.calls - first)


def flow_path(problem: Problem, start: np.ndarray) -> Iterator[Estimate]:
    """The mirror flow at each of the times at which the package's `MirrorFlow` may stop.

    At time t it shrinks as the penalty of strength 1 / t does, but what the answers have settled is soon free of bias.
    """
    first = problem.oracle.calls
    for time, point in mirror_flow(problem, start):
        yield Estimate(time, point.theta, point.p, problem.oracle.calls - first)


def squares(problem: Problem) -> WeightedSquares:
    """The problem's loss: all measurements here are whole marginals."""
    assert isinstance(problem.loss, WeightedSquares)
    return problem.loss


def thresholded(
    measurements: list[LinearMeasurement], shares: dict[str, np.ndarray], total: float, level: float, both: bool
) -> list[LinearMeasurement]:
    """Answers below `level` standard deviations replaced by what independent attributes would give.

    With `both`, only where that is below the threshold as well.
    """
    found = []
    for measurement in measurements:
        if len(measurement.clique) == 1:
            found.append(measurement)
            continue
        expected = np.full(1, total)
        for name in measurement.clique:
            expected = np.multiply.outer(expected, shares[name]).reshape(-1)
        values = np.asarray(measurement.values).reshape(-1)
        small = values < level * np.asarray(measurement.stddev)
        if both:
            small &= expected < level * np.asarray(measurement.stddev)
        found.append(LinearMeasurement(np.where(small, expected, values), measurement.clique, measurement.stddev))
    return found
