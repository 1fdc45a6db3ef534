"""Posterior moments of counts under a decreasing prior density that is estimated from all noisy counts."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from pgmest.models.errors.mixture import mixture_weights

LEAST_STEP = 4.0
"""The shortest component of the prior is this many times shorter than the least standard deviation."""


def count_moments(values: np.ndarray, stddev: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean and variance of each count given noisy counts with normal noise.

    The prior is a mixture of uniform distributions from 0 to points that double, whose weights are estimated by maximum
    likelihood (empirical Bayes; Stephens 2017), so its density decreases: many counts are small, a few are large.

    Args:
        values: noisy counts, shape (n,).
        stddev: the standard deviation of the noise in each, positive, shape (n,).
    """
    most = max(float((values + 4 * stddev).max()), float(stddev.max()))
    least = float(stddev.min()) / LEAST_STEP
    ends = least * 2.0 ** np.arange(int(np.ceil(np.log2(most / least))) + 1)
    low, high = -values[:, None] / stddev[:, None], (ends - values[:, None]) / stddev[:, None]
    logs = _log_mass(low, high) + np.log(stddev)[:, None] - np.log(ends)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior = likelihood * mixture_weights(likelihood, np.full(len(ends), 1 / len(ends)))
    posterior /= posterior.sum(axis=1, keepdims=True)
    means, squares = _truncated_moments(low, high)
    mean = (posterior * means).sum(axis=1)
    variance = np.maximum((posterior * squares).sum(axis=1) - mean**2, 0.0)
    return values + stddev * mean, stddev**2 * variance


def _log_mass(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the logarithm of the standard normal probability between two points."""
    flip = low > 0  # the tail on the left is accurate
    below, above = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(above), log_ndtr(below)
    return top + np.log1p(-np.exp(np.minimum(bottom - top, -1e-300)))


def _truncated_moments(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two moments of the standard normal distribution between two points."""
    mass = _log_mass(low, high)
    left, right = (np.exp(-0.5 * x**2 - 0.5 * np.log(2 * np.pi) - mass) for x in (low, high))
    mean = np.clip(left - right, low, high)
    second = 1 + low * left - high * right
    return mean, np.clip(second, mean**2, np.maximum(low**2, high**2))
