"""Choosing on a path of estimates by held-out answers: noise splitting, and when to stop."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem


def split_noise(problem: Problem, generator: np.random.Generator) -> tuple[Problem, Problem]:
    r"""The same problem with the answers $y + \sigma e$, and with $y - \sigma e$, e standard normal: data thinning.

    Each part has noise of twice the variance. Where the noise of y is Gaussian with standard deviation $\sigma$ the two
    are independent of each other; other noise leaves them uncorrelated. Nothing is lost: their mean is y.

    Args:
        problem: with a loss of weighted squares, precisions positive. The parts share its oracle.
        generator: of e.
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
    """The one-standard-error rule: a path goes on until it predicts the held-out answers clearly worse than its best.

    Clearly: by more than the standard error of the difference of the two losses, which is the weighted distance of the
    two estimates, as the noise of the answers enters that difference linearly.

    Attributes:
        problem: whose loss scores; quadratic, with precisions that are one over the variance of the noise.
        least: the smallest loss so far.
        best: the marginals that had it, summing to one.
    """

    problem: Problem
    least: float = math.inf
    best: np.ndarray = field(default_factory=lambda: np.empty(0))

    def accepts(self, p: np.ndarray) -> bool:
        """Whether the path may go on at marginals p (kept, if they are the best so far)."""
        loss, _ = self.problem.loss_and_gradient(p)
        if loss < self.least:
            self.least, self.best = loss, p
            return True
        half_variance = self.problem.curvature_along(p - self.best) or 0.0
        return loss - self.least <= math.sqrt(2.0 * half_variance)
