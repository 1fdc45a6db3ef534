"""The likelihood of the answers under the noise that each measurement says it has."""

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

FAR = 4.0
"""Units of END beyond the ends of a rounded answer, where its likelihood is e^-10."""

END = 0.25
"""Ends are moved outwards by so many records, and rounded off by a normal distribution with that standard deviation."""


class NegativeLogLikelihood(KinkedLoss):
    """-log P(y | mu) in nats, normalizing constants included, with each measurement's own noise kind (PGM C.1, C.2).

    Gaussian noise has z^2 / 2 + log(sigma sqrt(2 pi)) per answer, Laplace noise |z| + log(2 b), z being the residual in
    units of sigma or b. Discrete noise has the same with the sum over the integers in place of the integral; at counts
    that are not integers the same formula interpolates, which keeps the function convex. So the minimizer under
    Gaussian noise is L2Loss's, under Laplace noise L1Loss's, and a mixture weighs both as it should.

    An answer between two ends has -log P(low - s <= mu + u <= high + s) with u normal and its standard deviation s a
    quarter of a record, which keeps the ends smooth, and those of exact answers apart.

    One that was rounded at random to a base b has the law of that, P(y | mu) = 1 - |y - mu| / b, smoothed in the same
    way: a count is the likelier the nearer it is.

    It is smooth when no noise is Laplace's. Arguments and errors as for L2Loss.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        super().__init__(measurements, domain)
        self._squared = self._by_row(lambda m: np.full(m.rows, m.noise in GAUSSIAN)).astype(bool)
        self._between = self._by_row(lambda m: np.full(m.rows, not m.noisy)).astype(bool)
        self._low = self._by_row(lambda m: np.zeros(m.rows) if m.low is None else (m.low - m.values) / END - 1.0)
        self._high = self._by_row(lambda m: np.zeros(m.rows) if m.high is None else (m.high - m.values) / END + 1.0)
        self._base = self._by_row(lambda m: np.full(m.rows, 0.0 if m.base is None else m.base / END))
        self._published = self._by_row(_published)
        self._constant = math.fsum(_log_normalizer(m) for m in self.measurements if m.noisy)
        self._uniform = self._by_row(_uniform_information)
        self.smooth: bool = bool((self._squared | self._between).all())

    def _by_row(self, of: Callable[[LinearMeasurement], np.ndarray]) -> np.ndarray:
        return np.concatenate([np.empty(0), *(of(measurement) for measurement in self.measurements)])

    @property
    def kinked(self) -> np.ndarray:
        """Those of Laplace noise."""
        return ~(self._squared | self._between)

    @property
    def constant(self) -> float:
        """The log of all normalizing constants."""
        return self._constant

    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        return noise_scale(measurement.noise, measurement.stddev) if measurement.noisy else END

    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        slopes = np.where(self._squared, residuals, np.sign(residuals))
        if not self._between.any():
            return dot(residuals, np.where(self._squared, 0.5, 1.0) * slopes) + self._constant, slopes
        inside = self._between
        slopes[inside] = 0.0
        value = dot(residuals, np.where(self._squared, 0.5, 1.0) * slopes) + self._constant
        plain, triangular = inside & (self._base == 0), self._base > 0
        values, slopes[plain] = _between_penalty(residuals[plain], self._low[plain], self._high[plain])
        value += math.fsum(values)
        if triangular.any():
            away = residuals[triangular] - self._published[triangular]
            values, slopes[triangular], _ = _triangular(away, self._base[triangular])
            value += math.fsum(values)
        return value, slopes

    def _curvature(self, residuals: np.ndarray) -> np.ndarray:
        return np.ones(len(residuals)) if self._squared.all() else super()._curvature(residuals)

    def information(self, flat: np.ndarray) -> np.ndarray:
        """W, the Fisher information of each answer about its true value, in counts, at marginals; shape (rows,).

        Both Gaussian and Laplace noise have information 1 in units of their own scale. An answer between two ends,
        which has none inside, counts like one with the variance of a uniform distribution, and where the marginals
        are outside by as much as the likelihood curves there.
        """
        weights = self._residuals.scales**-2
        inside = self._between
        if inside.any():
            z = self._residuals.standardized(flat)[inside]
            base = self._base[inside]
            _, _, rounded = _triangular(z - self._published[inside], np.where(base > 0, base, 1.0))
            plain = _between_curvature(z, self._low[inside], self._high[inside])
            curved = np.where(base > 0, rounded, plain) / END**2
            weights[inside] = np.maximum(curved, self._uniform[inside])
        return weights

    def information_product(self, weights: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Q^T W Q times a vector over the cells."""
        return self._residuals.transpose(weights * self._residuals.answers(direction))

    def information_diagonal(self, weights: np.ndarray) -> np.ndarray:
        """The diagonal of that matrix, shape (layout.cells,)."""
        return self._residuals.weighted_column_squares(weights)

    def standard_noise(self, weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A normal vector over the cells whose covariance is that matrix: Q^T W^(1/2) times standard normal numbers."""
        return self._residuals.transpose(generator.standard_normal(len(weights)) * np.sqrt(weights))

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """That of the L2 loss when all noise is Gaussian, else None."""
        return self._lipschitz_of_squares if self._squared.all() else None


def _published(measurement: LinearMeasurement) -> np.ndarray:
    """Where the likelihood of an answer that was rounded at random is largest, in units of END from its value."""
    published = measurement.published
    return np.zeros(measurement.rows) if published is None else (published - measurement.values) / END


def _triangular(away: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""-log of the triangular density's height convolved with a standard normal, and its first two derivatives.

    With $G(z) = z \Phi(z) + \phi(z)$ the height is $(G(z + b) - 2 G(z) + G(z - b)) / b$ at the distance z. Further than
    `FAR` beyond the ends it goes on as a parabola of curvature 1, as a normal tail does.
    """
    from scipy.special import ndtr

    far = base + FAR
    z = np.clip(np.abs(away), 0.0, far)

    def moments(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        density = np.exp(-0.5 * at**2) / math.sqrt(2.0 * math.pi)
        return at * ndtr(at) + density, ndtr(at), density

    # at -z, where nothing cancels
    height, slope, curve = (
        (up - 2.0 * middle + down) / base
        for up, middle, down in zip(moments(base - z), moments(-z), moments(-base - z), strict=True)
    )
    height = np.maximum(height, 1e-300)
    first, second = slope / height, np.maximum((slope / height) ** 2 - curve / height, 0.0)
    beyond = np.abs(away) - z
    value = -np.log(height) + first * beyond + 0.5 * beyond**2
    return value, np.sign(away) * (first + beyond), np.where(beyond > 0, 1.0, second)


def _uniform_information(measurement: LinearMeasurement) -> np.ndarray:
    """One over the variance of a uniform distribution between the ends, their softness included."""
    if measurement.low is None or measurement.high is None:
        return np.zeros(measurement.rows)
    if measurement.base is not None:
        return np.full(measurement.rows, 6.0 / measurement.base**2)  # of a triangular one
    return 1.0 / ((measurement.high - measurement.low) ** 2 / 12.0 + END**2)


def _between_penalty(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-log(Phi(high - z) - Phi(low - z)) and its derivative, without cancellation on either side."""
    logs, above, below = _between_densities(z, low, high)
    return -logs, above - below


def _between_curvature(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Its second derivative, which is at most 1 where it falls off like a normal distribution."""
    _, above, below = _between_densities(z, low, high)
    moments = np.where(np.isfinite(high), np.where(np.isfinite(high), high - z, 0.0) * above, 0.0) - (low - z) * below
    return np.clip(moments + (above - below) ** 2, 0.0, 1.0)


def _between_densities(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The log of the mass between the ends, and the normal density at either over that mass."""
    from scipy.special import log_ndtr

    above, below = high - z, low - z
    flip = below > 0  # both in the upper tail: Phi(b) - Phi(a) = Phi(-a) - Phi(-b)
    larger, smaller = log_ndtr(np.where(flip, -below, above)), log_ndtr(np.where(flip, -above, below))
    logs = larger + np.log(-np.expm1(np.minimum(smaller - larger, -1e-300)))
    constant = 0.5 * math.log(2.0 * math.pi)
    return logs, *(np.exp(-0.5 * end**2 - constant - logs) for end in (above, below))


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
