"""Confidence boxes: the ends between which the true answers of noisy measurements lie, at a level."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale

LARGEST_GRID = 64.0
"""The tail of discrete Gaussian noise is summed up to this scale; above it, the normal quantile + 1 is a bound."""


def answer_ends(measurements: Sequence[LinearMeasurement], level: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the ends of the true answers of each measurement; all hold together with probability `level`.

    As noise is independent, each of k noisy answers gets the probability level^(1/k) (Sidak 1967). Interval
    measurements keep their published ends.
    """
    noisy = sum(measurement.rows for measurement in measurements if measurement.noisy)
    each = level ** (1.0 / max(noisy, 1))
    found = []
    for measurement in measurements:
        if measurement.low is not None and measurement.high is not None:
            found.append((measurement.low.copy(), measurement.high.copy()))
        else:
            reach = np.broadcast_to(noise_reach(measurement, each), (measurement.rows,))
            found.append((measurement.values - reach, measurement.values + reach))
    return found


def noise_reach(measurement: LinearMeasurement, level: float) -> np.ndarray:
    """Return the least t with P(|noise| <= t) >= level, one for each answer or one for all."""
    scale = np.asarray(noise_scale(measurement.noise, measurement.stddev), dtype=np.float64)
    tail = max(-math.expm1(math.log(level)), np.finfo(float).tiny)
    if measurement.noise == "laplace":
        return -scale * math.log(tail)
    if measurement.noise == "discrete_laplace":  # P(|k| > t) = 2 q^(t + 1) / (1 + q) with q = exp(-1 / b)
        share = np.exp(-1.0 / scale)
        return np.maximum(np.ceil(-scale * (math.log(tail) + np.log1p(share) - math.log(2.0)) - 1.0), 0.0)
    normal = -scale * ndtri(0.5 * tail)
    if measurement.noise == "gaussian":
        return normal
    return np.vectorize(lambda sigma, near: _discrete_reach(sigma, near, tail), otypes=[float])(scale, normal)


def _discrete_reach(sigma: float, near: float, tail: float) -> float:
    """Return the reach of discrete Gaussian noise, summing its tail from the outside in to keep small terms."""
    if sigma > LARGEST_GRID:
        return math.ceil(near) + 1.0
    steps = np.arange(0, math.ceil(near + 12.0 * sigma) + 12)
    mass = np.exp(-0.5 * (steps / sigma) ** 2)
    mass[1:] *= 2.0
    beyond = mass[::-1].cumsum()[::-1] / mass.sum()  # P(|k| >= step)
    return float(np.argmax(beyond <= tail) - 1)
