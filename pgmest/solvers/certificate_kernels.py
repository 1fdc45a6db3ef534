"""The compiled kernels of certificates: a dual point's potentials, and the moves to better target marginals."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, reduction
from pgmest._base.row_kernels import BLOCK

NEWTON_STEPS = 60
MASS_TOLERANCE = 1e-9


@reduction
def _dual_gradient(gradient, p, target, weight, dual):
    product = square = 0.0
    for c in range(target.size):
        move = target[c] - p[c]
        dual[c] = gradient[c] + weight[c] * move
        product += dual[c] * p[c]
        square += weight[c] * move * move
    return product, square


@compiled
def dual_gradient(
    gradient: np.ndarray, p: np.ndarray, target: np.ndarray, weight: np.ndarray, dual: np.ndarray
) -> tuple[float, float]:
    """g + w (m - p) into `dual`; its product with p, and the sum of w (m - p)^2.

    Args:
        gradient, p, dual: by cell of the problem.
        target, weight: m and w, by cell of the measured cliques, which come first; w is 0 on the others.
    """
    product = square = 0.0
    for start in range(0, target.size, BLOCK):
        some = slice(start, min(start + BLOCK, target.size))
        found = _dual_gradient(gradient[some], p[some], target[some], weight[some], dual[some])
        product, square = product + found[0], square + found[1]
    for c in range(target.size, p.size):
        dual[c] = gradient[c]
        product += dual[c] * p[c]
    return product, square


@compiled
def raise_cells(
    target: np.ndarray,
    min_marginals: np.ndarray,
    mean: float,
    share: np.ndarray,
    highest: np.ndarray,
    level: float,
    raised: np.ndarray,
) -> None:
    """m + share * (mean - M) where that is more than m, but not above level * highest, into `raised`.

    Args:
        target, min_marginals: m and M by cell; M is inf where no record is possible.
        mean: <g, p>.
        share, highest, level: how much of the slack is taken, and up to where.
        raised: by cell.
    """
    for c in range(target.size):
        step, room = share[c] * (mean - min_marginals[c]), level * highest[c] - target[c]
        step = step if step < room else room
        raised[c] = target[c] + (step if step > 0.0 else 0.0)


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
