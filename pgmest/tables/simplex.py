"""Euclidean projection onto a simplex."""

from __future__ import annotations

import numpy as np


def onto_simplex(values: np.ndarray, total: float = 1.0) -> np.ndarray:
    """Return the nearest table, in Euclidean distance, that has no negative entry and sums to `total`.

    The projection subtracts one amount from every entry and replaces negative results by 0 (Held, Wolfe, Crowder 1974;
    Duchi et al., ICML 2008).

    >>> onto_simplex(np.array([5.0, 3.0, -1.0]), 6.0)
    array([4., 2., 0.])

    Args:
        values: an array of any shape with at least one entry.
        total: the sum of the result, at least 0.
    """
    falling = np.sort(values, axis=None)[::-1]
    amounts = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > amounts)  # empty only if the total is 0 or vanishes by rounding
    return np.maximum(values - amounts[kept[-1]], 0.0) if kept.size else np.full(values.shape, total / values.size)
