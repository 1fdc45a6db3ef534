r"""The privacy cost of choices by the exponential mechanism: in mu of GDP, and as an exact curve with Gaussian noise.

An exponential mechanism whose log probabilities change by a range of at most epsilon between neighbors has bounded
range epsilon (Durfee, Rogers 2019). In the worst case its privacy loss takes two values, t - epsilon and t, for some t
from 0 to epsilon that depends on the neighbors (Dong, Durfee, Rogers 2020). The value t has the probability

    P(t) = (1 - e^(t - epsilon)) / (1 - e^-epsilon) under the one table, e^-t P(t) under the other.

*One choice* is mu-GDP if Phi^-1(P) - Phi^-1(e^-t P) is at most mu for all t (`choice_mu`). The trade-off curve of the
two losses has three corners. All curves share two of them, and the curve of a Gaussian, which is convex, lies below the
third.

*For n choices, one after the other, and Gaussian noise* the worst case is computed (`ChoiceCurve`). Let U_n(y) be the
largest delta, per unit of probability, if the probability under the other table times e^epsilon is y times as large.
Then U_0(y) = max(0, 1 - y), and an adversary who knows all earlier answers chooses t:

    U_(k+1)(y) = max over t of P(t) U_k(y e^-t) + (1 - P(t)) U_k(y e^(epsilon - t)).

U_k is convex in y, so the polygon through its values at the points of a grid lies above it. The maximum over t of a
polygon has a closed form, so every error increases the result. Proofs: docs/mechanisms/accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pgmest.privacy.gaussian import SAFETY

CELLS = 32
"""The cells of the grid within a choice's epsilon. The variance of a choice is overstated by about 1 / CELLS^2."""
FEWEST_CELLS = 4
"""The fewest cells of the grid, which is coarser for many choices."""
MOST_CHOICES = 256
"""The most choices that are composed by the curve; a plan composes the others through mu."""
WORK = 800
"""The number of cells times choices at which the grid becomes coarser: some milliseconds."""
FLOATS = 1e-9
"""An upper bound on the relative rounding error of a delta; results are increased by it."""
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


class ChoiceCurve:
    """The worst case of n adaptive choices of bounded range epsilon, as weights.

    Let delta_0 be the privacy curve of any other mechanism. Then delta(e) of the choices and that mechanism, in any
    order, is at most the sum of `weights` * delta_0(e - `shifts`).

    Args:
        choices: the number of choices, n.
        epsilon: the bounded range of each choice.
    """

    def __init__(self, choices: int, epsilon: float):
        cells = max(FEWEST_CELLS, min(CELLS, WORK // max(1, choices)))
        step = epsilon / cells
        values = np.zeros(1)
        for _ in range(choices):
            values = _with_another(values, cells, step)
        self.shifts: np.ndarray
        self.weights: np.ndarray
        self.shifts, self.weights = _as_weights(values, step)

    def delta(self, epsilon: float, rest: Callable[[np.ndarray], np.ndarray]) -> float:
        """Return the delta at an epsilon, rounded up, with the curve `rest` of the other mechanism, delta_0."""
        return min(1.0, float(self.weights @ rest(epsilon - self.shifts)) * (1 + FLOATS))


@lru_cache(maxsize=64)
def choice_curve(choices: int, epsilon: float) -> ChoiceCurve:
    """Return the `ChoiceCurve` of these choices, from a cache."""
    return ChoiceCurve(choices, epsilon)


def _with_another(values: np.ndarray, cells: int, step: float) -> np.ndarray:
    """Return U_(k+1) from U_k at the points y = e^(j step), j = 0, 1, ...; U is zero beyond the given points.

    Below 1, U(y) = 1 - y + y U(1 / y), because choices are as private in one direction as in the other.
    """
    new, reach = len(values) + cells, cells + 1
    places = np.arange(-reach, new + reach)
    y, known = np.exp(step * places), np.zeros(len(places))
    known[reach : reach + len(values)] = values
    mirrored = np.zeros(reach)
    count = min(reach, len(values) - 1)
    mirrored[reach - count :] = values[count:0:-1]
    known[:reach] = -np.expm1(step * places[:reach]) + y[:reach] * mirrored
    widths = np.diff(y)
    slopes = np.diff(known) / widths
    intercepts = known[:-1] - slopes * y[:-1]
    turn = np.arange(cells)
    low = np.arange(new)[:, None] + reach - turn - 1  # the cell of y e^-t, for t in [turn, turn + 1] * step
    high = low + cells  # and of y e^(epsilon - t)
    t = _best_t(slopes, intercepts, y[reach : reach + new, None], low, high, cells * step)
    t = np.clip(np.where(np.isnan(t), (turn + 0.5) * step, t), turn * step, (turn + 1) * step)
    ends = y[reach : reach + new, None] * np.exp(-t)
    below = _on_polygon(known, y, widths, low, ends)
    above = _on_polygon(known, y, widths, high, ends * math.exp(cells * step))
    gain, miss = np.expm1(cells * step - t), -np.expm1(-t)
    return ((gain * below + miss * above) / (gain + miss)).max(axis=1)


def _best_t(
    slopes: np.ndarray, intercepts: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray, epsilon: float
) -> np.ndarray:
    """Return the t with the largest mean if both losses stay in their cells: with a = e^-t, (C a^2 + B a + A) / a."""
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = (intercepts[high] - intercepts[low]) / (y * math.exp(epsilon) * (slopes[low] - slopes[high]))
        return -np.log(squared) / 2


def _on_polygon(known: np.ndarray, y: np.ndarray, widths: np.ndarray, cell: np.ndarray, at: np.ndarray) -> np.ndarray:
    share = (at - y[cell]) / widths[cell]
    return known[cell] * (1 - share) + known[cell + 1] * share


def _as_weights(values: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the polygon as shifts and weights of a sum of weight * max(0, 1 - y e^-shift).

    Each term changes the slope at one point of the grid.
    """
    count = len(values) - 1
    y, known = np.exp(step * np.arange(count + 2)), np.append(values, 0.0)
    right = np.diff(known) / np.diff(y)
    mirrored_y, mirrored = 1 / y[::-1], known[::-1] / y[::-1]  # U(y) - (1 - y) below 1
    left = np.diff(mirrored) / np.diff(mirrored_y)
    bends = np.concatenate([np.diff(left), [1 + right[0] - left[-1]], np.diff(right)])
    shifts = step * np.arange(-count, count + 1)
    return shifts, np.maximum(bends, 0.0) * np.exp(shifts)
