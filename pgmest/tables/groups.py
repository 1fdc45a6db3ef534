"""Groups of codes, ranges of consecutive codes of an attribute that are counted together, and of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def is_identity(groups: np.ndarray) -> bool:
    """Return whether every group holds exactly one code."""
    return len(groups) == int(groups[-1]) + 1 if len(groups) else True


def summed(table: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of a table over groups of codes.

    Args:
        table: one axis for each attribute.
        groups: for each axis, the group of each code; groups are ranges of codes, numbered from 0 in code order.
    """
    for axis, labels in enumerate(groups):
        if not is_identity(labels):
            table = np.add.reduceat(table, group_starts(labels), axis=axis)
    return table


def group_starts(groups: np.ndarray) -> np.ndarray:
    """Return the first code of each group.

    >>> group_starts(np.array([0, 0, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    return np.searchsorted(groups, np.arange(int(groups[-1]) + 1))


def magnitude_classes(counts: np.ndarray) -> np.ndarray:
    """Return the order of magnitude of each cell, numbered among those that occur.

    >>> magnitude_classes(np.array([1.0, 100.0, 1.5])).tolist()
    [0, 1, 0]
    """
    order = np.floor(np.log2(np.maximum(counts, 1e-6))).astype(np.int64)
    return np.unique(order, return_inverse=True)[1].reshape(order.shape)
