"""The loss of answers that are known to lie between two ends: rounded, suppressed, top-coded, or exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pgmest._base.errors import MeasurementError
from pgmest.losses.base import dot
from pgmest.losses.residual import ResidualLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Domain

SOFTNESS = 0.5
"""The unit of the distance, in records: half a record outside costs as much as one standard deviation of noise."""


class IntervalLoss(ResidualLoss):
    r"""$\sum_r \tfrac12 (\mathrm{dist}((Q \mu)_r, [l_r, h_r]) / s)^2$ with s half a record.

    Smooth, convex, and zero exactly on the tables that are compatible with all ends; of these an estimate approaches
    the one of maximum entropy. Where there is none, it is the least-squares compromise, and `Model.bounds` names
    answers that contradict each other.

    Args:
        measurements: of kind "between".
        domain: the attributes.

    Raises:
        MeasurementError: a measurement with noise.
        UnknownAttributeError, MeasurementShapeError, QueryError: a measurement does not fit the domain.
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

    def _curvature(self, residuals: np.ndarray) -> np.ndarray:
        return ((residuals <= self._low) | (residuals >= self._high)).astype(np.float64)

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """1/2 for each answer: what a tolerance is relative to, although the truth is at distance 0."""
        return 0.5 * len(self._low)

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """That of squares with the same unit."""
        squares = self._residuals.weighted_column_squares(np.full(len(self._low), SOFTNESS**-2))
        if not self.layout.cliques:
            return 0.0
        return float(np.maximum.reduceat(squares, self.layout.offsets[:-1]).sum())
