"""The universal accelerated method: any convex loss, also one with kinks of which nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.solvers.problem import Problem


@dataclass
class UniversalState(AcceleratedState):
    """`width` is epsilon: how much of the acceptance inequality may be missing, times 2 / a.

    The rest describes this epoch's subgradients g at the points y, weighted by the step sizes 1 / (a L).

    Attributes:
        origin: theta at the start of the epoch; theta = origin - sum of weighted g.
        weight: the sum of the weights.
        offset: the weighted sum of f(y) - <g, y>.
        at_point: f(y) at the last y.
    """

    width: float = np.inf
    origin: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: float = 0.0
    offset: float = 0.0
    at_point: float = 0.0


@dataclass(frozen=True)
class UniversalAccelerated(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent whose steps may fall short by a slack (Nesterov 2015): any convex loss.

    A step is accepted when $f(x') \le f(y) + \langle g, x' - y \rangle + a^2 L\,KL(z' \| z) + a \epsilon / 2$. For a
    kinked loss L then settles at what that accuracy needs, without anyone knowing how smooth the loss is. The slack is
    a share of the loss, and shrinks at each restart.

    The certificate is not the duality gap of one point: near a kink the subgradient jumps. The mean of this epoch's
    linear functions $f(y) + \langle g, q - y \rangle$, weighted by step size, is a lower bound on f(q) too, and the
    potentials hold its gradient already; one max-product sweep finds its minimum.

    Epochs are shorter than for smooth losses, for only restarts make the slack smaller.

    Attributes:
        accuracy: the first slack, relative to the loss at the start.
        narrowing: factor on the slack at each restart.
    """

    epoch: int = 50
    growth: float = 1.4
    accuracy: float = 0.03
    narrowing: float = 0.4
    name: str = "universal"

    def start(self, problem: Problem, theta: np.ndarray) -> UniversalState:
        accelerated = super().start(problem, theta)
        loss, _ = problem.loss_and_gradient(accelerated.p)
        width = self.accuracy * max(abs(loss), np.finfo(float).tiny)
        return UniversalState(**vars(accelerated), width=width, origin=theta.copy())

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        assert isinstance(state, UniversalState)
        super().step(problem, state)
        length = dot(state.gradient, state.gradient)
        if length > 0 and not state.finished:
            weight = -dot(state.move, state.gradient) / length
            state.weight += weight
            state.offset += weight * (state.at_point - dot(state.gradient, state.point))
        return state

    def curving(self, problem: Problem, state: AcceleratedState, at_y: float) -> float:
        """As for any loss; f(y) is noted."""
        assert isinstance(state, UniversalState)
        state.at_point = at_y
        return super().curving(problem, state, at_y)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """The better of the mean of this epoch's linear functions, and the duality gap at the average x."""
        assert isinstance(state, UniversalState)
        bound = super().lower_bound(problem, state, enough)
        if state.weight == 0.0:
            return bound
        with np.errstate(invalid="ignore"):
            mean = (state.origin - state.theta) / state.weight
        mean[np.isneginf(state.theta)] = 0.0
        return max(bound, state.offset / state.weight + problem.lowest(mean))

    def restart(self, problem: Problem, state: AcceleratedState) -> None:
        """As for a smooth loss, with less slack and a new mean."""
        assert isinstance(state, UniversalState)
        super().restart(problem, state)
        state.width *= self.narrowing
        state.origin = state.theta.copy()
        state.weight = state.offset = 0.0

    def slack(self, state: AcceleratedState) -> float:
        """As the state's width says."""
        assert isinstance(state, UniversalState)
        return 0.5 * state.width / state.momentum
