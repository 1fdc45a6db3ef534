"""The compiled kernel of the dual ascent: the best target marginals on one clique, given those on all others."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled

NEWTON_STEPS = 60
MASS_TOLERANCE = 1e-9


@compiled
def best_blocks(
    first: int,
    stride: int,
    offsets: np.ndarray,
    min_marginals: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    move: np.ndarray,
) -> None:
    """For each clique of a group, the m that maximizes the dual over that clique alone; m - target goes to `move`.

    With M the min-marginal of cell c, a record through it has at least M_c, and M_c + weight_c (m_c - target_c) after
    the move. With v the least of any record, the dual is largest where m_c = max(0, target_c + (v - M_c) / weight_c)
    sums to one, or at the largest v that the cells of weight zero, which cannot move, allow. The sum is convex and
    grows with v, so Newton's method gets there, after its first step monotonically.

    Args:
        first, stride: the group is every stride-th clique from the first on.
        offsets: where each clique's cells start, and the end.
        min_marginals, target, weight: by cell: the least of any record through it, inf where none is possible; the
            target marginals of the present dual point; the curvature.
        move: by cell; written on these cliques only.
    """
    for block in range(first, len(offsets) - 1, stride):
        start, end = offsets[block], offsets[block + 1]
        mass, v, highest, fixed = 0.0, 0.0, np.inf, np.inf
        for c in range(start, end):
            if weight[c] == 0.0:
                fixed = min(fixed, min_marginals[c])
            elif min_marginals[c] < np.inf:
                mass += target[c]
                v += target[c] * min_marginals[c]
                highest = min(highest, min_marginals[c] + weight[c] * (1.0 - target[c]))
        v = min(v / mass, highest) if mass > 0.0 else highest
        for _ in range(NEWTON_STEPS):
            excess, slope = -1.0, 0.0
            for c in range(start, end):
                if weight[c] > 0.0:
                    m = target[c] + (v - min_marginals[c]) / weight[c]
                    if m > 0.0:
                        excess += m
                        slope += 1.0 / weight[c]
            if abs(excess) <= MASS_TOLERANCE or not 0.0 < slope < np.inf:
                break
            v -= excess / slope
        v = min(v, fixed)
        for c in range(start, end):
            movable = weight[c] > 0.0 and v < np.inf
            move[c] = max(-target[c], (v - min_marginals[c]) / weight[c]) if movable else 0.0
