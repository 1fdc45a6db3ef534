"""Linear programs that tell whether weights can meet totals, and which totals contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.models.bounds.program import OPTIMAL, solve

WHOLE = 1e4
"""Totals are scaled to this sum, because HiGHS meets equations up to 1e-7."""

VIOLATED = 1e-7 * WHOLE
"""Totals contradict each other if every choice of weights violates one by more than this, 1e-7 of the total."""

TOUCHED = 1e-7
"""A total is part of a contradiction if its multiplier is above this; absolute multipliers add up to 1."""


@dataclass(frozen=True, eq=False)
class WeightPolytope:
    """The weights between ends that meet totals.

    Attributes:
        matrix: what each record adds to each total for a weight of 1, shape (records, totals).
        totals: shares of about 1, shape (totals,).
        low, high: the ends of the weights, shape (records,).
    """

    matrix: Any  # a csr_array, whose stubs lack shapes
    totals: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def _equations(self) -> tuple[Any, np.ndarray]:
        return sparse.csr_array(self.matrix.T), WHOLE * self.totals

    def possible(self) -> np.ndarray | None:
        """Return which records can have more than no weight, if all may have none; None if no weights meet the totals.

        One program finds all of them: it maximizes the sum of min(weight, 1) over weights that meet a multiple of the
        totals, which may be as large as needed. The upper ends grow with the multiple.
        """
        if self.violation(self._every)[0] > VIOLATED:
            return None
        matrix, right = self._equations
        records = matrix.shape[1]
        equations = [[matrix, matrix, sparse.csr_array(-right[:, None])]]
        capped = np.flatnonzero(np.isfinite(self.high))
        limits = sparse.csr_array(
            (np.ones(len(capped)), (np.arange(len(capped)), capped)), shape=(len(capped), records)
        )
        if len(capped):
            ends = sparse.csr_array(-WHOLE * self.high[capped][:, None])
            equations = [
                [matrix, matrix, sparse.csr_array(-right[:, None]), None],
                [limits, limits, ends, sparse.eye_array(len(capped))],
            ]
        variables = 2 * records + 1 + len(capped)
        low, high = np.zeros(variables), np.full(variables, np.inf)
        high[:records], low[2 * records] = 1.0, 1.0
        objective = np.zeros(variables)
        objective[:records] = -1.0
        together: Any = sparse.block_array(equations, format="csr")
        found = solve(objective, together, np.zeros(together.shape[0]), low, high)
        if found.status != OPTIMAL or found.point is None:
            return np.ones(records, dtype=bool)
        return found.point[:records] + found.point[records : 2 * records] > 0.5

    def contradiction(self) -> tuple[list[int], float]:
        """Return an irreducible set of totals that no weights meet, and the least largest miss among them, as a share.

        The multipliers of `violation` name a short set. Totals without which the rest is still violated are then
        dropped one after the other (a deletion filter).
        """
        miss, named = self.violation(self._every)
        kept = named
        for one in named:
            if one in kept and len(kept) > 1:
                violation, fewer = self.violation(kept[kept != one])
                if violation > VIOLATED:
                    miss, kept = violation, fewer
        if len(kept) < len(named):
            miss = self.violation(kept)[0]
        return [int(row) for row in kept], miss / WHOLE

    def least_changes(self) -> np.ndarray:
        """Return what to add to each total such that weights meet all of them, with the least sum of absolute changes.

        Changes are shares, shape (totals,); those within the accuracy of the linear program are 0.
        """
        matrix, right = self._equations
        rows, records = matrix.shape
        unit = sparse.eye_array(rows)
        objective = np.concatenate([np.zeros(records), np.ones(2 * rows)])
        low = np.concatenate([WHOLE * self.low, np.zeros(2 * rows)])
        high = np.concatenate([WHOLE * self.high, np.full(2 * rows, np.inf)])
        found = solve(objective, sparse.hstack([matrix, -unit, unit], format="csr"), right, low, high)
        if found.point is None:
            return np.zeros(rows)
        changes = (found.point[records : records + rows] - found.point[records + rows :]) / WHOLE
        return np.where(np.abs(changes) > 1e-7, changes, 0.0)

    @property
    def _every(self) -> np.ndarray:
        return np.arange(len(self.totals))

    def violation(self, chosen: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the least possible largest violation of some totals, and those of them that have a multiplier.

        By Farkas' lemma these are violated by themselves. Multipliers of the largest violation have a sum of 1, so that
        few of them are not zero; those of a sum of violations would be up to 1 each, and mostly many.
        """
        matrix, right = self._equations
        matrix, right = matrix[chosen], right[chosen]
        rows, records = matrix.shape
        one, unit, none = np.ones((rows, 1)), sparse.eye_array(rows), sparse.csr_array((rows, rows))
        equations = sparse.vstack(  # matrix x + s >= right and matrix x - s <= right
            [sparse.hstack([matrix, one, -unit, none]), sparse.hstack([matrix, -one, none, unit])], format="csr"
        )
        low = np.concatenate([WHOLE * self.low, np.zeros(1 + 2 * rows)])
        high = np.concatenate([WHOLE * self.high, np.full(1 + 2 * rows, np.inf)])
        objective = np.zeros(len(low))
        objective[records] = 1.0
        found = solve(objective, equations, np.concatenate([right, right]), low, high)
        if found.point is None or found.multipliers is None:
            return 0.0, chosen
        return float(found.point[records]), chosen[np.abs(found.multipliers.reshape(2, rows)).max(axis=0) > TOUCHED]

    def least_upper_bound(self, start: np.ndarray, lower: float) -> float | None:
        """Return the least ratio U such that some weights between `lower` and U times `start` meet the totals.

        None means that no U is large enough.
        """
        matrix, right = self._equations
        records = matrix.shape[1]
        scaled = sparse.csr_array(matrix * start)
        equations = sparse.block_array(
            [
                [scaled, None, None],  # ratios r = lower + s
                [sparse.eye_array(records), sparse.csr_array(-np.ones((records, 1))), sparse.eye_array(records)],
            ],
            format="csr",
        )
        objective = np.zeros(2 * records + 1)
        objective[records] = 1.0
        low = np.concatenate([np.full(records, lower), np.zeros(records + 1)])
        ends = np.full(2 * records + 1, np.inf)
        found = solve(objective, equations, np.concatenate([right / WHOLE, np.zeros(records)]), low, ends)
        return None if found.status != OPTIMAL or found.point is None else float(found.point[records])
