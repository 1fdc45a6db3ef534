"""Losses with kinks, and their smoothed versions, which solvers minimize in their place."""

from __future__ import annotations

import copy
from abc import abstractmethod

import numpy as np

from pgmest.losses.base import FlatLoss, dot
from pgmest.losses.residual import ResidualLoss, Residuals
from pgmest.tables.clique_vector import Layout

CURVATURE_FLOOR = 1e-3
"""The smallest width of an answer, relative to the mean width, for answers about cells without mass."""


class KinkedLoss(ResidualLoss):
    """The base class of sums over answers of |z| for some answers and z^2 / 2 for the others, z the residual."""

    constant: float = 0.0
    """A constant that is added to every value."""

    @property
    @abstractmethod
    def kinked(self) -> np.ndarray:
        """True for the residuals that enter as |z|, shape (rows,)."""

    def of_fractions(self, total: float) -> FlatLoss:
        """Return the loss of fractions: scaled residuals instead of scaled marginals, so that it can be smoothed."""
        if self.smooth:
            return super().of_fractions(total)
        scaled = copy.copy(self)
        scaled._residuals = self._residuals.of_fractions(total)
        return scaled

    def smoothed(self, flat: np.ndarray, softness: float) -> SmoothedLoss | None:
        """Return this loss with smoothed kinks, for marginals near `flat`; None if it has no kinks.

        `softness` is the mean width of the smoothed kinks, as a share of the mean absolute residual.
        """
        return None if self.smooth else SmoothedLoss(self._residuals, self.kinked, self.constant, flat, softness)


class SmoothedLoss(FlatLoss):
    r"""A smooth lower bound of $\sum_r |z_r|$ that is close to it.

    Since $|z| = \max_{|u| \le 1} u z$, a penalty inside the maximum makes it smooth (Nesterov 2005):

    .. math:: h(z) = \max_{|u| \le 1} \; u z - \tfrac{w}{2} (u - c)^2 , \qquad u = clip(c + z / w, -1, 1)

    with a width w and a center c for each residual; for c = 0 it is Huber's function. It is below |z| by at most
    $w/2\,(u-c)^2$. Therefore, if each center is the slope of its residual at the minimum, this is also a minimum of the
    sum of |z|, for any widths. Moving the centers to the current slopes is the proximal method of multipliers
    (Rockafellar 1976); it reaches the exact solution with widths that do not go to zero.

    The widths are proportional to $\sum_j Q_{rj}^2 p_j / b_r^2$, the curvature of an answer relative to the entropy,
    under which cells with much mass move more easily than cells with little. Then all answers limit the steps of mirror
    descent equally. Few cells have much mass, so the sum of the widths, which bounds the distance from |z|, stays the
    same.

    Residuals that are not kinked enter as z^2 / 2.

    Args:
        residuals: z as a linear map of flat marginals.
        kinked: True for the residuals to be smoothed, shape (rows,).
        constant: a constant that is added to every value.
        flat: marginals, from which the masses p and the sizes of the residuals follow.
        softness: the mean width of the kinked residuals, as a share of their mean absolute value, or of 1 (the mean for
            Laplace noise) if that is larger.
        centers: c, shape (rows,); 0 by default.
    """

    def __init__(
        self,
        residuals: Residuals,
        kinked: np.ndarray,
        constant: float,
        flat: np.ndarray,
        softness: float,
        centers: np.ndarray | None = None,
    ):
        self.layout: Layout = residuals.layout
        self._residuals = residuals
        self._kinked = kinked
        self._constant = constant
        self._limits = np.where(kinked, 1.0, np.inf)  # z^2 / 2 is the same maximum with w = 1, c = 0 and any u
        curvature = (residuals.squared_answers(np.maximum(flat, 0.0)) / np.square(residuals.scales))[kinked]
        width = softness * max(_mean(np.abs(residuals.standardized(flat)[kinked])), 1.0)
        self.widths: np.ndarray = np.ones(len(kinked))
        self.widths[kinked] = width * _shares(curvature)
        self.centers: np.ndarray = np.zeros(len(kinked)) if centers is None else centers
        self.smoothness_guess: float = len(self.layout.cliques) * _mean(curvature) / width
        """The smoothness relative to the entropy that the widths aim at."""

    def recentered(self, flat: np.ndarray, softness: float) -> SmoothedLoss:
        """Return the loss smoothed at `flat`, with the slopes at `flat` as centers."""
        centers = np.where(self._kinked, self.slopes(flat), 0.0)
        return SmoothedLoss(self._residuals, self._kinked, self._constant, flat, softness, centers)

    def slopes(self, flat: np.ndarray) -> np.ndarray:
        """Return u, the derivative by each standardized residual, shape (rows,)."""
        return self._clipped(self._unclipped(self._residuals.standardized(flat)))

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value and the gradient."""
        residuals = self._residuals.standardized(flat)
        slopes = self._clipped(self._unclipped(residuals))
        away = slopes - self.centers
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        self._residuals.add_transpose(slopes / self._residuals.scales, gradient)
        return dot(slopes, residuals) - 0.5 * dot(self.widths * away, away) + self._constant, gradient

    def bregman(self, flat: np.ndarray, step: np.ndarray) -> float:
        """Return h(flat + step) - h(flat) - <gradient at flat, step>, exact also for tiny steps."""
        moved = self._residuals.answers(step) / self._residuals.scales
        before = self._unclipped(self._residuals.standardized(flat))
        slopes = self._clipped(before)
        change = self._clipped(before + moved / self.widths) - slopes
        return dot(change, moved + self.widths * (before - slopes - 0.5 * change))

    def support(self, flat: np.ndarray) -> float:
        """Return the value at `flat` of a linear lower bound of the loss with kinks, whose gradient is that of h.

        The bound is u z for |z|, with fixed slopes u. It exceeds the value of the smooth loss by w/2 (u - c)^2.
        """
        away = (self.slopes(flat) - self.centers)[self._kinked]
        return self.flat_value_and_gradient(flat)[0] + 0.5 * dot(self.widths[self._kinked] * away, away)

    def _unclipped(self, residuals: np.ndarray) -> np.ndarray:
        return self.centers + residuals / self.widths

    def _clipped(self, slopes: np.ndarray) -> np.ndarray:
        return np.clip(slopes, -self._limits, self._limits)


def _shares(curvature: np.ndarray) -> np.ndarray:
    """Return widths of mean 1 that are proportional to the curvature, but at least about CURVATURE_FLOOR."""
    mean = _mean(curvature)
    if mean == 0.0:
        return np.ones(len(curvature))
    return (curvature / mean + CURVATURE_FLOOR) / (1.0 + CURVATURE_FLOOR)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
