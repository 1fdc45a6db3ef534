"""Mirror descent (PGM Algorithm 1): plain; with a line search monotone, for any smooth convex loss.

The paper's other two step rules are here as well, constant and decreasing steps. The decreasing ones need no gradient
that is continuous: they are the published way to minimize an L1 loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

SMALLEST_PROMISE = 1e-15
"""A step that promises less than this share of the loss cannot change it in floating point."""


Rule = Literal["line_search", "constant", "decreasing"]
RULES: tuple[Rule, ...] = ("line_search", "constant", "decreasing")


@dataclass(kw_only=True)
class MirrorState(State):
    """The loss and the gradient at p, and the step size to try next; `t` counts the steps of a fixed rule."""

    loss: float
    gradient: np.ndarray
    size: float
    t: int = 0


@dataclass(frozen=True)
class MirrorDescent(Solver[MirrorState]):
    r"""theta <- theta - eta_t * gradient L(mu), one oracle call an iteration (PGM Algorithm 1).

    ===========  =================================================================================================
    rule         eta_t
    ===========  =================================================================================================
    line_search  accepted when the loss falls by at least half of what the gradient promises,
                 $f(p) - f(q) \ge \tfrac12 \langle g, p - q \rangle$; the next one is then tried longer. A refused
                 step costs its oracle call and halves the size. Converges like 1/k for smooth losses; at a kink it jams
    constant     `size`; by default 1 / `Problem.lipschitz`, with which the loss never rises. Converges like 1/k
    decreasing   `size` / sqrt(t); by default size = sqrt(2 log n) / G with n the cells of the domain and G a bound on
                 the gradient of the joint table, the sum over cliques of its largest entry at the start (Beck and
                 Teboulle 2003). Converges like log k / sqrt(k) for any convex loss whose gradient stays below G, also
                 one with kinks, L1 among them; the loss need not fall in each step, so the best point at any
                 certificate is what counts
    ===========  =================================================================================================

    Choose it for its simplicity, or to stop early by hand; `AcceleratedMirrorDescent` needs far fewer calls, and
    `AcceleratedSmoothing` for L1.

    >>> import pgmest as pg
    >>> from pgmest.solvers import MirrorDescent
    >>> noisy = pg.LinearMeasurement([70.0, 31.0], ("a",), stddev=1.0, noise="laplace")
    >>> solver = MirrorDescent(rule="decreasing")
    >>> model = pg.estimate([noisy], {"a": 2}, total=100, loss="l1", method=solver, tolerance=0.05)
    >>> model.report.converged, bool(69 <= model.project(("a",)).values[0] <= 70)
    (True, True)

    Attributes:
        rule: how long the steps are.
        size: of "constant" and "decreasing" steps, in the units of a loss of marginals that sum to one.
        growth: factor of the step size after an accepted step of the line search.

    Raises:
        ArgumentError: another rule, a size that is not positive, or when it runs "constant" steps without a size on a
            loss that has no Lipschitz constant.
    """

    growth: float = 1.3
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
        promised = dot(state.gradient, state.p - p)
        if state.loss - loss >= 0.5 * promised:
            return MirrorState(theta, p, log_partition, loss=loss, gradient=gradient, size=state.size * self.growth)
        state.size *= 0.5
        if promised <= SMALLEST_PROMISE * abs(state.loss):
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
        """The size of the first step."""
        if self.size is not None:
            return self.size
        if self.rule == "line_search":
            spread = float(np.ptp(gradient)) if gradient.size else 0.0
            return 1.0 / spread if spread > 0 else 1.0  # the first step changes potentials by at most one
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
