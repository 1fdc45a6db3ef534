r"""Sizes that are exponential below a bound: all that is known of one is its mean without the bound, and the bound.

Of all distributions of positive numbers with a given mean, the exponential one assumes least. Below the bound b, the
u-quantile of an exponential distribution with the mean m is $-m \log(1 - u (1 - e^{-b / m}))$, and its mean is
$m - b / (e^{b / m} - 1)$: m if the bound is far above it, and b / 2 if it is far below.
"""

from __future__ import annotations

import math

import numpy as np

FAR = 500.0
"""A bound of this many means, or of the reciprocal, is far above them, or far below."""


def mean_below(mean: float, bound: float) -> float:
    """Return the mean of the sizes below a bound.

    Args:
        mean: the mean without the bound, not negative.
        bound: the bound, not negative; it may be infinite.

    >>> mean_below(1.0, math.inf), mean_below(1.0, 1e-4), round(mean_below(1.0, 1.0), 3)
    (1.0, 5e-05, 0.418)
    """
    if bound >= FAR * mean:
        return mean
    return bound / 2 if bound * FAR <= mean else mean - bound / math.expm1(bound / mean)


def sizes_below(mean: float, bounds: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw a size below each bound.

    Args:
        mean: the mean without the bounds, not negative.
        bounds: the bounds, not negative; they may be infinite.
        generator: the random generator.
    """
    shares = generator.random(len(bounds))
    if mean <= 0:
        return np.zeros(len(bounds))
    return np.minimum(-mean * np.log1p(shares * np.expm1(-bounds / mean)), bounds)
