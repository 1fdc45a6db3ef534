"""The universal accelerated method, for any convex loss, also with kinks of unknown structure."""

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
)
from pgmest.solvers.penalty import NO_PENALTY, Penalty
from pgmest.solvers.problem import Problem

ACCURACY = 0.03
"""The first slack, relative to the loss at the start."""


@dataclass
class Subgradients:
    """The loss as its surrogate, with the weighted sum of this epoch's linear minorants f(y) + <g, q - y>.

    The weights are the step sizes 1 / (a L).

    Attributes:
        loss: the surrogate h = f.
        origin: theta at the start of the epoch; theta = origin - sum of weighted g.
        weight: the sum of the weights.
        offset: the weighted sum of f(y) - <g, y>.
    """

    loss: ExactLoss
    origin: np.ndarray
    weight: float = 0.0
    offset: float = 0.0
    smoothness_guess: float | None = None

    @property
    def problem(self) -> Problem:
        """The problem with the loss f."""
        return self.loss.problem

    def excess(self, state: AcceleratedState) -> float:
        """Return the excess, as for a smooth loss."""
        return self.loss.excess(state)

    def restartable(self, state: AcceleratedState) -> bool:
        """Return whether an epoch can start from z, as for a smooth loss."""
        return self.loss.restartable(state)

    def record(self, state: AcceleratedState) -> None:
        """Add the linear minorant at y."""
        square = dot(state.gradient, state.gradient)
        if square > 0:
            weight = -dot(state.move, state.gradient) / square
            self.weight += weight
            self.offset += weight * (state.value - dot(state.gradient, state.point))

    def next_epoch(self, state: AcceleratedState) -> Subgradients:
        """Return a surrogate without minorants."""
        return Subgradients(self.loss, state.theta.copy())

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, sufficient_gap: float) -> float:
        """Return the larger of two bounds: by the mean of the minorants, and by the duality gap at the average x."""
        bound = self.loss.lower_bound(state, penalty, sufficient_gap)
        if self.weight == 0.0:
            return bound
        with np.errstate(invalid="ignore"):
            mean = (self.origin - state.theta) / self.weight
        mean[np.isneginf(state.theta)] = 0.0
        return max(bound, self.offset / self.weight + self.problem.linear_minimum(mean))


@dataclass(frozen=True)
class UniversalAccelerated(AcceleratedSolver):
    r"""Accelerated mirror descent with a slack in each step, for any convex loss (Nesterov 2015).

    A step is accepted when $f(x') \le f(y) + \langle g, x' - y \rangle + a^2 L\,KL(z' \| z) + a \epsilon / 2$. For a
    loss with kinks, L then adapts to the accuracy $\epsilon$, and the smoothness of the loss need not be known. The
    slack is proportional to the loss at the start, and shrinks at each restart.

    The duality gap of a single point is loose near a kink, where the subgradient jumps. The mean of this epoch's linear
    functions $f(y) + \langle g, q - y \rangle$, weighted by step size, is a lower bound on f(q), too. Its gradient
    follows from the potentials, and one max-product sweep finds its minimum.

    Epochs are shorter than for smooth losses, because the slack shrinks only at restarts.

    Attributes:
        epoch: as for `AcceleratedMirrorDescent`.
    """

    epoch: int = 50
    name: str = "universal"

    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """Return the parts: the loss with its subgradients, and a slack proportional to the loss at p."""
        loss, _ = problem.loss_and_gradient(p)
        return Parts(
            Subgradients(ExactLoss(problem), theta.copy()),
            NO_PENALTY,
            self.epoch,
            growth=1.4,
            acceptance=Acceptance(ACCURACY * max(abs(loss), np.finfo(float).tiny)),
        )
