"""Systematic sampling (Madow, 1949): unbiased random rounding of expectations up or down to integers.

Equally spaced points with one random start are placed along the cumulative sums of the weights. The number of points in
an entry's interval is the entry's integer. The sum over any consecutive entries is also its expectation rounded up or
down.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def systematic(weights: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Return integers that sum to n, each its expectation, in proportion to the weights, rounded up or down.

    If all weights are 0, they count as equal.

    >>> systematic(np.array([1.0, 0.0, 3.0]), 8, np.random.default_rng(0))
    array([2, 0, 6])
    """
    flat = np.asarray(weights, dtype=np.float64).reshape(1, -1)
    return systematic_rows(flat, np.array([n]), generator)[0]


def systematic_rows(weights: np.ndarray, sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Apply `systematic` to each row, with an independent random start for each.

    Args:
        weights: shape (rows, columns), at least 0; weights that are all 0 in a row count as equal.
        sizes: shape (rows,), the sum of each row of the result.
        generator: the source of the random starts.

    Returns:
        integers, of the shape of `weights`; 0 for a weight of 0, unless its row is all 0.
    """
    cumulative = np.cumsum(np.where(weights.any(axis=1, keepdims=True), weights, 1.0), axis=1)
    whole, sums = cumulative[:, -1:], np.asarray(sizes)[:, None]
    ends = np.minimum(np.floor(cumulative / whole * sums + generator.random((len(weights), 1))), sums)
    # From the last positive weight on, the end is exact: rounding must not leave points to weights of 0 after it.
    ends = np.where(cumulative < whole, ends, sums)
    return np.diff(ends, prepend=0.0, axis=1).astype(np.int64)


def systematic_sample(weights: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return `count` positions in increasing order, each repeated as often as `systematic` would count it.

    >>> systematic_sample(np.array([0.5, 0.25, 0.25]), 4, np.random.default_rng(0))
    array([0, 0, 1, 2])
    """
    cumulative = np.cumsum(weights)
    points = (np.arange(count) + generator.random()) * (cumulative[-1] / count)
    return np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1)


def deal(groups: np.ndarray, counts: np.ndarray, generator: np.random.Generator, kind: Any) -> np.ndarray:
    """Return a code for each record, such that each group's codes have the given counts, in random order.

    Args:
        groups: shape (records,), the group of each record.
        counts: shape (groups, codes); row g sums to the number of records of group g.
        generator: the source of the random order.
        kind: the integer type of the codes.
    """
    shuffled = generator.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    column = np.empty(len(groups), dtype=kind)
    column[order] = np.repeat(np.tile(np.arange(counts.shape[1], dtype=kind), len(counts)), counts.reshape(-1))
    return column


def random_round(expected: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Round each number independently: up with probability its fractional part, else down."""
    return np.floor(expected + generator.random(expected.shape)).astype(np.int64)
