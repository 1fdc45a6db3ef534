"""A local search that exchanges households within zones until whole numbers keep all totals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

NEAR = 1e-6
"""Weights and totals this close to a whole number are taken for it."""

STEPS = 20_000
"""The most exchanges that are tried."""

HEAT, DAZE = 0.3, 1.5
"""An exchange that adds d to the sum of misses is made with the probability exp(-d / HEAT). The best one is chosen by
misses plus random numbers of up to DAZE. Lower values end in states that no single exchange improves."""


def whole_ends(sums: np.ndarray, grain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends between which whole numbers keep sums: the whole numbers around them, or up to a grain."""
    return np.minimum(np.floor(sums + NEAR), sums - grain), np.maximum(np.ceil(sums - NEAR), sums + grain)


def exchanged(
    matrix: sparse.csr_array,
    weights: np.ndarray,
    counts: np.ndarray,
    zones: np.ndarray,
    grain: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Search for counts near other ones whose sums are those of the weights, rounded up or down.

    Args:
        matrix: what each household adds to each total, shape (households, totals).
        weights: shape (households,); a count is its weight rounded up or down, or one more or less if it is above 1.
        counts: the counts to begin with.
        zones: the zone of each household.
        grain: by how much each sum may be off.
        generator: the source of randomness.
    """
    search = _Search(matrix, weights, counts, zones, grain)
    best, least = search.counts.copy(), search.misses
    for _ in range(STEPS):
        if least <= 0.0:
            break
        search.step(generator)
        if search.misses < least:
            best, least = search.counts.copy(), search.misses
    return best


class _Search:
    """The counts, their sums, and by how much these miss the whole numbers around the sums of the weights."""

    def __init__(self, matrix: Any, weights: np.ndarray, counts: np.ndarray, zones: np.ndarray, grain: np.ndarray):
        self._low, self._high = whole_ends(matrix.T @ weights, grain)
        self._matrix, self._zones = matrix, zones
        self._columns: Any = sparse.csc_array(matrix)
        self._least = np.floor(weights + NEAR)
        self._most = self._least + 1.0 + (self._least > 0.0)
        self._least = np.maximum(self._least - 1.0, 0.0)
        self.counts = counts.copy()
        self._made = matrix.T @ counts
        self._block = cache(self._dense)

    @property
    def misses(self) -> float:
        """The sum of the misses of all totals."""
        return float(_outside(self._made, self._low, self._high).sum())

    def step(self, generator: np.random.Generator) -> None:
        """Exchange a household that adds to a total that is off for another one of its zone, the best one, or none."""
        off = np.flatnonzero((self._made < self._low) | (self._made > self._high))
        total = generator.choice(off)
        sign = -1.0 if self._made[total] > self._high[total] else 1.0
        start, end = self._columns.indptr[total : total + 2]
        able = self._columns.indices[start:end]
        able = able[self._movable(able, sign)]
        if not len(able):
            return
        row = generator.choice(able)
        rows, columns, dense = self._block(int(self._zones[row]))
        others = np.flatnonzero(self._movable(rows, -sign) & (rows != row))
        added = sign * dense[np.searchsorted(rows, row)]
        changes = np.vstack([added, added - sign * dense[others]])
        low, high = self._low[columns], self._high[columns]
        missed = _outside(self._made[columns] + changes, low, high).sum(axis=1)
        best = int(np.argmin(missed + DAZE * generator.random(len(missed))))
        worse = missed[best] - _outside(self._made[columns], low, high).sum()
        if worse <= 0.0 or generator.random() < np.exp(-worse / HEAT):
            self.counts[row] += sign
            if best:
                self.counts[rows[others[best - 1]]] -= sign
            self._made[columns] += changes[best]

    def _movable(self, rows: np.ndarray, sign: float) -> np.ndarray:
        """Return which counts may become one more or one less."""
        moved = self.counts[rows] + sign
        return (moved >= self._least[rows]) & (moved <= self._most[rows])

    def _dense(self, zone: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of a zone, the totals that they add to, and what they add, as a dense matrix."""
        rows = np.flatnonzero(self._zones == zone)
        own = sparse.csr_array(self._matrix[rows])
        columns = np.unique(own.indices)
        return rows, columns, np.asarray(own[:, columns].todense())


def _outside(made: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, np.maximum(low - made, made - high))
