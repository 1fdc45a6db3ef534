"""The privacy cost of choices by the exponential mechanism in mu of GDP.

An exponential mechanism whose log probabilities change by a range of at most epsilon between neighbors has bounded
range epsilon (Durfee, Rogers 2019). In the worst case its privacy loss takes two values, t - epsilon and t, for some t
from 0 to epsilon that depends on the neighbors (Dong, Durfee, Rogers 2020). The value t has the probability

    P(t) = (1 - e^(t - epsilon)) / (1 - e^-epsilon) under the one table, e^-t P(t) under the other.

*One choice* is mu-GDP if Phi^-1(P) - Phi^-1(e^-t P) is at most mu for all t (`choice_mu`). The trade-off curve of the
two losses has three corners. All curves share two of them, and the curve of a Gaussian, which is convex, lies below the
third.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pgmest.privacy.gaussian import SAFETY

MARGIN = 1e-6
"""The relative error of mu at which the search for the worst t ends; results are increased by it."""
LARGEST = 1000.0
"""The largest epsilon of a choice. Larger ones protect nothing, and their mu counts as infinite."""


@lru_cache(maxsize=1024)
def choice_mu(epsilon: float) -> float:
    """Return the mu for which every choice of bounded range epsilon is mu-GDP, rounded up.

    The largest difference over t is found by branch and bound on intervals. On an interval from t to t' the difference
    is at most that of P(t) and e^-t' P(t'), since both decrease in t. The difference also equals
    z(s) - z(s e^(epsilon - t)) with s = 1 - P(t) and z the upper quantile of a normal variable: this is the integral of
    Mills' ratio over a range of log s, so it increases in s and in that range, which gives a second bound.

    >>> round(choice_mu(0.1) / 0.05, 4), round(math.sqrt(math.pi / 2), 4)
    (1.2533, 1.2533)
    """
    from scipy.special import ndtri_exp

    if not 0 < epsilon <= LARGEST:
        return math.inf if epsilon else 0.0

    def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return Phi^-1(P) at the first point less Phi^-1(e^-t P) at the second."""
        log_p = np.log(-np.expm1(other - epsilon)) - math.log(-math.expm1(-epsilon))
        return -ndtri_exp(_log_miss(one, epsilon)) - ndtri_exp(log_p - other)

    edges = np.linspace(0.0, epsilon / 2, 17)  # t and epsilon - t have the same curve, mirrored
    starts, ends, best = edges[:-1], edges[1:], 0.0
    while len(starts):
        best = max(best, float(difference(ends, ends).max()))
        least = _log_miss(ends, epsilon)
        with np.errstate(invalid="ignore"):
            by_ratio = ndtri_exp(np.minimum(least + epsilon - starts, 0.0)) - ndtri_exp(least)
        above = np.fmin(by_ratio, np.where(starts > 0, difference(starts, ends), math.inf))
        kept = above > best * (1 + MARGIN)
        middles = (starts[kept] + ends[kept]) / 2
        starts, ends = np.concatenate([starts[kept], middles]), np.concatenate([middles, ends[kept]])
    return best * (1 + 2 * MARGIN)


def _log_miss(t: np.ndarray, epsilon: float) -> np.ndarray:
    """Return log(1 - P(t))."""
    with np.errstate(divide="ignore"):
        return np.log(np.expm1(t)) - epsilon - math.log(-math.expm1(-epsilon))


@lru_cache(maxsize=1024)
def choice_epsilon(mu: float) -> float:
    """Return the bounded range of a choice that is mu-GDP, rounded down.

    The worst t is about epsilon / 2, which gives a first guess; `choice_mu` then confirms it or a smaller one.
    """
    from scipy.special import log_ndtr

    epsilon = min(2 * float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - 4 * MARGIN), LARGEST)
    while choice_mu(epsilon) > mu * (1 - SAFETY):
        epsilon *= 1 - MARGIN
    return epsilon
