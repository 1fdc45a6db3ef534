"""Linear programs that tell whether weights can meet control totals, and which controls contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.models.bounds.program import OPTIMAL, solve

WHOLE = 1e4
"""Totals are scaled to this sum, because HiGHS meets equations up to 1e-7."""

VIOLATED = 1e-7 * WHOLE
"""Controls contradict each other if every choice of weights violates one by more than this, 1e-7 of the total."""

TOUCHED = 1e-7
"""A control is part of a contradiction if its multiplier is above this; absolute multipliers add up to 1."""


def possible_cells(cells: Sequence[np.ndarray], totals: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return which records can have a positive weight; None if no weights meet the totals.

    One program finds all of them: it maximizes the sum of min(weight, 1) over weights that meet a multiple of the
    totals, which may be as large as needed.

    Args:
        cells: for each control, the cell of each record, shape (records,).
        totals: for each control, the share of each cell in the total.
    """
    if _violation(cells, totals, _every(totals))[0] > VIOLATED:
        return None
    matrix, right = _equations(cells, totals)
    records = matrix.shape[1]
    equations = sparse.hstack([matrix, matrix, -right[:, None]], format="csr")
    low = np.concatenate([np.zeros(2 * records), [1.0]])
    high = np.concatenate([np.ones(records), np.full(records + 1, np.inf)])
    objective = np.concatenate([-np.ones(records), np.zeros(records + 1)])
    found = solve(objective, equations, np.zeros(len(right)), low, high)
    if found.status != OPTIMAL or found.point is None:
        return np.ones(records, dtype=bool)
    return found.point[:records] + found.point[records : 2 * records] > 0.5


def contradicting_controls(cells: Sequence[np.ndarray], totals: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Return an irreducible set of totals that no weights meet, each as (control, cell); without one of them, some do.

    The multipliers of `_violation` name a short set. Totals without which the rest is still violated are then dropped
    one after the other (a deletion filter).
    """
    kept = named = _violation(cells, totals, _every(totals))[1]
    for one in named:
        if one in kept:
            violation, fewer = _violation(cells, totals, kept[kept != one])
            kept = fewer if violation > VIOLATED else kept
    ends = np.cumsum([0, *map(len, totals)])
    positions = np.searchsorted(ends, kept, side="right") - 1
    return [(int(position), int(row - ends[position])) for position, row in zip(positions, kept, strict=True)]


def _every(totals: Sequence[np.ndarray]) -> np.ndarray:
    return np.arange(sum(map(len, totals)))


def _violation(
    cells: Sequence[np.ndarray], totals: Sequence[np.ndarray], chosen: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the least possible largest violation of some totals, and those of them that have a multiplier.

    By Farkas' lemma these are violated by themselves. Multipliers of the largest violation have a sum of 1, so that few
    of them are not zero; those of a sum of violations would be up to 1 each, and mostly many.
    """
    matrix, right = _equations(cells, totals)
    matrix, right = matrix[chosen], right[chosen]
    rows, records = matrix.shape
    one, unit, none = np.ones((rows, 1)), sparse.eye_array(rows), sparse.csr_array((rows, rows))
    equations = sparse.vstack(  # matrix x + s >= right and matrix x - s <= right
        [sparse.hstack([matrix, one, -unit, none]), sparse.hstack([matrix, -one, none, unit])], format="csr"
    )
    variables = records + 1 + 2 * rows
    objective = np.zeros(variables)
    objective[records] = 1.0
    both = np.concatenate([right, right])
    found = solve(objective, equations, both, np.zeros(variables), np.full(variables, np.inf))
    if found.point is None or found.multipliers is None:
        return 0.0, chosen
    return float(found.point[records]), chosen[np.abs(found.multipliers.reshape(2, rows)).max(axis=0) > TOUCHED]


def _equations(cells: Sequence[np.ndarray], totals: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return the matrix that adds up the weights in each cell of each control, and the scaled totals."""
    columns = np.arange(len(cells[0]))
    blocks = [
        sparse.csr_array((np.ones(len(columns)), (own, columns)), shape=(len(total), len(columns)))
        for own, total in zip(cells, totals, strict=True)
    ]
    return sparse.vstack(blocks, format="csr"), WHOLE * np.concatenate(list(totals))
