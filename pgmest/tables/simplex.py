"""Euclidean projection onto a simplex."""

from __future__ import annotations

import numpy as np


def onto_simplex(values: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The nearest table, in Euclidean distance, without negative entries and with this sum: one amount off every entry,
    cut at 0 (Held, Wolfe, Crowder 1974; Duchi et al., ICML 2008).

    >>> onto_simplex(np.array([5.0, 3.0, -1.0]), 6.0)
    array([4., 2., 0.])

    Args:
        values: at least one number, of any shape.
        total: at least 0.
    """
    falling = np.sort(values, axis=None)[::-1]
    amounts = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > amounts)
    return np.maximum(values - amounts[kept[-1]], 0.0) if kept.size else np.full(values.shape, total / values.size)
