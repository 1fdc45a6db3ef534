"""The Euclidean projection onto the probability simplex."""

from __future__ import annotations

import numpy as np


def project_onto_simplex(values: np.ndarray) -> np.ndarray:
    """The distribution nearest to a vector in Euclidean distance, by sorting (Held, Wolfe and Crowder 1974).

    >>> project_onto_simplex(np.array([0.9, 0.5, -0.3]))
    array([0.7, 0.3, 0. ])
    """
    ordered = np.sort(values)[::-1]
    shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > shifts)[-1]
    return np.maximum(values - shifts[last], 0.0)
