"""How far the true answers of a measurement may be from the noisy ones, at a level: confidence boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale

LARGEST_GRID = 64.0
"""Discrete Gaussian noise of at most this scale has its tail summed; above, it is the normal one and one more."""


def answer_ends(measurements: Sequence[LinearMeasurement], level: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The ends of the true answers of each measurement; together they all hold with probability `level`.

    Noise is independent, so that of k noisy answers each is given the probability level^(1/k) (Sidak 1967). Answers
    between two ends have these.
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
    """The least t with P(|noise| <= t) >= level, for each answer or for all."""
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
    """Of discrete Gaussian noise, by summing its tail from the outside in."""
    if sigma > LARGEST_GRID:
        return math.ceil(near) + 1.0
    steps = np.arange(0, math.ceil(near + 12.0 * sigma) + 12)
    mass = np.exp(-0.5 * (steps / sigma) ** 2)
    mass[1:] *= 2.0
    beyond = mass[::-1].cumsum()[::-1] / mass.sum()  # P(|k| >= step)
    return float(np.argmax(beyond <= tail) - 1)
