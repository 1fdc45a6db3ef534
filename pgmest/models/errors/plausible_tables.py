"""Tables that a model's errors make plausible, without the negative counts that drawn errors leave."""

from __future__ import annotations

import math

import numpy as np

FIT_ROUNDS, STEPS = 4, 3
"""The rounds of fitting to the margins of a table, and the steps of Newton's method for the sums along each axis. One
step would not do: where few counts are above 0, it may go too far, and the next rounds with it."""
LEAST = 1e-9
"""Variances are at least this share of their mean."""
CORRECTIONS, SWEEPS, MOST_CHANGE = 5, 2, 10.0
"""The number of corrections of a correlation, the scalings to both margins after each, and the largest change of the
logarithm of a count in one."""
LARGEST, CLOSE = 0.8, 1e-3
"""The largest correlation that is restored, and how near is near enough."""
NEAR = 1e-8
"""Sums that are off by no more than this share of the records are fitted."""


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
                _nearest(sums_along(tables, place), names[:place] + names[place + 1 :], done)
                for place in range(len(names))
            ]
            done[names] = _fitted(tables, margins)
            if tables.ndim == 3:
                done[names] = _with_correlations(done[names], tables)
    return done[names]


def _with_correlations(tables: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return tables of two attributes with the margins that they have, and the rank correlations of drawn ones.

    What zeros change in single cells also weakens correlations, which are sums of all of them: where errors are as
    large as counts, half of a correlation would be lost. Those that zeros made stronger stay as they are.

    Args:
        tables: nonnegative counts, shape (tables, *shape).
        drawn: the counts of which they are the nearest ones, of the same shape.
    """
    rows, columns = sums_along(tables, 1), sums_along(tables, 0)
    first, second = _standard_ranks(rows), _standard_ranks(columns)
    total = np.maximum(rows.sum(axis=1), LEAST)
    apart = (sums_along(drawn, 1) * first).sum(axis=1) * (sums_along(drawn, 0) * second).sum(axis=1) / total
    wanted = (_products(first, drawn, second) - apart) / total
    found, now = tables, _products(first, tables, second) / total
    most = np.maximum(np.abs(now), LARGEST)
    wanted = np.where(np.abs(wanted) > np.abs(now), np.clip(wanted, -most, most), now)
    for _ in range(CORRECTIONS):
        off = wanted - now
        if float(np.abs(off).max(initial=0.0)) < CLOSE:
            break
        tilt = np.clip(off / np.maximum(1 - np.square(now), 1 - LARGEST**2), -1.0, 1.0)
        change = (tilt[:, None] * first)[:, :, None] * second[:, None, :]
        found = found * np.exp(np.clip(change, -MOST_CHANGE, MOST_CHANGE))
        for _ in range(SWEEPS):
            for axis, margins in ((1, rows), (0, columns)):
                sums = sums_along(found, axis)
                ratio = np.divide(margins, sums, out=np.zeros_like(sums), where=sums > 0)
                found = found * np.expand_dims(ratio, axis + 1)
        now = _products(first, found, second) / total
    return found


def _products(first: np.ndarray, tables: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the sum of the counts of each table times a function of either attribute."""
    return ((tables @ second[:, :, None])[:, :, 0] * first).sum(axis=1)


def _standard_ranks(counts: np.ndarray) -> np.ndarray:
    """Return the ranks of codes for each of many marginals, with mean 0 and variance 1."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), LEAST)
    ranks = np.cumsum(shares, axis=1) - shares / 2 - 0.5
    stddev = np.sqrt((shares * np.square(ranks)).sum(axis=1, keepdims=True))
    return np.divide(ranks, stddev, out=np.zeros_like(ranks), where=stddev > CLOSE)


def _fitted(tables: np.ndarray, margins: list[np.ndarray]) -> np.ndarray:
    r"""Return the nonnegative tables nearest to these that have these margins.

    They are $\max(t - v \sum_a \lambda_a, 0)$ with the variances v of cells, and with one multiplier for each sum along
    an axis a. In turn, the multipliers of each axis are fitted by Newton's method.
    """
    from pgmest.models.errors.plausible_kernels import fit_sums  # imported late: it loads numba

    spread = np.mean(np.square(tables - tables.mean(axis=0)), axis=0)
    spread = np.maximum(spread / max(float(spread.mean()), 1e-300), LEAST)
    shape, left = tables.shape, tables.copy()
    near = NEAR * float(np.abs(margins[0]).sum()) / len(tables)
    space = np.empty((2, math.prod(shape[2:])))
    for _ in range(FIT_ROUNDS):
        moved = False
        for axis, wanted in enumerate(margins, 1):
            view = math.prod(shape[1:axis]), shape[axis], math.prod(shape[axis + 1 :])
            counts, sums = left.reshape(-1, *view), wanted.reshape(-1, view[0], view[2])
            moved |= fit_sums(counts, spread.reshape(view), sums, STEPS, near, *space[:, : view[2]])
        if not moved:
            break
    found = np.maximum(left, 0.0, out=left)
    axes = tuple(range(1, tables.ndim))
    sums, wanted = (np.sum(one, axis=tuple(range(1, one.ndim))) for one in (found, margins[0]))
    ratio = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
    return found * np.expand_dims(ratio, axes)


def sums_along(tables: np.ndarray, axis: int) -> np.ndarray:
    """Return the sums of each of many tables along one of its axes; einsum takes a third of the time of np.sum."""
    axes = list(range(tables.ndim))
    return np.einsum(tables, axes, axes[: axis + 1] + axes[axis + 2 :])
