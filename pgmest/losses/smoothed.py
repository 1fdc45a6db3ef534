"""Losses with kinks, and the same losses rounded off, which a solver minimizes in their stead."""

from __future__ import annotations

import copy
from abc import abstractmethod

import numpy as np

from pgmest.losses.base import FlatLoss, dot
from pgmest.losses.residual import ResidualLoss, Residuals
from pgmest.tables.clique_vector import Layout

CURVATURE_FLOOR = 1e-3
"""Added to each answer's share of the widths, relative to the mean: for answers about cells that hold no mass."""


class KinkedLoss(ResidualLoss):
    """A sum over answers of |z| for some and z^2 / 2 for the others, z being the standardized residual."""

    constant: float = 0.0
    """Added to every value."""

    @property
    @abstractmethod
    def kinked(self) -> np.ndarray:
        """Which residuals enter as |z|, shape (rows,)."""

    def of_fractions(self, total: float) -> FlatLoss:
        """By scaling the residuals once rather than the marginals at every call, so that it can still be smoothed."""
        if self.smooth:
            return super().of_fractions(total)
        scaled = copy.copy(self)
        scaled._residuals = self._residuals.of_fractions(total)
        return scaled

    def smoothed(self, flat: np.ndarray, softness: float) -> SmoothedLoss | None:
        """This loss with its kinks rounded off, for marginals near `flat`; None where there is no kink.

        `softness` is the distance from a kink at which rounding begins, as a share of the mean absolute residual.
        """
        return None if self.smooth else SmoothedLoss(self._residuals, self.kinked, self.constant, flat, softness)


class SmoothedLoss(FlatLoss):
    r"""A smooth loss that is nowhere above $\sum_r |z_r|$, and close to it.

    As $|z| = \max_{|u| \le 1} u z$, taking a little off what is maximized makes it smooth (Nesterov 2005):

    .. math:: h(z) = \max_{|u| \le 1} \; u z - \tfrac{w}{2} (u - c)^2 , \qquad u = clip(c + z / w, -1, 1)

    with a width w and a center c for each residual; at c = 0 it is Huber's function. It is below |z| by $w/2\,(u-c)^2$
    at most. So where each center is the slope that its residual has at the minimum, that is a minimum of the sum of |z|
    too, whatever the widths: moving the centers to the current slopes is the proximal method of multipliers
    (Rockafellar 1976), and makes the solution exact with widths that need not go to zero.

    The widths are in proportion to $\sum_j Q_{rj}^2 p_j / b_r^2$, how strongly an answer curves in the geometry of the
    entropy, where heavy cells move easily and light ones hardly. All answers then limit the steps of mirror descent
    alike. There are few heavy cells, so the distance from |z|, the sum of all widths, stays what it was.

    Residuals that are not kinked enter as z^2 / 2.

    Args:
        residuals: z as a linear map of the flat marginals.
        kinked: which residuals are to be rounded off, shape (rows,).
        constant: added to every value.
        flat: marginals, for the masses p and the sizes of the residuals.
        softness: the mean width of the kinked residuals, as a share of their mean absolute value, or of 1, that of
            Laplace noise, where it is less.
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
        self.stiffness: float = len(self.layout.cliques) * _mean(curvature) / width
        """A guess at the smoothness relative to the entropy, as the widths are meant to make it."""

    def recentered(self, flat: np.ndarray, softness: float) -> SmoothedLoss:
        """The loss rounded off for `flat`, with the current slopes there as centers."""
        centers = np.where(self._kinked, self.slopes(flat), 0.0)
        return SmoothedLoss(self._residuals, self._kinked, self._constant, flat, softness, centers)

    def slopes(self, flat: np.ndarray) -> np.ndarray:
        """u, the derivative by each standardized residual, shape (rows,)."""
        return self._clipped(self._unclipped(self._residuals.standardized(flat)))

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says."""
        residuals = self._residuals.standardized(flat)
        slopes = self._clipped(self._unclipped(residuals))
        away = slopes - self.centers
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        self._residuals.add_transpose(slopes / self._residuals.scales, gradient)
        return dot(slopes, residuals) - 0.5 * dot(self.widths * away, away) + self._constant, gradient

    def bregman(self, flat: np.ndarray, step: np.ndarray) -> float:
        """h(flat + step) - h(flat) - <gradient at flat, step>, without subtracting values: exact for tiny steps too."""
        moved = self._residuals.answers(step) / self._residuals.scales
        before = self._unclipped(self._residuals.standardized(flat))
        slopes = self._clipped(before)
        change = self._clipped(before + moved / self.widths) - slopes
        return dot(change, moved + self.widths * (before - slopes - 0.5 * change))

    def support(self, flat: np.ndarray) -> float:
        """The value at `flat` of a linear function that is nowhere above the loss with kinks, with the gradient here.

        It is u z for |z|, with the slopes u held fixed: more than the value of the smooth loss by w/2 (u - c)^2.
        """
        away = (self.slopes(flat) - self.centers)[self._kinked]
        return self.flat_value_and_gradient(flat)[0] + 0.5 * dot(self.widths[self._kinked] * away, away)

    def _unclipped(self, residuals: np.ndarray) -> np.ndarray:
        return self.centers + residuals / self.widths

    def _clipped(self, slopes: np.ndarray) -> np.ndarray:
        return np.clip(slopes, -self._limits, self._limits)


def _shares(curvature: np.ndarray) -> np.ndarray:
    """In proportion to the curvature, but none far below the others; of mean one."""
    mean = _mean(curvature)
    if mean == 0.0:
        return np.ones(len(curvature))
    return (curvature / mean + CURVATURE_FLOOR) / (1.0 + CURVATURE_FLOOR)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
