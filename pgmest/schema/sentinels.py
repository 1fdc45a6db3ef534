"""Guesses about numbers that mean missing values, for drafts."""

from __future__ import annotations

import numpy as np

from pgmest.schema.guess_numbers import HIGH_SENTINELS, LOW_SENTINELS, MANY_NUMBERS, MOST_CODES, number_text
from pgmest.schema.tally import Tally

FAR = 2
"""A high number is a marker of missing values if it lies this many ranges of all other values above these."""
APART, MANY_ROWS_EACH = 0.1, 2
"""It may be one from this many ranges on, if it has this many times the rows of the others on average."""


def sentinels(tally: Tally) -> list[int]:
    """Return numbers that mean missing values: -1 or -99 where all else is at least 0, 999 far beyond all else."""
    found, rest = [], tally
    low = tally.values < 0
    codes, others = np.sort(tally.values[low]).tolist(), tally.values[~low]
    scale = len(codes) > 1 and codes == list(range(-len(codes), 0))  # -3, -2, -1 go on as 0, 1, 2
    marked = bool(codes) and not scale and set(codes) <= set(LOW_SENTINELS)
    if marked and len(others) > 2 and others.max() > 2:
        found, rest = [int(code) for code in codes], tally.where(~low)
    if rest.distinct > 2 and rest.values.max() in HIGH_SENTINELS:
        high, others = rest.values.max(), rest.values[rest.values != rest.values.max()]
        apart = high - others.max() > FAR * np.ptp(others) and others.min() >= 0
        if rest.counts[rest.values == high][0] >= 2 and apart and len(others) > (MOST_CODES if high < 100 else 2):
            found.append(int(high))
    return found


def doubtful_sentinel(tally: Tally) -> str | None:
    """Return a note on a number such as 99 that many rows have and that lies apart from all others; None without one.

    It may be a marker of missing values, but is not far enough from the others for the draft to say so.
    """
    high = tally.values.max(initial=0)
    others = tally.where(tally.values != high)
    if high not in HIGH_SENTINELS or others.distinct < MANY_NUMBERS or others.values.min() < 0:
        return None
    apart = high - others.values.max() > APART * np.ptp(others.values)
    rows = int(tally.counts[tally.values == high][0])
    if not apart or rows < MANY_ROWS_EACH * np.mean(others.counts):
        return None
    number = (
        f"{high:.0f} ({rows:,} ROWS) LIES APART FROM ALL OTHERS, WHICH ARE AT MOST {number_text(others.values.max())}"
    )
    return f"{number}: IF IT MEANS A MISSING VALUE, LIST IT UNDER missing."
