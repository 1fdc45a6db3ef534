"""Mirror descent (PGM Algorithm 1), with a line search or with the paper's constant or decreasing steps.

The line search makes the loss decrease monotonically for any smooth convex loss. Decreasing steps do not need a
continuous gradient; they are the published way to minimize an L1 loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

GROWTH = 1.3
"""The factor on the step size after an accepted step of the line search."""

SMALLEST_DECREASE = 1e-15
"""A step with a predicted decrease below this share of the loss cannot change the loss in floating point."""


Rule = Literal["line_search", "constant", "decreasing"]
RULES: tuple[Rule, ...] = ("line_search", "constant", "decreasing")


@dataclass(kw_only=True)
class MirrorState(State):
    """The state of mirror descent.

    Attributes:
        loss, gradient: the loss at p and its gradient.
        size: the next step size; for "decreasing" steps, that of the first step.
        t: the number of steps, under a rule without a line search.
    """

    loss: float
    gradient: np.ndarray
    size: float
    t: int = 0


@dataclass(frozen=True)
class MirrorDescent(Solver[MirrorState]):
    r"""theta <- theta - eta_t * gradient L(mu), with one oracle call per iteration (PGM Algorithm 1).

    ===========  =================================================================================================
    rule         eta_t
    ===========  =================================================================================================
    line_search  a step is accepted if the loss falls by at least half of its linear prediction,
                 $f(p) - f(q) \ge \tfrac12 \langle g, p - q \rangle$; the next step is longer. A refused step costs its
                 oracle call and halves the size. The gap falls like 1/k for smooth losses; at a kink it gets stuck
    constant     `size`; by default 1 / `Problem.lipschitz`, with which the loss never rises. The gap falls like 1/k
    decreasing   `size` / sqrt(t); by default size = sqrt(2 log n) / G with n the cells of the domain and G a bound on
                 the gradient of the joint table, the sum over cliques of its largest entry at the start (Beck and
                 Teboulle 2003). The gap falls like log k / sqrt(k) for any convex loss whose gradient stays below G,
                 also for L1 and other losses with kinks. The loss may rise in single steps; the best state at any
                 certificate is returned
    ===========  =================================================================================================

    Choose it for its simplicity. `AcceleratedMirrorDescent`, or `AcceleratedSmoothing` for L1, needs far fewer oracle
    calls.

    >>> import pgmest as pg
    >>> from pgmest.solvers import MirrorDescent
    >>> noisy = pg.LinearMeasurement([70.0, 31.0], ("a",), stddev=1.0, noise="laplace")
    >>> solver = MirrorDescent(rule="decreasing")
    >>> model = pg.estimate([noisy], {"a": 2}, total=100, loss="l1", method=solver, tolerance=0.05)
    >>> model.report.converged, bool(69 <= model.project(("a",)).values[0] <= 70)
    (True, True)

    Attributes:
        rule: the step rule.
        size: the size of "constant" and "decreasing" steps, in the units of a loss of marginals that sum to one.

    Raises:
        ArgumentError: the rule is unknown or the size is not positive. At the start of a run: "constant" steps without
            a size, and a loss without a Lipschitz constant.
    """

    name: str = "mirror_descent"
    rule: Rule = "line_search"
    size: float | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ArgumentError.of("rule", self.rule, list(RULES))
        if self.size is not None and not 0 < self.size < math.inf:
            raise ArgumentError.of("size", self.size, "a positive number, or None")

    def start(self, problem: Problem, theta: np.ndarray) -> MirrorState:
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=self._first(problem, gradient))

    def step(self, problem: Problem, state: MirrorState) -> MirrorState:
        if self.rule != "line_search":
            return self._fixed_step(problem, state)
        theta = state.theta - state.size * state.gradient
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        predicted = dot(state.gradient, state.p - p)
        if state.loss - loss >= 0.5 * predicted:
            return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=state.size * GROWTH)
        state.size *= 0.5
        if predicted <= SMALLEST_DECREASE * abs(state.loss):
            state.status = Status.PRECISION
        return state

    def _fixed_step(self, problem: Problem, state: MirrorState) -> MirrorState:
        t = state.t + 1
        eta = state.size if self.rule == "constant" else state.size / math.sqrt(t)
        theta = state.theta - eta * state.gradient
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=state.size, t=t)

    def _first(self, problem: Problem, gradient: np.ndarray) -> float:
        """Return the size of the first step."""
        if self.size is not None:
            return self.size
        if self.rule == "line_search":
            spread = float(np.ptp(gradient)) if gradient.size else 0.0
            return 1.0 / spread if spread > 0 else 1.0  # the first step changes potential differences by at most 1
        if self.rule == "constant":
            if problem.lipschitz is None:
                raise ArgumentError(
                    "MirrorDescent(rule='constant') needs a `size` for this loss, which has no Lipschitz constant; "
                    "rule='decreasing' converges without one."
                )
            return 1.0 / problem.lipschitz if problem.lipschitz > 0 else 1.0
        largest = sum(float(np.abs(table).max()) for table in np.split(gradient, problem.layout.offsets[1:-1]))
        cells = sum(math.log(size) for size in problem.layout.domain.shape)
        return math.sqrt(2.0 * cells) / largest if largest > 0 and cells > 0 else 1.0
