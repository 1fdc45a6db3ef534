"""The number of records as a free parameter: the total under which the best distribution fits best."""

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
"""The total is found when the best scaling of the marginals is within this of 1; at most MAX_ROUNDS are tried."""

LARGEST_FACTOR = 1e3  # of the total in one round


def fit_total(
    problem: Problem, theta: np.ndarray, solver: Solver[Any], stopping: Stopping
) -> tuple[Problem, State, EstimationReport]:
    """Minimize over distributions and totals in turn, each round from where the last one ended.

    For a fixed distribution p the best total is that of a one-dimensional convex problem, min over s of L(s total p),
    in closed form where L is quadratic. A pair from which neither step moves is optimal over both together: then the
    loss has no slope along p, and p is optimal for its total. A few rounds are enough, because the answers determine
    the total far better than they determine any cell.

    `stopping` is for all rounds together. Where it ends them, the total is the best one for the marginals so far.

    Args:
        problem: with the total to start from.
        theta: the potentials to start from.
        solver, stopping: as for `Minimization`.

    Returns:
        the problem with the total found, the last solution of it, and the report of all rounds; its gap is for that
        total.
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
            return problem, *_judged(problem, state, status, run)
        theta = state.theta.copy()
        run = Minimization(problem, solver, stopping, run.effort)
    return problem, *_judged(problem, state, Status.TOTAL, run)


def best_scale(problem: Problem, p: np.ndarray) -> float:
    """argmin over s of L(s total p), within a factor of LARGEST_FACTOR of 1."""
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
class _AtRest(Solver[State]):
    """A solver that stays where another one ended: its report is that of the state."""

    state: State
    status: Status
    name: str

    def start(self, problem: Problem, theta: np.ndarray) -> State:
        return State(theta, self.state.p, self.state.log_partition, self.status)

    def step(self, problem: Problem, state: State) -> State:
        return state


def _judged(problem: Problem, state: State, status: Status, last: Minimization) -> tuple[State, EstimationReport]:
    """A state under a new total, with a certificate for that total."""
    rest = _AtRest(state, status, last.solver.name)
    return Minimization(problem, rest, last.stopping, last.effort).run(state.theta)
