"""Whole numbers from expectations: each rounded up or down at random, without bias."""

from __future__ import annotations

import numpy as np


def systematic(weights: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """n shared out in proportion to weights: each share its expectation rounded up or down, and the sum exactly n.

    Weights that are all 0 count as equal.

    >>> systematic(np.array([1.0, 0.0, 3.0]), 8, np.random.default_rng(0))
    array([2, 0, 6])
    """
    flat = np.asarray(weights, dtype=np.float64).reshape(-1)
    cumulative = np.cumsum(flat if flat.any() else np.ones_like(flat))
    cumulative = cumulative / cumulative[-1] * n
    last = int(np.flatnonzero(flat)[-1]) if flat.any() else flat.size - 1
    cumulative[last:] = n
    ends = np.minimum(np.floor(cumulative + generator.random()), n)
    ends[last:] = n
    return np.diff(ends, prepend=0.0).astype(np.int64)


def random_round(expected: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each number rounded up with a probability of its fractional part, else down."""
    return np.floor(expected + generator.random(expected.shape)).astype(np.int64)
