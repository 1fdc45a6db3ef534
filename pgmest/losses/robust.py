"""Losses that grow linearly: L1, for Laplace noise, and Huber's loss, which is quadratic near zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.losses.residual import ResidualLoss
from pgmest.losses.smoothed import KinkedLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Domain


class L1Loss(KinkedLoss):
    r"""The loss $\sum_i \lVert (Q_i \mu_{C_i} - y_i) / b_i \rVert_1$, b = stddev / sqrt(2) the Laplace scale (PGM C.1).

    For Laplace noise it is the negative log-likelihood up to a constant. It is not smooth; the subgradient of a
    residual of 0 is 0. Arguments and errors as for L2Loss.
    """

    smooth = False

    @property
    def kinked(self) -> np.ndarray:
        """True for all residuals."""
        return np.ones(len(self._residuals.targets), dtype=bool)

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return measurement.stddev / math.sqrt(2.0)

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        return float(np.abs(residuals).sum()), np.sign(residuals)

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """1 for each answer, the expectation of an absolute Laplace error in units of its scale."""
        return float(sum(measurement.rows for measurement in self.measurements))


class HuberLoss(ResidualLoss):
    r"""The loss $\sum_i \sum_r h((Q_i \mu_{C_i} - y_i)_r / \sigma_{ir})$ with h(z) = z^2 / 2 up to `threshold`.

    Beyond the threshold h is linear.
    It equals L2Loss for small residuals; the gradient of an outlier is no larger than that of a residual at the
    threshold.

    Args:
        measurements: the noisy answers.
        domain: the domain of the marginals.
        threshold: the threshold in standard deviations of the noise. The default of 1.345 has 95 % of the efficiency of
            L2 under Gaussian noise.

    Raises:
        ArgumentError: the threshold is not positive. Other errors as for L2Loss.
    """

    def __init__(
        self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int], threshold: float = 1.345
    ):
        if not 0 < threshold < math.inf:
            raise ArgumentError.of("threshold", threshold, "a positive number of standard deviations")
        self.threshold = threshold
        super().__init__(measurements, domain)

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return measurement.stddev

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        clipped = np.clip(residuals, -self.threshold, self.threshold)
        return dot(clipped, residuals - 0.5 * clipped), clipped

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The Lipschitz constant of the L2 loss, whose curvature is nowhere smaller."""
        return self._lipschitz_of_squares
