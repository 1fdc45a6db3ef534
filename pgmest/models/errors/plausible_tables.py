"""Tables that a model's errors make plausible, without the negative counts that drawn errors leave."""

from __future__ import annotations

import numpy as np

FIT_ROUNDS, STEPS = 4, 3
"""The rounds of fitting to the margins of a table, and the steps of Newton's method for the sums along each axis. One
step would not do: where few counts are above 0, it may go too far, and the next rounds with it."""
LEAST = 1e-9
"""Sums of counts below this are not fitted, and variances are at least this share of their mean."""


def without_negative_counts(tables: np.ndarray) -> np.ndarray:
    """Return the nearest tables without negative counts, with the margins that they had.

    Zeros alone would add records to cells with large errors, and so weaken dependence; to scale all counts down again
    would weaken it, too, and leave tables that are too even where errors are as large as counts. So what zeros add is
    subtracted from all counts, in proportion to their mean squared errors: that is least squares, as if each table were
    noisy answers. The margins of one attribute fewer are done in the same way before.

    Args:
        tables: counts, shape (tables, *shape).
    """
    return _nearest(tables, tuple(range(tables.ndim - 1)), {})


def _nearest(tables: np.ndarray, names: tuple[int, ...], done: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Return tables on some of the attributes, which are done once for all tables that have them as a margin."""
    if names not in done:
        done[names] = np.maximum(tables, 0.0)
        if tables.ndim > 1 and not np.array_equal(done[names], tables):
            margins = [
                _nearest(tables.sum(axis=place + 1), names[:place] + names[place + 1 :], done)
                for place in range(len(names))
            ]
            done[names] = _fitted(tables, margins)
    return done[names]


def _fitted(tables: np.ndarray, margins: list[np.ndarray]) -> np.ndarray:
    r"""Return the nonnegative tables nearest to these that have these margins.

    They are $\max(t - v \sum_a \lambda_a, 0)$ with the variances v of cells, and with one multiplier for each sum along
    an axis a. In turn, the multipliers of each axis are fitted by Newton's method.
    """
    spread = np.mean(np.square(tables - tables.mean(axis=0)), axis=0)
    spread = np.maximum(spread / max(float(spread.mean()), 1e-300), LEAST)
    left, found = tables.copy(), np.maximum(tables, 0.0)
    for _ in range(FIT_ROUNDS):
        for axis, wanted in enumerate(margins, 1):
            for _ in range(STEPS):
                off = found.sum(axis=axis) - wanted
                slope = ((left > 0) * spread).sum(axis=axis)
                step = np.divide(off, slope, out=np.zeros_like(off), where=slope > 0)
                left -= np.expand_dims(step, axis) * spread
                np.maximum(left, 0.0, out=found)
    axes = tuple(range(1, tables.ndim))
    sums, wanted = (np.sum(one, axis=tuple(range(1, one.ndim))) for one in (found, margins[0]))
    ratio = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
    return found * np.expand_dims(ratio, axes)
