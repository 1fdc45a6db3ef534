"""The likelihood of the answers under the noise that each measurement says it has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from pgmest.losses.base import dot
from pgmest.losses.smoothed import KinkedLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale
from pgmest.tables.domain import Domain

GAUSSIAN = ("gaussian", "discrete_gaussian")


class NegativeLogLikelihood(KinkedLoss):
    """-log P(y | mu) in nats, normalizing constants included, with each measurement's own noise kind (PGM C.1, C.2).

    Gaussian noise has z^2 / 2 + log(sigma sqrt(2 pi)) per answer, Laplace noise |z| + log(2 b), z being the residual in
    units of sigma or b. Discrete noise has the same with the sum over the integers in place of the integral; at counts
    that are not integers the same formula interpolates, which keeps the function convex. So the minimizer under
    Gaussian noise is L2Loss's, under Laplace noise L1Loss's, and a mixture weighs both as it should.

    It is smooth when all noise is Gaussian. Arguments and errors as for L2Loss.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        super().__init__(measurements, domain)
        kinds = [np.full(measurement.rows, measurement.noise in GAUSSIAN) for measurement in self.measurements]
        self._squared = np.concatenate([np.empty(0, dtype=bool), *kinds])
        self._constant = math.fsum(_log_normalizer(measurement) for measurement in self.measurements)
        self.smooth: bool = bool(self._squared.all())

    @property
    def kinked(self) -> np.ndarray:
        """Those of Laplace noise."""
        return ~self._squared

    @property
    def constant(self) -> float:
        """The log of all normalizing constants."""
        return self._constant

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return noise_scale(measurement.noise, measurement.stddev)

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        slopes = np.where(self._squared, residuals, np.sign(residuals))
        return dot(residuals, np.where(self._squared, 0.5, 1.0) * slopes) + self._constant, slopes

    def _curvature(self, residuals: np.ndarray) -> np.ndarray:
        return np.ones(len(residuals)) if self.smooth else super()._curvature(residuals)

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """That of the L2 loss when all noise is Gaussian, else None."""
        return self._lipschitz_of_squares if self.smooth else None


def _log_normalizer(measurement: LinearMeasurement) -> float:
    """The log of the noise's normalizing constants, summed over the answers."""
    scales = np.broadcast_to(noise_scale(measurement.noise, measurement.stddev), (measurement.rows,))
    if measurement.noise == "laplace":
        constants = 2.0 * scales
    elif measurement.noise == "discrete_laplace":
        constants = 1.0 / np.tanh(0.5 / scales)  # sum over integers k of exp(-|k| / b)
    elif measurement.noise == "gaussian":
        constants = scales * math.sqrt(2.0 * math.pi)
    else:
        constants = _discrete_gaussian_mass(scales)
    return float(np.log(constants).sum())


def _discrete_gaussian_mass(sigma: np.ndarray) -> np.ndarray:
    """The sum over integers k of exp(-k^2 / (2 sigma^2)); from sigma = 2 it is the integral to 34 digits."""
    small = np.minimum(sigma, 2.0)[:, None]
    tail = np.exp(-0.5 * (np.arange(1, 40) / small) ** 2).sum(axis=1)
    return np.where(sigma < 2.0, 1.0 + 2.0 * tail, sigma * math.sqrt(2.0 * math.pi))
