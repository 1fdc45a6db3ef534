"""The minimizer of a quadratic loss plus a penalty of relative entropy: the implicit step of the mirror flow."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State

GAP_SHARE = 2e-3
"""The certified gap at which an implicit step stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MAX_STEPS = 3000

PAIRS = 20
"""Changes of the variables, and of the gradient, from which the curvature of the dual is learned."""

KEPT_NUMBERS = 1 << 27
"""Fewer pairs, where they would take more numbers than that: 1 GB."""


def penalized(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> State:
    r"""The minimizer of $f(p) + s \, KL(p \| q)$, to a certified gap of GAP_SHARE noise floors or for MAX_STEPS steps.

    By the dual: with f linearized at any x, the rest has its minimum at $w = p(\theta_q - \nabla f(x) / s)$, which is a
    lower bound of the whole,

    .. math:: D(x) = f(x) - \langle \nabla f(x), x \rangle + s \, (A(\theta_q) - A(\theta_q - \nabla f(x) / s)),

    and for a quadratic f the value at w exceeds it by exactly f(w) - f(x) - <grad f(x), w - x>, the distance of w from
    x: each oracle call brings its certificate with it. D is concave and smooth, no x is out of bounds, and in variables
    in which f is a plain square its curvature is 1 plus that of A. It is maximized by limited-memory BFGS, in fewer
    oracle calls than accelerated mirror descent takes, which goes on where rounding errors end that too early.

    Args:
        problem: what f is; weighted squares with positive precisions.
        prior: flat potentials of q.
        strength: s > 0, in the units of the loss.
        start: flat potentials to start from, -inf where those of `prior` are.
    """
    found, gap = _by_dual(problem, prior, strength, start)
    if gap <= GAP_SHARE * problem.loss.noise_floor:
        return found
    return _by_mirror_descent(problem, prior, strength, found.theta)


class _Certified(Exception):
    """The gap is small enough."""


def _by_dual(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> tuple[State, float]:
    """The best point that limited-memory BFGS comes to, and its gap."""
    from scipy.optimize import minimize

    loss, measured = problem.loss, problem.measured
    assert isinstance(loss, WeightedSquares)
    scale = np.sqrt(loss.curvature_floor())
    enough, least = GAP_SHARE * loss.noise_floor, np.inf
    point, log_partition = problem.marginals(start)
    best = State(start, point, log_partition)

    def minus_dual(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least
        x = scaled / scale
        value, gradient = loss.flat_value_and_gradient(x)
        theta = prior.copy()
        theta[measured] -= gradient / strength
        w, log_partition = problem.marginals(theta)
        difference = w[measured] - x
        gap = loss.quadratic(difference)
        if gap < least:
            best, least = State(theta, w, log_partition), gap
        if gap <= enough:
            raise _Certified
        return dot(gradient, x) - value + strength * log_partition, -scale * difference

    pairs = max(3, min(PAIRS, KEPT_NUMBERS // (2 * max(1, len(scale)))))
    options = {"maxcor": pairs, "maxiter": MAX_STEPS, "maxfun": MAX_STEPS, "ftol": 0.0, "gtol": 0.0}
    with suppress(_Certified):
        minimize(minus_dual, scale * point[measured], jac=True, method="L-BFGS-B", options=options)
    return best, least


def _by_mirror_descent(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> State:
    penalty = EntropyPenalty(prior, strength)
    solver = AcceleratedMirrorDescent(penalty=penalty)
    state = solver.start(problem, start.copy())
    for step in range(1, MAX_STEPS + 1):
        state = solver.step(problem, state)
        if state.status is not None:
            break
        if step % CHECK_EVERY == 0 and penalty.gap(problem, state) <= GAP_SHARE * problem.loss.noise_floor:
            break
    return State(state.theta, state.p, state.log_partition)
