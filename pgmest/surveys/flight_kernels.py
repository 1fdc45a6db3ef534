"""The compiled kernel of the flight phase of the cube method, on one window of rows."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled

LEAST = 1e-9
"""Entries of directions, and distances of chances from 0 and 1, count as 0 below this."""


@compiled
def fly(chances, basis, uniforms):
    """Move chances along each direction of a basis until one of them is 0 or 1, which then stays.

    Args:
        chances: changed in place, shape (rows,).
        basis: directions that keep all sums, changed in place, shape (rows, directions).
        uniforms: a random number between 0 and 1 for each direction.
    """
    rows, directions = basis.shape
    for step in range(directions):
        up, down = np.inf, np.inf
        for row in range(rows):
            slope = basis[row, step]
            if abs(slope) < LEAST:
                continue
            above, below = (1.0 - chances[row]) / abs(slope), chances[row] / abs(slope)
            up, down = min(up, above if slope > 0.0 else below), min(down, below if slope > 0.0 else above)
        if np.isinf(up):
            continue
        length = up if uniforms[step] * (up + down) < down else -down
        for row in range(rows):
            slope = basis[row, step]
            if abs(slope) < LEAST:
                continue
            chances[row] += length * slope
            if LEAST <= chances[row] <= 1.0 - LEAST:
                continue
            chances[row] = 0.0 if chances[row] < LEAST else 1.0
            pivot = step  # the later directions leave this row as it is
            for other in range(step + 1, directions):
                if pivot == step or abs(basis[row, other]) > abs(basis[row, pivot]):
                    pivot = other
            if pivot > step and abs(basis[row, pivot]) > LEAST:
                for other in range(step + 1, directions):
                    share = basis[row, other] / basis[row, pivot]
                    if other != pivot and share != 0.0:
                        for each in range(rows):
                            basis[each, other] -= share * basis[each, pivot]
                basis[:, pivot] = 0.0
            basis[row, step + 1 :] = 0.0
