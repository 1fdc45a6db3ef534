r"""Thresholds: above which noisy count a label may be released that nobody listed beforehand.

A label that only one person has must not be seen. Each label that occurs gets noise on its count, and is released
where that is at least T. Between neighboring tables the labels of both get the noise of an ordinary histogram. Those
that only one of the tables has are that person's: at most k, with k records in all, and none of them is released but
with probability $\delta \ge k \, P(\text{noise} \ge T - k)$. Given that none is, the release says what the histogram of
the other labels says, as the noises are independent: it is $\delta$-approximate zCDP (Bun, Steinke 2016, Definition
8.1), or $(\epsilon, \delta)$-DP (Korolova, Kenthapadi, Mishra, Ntoulas 2009, with exact discrete noise).
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.privacy.gaussian import SAFETY
from pgmest.privacy.noise import Noise


def threshold(noise: Noise, records: int, delta: float) -> int:
    """The least whole T, rounded up for safety, with `records` P(noise >= T - records) <= delta.

    The discrete Gaussian has P(X >= m) <= P(N >= m - 1), N continuous of the same parameter (Canonne, Kamath, Steinke
    2020, Proposition 25); the discrete Laplace P(X >= m) = exp(-m / b) / (1 + exp(-1 / b)).

    Args:
        noise: on whole counts.
        records: of one person, k.
        delta: between 0 and 1.

    Raises:
        ArgumentError: no such delta, or noise that is not on whole counts.
    """
    from scipy.special import ndtri

    if not 0 < delta < 1:
        raise ArgumentError.of("delta", delta, "a number between 0 and 1, well below 1 / records, such as 1e-10")
    if noise.step != 1.0 or noise.exact:
        raise ArgumentError.of("noise", noise, "on whole counts: a budget of Rho or Epsilon")
    each = delta / records
    if noise.kind == "discrete_laplace":
        above = noise.scale * -math.log(each * (1 + math.exp(-1 / noise.scale)))
    else:
        above = 1 - noise.scale * float(ndtri(each))
    return records + max(1, math.ceil(above * (1 + 4 * SAFETY)) + 1)


def log_tail(noise: Noise, least: np.ndarray) -> np.ndarray:
    """The log of the probability that noise on whole counts is at least so much, to the precision of floats."""
    from scipy.special import log_ndtr, logsumexp

    least = np.asarray(least, dtype=np.float64)
    if noise.kind == "discrete_laplace":
        rest = np.exp(-1 / noise.scale)
        upper = -np.maximum(least, 1) / noise.scale - np.log1p(rest)
        lower = np.log1p(-np.exp(-np.maximum(1 - least, 1) / noise.scale - np.log1p(rest)))
        return np.where(least >= 1, upper, lower)
    if noise.scale > 1e4:
        return log_ndtr(-(least - 0.5) / noise.scale)
    far = math.ceil(40 * noise.scale) + 2
    steps = np.arange(-far, far + 1)
    weights = -(steps**2) / (2 * noise.scale**2)
    sums = np.logaddexp.accumulate(weights[::-1])[::-1] - logsumexp(weights)
    return np.minimum(sums[np.clip(least.astype(np.int64) + far, 0, 2 * far)], 0.0)
