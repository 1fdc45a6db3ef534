"""The exact privacy curve of Gaussian noise: mu-GDP as (epsilon, delta)-DP and back (Dong, Roth, Su 2022).

A Gaussian of standard deviation sigma at l2 sensitivity s is mu-GDP with mu = s / sigma; such mechanisms compose, also
adaptively, by adding mu^2. As (epsilon, delta) it is exactly (Balle, Wang 2018, Theorem 8)

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

SAFETY = 1e-12
"""The relative margin of conversions, far above the rounding errors of their few float operations."""
ROUNDING = 1e-13
"""An upper bound on the relative error of each of the two terms of the curve."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at an epsilon, rounded up.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    from scipy.special import log_ndtr

    if not mu:
        return 0.0
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    above, below = math.exp(log_ndtr(upper)), math.exp(min(0.0, epsilon + log_ndtr(lower)))
    slack = ROUNDING * (1 + abs(epsilon) + upper * upper)  # log_ndtr is about -upper^2 / 2 in the tail
    return min(1.0, max(0.0, above * (1 + slack) - below * (1 - slack)))


@lru_cache(maxsize=256)
def analytic_gaussian(epsilon: float, delta: float) -> float:
    """Return the least sigma for which Gaussian noise at l2 sensitivity 1 is (epsilon, delta)-DP, rounded up.

    This is the analytic Gaussian mechanism (Balle, Wang 2018, Algorithm 1), by bisection.

    >>> round(analytic_gaussian(1.0, 1e-5), 3)
    3.731
    """
    return _least(lambda sigma: gaussian_delta(1 / sigma, epsilon) <= delta * (1 - 1e-9))


@lru_cache(maxsize=256)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon for which mu-GDP is (epsilon, delta)-DP, rounded up.

    >>> round(gaussian_epsilon(1 / analytic_gaussian(1.0, 1e-5), 1e-5), 9)
    1.0
    """
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _least(lambda epsilon: gaussian_delta(mu, epsilon) <= delta)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the least positive number that is enough, rounded up, if all larger ones are enough, too."""
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high or not math.isfinite(1 / middle):  # nothing lies between, or its inverse does not
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * (1 + SAFETY)
