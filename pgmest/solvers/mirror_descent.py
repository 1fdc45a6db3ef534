"""Mirror descent with a line search (PGM Algorithm 1): plain, monotone, for any smooth convex loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

SMALLEST_PROMISE = 1e-15
"""A step that promises less than this share of the loss cannot change it in floating point."""


@dataclass(kw_only=True)
class MirrorState(State):
    """The loss and the gradient at p, and the step size to try next."""

    loss: float
    gradient: np.ndarray
    size: float


@dataclass(frozen=True)
class MirrorDescent(Solver[MirrorState]):
    r"""theta <- theta - eta * gradient L(mu), one oracle call an iteration (PGM Algorithm 1).

    A step is accepted when the loss falls by at least half of what the gradient promises,
    $f(p) - f(q) \ge \tfrac12 \langle g, p - q \rangle$; the next one is then tried longer. A refused step costs its
    oracle call and halves the size. Converges like 1/k. Choose it for its simplicity, or to stop early by hand;
    `AcceleratedMirrorDescent` needs far fewer calls.

    Attributes:
        growth: factor of the step size after an accepted step.
    """

    growth: float = 1.3
    name: str = "mirror_descent"

    def start(self, problem: Problem, theta: np.ndarray) -> MirrorState:
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        spread = float(np.ptp(gradient)) if gradient.size else 0.0
        size = 1.0 / spread if spread > 0 else 1.0  # the first step changes potentials by at most one
        return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=size)

    def step(self, problem: Problem, state: MirrorState) -> MirrorState:
        theta = state.theta - state.size * state.gradient
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        promised = dot(state.gradient, state.p - p)
        if state.loss - loss >= 0.5 * promised:
            return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=state.size * self.growth)
        state.size *= 0.5
        if promised <= SMALLEST_PROMISE * abs(state.loss):
            state.status = Status.PRECISION
        return state
