"""Estimation with the number of records as a free parameter, fitted together with the distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.run import Minimization, Stopping
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status
from pgmest.solvers.total import least_total

MAX_ROUNDS = 31
TOTAL_TOLERANCE = 1e-7
"""Rounds end if the best scaling of the marginals is within TOTAL_TOLERANCE of 1, or after MAX_ROUNDS rounds."""

LARGEST_FACTOR = 1e3
"""The largest factor by which the total can grow or shrink in one move."""

COARSE = 0.01
"""The first round has at least this tolerance, and later rounds at least COARSE times the move of the round before:
while the total still moves, an exact distribution for it is not worth its iterations."""

LONGEST_SECANT = 30.0
"""A step of the secant rule is at most this many times the move of the round, and at most a move by LARGEST_FACTOR."""

NEAR = 0.01
"""A round starts from the result of the round before if the total has moved by at most this share."""

SMALLEST_TOTAL = 1e-6
"""The fitted total is at least this share of the first one; answers below zero would fit a total of 0 best."""


def fit_total(
    problem: Problem, theta: np.ndarray, solver: Solver[Any], stopping: Stopping
) -> tuple[Problem, State, EstimationReport]:
    """Minimize over distributions and totals in turn.

    For a fixed distribution p the best total solves a one-dimensional convex problem, min over s of L(s total p), which
    has a closed form for quadratic L. A pair that neither step changes is optimal over both: the slope of the loss
    along p is zero, and p is optimal for its total. If answers determine the total far better than any cell, a few
    rounds are enough. In sparse tables with much noise, each round moves only a little in the right direction; then the
    total goes as far as the last two moves, extrapolated by the secant rule, predict. While the total moves by more
    than NEAR, rounds start from `theta`, because cells that a smaller total has emptied fill slowly; later ones start
    from the result of the round before. The total never falls below SMALLEST_TOTAL times the first one, nor below what
    facts need (`least_total`). A total whose tables fit all answers within the tolerance is kept, although others may
    fit as well.

    `stopping` limits all rounds together. If it ends them, the total is the best one for the last marginals.

    Args:
        problem: the problem with the total to start from.
        theta: the potentials to start from.
        solver, stopping: as for `Minimization`.

    Returns:
        the problem with the fitted total, its last solution, and the report of all rounds, whose gap is for that total.
    """
    last = run = Minimization(problem, solver, replace(stopping, tolerance=max(stopping.tolerance, COARSE)))
    start, before = theta, None
    facts = () if problem.facts is None else problem.facts.residuals.measurements
    least = max(SMALLEST_TOTAL * problem.total, least_total(facts))
    for _ in range(MAX_ROUNDS):
        state, report = run.run(theta.copy())
        factor = best_scale(problem, state.p)
        smallest = problem.total <= least and factor < 1.0
        fits = 0.0 <= report.loss <= stopping.tolerance * problem.loss.noise_floor  # no total can fit better
        if fits or ((abs(factor - 1.0) <= TOTAL_TOLERANCE or smallest) and run.stopping == stopping):
            return problem, state, report
        ended = report.status.cut_short or run.effort.iterations >= stopping.max_iterations
        here = math.log(problem.total), math.log(factor)
        step = here[1] if ended else _secant_step(before, here)
        problem = problem.with_total(max(problem.total * math.exp(step), least))
        if ended:
            status = report.status if report.status.cut_short else Status.ITERATIONS
            return problem, *without_steps(problem, state.theta, stopping, status, run)
        theta = start if abs(here[1]) > NEAR else state.theta.copy()
        before, last, move = here, run, 0.0 if smallest else abs(here[1])
        enough = replace(stopping, tolerance=max(stopping.tolerance, COARSE * move))
        run = Minimization(problem, solver, enough, run.effort)
    return problem, *without_steps(problem, theta, stopping, Status.TOTAL, last)


def _secant_step(before: tuple[float, float] | None, here: tuple[float, float]) -> float:
    """Return the change of log total by which the next move would vanish, if moves are linear in log total.

    The change has the direction of the move. It is at most LONGEST_SECANT moves, and at least one move, or a tenth of
    one after a move in the other direction.

    Args:
        before: log total and the move of the last round; None in the first round.
        here: log total and the move of this round.
    """
    move = here[1]
    if before is None or here[0] == before[0]:
        return move
    slope = (move - before[1]) / (here[0] - before[0])
    least = 1.0 if before[1] * move > 0 else 0.1
    step = min(max(-1.0 / slope, least), LONGEST_SECANT) * move if slope < 0 else move
    return min(max(step, -math.log(LARGEST_FACTOR)), math.log(LARGEST_FACTOR))


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
    """A solver that takes no step, so that a run only computes the certificate and the report of its start.

    Attributes:
        status: the reason to stop.
        name: the name in the report.
    """

    status: Status
    name: str

    def start(self, problem: Problem, theta: np.ndarray) -> State:
        return State(theta, *problem.marginals(theta), self.status)

    def step(self, problem: Problem, state: State) -> State:
        return state


def without_steps(
    problem: Problem,
    theta: np.ndarray,
    stopping: Stopping,
    status: Status = Status.CONVERGED,
    last: Minimization | None = None,
) -> tuple[State, EstimationReport]:
    """Return the state at potentials theta, with a report whose certificate is for the total of `problem`.

    Args:
        problem, theta, stopping: as for `Minimization`.
        status: the reason to take no step, unless the certificate proves convergence.
        last: the run that ended at theta, whose name and cost the report has.
    """
    if last is None:
        return Minimization(problem, _FixedState(status, "none"), stopping).run(theta)
    fixed = _FixedState(status, last.solver.name)
    return Minimization(problem, fixed, stopping, last.effort).run(theta)
