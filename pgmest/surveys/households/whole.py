"""Whole numbers of households near weights, which keep the totals (integerization).

Zone by zone, each weight is rounded up or down. The flight phase of the cube method rounds most of them at random, with
the probability of their fractions, such that all totals stay as they are. It leaves at most as many fractions as there
are totals. An integer program rounds these and changes few of the others.

Totals of areas of several zones are kept as sums: the deviation of the zones so far is part of the task of the next.
What is off after the last zone is left to exchanges of households within zones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr

from pgmest.surveys.households.exchanges import NEAR, exchanged
from pgmest.surveys.households.problem import Part, Problem

NEIGHBORS, MORE_NEIGHBORS = 5, 20
"""An integer program may change this many households for each total, at first and if it finds nothing."""

MOST_SECONDS, GAP = 2.0, 0.3
"""The time limit of an integer program, and the relative gap at which it ends. Any rounding that keeps the totals will
do, and one that changes few others is better."""

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
    last = np.zeros(len(part.totals), dtype=np.int64)
    for number, rows in enumerate(groups):
        own: Any = part.matrix
        last[own[rows].indices] = number
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
        ups = flight(np.asarray(self.matrix[rows].todense()), chances, generator)
        counts[rows] += np.round(ups)
        if not self.off(counts).any():
            return counts
        free = (ups > NEAR) & (ups < 1.0 - NEAR)
        order = np.where(free, 2.0, chances * (1.0 - chances) + generator.random(len(rows)))
        nearest = rows[np.argsort(-order, kind="stable")]
        cost = np.zeros(len(self.weights))
        cost[rows] = np.where(free, 1.0 - 2.0 * ups, np.where(ups > 0.5, -1.0, 1.0))
        few, more = (int(free.sum()) + each * len(self.sums) for each in (NEIGHBORS, MORE_NEIGHBORS))
        tries = ((nearest[:few], 0.0, False), (nearest[:more], self.room, False), (nearest[:few], self.room, True))
        for chosen, room, close in tries:
            found = self._chosen(counts, chosen, room, close, cost[chosen])
            if found is not None:
                return found
        return counts

    def _chosen(
        self, counts: np.ndarray, rows: np.ndarray, room: Any, close: bool, cost: np.ndarray
    ) -> np.ndarray | None:
        """Return counts of which some rows are rounded again, so that sums are kept up to `room`; None if not found.

        If `close`, sums may be missed, by the least sum. `cost` has the cost of rounding each of the rows up.
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
            np.concatenate([0.01 * cost if close else cost, np.ones(slack)]),
            constraints=LinearConstraint(sparse.csr_array(matrix), low, high),  # type: ignore[arg-type]
            bounds=Bounds(*ends),
            integrality=np.concatenate([np.ones(len(rows)), np.zeros(slack)]),
            options={"time_limit": MOST_SECONDS, "mip_rel_gap": GAP},
        )
        if found.x is None:
            return None
        rest[rows] = np.round(found.x[: len(rows)])
        return rest


def flight(matrix: np.ndarray, chances: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Round chances up and down at random, such that sums stay and expectations are the chances, but for a few.

    This is the flight phase of the cube method (Deville and Tillé 2004) over a window of rows (Chauvet and Tillé 2006).
    Chances move in a direction that keeps the sums until one of them is 0 or 1.

    Args:
        matrix: what each row adds to each sum, shape (rows, sums).
        chances: between 0 and 1, shape (rows,).
        generator: the source of randomness.

    Returns:
        the chances, of which at most as many as there are independent sums are neither 0 nor 1; shape (rows,).
    """
    found = chances.copy()
    if not len(found):
        return found
    factors: Any = qr(matrix, mode="r", pivoting=True, check_finite=False)
    triangle, pivots = factors
    size = np.abs(np.diagonal(triangle))
    rank = int(np.sum(size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)))
    columns = matrix[:, pivots[:rank]]
    queue = list(generator.permutation(len(found)))
    window: list[int] = []
    while True:
        while queue and len(window) <= rank:
            window.append(queue.pop())
        if len(window) <= rank:
            return found
        direction = np.linalg.qr(columns[window], mode="complete")[0][:, -1]
        direction[np.abs(direction) < 1e-9] = 0.0
        if not direction.any():
            return found
        own = found[window]
        up, down = _reach(own, direction), _reach(own, -direction)
        step = up if generator.random() * (up + down) < down else -down
        own = np.clip(own + step * direction, 0.0, 1.0)
        own[own < 1e-9], own[own > 1.0 - 1e-9] = 0.0, 1.0
        found[window] = own
        window = [row for row, chance in zip(window, own, strict=True) if 0.0 < chance < 1.0]


def _reach(chances: np.ndarray, direction: np.ndarray) -> float:
    """Return how far chances can move in a direction until one is 0 or 1."""
    moving = direction != 0.0
    room = np.where(direction > 0.0, 1.0 - chances, chances)
    return float(np.min(room[moving] / np.abs(direction[moving])))
