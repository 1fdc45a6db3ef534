"""Likely values of counts that are known to lie between two ends, for the sum of a published table.

The middle of the ends is a poor guess for small cells: a table of many zeros that was rounded to a base, or suppressed
below a threshold, has most of its small counts at the lower end. The distribution of small counts is estimated from
the table itself.
"""

from __future__ import annotations

import numpy as np

SMALL = 1.0
"""A range of counts is shaped if its lower end is at most this; larger counts lie about as often on both sides of the
middle of their ranges."""

ROUNDS = 200
SETTLED = 1e-6
"""The mean of the distribution is iterated at most ROUNDS times, until it changes by a share of at most SETTLED."""


def likely_values(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return likely values of counts between ends, each between its ends, shape (rows,).

    A range that starts at 0 or 1 gets its mean under a geometric distribution (an exponential one if ends are not
    whole numbers), which is fitted to all counts by maximum likelihood. Larger counts enter the fit as censored, since
    they say little about the shape near zero, and one count at the middle of the widest range keeps the mean positive.
    Other ranges get their middle, and ranges without an upper end the average of all others if it is in the range.

    Args:
        low, high: the ends, shape (rows,); `high` may be inf.
    """
    closed = np.isfinite(high)
    top = np.where(closed, high, low)
    likely = 0.5 * (low + top)
    shaped = closed & (low < high) & (low >= 0.0) & (low <= SMALL)
    if shaped.any():
        likely[shaped] = _shaped(low, top, shaped)
    if closed.any() and not closed.all():
        likely[~closed] = np.maximum(low[~closed], likely[closed].mean())
    return likely


def _shaped(low: np.ndarray, high: np.ndarray, shaped: np.ndarray) -> np.ndarray:
    """Return the means of the shaped ranges under the distribution that is fitted to all counts."""
    most = high[shaped].max()
    known = ~shaped & (high <= most)
    larger = len(low) - np.count_nonzero(shaped) - np.count_nonzero(known)
    # Pairs of ends as complex numbers, which sort much faster than columns.
    pairs, place, times = np.unique(low[shaped] + 1j * high[shaped], return_inverse=True, return_counts=True)
    starts, tops = pairs.real, pairs.imag
    widths = tops - starts
    whole = bool(np.all(pairs == np.round(pairs)))
    fixed = 0.5 * float(np.sum(low[known] + high[known])) + 0.5 * most
    beyond, rows = most + (1.0 if whole else 0.0), len(low) + 1
    mean = max(0.5 * most, np.finfo(float).tiny)
    for _ in range(ROUNDS):
        inside = starts + _mean_within(mean, widths, whole)
        updated = (fixed + float(np.dot(times, inside)) + larger * (beyond + mean)) / rows
        settled = abs(updated - mean) <= SETTLED * mean
        mean = updated
        if settled or mean > 1e3 * most:  # the distribution is flat between the ends
            break
    return np.clip(starts + _mean_within(mean, widths, whole), starts, tops)[place]


def _mean_within(mean: float, widths: np.ndarray, whole: bool) -> np.ndarray:
    """Return the means of a geometric or exponential distribution that is cut to [0, width]."""
    if whole:
        rate, unit = np.log1p(1.0 / mean), widths + 1.0
        return 1.0 / np.expm1(rate) - unit / np.expm1(rate * unit) if rate * unit.max() > 1e-5 else 0.5 * widths
    ratio = widths / mean
    with np.errstate(over="ignore"):
        return np.where(ratio > 1e-5, mean - widths / np.expm1(np.maximum(ratio, 1e-5)), 0.5 * widths)
