"""The compiled kernels of certificates: the gradient of a dual point, and the moves to better target marginals."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, reduction
from pgmest._base.row_kernels import BLOCK

NEWTON_STEPS = 60
MASS_TOLERANCE = 1e-9
"""Newton's method for the level v ends after NEWTON_STEPS steps, or if the mass is within MASS_TOLERANCE of one. An
inexact v still gives a valid bound, only a slightly looser one."""


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
    """Write g + w (m - p) into `dual`; return its product with p, and the sum of w (m - p)^2.

    Args:
        gradient, p, dual: one entry per cell of the problem.
        target, weight: m and w, one entry per cell of the measured cliques, which come first; w is 0 on the others.
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
    """Write max(m, min(m + share * (mean - M), level * highest)) into `raised`, cell by cell.

    Args:
        target, min_marginals: m and M; M is inf if no record is possible in the cell.
        mean: <g, p>.
        share: the share of the slack mean - M by which a cell is raised, over its curvature.
        highest, level: the upper end of the raised values is level * highest.
        raised: the output.
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
    """For each clique of a group, find the m that maximizes the bound over that clique alone; write m - target.

    The sum of a record through cell c is at least its min-marginal M_c, and M_c + weight_c (m_c - target_c) after the
    move. Let v be the least sum of any record. The bound is largest if m_c = max(0, target_c + (v - M_c) / weight_c)
    sums to one, or at the largest v that the cells of weight zero, which cannot move, allow. The sum is convex and
    increasing in v, so Newton's method converges, monotonically after its first step.

    Args:
        first, stride: the group is every stride-th clique from the first on.
        offsets: the start of each clique's cells, and the end of the last.
        min_marginals: the least sum of any record through the cell; inf if no such record is possible.
        target: the target marginals of the current dual point.
        weight: the curvature of the loss in the cell.
        move: the output; written on the cliques of the group only.
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
        # Newton's method starts from the mean of M under the targets. Above `highest` one cell alone has mass above 1.
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
