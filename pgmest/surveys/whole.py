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

from pgmest.surveys.exchanges import NEAR, exchanged, whole_ends
from pgmest.surveys.problem import Part, Problem

NEIGHBORS, MORE_NEIGHBORS = 5, 20
"""An integer program may change this many households for each total, at first and if it finds nothing."""

MOST_SECONDS, GAP = 2.0, 0.3
"""The time limit of an integer program, and the relative gap at which it ends. Any rounding that keeps the totals will
do, and one that changes few others is better."""

ROOM = 1.0
"""The sums of the zones so far may be off by this, if more zones of an area follow; by the largest value of a numeric
column."""

GRAIN = 0.01
"""The total of a numeric column is kept up to this share of the largest value of a unit: whole numbers meet totals of
small counts, such as cars, and come close to those of amounts, such as incomes."""


def whole_numbers(problem: Problem, weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a whole number for each pair near its weight; totals stay as far as possible; shape (pairs,)."""
    found = np.floor(weights + NEAR)
    for part in problem.parts(np.flatnonzero(weights > 0)):
        sizes = problem.sizes[part.totals]
        found[part.pairs] = _whole_part(part, problem.zones[part.pairs], weights[part.pairs], sizes, generator)
    return found


def grain(problem: Problem) -> np.ndarray:
    """Return by how much whole numbers may miss each total, shape (totals,)."""
    return GRAIN * problem.sizes


def dealt(
    problem: Problem, shares: np.ndarray, counts: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deal the counts of pairs to their units in proportion to weights; return units, pairs and numbers above 0.

    This is systematic sampling in each pair: each number is its expectation rounded up or down.
    """
    units, pairs = members(problem, counts > 0)
    order = np.argsort(pairs, kind="stable")
    first = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    sizes = np.diff(first, append=len(order))
    sums = np.cumsum(shares[units[order]])
    before = np.repeat(np.append(0.0, sums)[first], sizes)
    whole = np.repeat(sums[first + sizes - 1], sizes)
    own = counts[pairs[order]]
    starts = np.repeat(generator.random(len(first)), sizes)
    ends = np.minimum(np.floor((sums - before) / (whole - before) * own + starts), own)
    ends = np.where(sums < whole, ends, own)
    made = np.diff(ends, prepend=0.0)
    made[first] = ends[first]
    numbers = np.zeros(len(pairs), dtype=np.int64)
    numbers[order] = made
    kept = numbers > 0
    return units[kept], pairs[kept], numbers[kept]


def members(problem: Problem, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of chosen pairs, and the pair of each, ordered by unit."""
    order = np.argsort(problem.kind_of, kind="stable")
    order = order[problem.kind_of[order] >= 0]
    starts = np.searchsorted(problem.kind_of[order], np.arange(problem.kind_of.max(initial=-1) + 2))
    pairs = np.flatnonzero(chosen)
    sizes = np.diff(starts)[problem.kinds[pairs]]
    repeated = np.repeat(pairs, sizes)
    within = np.arange(len(repeated)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    units = order[starts[problem.kinds[repeated]] + within]
    by_row = np.lexsort((problem.zones[repeated], units))
    return units[by_row], repeated[by_row]


def _whole_part(
    part: Part, zones: np.ndarray, weights: np.ndarray, sizes: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
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
        room = np.where(last[columns] > number, ROOM * np.maximum(1.0, sizes[columns]), 0.0)
        system = _System(
            sparse.csr_array(matrix[:, columns]), weights[rows], carried[columns], GRAIN * sizes[columns], room
        )
        found[rows] = system.rounded(generator)
        carried[columns] -= (matrix.T @ found[rows])[columns]
    if len(groups) == 1:
        return found
    return exchanged(part.matrix, weights, found, zones, GRAIN * sizes, generator)


@dataclass(frozen=True, eq=False)
class _System:
    """Weights to round, and the sums that whole numbers should have.

    Attributes:
        matrix: what each household adds to each total, shape (households, totals).
        weights: shape (households,).
        sums: shape (totals,); whole numbers around a sum keep it.
        grain: by how much each may be off, shape (totals,).
        room: by how much each sum may be outside these, shape (totals,).
    """

    matrix: Any
    weights: np.ndarray
    sums: np.ndarray
    grain: np.ndarray
    room: np.ndarray

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the sums."""
        return whole_ends(self.sums, self.grain)

    def off(self, counts: np.ndarray) -> np.ndarray:
        """Return by how much the sums of counts are outside, shape (totals,)."""
        made = self.matrix.T @ counts
        low, high = self.ends
        return np.maximum(0.0, np.maximum(low - made, made - high) - self.room)

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
        every = np.arange(len(counts))
        tries = [(nearest[:few], 0.0, False, False), (nearest[:more], self.room, False, False)]
        tries += [] if self.room.any() else [(every, 0.0, True, False)]
        for chosen, room, free_ends, close in (*tries, (nearest[:few], self.room, False, True)):
            found = self._chosen(counts, chosen, room, free_ends, close, cost[chosen])
            if found is not None:
                return found
        return counts

    def _chosen(
        self, counts: np.ndarray, rows: np.ndarray, room: Any, free_ends: bool, close: bool, cost: np.ndarray
    ) -> np.ndarray | None:
        """Return counts of which some rows are rounded again, so that sums are kept up to `room`; None if not found.

        If `free_ends`, they may become any whole numbers, as close to the weights as possible. If `close`, sums may be
        missed, by the least sum. `cost` has the cost of rounding each of the rows up.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        rest = counts.copy()
        rest[rows] = 0.0
        base = self.matrix.T @ rest
        low, high = self.ends[0] - room - base, self.ends[1] + room - base
        least = np.floor(self.weights[rows] + NEAR)
        most, matrix, slack = least + 1.0, self.matrix[rows].T, np.zeros(0)
        if free_ends:
            unit = sparse.eye_array(len(rows))
            matrix = sparse.block_array([[matrix, None, None], [unit, unit, -unit]])
            low, high = (np.concatenate([end, self.weights[rows]]) for end in (low, high))
            least, most, cost = np.zeros(len(rows)), np.full(len(rows), np.inf), np.zeros(len(rows))
            slack = np.ones(2 * len(rows))
        if close:
            unit = sparse.eye_array(len(base))
            matrix, slack, cost = sparse.hstack([matrix, unit, -unit]), np.ones(2 * len(base)), 0.01 * cost
        ends: Any = (np.concatenate([least, 0.0 * slack]), np.concatenate([most, np.inf * slack]))
        found: Any = milp(
            np.concatenate([cost, slack]),
            constraints=LinearConstraint(sparse.csr_array(matrix), low, high),  # type: ignore[arg-type]
            bounds=Bounds(*ends),
            integrality=np.concatenate([np.ones(len(rows)), 0.0 * slack]),
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
    from pgmest.surveys.flight_kernels import fly  # loads numba

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
        while queue and len(window) <= 2 * rank:
            window.append(queue.pop())
        if len(window) <= rank:
            return found
        own = found[window]
        basis = np.linalg.qr(columns[window], mode="complete")[0][:, rank:]
        fly(own, basis.copy(), generator.random(basis.shape[1]))
        found[window] = own
        window = [row for row, chance in zip(window, own, strict=True) if 0.0 < chance < 1.0]
