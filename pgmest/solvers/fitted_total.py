"""Estimation with the number of records as a free parameter, fitted together with the distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.run import Minimization, Stopping
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

MAX_ROUNDS = 31
TOTAL_TOLERANCE = 1e-7
"""Rounds end if the best scaling of the marginals is within TOTAL_TOLERANCE of 1, or after MAX_ROUNDS rounds."""

LARGEST_FACTOR = 1e3
"""The largest factor by which the total can grow or shrink in one round."""


def fit_total(
    problem: Problem, theta: np.ndarray, solver: Solver[Any], stopping: Stopping
) -> tuple[Problem, State, EstimationReport]:
    """Minimize over distributions and totals in turn; each round starts from the result of the round before.

    For a fixed distribution p the best total solves a one-dimensional convex problem, min over s of L(s total p), which
    has a closed form for quadratic L. A pair that neither step changes is optimal over both: the slope of the loss
    along p is zero, and p is optimal for its total. A few rounds are enough, because the answers determine the total
    far better than they determine any cell.

    `stopping` limits all rounds together. If it ends them, the total is the best one for the last marginals.

    Args:
        problem: the problem with the total to start from.
        theta: the potentials to start from.
        solver, stopping: as for `Minimization`.

    Returns:
        the problem with the fitted total, its last solution, and the report of all rounds, whose gap is for that total.
    """
    run = Minimization(problem, solver, stopping)
    for _ in range(MAX_ROUNDS):
        state, report = run.run(theta)
        factor = best_scale(problem, state.p)
        if abs(factor - 1.0) <= TOTAL_TOLERANCE:
            return problem, state, report
        problem = problem.with_total(problem.total * factor)
        if report.status.cut_short or run.effort.iterations >= stopping.max_iterations:
            status = report.status if report.status.cut_short else Status.ITERATIONS
            return problem, *_certified(problem, state, status, run)
        theta = state.theta.copy()
        run = Minimization(problem, solver, stopping, run.effort)
    return problem, *_certified(problem, state, Status.TOTAL, run)


def best_scale(problem: Problem, p: np.ndarray) -> float:
    """Return the s that minimizes L(s total p), clipped to [1 / LARGEST_FACTOR, LARGEST_FACTOR]."""
    curvature = problem.curvature_along(p)
    if curvature:
        _, gradient = problem.loss_and_gradient(p)
        return float(np.clip(1.0 - dot(gradient, p) / (2.0 * curvature), 1.0 / LARGEST_FACTOR, LARGEST_FACTOR))
    from scipy.optimize import minimize_scalar

    bounds = (-math.log(LARGEST_FACTOR), math.log(LARGEST_FACTOR))
    found = minimize_scalar(
        lambda log_s: problem.loss_and_gradient(math.exp(log_s) * p)[0],
        bounds=bounds,
        method="bounded",
        options={"xatol": TOTAL_TOLERANCE / 10},
    )
    return math.exp(float(found.x))


@dataclass(frozen=True)
class _FixedState(Solver[State]):
    """A solver that takes no step from a given state, so that a run only computes its certificate and report."""

    state: State
    status: Status
    name: str

    def start(self, problem: Problem, theta: np.ndarray) -> State:
        return State(theta, self.state.p, self.state.log_partition, self.status)

    def step(self, problem: Problem, state: State) -> State:
        return state


def _certified(problem: Problem, state: State, status: Status, last: Minimization) -> tuple[State, EstimationReport]:
    """Return the state with a report whose certificate is for the new total of `problem`."""
    fixed = _FixedState(state, status, last.solver.name)
    return Minimization(problem, fixed, last.stopping, last.effort).run(state.theta)
