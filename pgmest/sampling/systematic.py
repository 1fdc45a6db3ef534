"""Systematic sampling (Madow, 1949): whole numbers from expectations, each rounded up or down at random, without bias.

Points at equal steps, from one random start, are laid along the running sums of the weights; how many fall into an
entry's stretch is its number. Every run of neighboring entries, too, gets its expected number rounded up or down.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def systematic(weights: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """n shared out in proportion to weights: each share its expectation rounded up or down, and the sum exactly n.

    Weights that are all 0 count as equal.

    >>> systematic(np.array([1.0, 0.0, 3.0]), 8, np.random.default_rng(0))
    array([2, 0, 6])
    """
    flat = np.asarray(weights, dtype=np.float64).reshape(1, -1)
    return systematic_rows(flat, np.array([n]), generator)[0]


def systematic_rows(weights: np.ndarray, sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """As `systematic` for each row by itself, from a start of its own.

    Args:
        weights: shape (rows, columns), at least 0; a row that is all 0 counts as equal weights.
        sizes: shape (rows,), what each row shares out.

    Returns:
        integers of the shape of `weights`; none where a weight is 0 (and the row is not all 0).
    """
    cumulative = np.cumsum(np.where(weights.any(axis=1, keepdims=True), weights, 1.0), axis=1)
    whole, sums = cumulative[:, -1:], np.asarray(sizes)[:, None]
    ends = np.minimum(np.floor(cumulative / whole * sums + generator.random((len(weights), 1))), sums)
    # From the last positive weight on, whatever rounding says: the rest of the row gets nothing.
    ends = np.where(cumulative < whole, ends, sums)
    return np.diff(ends, prepend=0.0, axis=1).astype(np.int64)


def systematic_sample(weights: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """`count` positions in increasing order, each as often as `systematic` would have it.

    >>> systematic_sample(np.array([0.5, 0.25, 0.25]), 4, np.random.default_rng(0))
    array([0, 0, 1, 2])
    """
    reached = np.cumsum(weights)
    steps = (np.arange(count) + generator.random()) * (reached[-1] / count)
    return np.minimum(np.searchsorted(reached, steps, side="right"), len(weights) - 1)


def deal(groups: np.ndarray, counts: np.ndarray, generator: np.random.Generator, kind: Any) -> np.ndarray:
    """A code for each record: within its group every code occurs as often as `counts` says, in random order.

    Args:
        groups: shape (records,), the group of each record.
        counts: shape (groups, codes); row g sums to the number of records of group g.
        kind: the integer type of the codes.
    """
    shuffled = generator.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    column = np.empty(len(groups), dtype=kind)
    column[order] = np.repeat(np.tile(np.arange(counts.shape[1], dtype=kind), len(counts)), counts.reshape(-1))
    return column


def random_round(expected: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each number by itself rounded up with a probability of its fractional part, else down."""
    return np.floor(expected + generator.random(expected.shape)).astype(np.int64)
