"""Linear programs that tell whether weights can meet control totals, and which controls contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.models.bounds.program import OPTIMAL, solve

VIOLATED = 1e-7
"""Controls contradict each other if every choice of weights violates them by more than this share of the total."""

TOUCHED = 1e-7
"""A control is part of a contradiction if its multiplier is at least this; multipliers are between -1 and 1."""


def possible_cells(cells: Sequence[np.ndarray], totals: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return which records can have a positive weight; None if no weights meet the totals.

    One program finds all of them: it maximizes the sum of min(weight, 1) over weights that meet a multiple of the
    totals, which may be as large as needed.

    Args:
        cells: for each control, the cell of each record, shape (records,).
        totals: for each control, the total of each cell.
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

    The multipliers of a program that minimizes the violation name a set (Farkas' lemma), and totals without which the
    rest is still violated are dropped one after the other (a deletion filter).
    """
    _, kept = _violation(cells, totals, _every(totals))
    for one in kept.copy():
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
    """Return the least sum of violations of some totals, and those of them that have a multiplier."""
    matrix, right = _equations(cells, totals)
    matrix, right = matrix[chosen], right[chosen]
    slack = sparse.eye_array(len(right), format="csr")
    equations = sparse.hstack([matrix, slack, -slack], format="csr")
    variables = matrix.shape[1] + 2 * len(right)
    objective = np.concatenate([np.zeros(matrix.shape[1]), np.ones(2 * len(right))])
    found = solve(objective, equations, right, np.zeros(variables), np.full(variables, np.inf))
    if found.point is None or found.multipliers is None:
        return 0.0, chosen
    return float(objective @ found.point), chosen[np.abs(found.multipliers) > TOUCHED]


def _equations(cells: Sequence[np.ndarray], totals: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return the matrix that adds up the weights in each cell of each control, and the totals."""
    columns = np.arange(len(cells[0]))
    blocks = [
        sparse.csr_array((np.ones(len(columns)), (own, columns)), shape=(len(total), len(columns)))
        for own, total in zip(cells, totals, strict=True)
    ]
    return sparse.vstack(blocks, format="csr"), np.concatenate(list(totals))
