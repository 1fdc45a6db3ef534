"""Accelerated mirror descent on a rounded-off loss: for absolute residuals, the L1 loss and Laplace likelihoods."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.losses.smoothed import KinkedLoss, SmoothedLoss
from pgmest.solvers.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.solvers.problem import Problem

UNSETTLED, SETTLED = 20.0, 0.03
"""An epoch has (not) found its minimum where the rounded loss differs between z and x by this much of what rounding
takes off it at x; then the widths grow (shrink) by WIDER (NARROWER)."""

WIDER, NARROWER = 3.0, 0.5
WIDEST = 100.0
"""The widths stay between the first softness and this multiple of it."""

SOFTEST = 1e-4
"""L never falls below this share of the largest one: where no residual crosses a kink the loss does not curve at all,
and L would shrink until one step threw away what all the others found."""


@dataclass
class SmoothingState(AcceleratedState):
    """The problem with the rounded loss, that loss, how softly it is rounded, and the largest L so far."""

    smooth: Problem = field(kw_only=True)
    rounded: SmoothedLoss = field(kw_only=True)
    softness: float = field(kw_only=True)
    stiffest: float = 0.0


@dataclass(frozen=True)
class AcceleratedSmoothing(AcceleratedMirrorDescent):
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
        softness: the mean width at first, as a share of the mean absolute residual.
    """

    epoch: int = 50
    growth: float = 1.25
    softness: float = 0.03
    name: str = "smoothing"

    def start(self, problem: Problem, theta: np.ndarray) -> SmoothingState:
        p, _ = problem.marginals(theta)
        loss = problem.loss
        rounded = loss.smoothed(p[problem.measured], self.softness) if isinstance(loss, KinkedLoss) else None
        if rounded is None:
            raise ArgumentError(
                "method='smoothing' needs absolute residuals, as in loss='l1'; use method='auto' for this loss."
            )
        smooth = _with_loss(problem, rounded)
        accelerated = super().start(smooth, theta)
        accelerated.smoothness = rounded.stiffness or accelerated.smoothness
        return SmoothingState(**vars(accelerated), smooth=smooth, rounded=rounded, softness=self.softness)

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        assert isinstance(state, SmoothingState)
        if state.steps_left == 0:
            self.restart(problem, state)
        super().step(state.smooth, state)
        state.stiffest = max(state.stiffest, state.smoothness)
        state.smoothness = max(state.smoothness, SOFTEST * state.stiffest)
        return state

    def restart(self, problem: Problem, state: AcceleratedState) -> None:
        """Round off around the slopes at the average; then as for any smooth loss."""
        assert isinstance(state, SmoothingState)
        state.softness = self._softness(problem, state)
        state.rounded = state.rounded.recentered(state.average[problem.measured], state.softness)
        state.smooth = _with_loss(problem, state.rounded)
        super().restart(problem, state)

    def _softness(self, problem: Problem, state: SmoothingState) -> float:
        """For the next epoch."""
        at_average, _ = state.smooth.loss_and_gradient(state.average)
        moving = abs(state.smooth.loss_and_gradient(state.p)[0] - at_average)
        taken_off = problem.loss_and_gradient(state.average)[0] - at_average
        if moving > UNSETTLED * taken_off:
            return min(state.softness * WIDER, self.softness * WIDEST)
        return max(state.softness * NARROWER, self.softness) if moving < SETTLED * taken_off else state.softness

    def curving(self, problem: Problem, state: AcceleratedState, at_y: float) -> float:
        """As for any loss, but to full precision."""
        assert isinstance(state, SmoothingState)
        a, measured = state.momentum, problem.measured
        return state.rounded.bregman(state.point[measured], a * state.change[measured]) / (a * a)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """By the slopes at the average, a feasible point of the dual."""
        assert isinstance(state, SmoothingState)
        _, gradient = state.smooth.loss_and_gradient(state.average)
        support = state.rounded.support(state.average[problem.measured])
        return support - dot(gradient, state.average) + problem.lowest(gradient)


def _with_loss(problem: Problem, loss: SmoothedLoss) -> Problem:
    """The same problem with another loss of fractions."""
    smooth = copy.copy(problem)
    smooth.loss = loss
    return smooth
