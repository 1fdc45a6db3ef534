"""Accelerated mirror descent on a rounded-off loss: for absolute residuals, the L1 loss and Laplace likelihoods."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.losses.smoothed import KinkedLoss, SmoothedLoss
from pgmest.solvers.acceleration import AcceleratedSolver, AcceleratedState, Parts, Restarts, StepRule
from pgmest.solvers.penalty import NO_PENALTY, Penalty
from pgmest.solvers.problem import Problem

UNSETTLED, SETTLED = 20.0, 0.03
"""An epoch has (not) found its minimum where the rounded loss differs between z and x by this much of what rounding
takes off it at x; then the widths grow (shrink) by WIDER (NARROWER)."""

WIDER, NARROWER = 3.0, 0.5
WIDEST = 100.0
"""The widths stay between the first softness and this multiple of it."""

LEAST_STIFFNESS = 1e-4
"""L never falls below this share of the largest one: where no residual crosses a kink the loss does not curve at all,
and L would shrink until one step threw away what all the others found."""


@dataclass(frozen=True)
class RoundedLoss:
    """h = a `SmoothedLoss` below f, rounded off anew for each epoch.

    Attributes:
        kinked: the problem with f.
        problem: the problem with h.
        rounded: h.
        softness: how softly it is rounded; `first`: in the first epoch.
    """

    kinked: Problem
    problem: Problem
    rounded: SmoothedLoss
    softness: float
    first: float

    @classmethod
    def of(cls, kinked: Problem, rounded: SmoothedLoss, softness: float, first: float) -> RoundedLoss:
        """With the problem that it makes."""
        smooth = copy.copy(kinked)
        smooth.loss = rounded
        return cls(kinked, smooth, rounded, softness, first)

    @property
    def stiffness(self) -> float | None:
        """As the widths are meant to make it."""
        return self.rounded.stiffness

    def excess(self, state: AcceleratedState) -> float:
        """To full precision."""
        a, measured = state.momentum, self.problem.measured
        return self.rounded.bregman(state.point[measured], a * state.change[measured]) / (a * a)

    def restartable(self, state: AcceleratedState) -> bool:
        """Always: absolute residuals are finite, and so are their slopes."""
        return True

    def record(self, state: AcceleratedState) -> None:
        """Nothing to note."""

    def renewed(self, state: AcceleratedState) -> RoundedLoss:
        """Rounded off around the slopes at the average."""
        softness = self._next_softness(state)
        rounded = self.rounded.recentered(state.average[self.problem.measured], softness)
        return RoundedLoss.of(self.kinked, rounded, softness, self.first)

    def _next_softness(self, state: AcceleratedState) -> float:
        at_average, _ = self.problem.loss_and_gradient(state.average)
        moving = abs(self.problem.loss_and_gradient(state.p)[0] - at_average)
        taken_off = self.kinked.loss_and_gradient(state.average)[0] - at_average
        if moving > UNSETTLED * taken_off:
            return min(self.softness * WIDER, self.first * WIDEST)
        return max(self.softness * NARROWER, self.first) if moving < SETTLED * taken_off else self.softness

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, enough: float) -> float:
        """By the slopes at the average, a feasible point of the dual: under them the loss has a linear minorant."""
        _, gradient = self.problem.loss_and_gradient(state.average)
        support = self.rounded.support(state.average[self.problem.measured])
        return support - dot(gradient, state.average) + penalty.linear_minimum(self.kinked, gradient)


@dataclass(frozen=True)
class AcceleratedSmoothing(AcceleratedSolver):
    r"""Accelerated mirror descent on a `SmoothedLoss`, rounded off anew at each restart.

    Each epoch minimizes a smooth loss that lies below the one with kinks. At its end the slopes $u_r \in [-1, 1]$ of
    the residuals become the centers of the next, and the widths follow the masses and residuals found. With the right
    centers the smooth problem has the solution of the kinked one, so that the exact optimum is reached, a vertex of
    a linear program, in about as many steps as a smooth loss takes.

    The slopes at the average are a feasible point of the dual program. They prove that no distribution of total N has
    a loss below $N \min_x \sum_C (Q^T u / b)_C(x_C) - \langle u / b, y \rangle$, by one max-product sweep.

    The widths start narrow, for then few epochs are needed. They grow where an epoch could not settle at its minimum,
    as with noise that differs a thousandfold between answers, and shrink again where it did.

    Attributes:
        epoch, growth, shrink, penalty: as for `AcceleratedMirrorDescent`.
        softness: the mean width at first, as a share of the mean absolute residual.
    """

    epoch: int = 50
    growth: float = 1.25
    shrink: float = 0.97
    name: str = "smoothing"
    softness: float = 0.03
    penalty: Penalty = NO_PENALTY

    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """The loss rounded off for the marginals p, every step held to the inequality."""
        loss = problem.loss
        rounded = loss.smoothed(p[problem.measured], self.softness) if isinstance(loss, KinkedLoss) else None
        if rounded is None:
            raise ArgumentError(
                "method='smoothing' needs absolute residuals, as in loss='l1'; use method='auto' for this loss."
            )
        surrogate = RoundedLoss.of(problem, rounded, self.softness, self.softness)
        steps = StepRule(self.shrink, LEAST_STIFFNESS)
        return Parts(surrogate, self.penalty, steps, Restarts(self.epoch, self.growth))
