"""Early stopping on a path of estimates by held-out answers, which noise splitting makes."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem


def split_noise(problem: Problem, generator: np.random.Generator) -> tuple[Problem, Problem]:
    r"""Return the problem with the answers $y + \sigma e$, and with $y - \sigma e$, e standard normal (data thinning).

    The noise of each part has twice the variance. If the noise of y is Gaussian with standard deviation $\sigma$, the
    two parts are independent; for other noise they are uncorrelated. Their mean is y, so no information is lost.

    Args:
        problem: a problem whose loss is weighted squares with positive precisions. The parts share its oracle.
        generator: the source of e.
    """
    loss = problem.loss
    assert isinstance(loss, WeightedSquares)
    noise = generator.standard_normal(loss.layout.cells) / np.sqrt(loss.precision)
    return _with_target(problem, loss, loss.target + noise), _with_target(problem, loss, loss.target - noise)


def _with_target(problem: Problem, loss: WeightedSquares, target: np.ndarray) -> Problem:
    part = copy.copy(problem)
    part.loss = WeightedSquares(loss.layout, target, 0.5 * loss.precision, 0.0, 0.5 * loss.layout.cells)
    return part


@dataclass
class HeldOut:
    """The one-standard-error rule: stop when the held-out loss exceeds its minimum by more than one standard error.

    The standard error is that of the difference of the two losses. The noise of the answers enters this difference
    linearly, so its standard error is the weighted distance of the two estimates.

    Attributes:
        problem: the problem of the held-out answers; its loss is quadratic, with one over the noise variance as the
            precisions.
        least: the smallest loss so far.
        best: the marginals with that loss, summing to one.
    """

    problem: Problem
    least: float = math.inf
    best: np.ndarray = field(default_factory=lambda: np.empty(0))

    def accepts(self, p: np.ndarray) -> bool:
        """Return whether the path may continue at marginals p, and keep p if it is the best so far."""
        loss, _ = self.problem.loss_and_gradient(p)
        if loss < self.least:
            self.least, self.best = loss, p
            return True
        half_variance = self.problem.curvature_along(p - self.best) or 0.0
        return loss - self.least <= math.sqrt(2.0 * half_variance)
