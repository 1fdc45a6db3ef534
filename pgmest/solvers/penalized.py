"""The minimizer of a quadratic loss plus a penalty of relative entropy: the implicit step of the mirror flow."""

from __future__ import annotations

import numpy as np

from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.lbfgs import BACKTRACK, SHORTEST_STEP, SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State

GAP_SHARE = 2e-3
"""The certified gap at which an implicit step stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MAX_STEPS = 3000

PAIRS = 10
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


def _by_dual(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> tuple[State, float]:
    """The best point that limited-memory BFGS comes to, and its gap."""
    dual = _Dual(problem, prior, strength)
    scaled = dual.scale * problem.marginals(start)[0][problem.measured]
    value, slope = dual.negative(scaled)
    pairs = max(3, min(PAIRS, KEPT_NUMBERS // (2 * max(1, len(scaled)))))
    hessian, size = InverseHessian(pairs), 1.0
    while dual.gap > GAP_SHARE * problem.loss.noise_floor and dual.calls < MAX_STEPS and size > SHORTEST_STEP:
        direction = hessian.descent(slope)
        descent = dot(direction, slope)
        size = 1.0
        while size > SHORTEST_STEP:
            next_value, next_slope = dual.negative(scaled + size * direction)
            if next_value <= value + SUFFICIENT_DECREASE * size * descent:
                break
            size *= BACKTRACK
        hessian = hessian.updated(size * direction, next_slope - slope)
        scaled, value, slope = scaled + size * direction, next_value, next_slope
    return dual.best, dual.gap


class _Dual:
    """D, as a function of x in variables in which f is a plain square.

    Attributes:
        scale: of these variables to x.
        best, gap: the distribution with the least gap so far, and that gap.
        calls: how often it was evaluated.
    """

    def __init__(self, problem: Problem, prior: np.ndarray, strength: float):
        assert isinstance(problem.loss, WeightedSquares)
        self._problem, self._loss = problem, problem.loss
        self._prior, self._strength = prior, strength
        self.scale = np.sqrt(problem.loss.curvature_floor())
        self.best: State
        self.gap, self.calls = np.inf, 0

    def negative(self, scaled: np.ndarray) -> tuple[float, np.ndarray]:
        """-D and its gradient: one oracle call."""
        x = scaled / self.scale
        value, gradient = self._loss.flat_value_and_gradient(x)
        theta = self._prior.copy()
        theta[self._problem.measured] -= gradient / self._strength
        w, log_partition = self._problem.marginals(theta)
        difference = w[self._problem.measured] - x
        gap = self._loss.quadratic(difference)
        self.calls += 1
        if gap < self.gap or self.calls == 1:
            self.best, self.gap = State(theta, w, log_partition), gap
        return dot(gradient, x) - value + self._strength * log_partition, -self.scale * difference


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
