"""The universal accelerated method: any convex loss, also one with kinks of which nothing is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.acceleration import (
    AcceleratedSolver,
    AcceleratedState,
    Acceptance,
    ExactLoss,
    Parts,
    Restarts,
    StepRule,
)
from pgmest.solvers.penalty import NO_PENALTY, Penalty
from pgmest.solvers.problem import Problem


@dataclass
class Subgradients:
    """h = f, with this epoch's linear minorants f(y) + <g, q - y>, weighted by the step sizes 1 / (a L).

    Attributes:
        loss: what h is.
        origin: theta at the start of the epoch; theta = origin - sum of weighted g.
        weight: the sum of the weights.
        offset: the weighted sum of f(y) - <g, y>.
    """

    loss: ExactLoss
    origin: np.ndarray
    weight: float = 0.0
    offset: float = 0.0
    stiffness: float | None = None

    @property
    def problem(self) -> Problem:
        """That of the loss."""
        return self.loss.problem

    def excess(self, state: AcceleratedState) -> float:
        """As for a smooth loss."""
        return self.loss.excess(state)

    def restartable(self, state: AcceleratedState) -> bool:
        """As for a smooth loss."""
        return self.loss.restartable(state)

    def record(self, state: AcceleratedState) -> None:
        """The linear minorant at y."""
        square = dot(state.gradient, state.gradient)
        if square > 0:
            weight = -dot(state.move, state.gradient) / square
            self.weight += weight
            self.offset += weight * (state.value - dot(state.gradient, state.point))

    def renewed(self, state: AcceleratedState) -> Subgradients:
        """Without minorants, from where the epoch starts."""
        return Subgradients(self.loss, state.theta.copy())

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, enough: float) -> float:
        """The better of the mean of this epoch's minorants, and the duality gap at the average x."""
        bound = self.loss.lower_bound(state, penalty, enough)
        if self.weight == 0.0:
            return bound
        with np.errstate(invalid="ignore"):
            mean = (self.origin - state.theta) / self.weight
        mean[np.isneginf(state.theta)] = 0.0
        return max(bound, self.offset / self.weight + self.problem.linear_minimum(mean))


@dataclass(frozen=True)
class UniversalAccelerated(AcceleratedSolver):
    r"""Accelerated mirror descent whose steps may fall short by a slack (Nesterov 2015): any convex loss.

    A step is accepted when $f(x') \le f(y) + \langle g, x' - y \rangle + a^2 L\,KL(z' \| z) + a \epsilon / 2$. For a
    kinked loss L then settles at what that accuracy needs, without anyone knowing how smooth the loss is. The slack is
    a share of the loss, and shrinks at each restart.

    The certificate is not the duality gap of one point: near a kink the subgradient jumps. The mean of this epoch's
    linear functions $f(y) + \langle g, q - y \rangle$, weighted by step size, is a lower bound on f(q) too, and the
    potentials hold its gradient already; one max-product sweep finds its minimum.

    Epochs are shorter than for smooth losses, for only restarts make the slack smaller.

    Attributes:
        epoch, growth, shrink: as for `AcceleratedMirrorDescent`.
        accuracy: the first slack, relative to the loss at the start.
        narrowing: factor on the slack at each restart.
    """

    epoch: int = 50
    growth: float = 1.4
    shrink: float = 0.97
    name: str = "universal"
    accuracy: float = 0.03
    narrowing: float = 0.4

    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """The loss itself with its subgradients, and a slack in proportion to the loss at p."""
        loss, _ = problem.loss_and_gradient(p)
        return Parts(
            Subgradients(ExactLoss(problem), theta.copy()),
            NO_PENALTY,
            StepRule(self.shrink),
            Restarts(self.epoch, self.growth),
            Acceptance(self.accuracy * max(abs(loss), np.finfo(float).tiny), self.narrowing),
        )
