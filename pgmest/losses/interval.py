"""The loss of answers between two known ends: rounded, suppressed, top-coded, or exact answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pgmest.errors import MeasurementError
from pgmest.losses.base import dot
from pgmest.losses.residual import ResidualLoss, lipschitz_of_squares
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Domain

SOFTNESS = 0.5
"""The unit of the distance, in records: half a record outside costs as much as one standard deviation of noise."""


class IntervalLoss(ResidualLoss):
    r"""$\sum_r \tfrac12 (\mathrm{dist}((Q \mu)_r, [l_r, h_r]) / s)^2$ with s half a record.

    The loss is smooth, convex, and zero exactly on the tables whose answers lie between the ends; of these an estimate
    approaches the one of maximum entropy. If there is no such table, the minimizer is a least-squares compromise, and
    `Model.bounds` names answers that contradict each other.

    Args:
        measurements: the measurements, all with noise "between".
        domain: the domain of the marginals.

    Raises:
        MeasurementError: a measurement has noise.
        UnknownAttributeError, ShapeError, QueryError: a measurement does not fit the domain.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        super().__init__(measurements, domain)
        lows, highs = [np.empty(0)], [np.empty(0)]
        for measurement in self.measurements:
            if measurement.low is None or measurement.high is None:
                raise MeasurementError("IntervalLoss is for answers between two ends; this one has noise: use L2Loss.")
            lows.append((measurement.low - measurement.values) / SOFTNESS)
            highs.append((measurement.high - measurement.values) / SOFTNESS)
        self._low, self._high = np.concatenate(lows), np.concatenate(highs)

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return SOFTNESS

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        outside = residuals - np.clip(residuals, self._low, self._high)
        return 0.5 * dot(outside, outside), outside

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """1/2 for each answer, as a unit for tolerances; the loss at the true marginals is 0."""
        return 0.5 * len(self._low)

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The Lipschitz constant of squares with the same unit."""
        squares = self._residuals.weighted_column_squares(np.full(len(self._low), SOFTNESS**-2))
        return lipschitz_of_squares(squares, self.layout)
