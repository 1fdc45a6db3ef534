"""Sums of a great many exponentials with small exponents, over a range of times, by their power series.

The cells that no record of DualQuery fell into have weights exp(t x) that depend on x only, and nearly all x are small.
Their sums over the cells at all times follow from a few sums of powers of x, so that the cost is that of the cells and
not of cells times steps.
"""

from __future__ import annotations

import math

import numpy as np

RADIUS = 1.0
"""The largest |x|: the terms left out are then below the rounding of what is kept."""
TERMS = 20
CHUNK = 8192
"""At most this many cells at a time, which fit into the nearest cache."""


class ExponentialSeries:
    r"""$s_t = \sum_x e^{t x}$, or with `symmetric` $\sum_x e^{t x} + e^{-t x}$, for times t in 0..1 and |x| <= RADIUS.

    Exact to rounding: the remainder of the series is less than 1 / 20! of a sum.

    >>> series = ExponentialSeries(np.array([0.0, 0.5, 1.0]), symmetric=False)
    >>> np.round(series.sums(np.array([0.2, -0.3])) - np.exp([0.0, 0.1, 0.2]) - np.exp([0.0, -0.15, -0.3]), 14)
    array([0., 0., 0.])

    Args:
        times: shape (times,).
        symmetric: whether -x counts as well as x; only every second power is left then.
    """

    def __init__(self, times: np.ndarray, symmetric: bool):
        self._symmetric = symmetric
        orders = np.arange(TERMS)
        terms = times[:, None] ** orders / [math.factorial(order) for order in orders]
        self._of_sums, self._of_slopes = (2 * terms[:, ::2], 2 * terms[:, 1::2]) if symmetric else (terms, terms)

    def sums(self, exponents: np.ndarray) -> np.ndarray:
        """s_t, shape (times,)."""
        totals = np.zeros(self._of_sums.shape[1])
        for start in range(0, len(exponents), CHUNK):
            factors = self._factors(exponents[start : start + CHUNK])
            powers = np.ones_like(factors)
            for term in range(len(totals)):
                totals[term] += powers.sum()
                powers *= factors
        return self._of_sums @ totals

    def slopes(self, exponents: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum_t weights_t e^{t x} for each x, or with `symmetric` that of e^{t x} - e^{-t x}; shape of `exponents`.

        With weights t v_t it is the gradient of sum_t v_t s_t.
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
        """The ratio of consecutive powers."""
        return exponents * exponents if self._symmetric else exponents
