"""The compiled kernel of the dual ascent: the best gradient on one clique, given those on all others."""

from __future__ import annotations

import numpy as np

from pgmest.inference.exact.kernels import _cached

NEWTON_STEPS = 60
ACCURACY = 1e-9


@_cached
def best_blocks(
    first: int,
    stride: int,
    offsets: np.ndarray,
    low: np.ndarray,
    filled: np.ndarray,
    weight: np.ndarray,
    move: np.ndarray,
) -> None:
    """For each clique of a group, the m that maximizes the dual over that clique alone; m - filled goes to `move`.

    A record through cell c is worth at least low_c, and low_c + weight_c (m_c - filled_c) after the move. With v the
    worth of the worst record, the dual is largest where m_c = max(0, filled_c + (v - low_c) / weight_c) sums to one, or
    at the largest v that the cells of weight zero, which cannot move, allow. The sum is convex and grows with v, so
    Newton's method gets there, after its first step monotonically.

    Args:
        first, stride: the group is every stride-th clique from the first on.
        offsets: where each clique's cells start, and the end.
        low, filled, weight: by cell: the worst record through it, inf where none is possible; the marginal m that
            the present gradient answers to; the curvature.
        move: by cell; written on these cliques only.
    """
    for block in range(first, len(offsets) - 1, stride):
        start, end = offsets[block], offsets[block + 1]
        share, v, highest, fixed = 0.0, 0.0, np.inf, np.inf
        for c in range(start, end):
            if weight[c] == 0.0:
                fixed = min(fixed, low[c])
            elif low[c] < np.inf:
                share += filled[c]
                v += filled[c] * low[c]
                highest = min(highest, low[c] + weight[c] * (1.0 - filled[c]))
        v = min(v / share, highest) if share > 0.0 else highest
        for _ in range(NEWTON_STEPS):
            excess, slope = -1.0, 0.0
            for c in range(start, end):
                if weight[c] > 0.0:
                    m = filled[c] + (v - low[c]) / weight[c]
                    if m > 0.0:
                        excess += m
                        slope += 1.0 / weight[c]
            if abs(excess) <= ACCURACY or not 0.0 < slope < np.inf:
                break
            v -= excess / slope
        v = min(v, fixed)
        for c in range(start, end):
            movable = weight[c] > 0.0 and v < np.inf
            move[c] = max(-filled[c], (v - low[c]) / weight[c]) if movable else 0.0
