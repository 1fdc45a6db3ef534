"""Sums of many exponentials with small exponents at many times, computed by their power series.

In DualQuery the cells without records have weights exp(t x), and nearly all x are small. The sums of these weights at
all times follow from a few sums of powers of x, so the cost is proportional to the cells, not to cells times steps.
"""

from __future__ import annotations

import math

import numpy as np

RADIUS = 1.0
TERMS = 20
"""The largest |x|, and the number of terms of the series; the omitted terms are below the rounding error of the sum."""

CHUNK = 8192
"""The number of cells that are processed together; their 64 KB fit into the first or second level of the cache."""


class ExponentialSeries:
    r"""The sums $s_t = \sum_x e^{t x}$, or $\sum_x e^{t x} + e^{-t x}$ if symmetric, for t in [0, 1] and |x| <= RADIUS.

    They are exact up to rounding: the remainder of the series is less than 1 / 20! of a sum.

    >>> series = ExponentialSeries(np.array([0.0, 0.5, 1.0]), symmetric=False)
    >>> np.round(series.sums(np.array([0.2, -0.3])) - np.exp([0.0, 0.1, 0.2]) - np.exp([0.0, -0.15, -0.3]), 14)
    array([0., 0., 0.])

    Args:
        times: the times t, shape (times,).
        symmetric: whether to add the terms of -x, which cancels every second power.
    """

    def __init__(self, times: np.ndarray, symmetric: bool):
        self._symmetric = symmetric
        orders = np.arange(TERMS)
        terms = times[:, None] ** orders / [math.factorial(order) for order in orders]
        self._of_sums, self._of_slopes = (2 * terms[:, ::2], 2 * terms[:, 1::2]) if symmetric else (terms, terms)

    def sums(self, exponents: np.ndarray) -> np.ndarray:
        """Return s_t, shape (times,)."""
        totals = np.zeros(self._of_sums.shape[1])
        for start in range(0, len(exponents), CHUNK):
            factors = self._factors(exponents[start : start + CHUNK])
            powers = np.ones_like(factors)
            for term in range(len(totals)):
                totals[term] += powers.sum()
                powers *= factors
        return self._of_sums @ totals

    def slopes(self, exponents: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_t weights_t e^{t x} for each x, or sum_t weights_t (e^{t x} - e^{-t x}) if symmetric.

        With weights t v_t this is the gradient of sum_t v_t s_t by x. The result has the shape of `exponents`.
        """
        coefficients = weights @ self._of_slopes
        slopes = np.empty_like(exponents)
        for start in range(0, len(exponents), CHUNK):
            chunk, out = exponents[start : start + CHUNK], slopes[start : start + CHUNK]
            factors = self._factors(chunk)
            out.fill(coefficients[-1])
            for coefficient in coefficients[-2::-1]:
                out *= factors
                out += coefficient
            if self._symmetric:
                out *= chunk
        return slopes

    def _factors(self, exponents: np.ndarray) -> np.ndarray:
        """Return the ratio of consecutive powers in the series."""
        return exponents * exponents if self._symmetric else exponents
