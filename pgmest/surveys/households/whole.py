"""Whole numbers of households near weights, which keep the totals (integerization).

Zone by zone, each weight is rounded up or down. A linear program chooses which, such that all totals stay as they are.
Its objective prefers each rounding by its log-odds plus a random number of the logistic distribution; without totals
this would round every weight up with the probability of its fraction. The solution has at most as many fractions as
there are totals. These and the households that are nearest to the choice are left to an integer program. Totals of
areas of several zones are kept as sums: the deviation of the zones so far is part of the task of the next. What is off
after the last zone is part of the task of zones that are done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from pgmest.surveys.households.problem import Part, Problem

NEAR = 1e-6
"""Weights and totals this close to a whole number are taken for it."""

NEIGHBORS, MORE_NEIGHBORS = 5, 20
"""An integer program may change at most this many households for each total, in a zone's first rounding and again."""

EXACT_SECONDS, CLOSE_SECONDS = 3.0, 10.0
"""The time limits of the integer program that keeps all totals, and of the one that comes close."""

AGAIN = 3
"""A zone is done again for at most this many of the totals that are off."""


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
    found = np.zeros(len(weights))
    aims = part.matrix.T @ weights
    seen = np.zeros(len(weights))
    tasks = []
    for rows in groups:
        matrix = sparse.csr_array(part.matrix[rows])
        columns = np.flatnonzero(np.bincount(matrix.indices, minlength=len(aims)))
        task = _Rounding(sparse.csr_array(matrix[:, columns]), weights[rows])
        seen[rows] = weights[rows]
        found[rows] = task.rounded((part.matrix.T @ (seen - found))[columns], generator)
        tasks.append((rows, columns, task))
    if len(groups) > 1 or _off(aims, part.matrix.T @ found).any():
        _improve(part, aims, found, tasks, generator)
    return found


def _improve(part: Part, aims: np.ndarray, found: np.ndarray, tasks: list[Any], generator: np.random.Generator) -> None:
    """Do zones again whose totals are off, as long as that brings them closer; changes `found`."""
    for total in np.flatnonzero(_off(aims, part.matrix.T @ found)):
        able = [task for task in tasks if total in task[1]]
        for place in generator.permutation(len(able))[:AGAIN]:
            rows, columns, task = able[place]
            made = part.matrix.T @ found
            off = _off(aims, made)
            if not off[total]:
                break
            sums = aims[columns] - made[columns] + task.matrix.T @ found[rows]
            again = task.repaired(found[rows], task.nearest(found[rows], MORE_NEIGHBORS, generator), sums)
            trial = found.copy()
            trial[rows] = again
            if _off(aims, part.matrix.T @ trial).sum() < off.sum():
                found[:] = trial


def _off(aims: np.ndarray, made: np.ndarray) -> np.ndarray:
    """Return by how much sums are outside the whole numbers around their aims."""
    return np.maximum(0.0, np.maximum(np.floor(aims + NEAR) - made, made - np.ceil(aims - NEAR)))


@dataclass(frozen=True, eq=False)
class _Rounding:
    """The rounding of the weights of one zone.

    Attributes:
        matrix: what each household adds to each total, shape (households, totals).
        weights: shape (households,).
    """

    matrix: Any
    weights: np.ndarray

    def rounded(self, sums: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return whole numbers, shape (households,), that add up to `sums`, shape (totals,), rounded up or down."""
        counts = np.floor(self.weights + NEAR)
        fractions = np.clip(self.weights - counts, 0.0, 1.0 - 1e-12)
        rows = np.flatnonzero(fractions > 1e-3 * NEAR)
        chances = fractions[rows]
        cost = np.log1p(-chances) - np.log(chances) - generator.logistic(size=len(rows))
        ups, reduced = self._ups(rows, chances, cost)
        counts[rows] += np.round(ups)
        if not _off(sums, self.matrix.T @ counts).any():
            return counts
        free = (ups > NEAR) & (ups < 1.0 - NEAR)
        nearest = rows[np.argsort(np.where(free, -1.0, np.abs(reduced)), kind="stable")]
        return self.repaired(counts, nearest[: int(free.sum()) + NEIGHBORS * len(sums)], sums)

    def _ups(self, rows: np.ndarray, chances: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which weights to round up, some of them in part, and the reduced costs."""
        matrix = self.matrix[rows].T
        if not len(rows):
            return chances, cost
        found: Any = linprog(cost, A_eq=matrix, b_eq=matrix @ chances, bounds=(0.0, 1.0), method="highs")
        if found.x is None:
            return chances, cost
        return found.x, cost - matrix.T @ found.eqlin.marginals

    def nearest(self, counts: np.ndarray, each: int, generator: np.random.Generator) -> np.ndarray:
        """Return households, some for each total, of which another count would be near the weight, too."""
        far = np.abs(counts - self.weights) + 0.1 * generator.random(len(counts))
        return np.argsort(-far, kind="stable")[: each * self.matrix.shape[1]]

    def repaired(self, counts: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return counts of which some rows are chosen again, so that sums are kept, or else missed by the least sum.

        To keep them, weights are rounded up or down; to come close, counts may be one lower or higher.
        """
        rest = counts.copy()
        rest[rows] = 0.0
        base = self.matrix.T @ rest
        low, high = np.floor(sums + NEAR) - base, np.ceil(sums - NEAR) - base
        floors = np.floor(self.weights[rows] + NEAR)
        matrix = sparse.csr_array(self.matrix[rows].T)
        found = _program(matrix, low, high, floors, floors + 1.0, EXACT_SECONDS)
        if found is None:
            unit = sparse.eye_array(len(low))
            matrix = sparse.csr_array(sparse.hstack([matrix, unit, -unit], format="csr"))
            found = _program(matrix, low, high, np.maximum(floors - 1.0, 0.0), floors + 2.0, CLOSE_SECONDS)
        if found is None:
            return counts
        rest[rows] = found
        return rest


def _program(
    matrix: Any, low: np.ndarray, high: np.ndarray, least: np.ndarray, most: np.ndarray, seconds: float
) -> np.ndarray | None:
    """Return whole numbers between ends whose sums are between ends; None if none are found in time.

    Columns of the matrix beyond the numbers are those of slack, of which there is as little as possible.
    """
    slack = matrix.shape[1] - len(least)
    ends: Any = Bounds(
        np.concatenate([least, np.zeros(slack)]),  # type: ignore[arg-type]
        np.concatenate([most, np.full(slack, np.inf)]),  # type: ignore[arg-type]
    )
    found: Any = milp(
        np.concatenate([np.zeros(len(least)), np.ones(slack)]),
        constraints=LinearConstraint(matrix, low, high),  # type: ignore[arg-type]
        bounds=ends,
        integrality=np.concatenate([np.ones(len(least)), np.zeros(slack)]),
        options={"time_limit": seconds},
    )
    return None if found.x is None else np.round(found.x[: len(least)])
