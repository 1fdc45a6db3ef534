"""The likely number of families, which is below its estimate where noise may be larger than the number."""

from __future__ import annotations

import math

import numpy as np

from pgmest.mechanisms.lamp.evidence import total_of
from pgmest.privacy.curator import Curator

CERTAIN = 5.0
"""The number of standard errors from which on an estimated total is taken as it is: its likely value is then lower by
less than a fourth of one."""
WIDE, POINTS = 8.0, 2_000
"""The largest number of standard errors that a total is above its estimate, and the number of totals compared."""


def families_of(curator: Curator) -> tuple[float, float]:
    """Return the likely number of families, and the standard error of its estimate, from all answers."""
    total, stddev = total_of(curator)
    return likely_total(total, stddev), stddev


def likely_total(estimate: float, stddev: float) -> float:
    """Return the median of a number of families, if all orders of magnitude from one family on are equally likely.

    With a tiny budget, noise of 10,000 households makes as many of 30; each of them costs time, and tells nothing. The
    estimate itself is at least one record.

    >>> round(likely_total(1000.0, 10.0)), round(likely_total(10_000.0, 10_000.0)) < 1_000
    (1000, True)

    Args:
        estimate: the estimated number, at least 0.
        stddev: its standard error; the estimate is returned if this is not finite.
    """
    if not math.isfinite(stddev) or estimate >= CERTAIN * stddev:
        return estimate
    magnitudes = np.linspace(0.0, math.log(max(estimate + WIDE * stddev, 1.0)), POINTS)
    weights = np.cumsum(np.exp(-0.5 * np.square((np.exp(magnitudes) - estimate) / stddev)))
    return min(estimate, math.exp(float(np.interp(0.5 * weights[-1], weights, magnitudes))))
