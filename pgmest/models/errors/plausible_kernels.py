"""The compiled kernel that fits plausible tables to the sums along one of their axes."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, reduction


@reduction
def _line_sums(line, spread):
    """Return the sum of the positive counts of a line, and that of their variances."""
    total, slope = 0.0, 0.0
    for k in range(line.size):
        total += line[k] if line[k] > 0.0 else 0.0
        slope += spread[k] if line[k] > 0.0 else 0.0
    return total, slope


@compiled
def fit_sums(
    counts: np.ndarray,
    spread: np.ndarray,
    wanted: np.ndarray,
    steps: int,
    near: float,
    off: np.ndarray,
    slopes: np.ndarray,
) -> bool:
    """Shift counts by multiples of their variances until the positive ones have these sums along an axis.

    The multiplier of each sum is found by Newton's method, for all sums of a row of cells together.

    Args:
        counts: shape (tables, outer, codes, inner), changed in place.
        spread: the variances of the cells, shape (outer, codes, inner).
        wanted: the sums over the codes, shape (tables, outer, inner).
        steps: the largest number of Newton's steps.
        near: sums that are off by no more than this are fitted.
        off, slopes: space for the values of a row, shape (inner,).

    Returns:
        whether a step was made.
    """
    tables, outer, codes, inner = counts.shape
    moved = False
    for table in range(tables):
        for place in range(outer):
            for _ in range(steps):
                if inner == 1:
                    total, slopes[0] = _line_sums(counts[table, place, :, 0], spread[place, :, 0])
                    off[0] = total - wanted[table, place, 0]
                else:
                    for i in range(inner):
                        off[i], slopes[i] = -wanted[table, place, i], 0.0
                    for code in range(codes):
                        for i in range(inner):
                            count = counts[table, place, code, i]
                            off[i] += count if count > 0.0 else 0.0
                            slopes[i] += spread[place, code, i] if count > 0.0 else 0.0
                most = 0.0
                for i in range(inner):
                    most = max(most, abs(off[i]))
                    off[i] = off[i] / slopes[i] if slopes[i] > 0.0 else 0.0
                if most <= near:
                    break
                moved = True
                for code in range(codes):
                    for i in range(inner):
                        counts[table, place, code, i] -= off[i] * spread[place, code, i]
    return moved
