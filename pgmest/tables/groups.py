"""Groups of codes: ranges of an attribute's codes that are counted together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def is_identity(groups: np.ndarray) -> bool:
    """Whether each code is a group of its own."""
    return len(groups) == int(groups[-1]) + 1 if len(groups) else True


def summed(table: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """The sums of a table over groups along each axis; groups are ranges, numbered in order."""
    for axis, labels in enumerate(groups):
        if not is_identity(labels):
            starts = np.flatnonzero(np.diff(labels, prepend=-1))
            table = np.add.reduceat(table, starts, axis=axis)
    return table
