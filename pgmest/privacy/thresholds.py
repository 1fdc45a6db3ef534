r"""Thresholds: the least noisy count at which a label is released that nobody listed beforehand.

A label that only one person has must not be released. The count of each label that occurs gets noise, and the label is
released if the noisy count is at least T. The labels that two neighboring tables both have get the noise of an ordinary
histogram. The labels that only one of the tables has belong to one person: there are at most k of them, with k records
in all, and any of them is released with probability at most $\delta = k \, P(\text{noise} \ge T - k)$. Given that none
of them is released, the release is a function of the histogram of the other labels, as the noises are independent. So
it is $\delta$-approximate zCDP (Bun, Steinke 2016, Definition 8.1), or $(\epsilon, \delta)$-DP (Korolova, Kenthapadi,
Mishra, Ntoulas 2009, with exact discrete noise).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import rounded_down
from pgmest.privacy.gaussian import SAFETY
from pgmest.privacy.noise import Noise


def threshold(noise: Noise, records: int, delta: float) -> int:
    """Return the least integer T, rounded up for safety, with `records` P(noise >= T - records) <= delta.

    The discrete Gaussian has P(X >= m) <= P(N >= m - 1), N continuous of the same parameter (Canonne, Kamath, Steinke
    2020, Proposition 25); the discrete Laplace P(X >= m) = exp(-m / b) / (1 + exp(-1 / b)).

    Args:
        noise: integer noise on counts.
        records: the largest number of records of one person, k.
        delta: the probability of a release that must not happen, between 0 and 1.

    Raises:
        ArgumentError: if delta is not between 0 and 1, or the noise is not integer-valued.
    """
    from scipy.special import ndtri

    if not 0 < delta < 1:
        raise ArgumentError.of("delta", delta, "a number between 0 and 1, well below 1 / records, such as 1e-10")
    if noise.step != 1.0 or noise.exact:
        raise ArgumentError.of("noise", noise, "on whole counts: a budget of Rho or Epsilon")
    each = rounded_down(Fraction(delta) / records)
    if noise.kind == "discrete_laplace":
        above = noise.scale * -math.log(each * (1 + math.exp(-1 / noise.scale)))
    else:
        above = 1 - noise.scale * float(ndtri(each))
    return records + max(1, math.ceil(above * (1 + 4 * SAFETY)) + 1)


def log_tail(noise: Noise, least: np.ndarray) -> np.ndarray:
    """Return the log probability that integer noise is at least `least`, to the precision of floats."""
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
