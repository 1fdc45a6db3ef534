"""Queries that sum ranges of consecutive codes, computed from cumulative sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest.queries.base import MatrixQuery


@dataclass(frozen=True, eq=False, repr=False)
class Ranges(MatrixQuery):
    """The sums over the ranges starts[r] <= j < stops[r]; one pass of cumulative sums answers any number of ranges.

    A hierarchy, or all n (n + 1) / 2 ranges, cost O(n + rows); the matrix would have rows * n entries.
    """

    starts: np.ndarray
    stops: np.ndarray

    def _apply(self, values: np.ndarray) -> np.ndarray:
        if self.rows == 1:
            return values[self.starts[0] : self.stops[0]].sum(axis=0, keepdims=True)
        running = np.zeros((self.cells + 1, *values.shape[1:]))
        np.cumsum(values, axis=0, out=running[1:])
        return running[self.stops] - running[self.starts]

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        if self.rows == 1:
            spread = np.zeros((self.cells, *values.shape[1:]))
            spread[self.starts[0] : self.stops[0]] = values
            return spread
        steps = self._steps @ values.reshape(self.rows, -1)
        return np.cumsum(steps, axis=0).reshape(self.cells, *values.shape[1:])

    @cached_property
    def _steps(self) -> Any:
        """The sparse (n, rows) matrix of +1 at each range's start and -1 at its stop; its cumulative sums are Q^T."""
        length = self.cells + 1
        return (membership(self.starts, length) - membership(self.stops, length))[:-1]

    def squared(self) -> Ranges:
        """Return this query, because its entries are 0 and 1."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Differences(MatrixQuery):
    """The differences of two adjacent ranges (Haar wavelets): +1 on one range and -1 on the next; one may be empty."""

    plus: Ranges
    minus: Ranges

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return self.plus._apply(values) - self.minus._apply(values)

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return self.plus._apply_transpose(values) - self.minus._apply_transpose(values)

    def squared(self) -> Ranges:
        """Return the query on the unions of the two ranges, because all non-zero entries are -1 or 1."""
        return Ranges(self.shape, {"kind": "squared", "of": self}, self.plus.starts, self.minus.stops)


def membership(groups: np.ndarray, count: int) -> Any:
    """Return the sparse (count, len(groups)) matrix that sums the entries of each group."""
    from scipy import sparse

    entries = len(groups)
    return sparse.csr_array((np.ones(entries), (groups, np.arange(entries))), shape=(count, entries))


def tree_ranges(n: int, branching: int) -> list[tuple[int, int]]:
    """Return the nodes, level by level, of a tree that splits 0..n-1 into nearly equal parts down to single codes.

    A node is the pair (first code, last code + 1).
    """
    nodes, level = [], [(0, n)]
    while level:
        nodes += level
        level = [child for node in level for child in _split(*node, branching)]
    return nodes


def _split(start: int, stop: int, branching: int) -> list[tuple[int, int]]:
    """Return the children of a node: at most `branching` nearly equal parts; an empty list for a single code."""
    parts = min(branching, stop - start)
    if parts < 2:
        return []
    cuts = [start + (stop - start) * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))
