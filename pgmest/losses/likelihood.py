"""The likelihood of the answers under the noise of each measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from pgmest.losses.base import dot
from pgmest.losses.smoothed import KinkedLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale
from pgmest.tables.domain import Domain

GAUSSIAN = ("gaussian", "discrete_gaussian")

END_STDDEV = 0.25
"""The ends of interval answers are moved outward by this number of records and smoothed by a normal distribution with
this standard deviation. It is small against a record, and positive to keep the likelihood smooth."""

TAIL_START = 4.0
"""The distance beyond the ends of a randomly rounded answer, in units of END_STDDEV, from which on its log-likelihood
is replaced by a parabola. The likelihood is e^-10 there."""


class NegativeLogLikelihood(KinkedLoss):
    """The loss -log P(y | mu) in nats, with normalizing constants, for the noise of each measurement (PGM C.1, C.2).

    With z the residual in units of sigma or b, an answer with Gaussian noise has the loss z^2 / 2 + log(sigma sqrt(2
    pi)), and one with Laplace noise |z| + log(2 b). For discrete noise a sum over the integers replaces the integral in
    the constant; between integers the same formula interpolates, which keeps the function convex. So the minimizer
    under Gaussian noise is that of L2Loss, and under Laplace noise that of L1Loss; mixed noise is weighted correctly.

    An answer between two ends has the loss -log P(low - s <= mu + u <= high + s), where u is normal and its standard
    deviation s is a quarter of a record. This makes the ends smooth, and keeps the two ends of exact answers distinct.

    For an answer that was randomly rounded to a base b, P(y | mu) = 1 - |y - mu| / b, smoothed in the same way.

    The loss is smooth if no noise is Laplace noise. Arguments and errors as for L2Loss.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        super().__init__(measurements, domain)
        self._squared = self._by_row(lambda m: np.full(m.rows, m.noise in GAUSSIAN)).astype(bool)
        self._between = self._by_row(lambda m: np.full(m.rows, not m.noisy)).astype(bool)
        self._low = self._by_row(lambda m: np.zeros(m.rows) if m.low is None else (m.low - m.values) / END_STDDEV - 1.0)
        self._high = self._by_row(
            lambda m: np.zeros(m.rows) if m.high is None else (m.high - m.values) / END_STDDEV + 1.0
        )
        self._base = self._by_row(lambda m: np.full(m.rows, 0.0 if m.base is None else m.base / END_STDDEV))
        self._published = self._by_row(_published)
        self._constant = math.fsum(_log_normalizer(m) for m in self.measurements if m.noisy)
        self.smooth: bool = bool((self._squared | self._between).all())

    def _by_row(self, of: Callable[[LinearMeasurement], np.ndarray]) -> np.ndarray:
        """Return the concatenation of a function's arrays for all measurements, one entry per answer."""
        return np.concatenate([np.empty(0), *(of(measurement) for measurement in self.measurements)])

    @property
    def kinked(self) -> np.ndarray:
        """True for the residuals of Laplace noise."""
        return ~(self._squared | self._between)

    @property
    def constant(self) -> float:
        """The sum of the logs of all normalizing constants."""
        return self._constant

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return noise_scale(measurement.noise, measurement.stddev) if measurement.noisy else END_STDDEV

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        slopes = np.where(self._squared, residuals, np.sign(residuals))
        if not self._between.any():
            return dot(residuals, np.where(self._squared, 0.5, 1.0) * slopes) + self._constant, slopes
        inside = self._between
        slopes[inside] = 0.0
        value = dot(residuals, np.where(self._squared, 0.5, 1.0) * slopes) + self._constant
        plain, triangular = inside & (self._base == 0), self._base > 0
        logs, above, below = _between_densities(residuals[plain], self._low[plain], self._high[plain])
        value, slopes[plain] = value + math.fsum(-logs), above - below
        if triangular.any():
            away = residuals[triangular] - self._published[triangular]
            values, slopes[triangular] = _triangular(away, self._base[triangular])
            value += math.fsum(values)
        return value, slopes

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """The Lipschitz constant of the L2 loss if all noise is Gaussian, otherwise None."""
        return self._lipschitz_of_squares if self._squared.all() else None


def _published(measurement: LinearMeasurement) -> np.ndarray:
    """Return the published multiples of randomly rounded answers minus their `values`, in units of END_STDDEV.

    The likelihood is largest at the published multiple; `values` is the middle of the ends, which differs near 0.
    """
    published = measurement.published
    return np.zeros(measurement.rows) if published is None else (published - measurement.values) / END_STDDEV


def _triangular(away: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return -log of the smoothed triangular likelihood 1 - |z| / b, and its derivative.

    The likelihood is convolved with a standard normal distribution. With $G(z) = z \Phi(z) + \phi(z)$ its value at the
    distance z is $(G(z + b) - 2 G(z) + G(z - b)) / b$. Beyond b + TAIL_START the log-likelihood continues as a parabola
    of curvature 1, as that of a normal tail does, because the value underflows there.
    """
    from scipy.special import ndtr

    far = base + TAIL_START
    z = np.clip(np.abs(away), 0.0, far)

    def moments(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return at * ndtr(at) + np.exp(-0.5 * at**2) / math.sqrt(2.0 * math.pi), ndtr(at)

    # G is evaluated at negative arguments, where the differences do not cancel.
    height, slope = (
        (up - 2.0 * middle + down) / base
        for up, middle, down in zip(moments(base - z), moments(-z), moments(-base - z), strict=True)
    )
    height = np.maximum(height, 1e-300)
    first = slope / height
    beyond = np.abs(away) - z
    value = -np.log(height) + first * beyond + 0.5 * beyond**2
    return value, np.sign(away) * (first + beyond)


def _between_densities(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the log of the normal mass between the ends, and the density at the upper and lower end over that mass.

    No digits cancel in either tail.
    """
    from scipy.special import log_ndtr

    above, below = high - z, low - z
    flip = below > 0  # both ends lie in the upper tail: Phi(b) - Phi(a) = Phi(-a) - Phi(-b) avoids cancellation
    larger, smaller = log_ndtr(np.where(flip, -below, above)), log_ndtr(np.where(flip, -above, below))
    logs = larger + np.log(-np.expm1(np.minimum(smaller - larger, -1e-300)))
    constant = 0.5 * math.log(2.0 * math.pi)
    return logs, *(np.exp(-0.5 * end**2 - constant - logs) for end in (above, below))


def _log_normalizer(measurement: LinearMeasurement) -> float:
    """Return the sum over the answers of the logs of the noise's normalizing constants."""
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
    """Return the sum over integers k of exp(-k^2 / (2 sigma^2)), which from sigma = 2 on equals the integral."""
    small = np.minimum(sigma, 2.0)[:, None]
    tail = np.exp(-0.5 * (np.arange(1, 40) / small) ** 2).sum(axis=1)
    return np.where(sigma < 2.0, 1.0 + 2.0 * tail, sigma * math.sqrt(2.0 * math.pi))
