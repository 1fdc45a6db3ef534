"""Accelerated mirror descent on a rounded-off loss: for absolute residuals, the L1 loss and Laplace likelihoods."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.estimation.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.estimation.problem import Problem
from pgmest.loss.base import dot
from pgmest.loss.smoothed import SmoothedLoss

SOFTEST = 1e-4
"""L never falls below this share of the largest one: where no residual crosses a kink the loss does not curve at all,
and L would shrink until one step threw away what all the others found."""


@dataclass
class SmoothingState(AcceleratedState):
    """The problem with the smooth loss, the mean width it is rounded off with, and the largest L so far."""

    smooth: Problem | None = None
    width: float = 1.0
    stiffest: float = 0.0


@dataclass(frozen=True)
class AcceleratedSmoothing(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent on `SmoothedLoss`, rounded off anew at each restart.

    Each epoch minimises a smooth loss below the one with kinks. At its end the slopes $u_r \in [-1, 1]$ of the
    residuals become the centers of the next, and the widths are set for the masses found, narrower by `narrowing`. With
    the right centers the smooth problem has the solution of the kinked one, so this ends at its exact optimum, a
    vertex of a linear programme, after as many steps as a smooth problem takes.

    The slopes at the average are a feasible point of the dual programme. They prove that no distribution has a loss
    below $\min_x \sum_C (Q^T (u / b))_C(x_C) - \langle u / b, y \rangle$ (counts), by one max-product sweep.

    Attributes:
        width: the mean width of the first epoch, in Laplace scales b.
        narrowing: factor on the width at each restart.
    """

    epoch: int = 50
    growth: float = 1.25
    width: float = 1.0
    narrowing: float = 0.5
    name: str = "smoothing"

    def start(self, problem: Problem, theta: np.ndarray) -> SmoothingState:
        p, _ = problem.marginals(theta)
        loss = problem.loss.smoothed(p[problem.measured], self.width)
        if loss is None:
            raise ArgumentError(
                "method='smoothing' needs a loss of absolute residuals, such as 'l1'; use method='auto' for this one."
            )
        smooth = _with_loss(problem, loss)
        accelerated = super().start(smooth, theta)
        accelerated.smoothness = loss.stiffness
        return SmoothingState(**vars(accelerated), smooth=smooth, width=self.width)

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        assert isinstance(state, SmoothingState)
        if state.steps_left == 0:
            self.restart(problem, state)
        super().step(_smooth(state), state)
        state.stiffest = max(state.stiffest, state.smoothness)
        state.smoothness = max(state.smoothness, SOFTEST * state.stiffest)
        return state

    def restart(self, problem: Problem, state: AcceleratedState) -> None:
        """Round off around the slopes at the average; then as for any smooth loss."""
        assert isinstance(state, SmoothingState)
        state.width *= self.narrowing
        loss = _smooth(state).loss.recentered(state.average[problem.measured], state.width)
        state.smooth = _with_loss(problem, loss)
        super().restart(problem, state)

    def curving(self, problem: Problem, state: AcceleratedState, at_y: float) -> float:
        a, measured = state.momentum, problem.measured
        return problem.loss.bregman(state.point[measured], a * state.change[measured]) / (a * a)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """By the slopes at the average x, a feasible point of the dual."""
        smooth = _smooth(state)
        _, gradient = smooth.loss_and_gradient(state.average)
        support = smooth.loss.support(state.average[problem.measured])
        return support - dot(gradient, state.average) + problem.lowest(gradient)


def _smooth(state: SmoothingState) -> Problem:
    return state.smooth


def _with_loss(problem: Problem, loss: SmoothedLoss) -> Problem:
    smooth = copy.copy(problem)
    smooth.loss = loss
    return smooth
