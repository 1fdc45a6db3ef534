"""The number of records as a free parameter: the total under which the best distribution fits best."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.solver import State

ROUNDS = 30
SETTLED = 1e-7
"""The total is found when the best scaling of the marginals is within this of 1."""

LARGEST_FACTOR = 1e3  # of the total in one round


def fit_total(
    problem: Problem, theta: np.ndarray, solve: Callable[[Problem, np.ndarray], tuple[State, EstimationReport]]
) -> tuple[Problem, State, EstimationReport]:
    """Minimize over distributions and totals in turn, each round from where the last one ended.

    For a fixed distribution p the best total is that of a one-dimensional convex problem, min over s of L(s total p),
    in closed form where L is quadratic. A pair from which neither step moves is optimal over both together: then the
    loss has no slope along p, and p is optimal for its total. A few rounds are enough, because the answers determine
    the total far better than they determine any cell.

    Args:
        problem: with the total to start from.
        theta: the potentials to start from.
        solve: minimizes a problem over distributions, from given potentials.

    Returns:
        the problem with the total found, and the last solution of it; its gap is for that total.
    """
    state, report = solve(problem, theta)
    for _ in range(ROUNDS):
        factor = best_scale(problem, state.p)
        if abs(factor - 1.0) <= SETTLED or report.message.startswith("interrupted"):
            break
        problem = problem.with_total(problem.total * factor)
        state, report = solve(problem, state.theta.copy())
    return problem, state, report


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
        options={"xatol": SETTLED / 10},
    )
    return math.exp(float(found.x))
