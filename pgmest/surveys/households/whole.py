"""Whole numbers of households near weights, which keep the totals (integerization).

Zone by zone, each weight is rounded up or down. A linear program chooses which, such that all totals stay as they are.
Its objective prefers each rounding by its log-odds plus a random number of the logistic distribution; without totals
this would round every weight up with the probability of its fraction. The solution has at most as many fractions as
there are totals. These and the households that are nearest to the choice are left to an integer program. Totals of
areas of several zones are kept as sums: the deviation of the zones so far is part of the task of the next. What is off
after the last zone is left to exchanges of households within zones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.surveys.households.exchanges import NEAR, exchanged
from pgmest.surveys.households.problem import Part, Problem

NEIGHBORS, MORE_NEIGHBORS = 5, 20
"""An integer program may change this many households for each total, at first and if it finds nothing."""

MOST_SECONDS = 2.0
"""The time limit of an integer program."""

ROOM = 1.0
"""The sums of the zones so far may be off by this, if more zones of an area follow."""


def whole_numbers(problem: Problem, weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a whole number for each pair near its weight; totals stay as far as possible; shape (pairs,)."""
    found = np.floor(weights + NEAR)
    for part in problem.parts(np.flatnonzero(weights > 0)):
        found[part.pairs] = _whole_part(part, problem.zones[part.pairs], weights[part.pairs], generator)
    return found


def _whole_part(part: Part, zones: np.ndarray, weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return whole numbers of the pairs of a part."""
    order = np.argsort(zones, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(zones[order])) + 1)
    last = np.zeros(part.matrix.shape[1], dtype=np.int64)
    for number, rows in enumerate(groups):
        last[sparse.csr_array(part.matrix[rows]).indices] = number
    found, carried = np.zeros(len(weights)), np.zeros(len(last))
    for number, rows in enumerate(groups):
        matrix = sparse.csr_array(part.matrix[rows])
        columns = np.flatnonzero(np.bincount(matrix.indices, minlength=len(last)))
        carried[columns] += (matrix.T @ weights[rows])[columns]
        room = np.where(last[columns] > number, ROOM, 0.0)
        system = _System(sparse.csr_array(matrix[:, columns]), weights[rows], carried[columns], room)
        found[rows] = system.rounded(generator)
        carried[columns] -= (matrix.T @ found[rows])[columns]
    return exchanged(part.matrix, weights, found, zones, generator)


@dataclass(frozen=True, eq=False)
class _System:
    """Weights to round, and the sums that whole numbers should have.

    Attributes:
        matrix: what each household adds to each total, shape (households, totals).
        weights: shape (households,).
        sums: shape (totals,); whole numbers around a sum keep it.
        room: by how much each sum may be outside these, shape (totals,).
    """

    matrix: Any
    weights: np.ndarray
    sums: np.ndarray
    room: np.ndarray

    def off(self, counts: np.ndarray) -> np.ndarray:
        """Return by how much the sums of counts are outside, shape (totals,)."""
        made = self.matrix.T @ counts
        away = np.maximum(np.floor(self.sums + NEAR) - made, made - np.ceil(self.sums - NEAR))
        return np.maximum(0.0, away - self.room)

    def rounded(self, generator: np.random.Generator) -> np.ndarray:
        """Return whole numbers that keep the sums if possible, shape (households,)."""
        counts = np.floor(self.weights + NEAR)
        fractions = np.clip(self.weights - counts, 0.0, 1.0 - 1e-12)
        rows = np.flatnonzero(fractions > 1e-3 * NEAR)
        chances = fractions[rows]
        cost = np.log1p(-chances) - np.log(chances) - generator.logistic(size=len(rows))
        ups, reduced = self._ups(rows, chances, cost)
        counts[rows] += np.round(ups)
        if not self.off(counts).any():
            return counts
        free = (ups > NEAR) & (ups < 1.0 - NEAR)
        nearest = rows[np.argsort(np.where(free, -1.0, np.abs(reduced)), kind="stable")]
        few, more = (int(free.sum()) + each * len(self.sums) for each in (NEIGHBORS, MORE_NEIGHBORS))
        tries = ((nearest[:few], 0.0, False), (nearest[:more], self.room, False), (nearest[:few], self.room, True))
        for chosen, room, close in tries:
            found = self._chosen(counts, chosen, room, close)
            if found is not None:
                return found
        return counts

    def _ups(self, rows: np.ndarray, chances: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which weights to round up, some of them in part, and the reduced costs."""
        from scipy.optimize import linprog

        if not len(rows):
            return chances, cost
        matrix = self.matrix[rows].T
        found: Any = linprog(cost, A_eq=matrix, b_eq=matrix @ chances, bounds=(0.0, 1.0), method="highs")
        if found.x is None:
            return chances, cost
        return found.x, cost - matrix.T @ found.eqlin.marginals

    def _chosen(self, counts: np.ndarray, rows: np.ndarray, room: Any, close: bool) -> np.ndarray | None:
        """Return counts of which some rows are rounded again, so that sums are kept up to `room`; None if not found.

        If `close`, sums may be missed, by the least sum.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        rest = counts.copy()
        rest[rows] = 0.0
        base = self.matrix.T @ rest
        low, high = np.floor(self.sums + NEAR) - room - base, np.ceil(self.sums - NEAR) + room - base
        floors = np.floor(self.weights[rows] + NEAR)
        matrix, slack = self.matrix[rows].T, 2 * len(base) if close else 0
        if close:
            unit = sparse.eye_array(len(base))
            matrix = sparse.hstack([matrix, unit, -unit])
        ends: Any = (np.concatenate([floors, np.zeros(slack)]), np.concatenate([floors + 1.0, np.full(slack, np.inf)]))
        found: Any = milp(
            np.concatenate([np.zeros(len(rows)), np.ones(slack)]),
            constraints=LinearConstraint(sparse.csr_array(matrix), low, high),  # type: ignore[arg-type]
            bounds=Bounds(*ends),
            integrality=np.concatenate([np.ones(len(rows)), np.zeros(slack)]),
            options={"time_limit": MOST_SECONDS},
        )
        if found.x is None:
            return None
        rest[rows] = np.round(found.x[: len(rows)])
        return rest
