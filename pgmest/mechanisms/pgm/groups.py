"""Groups of neighboring codes, nested, of about equal mass: how finely a pair of attributes is measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_LEVELS = 6
"""Attributes are halved so often, into 64 groups at most; the next level is every code by itself."""


def nested_groups(mass: np.ndarray) -> tuple[np.ndarray, ...]:
    """The group of each code on levels 1, 2, ...: each level halves the groups of the one before; the last splits all.

    A group is a range of codes, cut where its two parts are closest to equal in mass. So a heavy value soon stands
    alone, and rare values stay together.

    >>> [level.tolist() for level in nested_groups(np.array([4.0, 1.0, 1.0, 2.0]))]
    [[0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 2, 3]]

    Args:
        mass: of each code, shape (n,), not negative.
    """
    count = len(mass)
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    ranges, levels = [(0, count)], []
    while len(ranges) < count and len(levels) < MOST_LEVELS:
        ranges = [part for start, end in ranges for part in _halves(cumulative, start, end)]
        levels.append(np.repeat(np.arange(len(ranges)), [end - start for start, end in ranges]))
    if len(ranges) < count or not levels:
        levels.append(np.arange(count))
    return tuple(levels)


def _halves(cumulative: np.ndarray, start: int, end: int) -> list[tuple[int, int]]:
    if end - start == 1:
        return [(start, end)]
    inner = np.abs(cumulative[start + 1 : end] - (cumulative[start] + cumulative[end]) / 2)
    cut = start + 1 + int(np.argmin(inner))
    return [(start, cut), (cut, end)]


def kinds(counts: np.ndarray) -> np.ndarray:
    """Of each cell the number of its order of magnitude, among those that occur.

    >>> kinds(np.array([1.0, 100.0, 1.5])).tolist()
    [0, 1, 0]
    """
    order = np.floor(np.log2(np.maximum(counts, 1e-6))).astype(np.int64)
    return np.unique(order, return_inverse=True)[1].reshape(order.shape)


def refined(groups: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The coarsest grouping into ranges that is at least as fine as each of these."""
    cuts = np.zeros(count, dtype=np.int64)
    for labels in groups:
        cuts |= np.diff(labels, prepend=0) > 0
    return np.cumsum(cuts)


def spread(
    table: np.ndarray, coarse: Sequence[np.ndarray], fine: Sequence[np.ndarray], mass: Sequence[np.ndarray]
) -> np.ndarray:
    """A table over coarse groups as one over finer groups, each group shared out in proportion to its codes' mass."""
    for axis, (labels, finer, weights) in enumerate(zip(coarse, fine, mass, strict=True)):
        if int(finer[-1]) != int(labels[-1]):
            starts = np.flatnonzero(np.diff(finer, prepend=-1))
            inside, parent = np.add.reduceat(weights, starts), labels[starts]
            share = inside / np.maximum(np.bincount(parent, inside), 1e-300)[parent]
            shape = [1] * table.ndim
            shape[axis] = len(starts)
            table = np.take(table, parent, axis=axis) * share.reshape(shape)
    return table
