"""Accelerated mirror descent on a smoothed loss, for absolute residuals: the L1 loss and Laplace likelihoods."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.losses.smoothed import KinkedLoss, SmoothedLoss
from pgmest.solvers.acceleration import AcceleratedSolver, AcceleratedState, Parts
from pgmest.solvers.penalty import NO_PENALTY, Penalty
from pgmest.solvers.problem import Problem

UNSETTLED, SETTLED = 20.0, 0.03
WIDER, NARROWER = 3.0, 0.5
WIDEST = 100.0
"""The rule for the widths of the next epoch. The change of the smoothed loss between z and x is compared with the
smoothing error at x, the kinked loss minus the smoothed one. If the change is above UNSETTLED times the error, the
epoch has not converged and the widths grow by WIDER; below SETTLED times the error they shrink by NARROWER. The
softness stays between its first value and WIDEST times that."""

SOFTNESS = 0.03
"""The mean width of the first epoch, as a share of the mean absolute residual."""

LEAST_SMOOTHNESS = 1e-4
"""The smallest L, as a share of the largest one. Between kinks the smoothed loss is linear; without this limit L would
shrink until a single step undid the progress of all the others."""


@dataclass(frozen=True)
class SmoothedSurrogate:
    """A `SmoothedLoss` h below f, which is smoothed again at the start of each epoch.

    Attributes:
        kinked: the problem with f.
        problem: the problem with h.
        smoothed: h.
        softness: the mean width of the smoothing, see `SmoothedLoss`.
        first: the softness of the first epoch.
    """

    kinked: Problem
    problem: Problem
    smoothed: SmoothedLoss
    softness: float
    first: float

    @classmethod
    def of(cls, kinked: Problem, smoothed: SmoothedLoss, softness: float, first: float) -> SmoothedSurrogate:
        """Build the surrogate and its problem from the problem with f."""
        smooth = copy.copy(kinked)
        smooth.loss = smoothed
        return cls(kinked, smooth, smoothed, softness, first)

    @property
    def smoothness_guess(self) -> float | None:
        """The smoothness relative to the entropy that the widths aim at."""
        return self.smoothed.smoothness_guess

    def excess(self, state: AcceleratedState) -> float:
        """Return the excess, to full precision."""
        a, measured = state.momentum, self.problem.measured
        return self.smoothed.bregman(state.point[measured], a * state.change[measured]) / (a * a)

    def restartable(self, state: AcceleratedState) -> bool:
        """Return True: absolute residuals and their slopes are finite everywhere."""
        return True

    def record(self, state: AcceleratedState) -> None:
        """Do nothing: the surrogate is constant within an epoch."""

    def next_epoch(self, state: AcceleratedState) -> SmoothedSurrogate:
        """Return the loss smoothed again, with the slopes at the average as centers."""
        softness = self._next_softness(state)
        smoothed = self.smoothed.recentered(state.average[self.problem.measured], softness)
        return SmoothedSurrogate.of(self.kinked, smoothed, softness, self.first)

    def _next_softness(self, state: AcceleratedState) -> float:
        """Return the softness of the next epoch, see UNSETTLED."""
        at_average, _ = self.problem.loss_and_gradient(state.average)
        change = abs(self.problem.loss_and_gradient(state.p)[0] - at_average)
        error = self.kinked.loss_and_gradient(state.average)[0] - at_average
        if change > UNSETTLED * error:
            return min(self.softness * WIDER, self.first * WIDEST)
        return max(self.softness * NARROWER, self.first) if change < SETTLED * error else self.softness

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, sufficient_gap: float) -> float:
        """Return the dual value of the slopes at the average, by the linear minorant of the loss that they define."""
        _, gradient = self.problem.loss_and_gradient(state.average)
        support = self.smoothed.support(state.average[self.problem.measured])
        return support - dot(gradient, state.average) + penalty.linear_minimum(self.kinked, gradient)


@dataclass(frozen=True)
class AcceleratedSmoothing(AcceleratedSolver):
    r"""Accelerated mirror descent on a `SmoothedLoss`, which is smoothed again at each restart.

    Each epoch minimizes a smooth loss below the loss with kinks. At its end the slopes $u_r \in [-1, 1]$ of the
    residuals become the centers of the next epoch, and the widths are recomputed from the current masses and residuals.
    With the right centers the smooth problem has the same solution as the kinked one. So the solver reaches the exact
    optimum, a vertex of a linear program, in about as many steps as a smooth loss takes.

    The slopes at the average are a feasible point of the dual program. They prove that no distribution of total N has
    a loss below $N \min_x \sum_C (Q^T u / b)_C(x_C) - \langle u / b, y \rangle$, by one max-product sweep.

    The first widths are narrow, because then few epochs are needed. They grow after an epoch that did not converge, as
    happens if the noise of the answers differs a thousandfold, and shrink again after one that did.

    Attributes:
        epoch, penalty: as for `AcceleratedMirrorDescent`.
    """

    epoch: int = 50
    name: str = "smoothing"
    penalty: Penalty = NO_PENALTY

    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """Return the parts: the loss smoothed at the marginals p, and steps without slack."""
        loss = problem.loss
        smoothed = loss.smoothed(p[problem.measured], SOFTNESS) if isinstance(loss, KinkedLoss) else None
        if smoothed is None:
            raise ArgumentError(
                "method='smoothing' needs absolute residuals, as in loss='l1'; use method='auto' for this loss."
            )
        surrogate = SmoothedSurrogate.of(problem, smoothed, SOFTNESS, SOFTNESS)
        return Parts(surrogate, self.penalty, self.epoch, growth=1.25, least_smoothness=LEAST_SMOOTHNESS)
