r"""Marginal partition as published (PPSyn, Algorithms 3 and 4): a function of the counts of a marginal, without noise.

A partition P of a marginal's cells into intervals has the reconstruction error RE = ||M - M_P||_1, where M_P divides
the sum of each interval equally among its cells. The budget rho = |P|^2 / (pi (eta Contr - RE)^2) keeps the total error
within eta * Contr. Both algorithms change a partition step by step, guided by the reconstruction error, and stop before
the first step that increases rho. The steps do not depend on Contr, so they are computed once (`algorithm_3`,
`algorithm_4`), and `first_increase` finds the last one.

The partition of true counts reveals these counts, which is the flaw of the published algorithm. The partition of a
model's counts reveals nothing new.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from experiments.ppsyn.kernels import best_cut

ROUNDING = 1e-12
"""The largest error of a box that counts as uniform, as a fraction of all counts: float rounding."""


def reconstruction_error(counts: np.ndarray) -> float:
    """Return the l1 error of dividing the sum of one interval equally among its cells.

    >>> reconstruction_error(np.array([1.0, 3.0, 5.0]))
    4.0
    """
    return float(np.abs(counts - counts.mean()).sum())


def required_budget(intervals: np.ndarray | int, error: np.ndarray | float, allowed: float) -> np.ndarray:
    r"""Return rho = |P|^2 / (pi (eta Contr - RE)^2), at which noise and RE add up to eta Contr (Algorithm 3, line 4).

    The budget is infinite if RE is not below eta Contr, as in Algorithm 4 (lines 5 to 9). Algorithm 3 squares the
    difference whatever its sign, with which Theorem 4 would not hold.

    >>> [round(float(rho), 4) for rho in required_budget(np.array([2, 4]), np.array([30.0, 10.0]), 20.0)]
    [inf, 0.0509]

    Args:
        intervals: |P|.
        error: RE, in counts.
        allowed: eta Contr, in counts.
    """
    left = allowed - np.asarray(error, dtype=np.float64)
    with np.errstate(divide="ignore"):
        rho = np.square(np.asarray(intervals, dtype=np.float64)) / (math.pi * np.square(np.maximum(left, 0.0)))
    return np.where(left > 0, rho, np.inf)


@dataclass(frozen=True, eq=False)
class Steps:
    """The sequence of partitions P_0, P_1, ... of a marginal that an algorithm produces.

    Attributes:
        intervals: |P_t|, shape (steps + 1,).
        errors: the reconstruction error of P_t in counts, shape (steps + 1,).
    """

    intervals: np.ndarray
    errors: np.ndarray

    def partition(self, step: int) -> np.ndarray:
        """Return the interval of each cell in P_t, row-major, shape (cells,), numbered in the order of first cells."""
        labels = self._labels(step)
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        number = np.empty(len(first), dtype=np.int64)
        number[np.argsort(first)] = np.arange(len(first))
        return number[inverse]

    def _labels(self, step: int) -> np.ndarray:
        """Return a label for each cell that is equal within an interval of P_t and different between intervals."""
        raise NotImplementedError

    def first_increase(self, allowed: float) -> tuple[int, float]:
        """Return the t at which the algorithm stops, before the first increase of rho or at the last step, and rho_t.

        Args:
            allowed: eta Contr, in counts.
        """
        rho = required_budget(self.intervals, self.errors, allowed)
        growing = np.flatnonzero(rho[1:] > rho[:-1])
        last = int(growing[0]) if growing.size else len(rho) - 1
        return last, float(rho[last])


@dataclass(frozen=True, eq=False)
class Merges(Steps):
    """The steps of Algorithm 3.

    Attributes:
        order: the cells by ascending counts.
        boundaries: the boundary that each merge removes; c is between the sorted cells c and c + 1.
    """

    order: np.ndarray
    boundaries: np.ndarray

    def _labels(self, step: int) -> np.ndarray:
        kept = np.ones(len(self.order), dtype=np.int64)
        kept[0] = 0
        kept[self.boundaries[:step] + 1] = 0
        groups = np.empty(len(self.order), dtype=np.int64)
        groups[self.order] = np.cumsum(kept)
        return groups


def algorithm_3(counts: np.ndarray) -> Merges:
    """Return the merges of Algorithm 3 (lines 1 to 8): each joins the two neighbors with the least increase of RE.

    Neighbors are intervals of cells sorted by their counts.

    >>> steps = algorithm_3(np.array([5.0, 1.0, 9.0, 1.0]))
    >>> steps.errors.tolist(), steps.partition(2).tolist()
    ([0.0, 0.0, 4.0, 12.0], [0, 1, 0, 1])

    Args:
        counts: the counts of a one-way marginal, shape (cells,).
    """
    order = np.argsort(counts, kind="stable")
    ascending = np.asarray(counts, dtype=np.float64)[order]
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    ends = list(range(len(order) + 1))  # interval u holds the sorted cells ends[u] up to ends[u + 1]
    error = [0.0] * len(order)

    def growth(u: int) -> float:
        return _sorted_error(ascending, sums, ends[u], ends[u + 2]) - error[u] - error[u + 1]

    growths = [growth(u) for u in range(len(order) - 1)]
    boundaries, errors = [], [0.0]
    while growths:
        c = int(np.argmin(growths))
        boundaries.append(ends[c + 1] - 1)
        errors.append(errors[-1] + growths[c])
        error[c : c + 2] = [error[c] + error[c + 1] + growths[c]]
        del ends[c + 1], growths[c]
        for u in (c - 1, c):
            if 0 <= u < len(growths):
                growths[u] = growth(u)
    intervals = np.arange(len(order), 0, -1)
    return Merges(intervals, np.array(errors), order, np.array(boundaries, dtype=np.int64))


def _sorted_error(ascending: np.ndarray, sums: np.ndarray, start: int, end: int) -> float:
    """Return `reconstruction_error` of ascending[start:end] from the running sums of the counts."""
    mean = (sums[end] - sums[start]) / (end - start)
    above = int(np.searchsorted(ascending[start:end], mean)) + start
    return float(mean * (2 * above - start - end) + sums[start] + sums[end] - 2 * sums[above])


@dataclass(frozen=True, eq=False)
class Splits(Steps):
    """The steps of Algorithm 4. A step in whose dimension no interval can be split leaves the partition unchanged.

    Attributes:
        shape: the shape of the marginal.
        split: the interval that each step splits, or -1.
        axes: the dimension of each split.
        cuts: the first code, in that dimension, of the part that becomes the new interval.
    """

    shape: tuple[int, ...]
    split: np.ndarray
    axes: np.ndarray
    cuts: np.ndarray

    def _labels(self, step: int) -> np.ndarray:
        boxes, count = np.zeros(self.shape, dtype=np.int64), 1
        for box, codes, cut in zip(self.split[:step], self._codes(step), self.cuts[:step], strict=True):
            if box >= 0:
                boxes[(boxes == box) & (codes >= cut)] = count
                count += 1
        return boxes.reshape(-1)

    def _codes(self, step: int) -> list[np.ndarray]:
        codes = np.indices(self.shape, sparse=True)
        return [codes[axis] for axis in self.axes[:step]]


def algorithm_4(counts: np.ndarray) -> Splits:
    """Return the splits of Algorithm 4 (lines 1 to 4 and 11 to 14): step t splits along dimension t mod d.

    A step splits the interval with the largest RE at the cut with the least RE. The text of the paper states which
    interval is split, the pseudocode does not. An interval with one code in the dimension cannot be split. RE may rise.

    >>> steps = algorithm_4(np.array([[4.0, 4.0], [0.0, 8.0]]))
    >>> steps.intervals.tolist(), steps.errors.tolist()
    ([1, 2, 3], [8.0, 8.0, 0.0])

    Args:
        counts: the counts of a marginal, with an axis for each attribute.
    """
    boxes = _Boxes(np.asarray(counts, dtype=np.float64))
    split: list[int] = []
    axes: list[int] = []
    cuts: list[int] = []
    intervals, errors = [1], [boxes.error]
    while boxes.left():
        axis = len(split) % counts.ndim
        number, cut = boxes.split_along(axis)
        split.append(number)
        axes.append(axis)
        cuts.append(cut)
        intervals.append(boxes.count)
        errors.append(boxes.error)
    return Splits(
        np.array(intervals), np.array(errors), counts.shape, np.array(split, np.int64), np.array(axes), np.array(cuts)
    )


class _Boxes:
    """The intervals of Algorithm 4 as boxes, with a heap of the boxes that can be split along each dimension."""

    def __init__(self, table: np.ndarray):
        self.count, self.error = 0, reconstruction_error(table)
        self._table, self._bounds = table, list[tuple[slice, ...]]()
        self._version: list[int] = []
        self._heaps: list[list[tuple[float, int, int]]] = [[] for _ in table.shape]
        self._least = ROUNDING * max(1.0, float(np.abs(table).sum()))
        self._add(tuple(slice(0, size) for size in table.shape), self.error)

    def left(self) -> bool:
        """Return whether a box can be split along any dimension."""
        return any(self._worst(axis) is not None for axis in range(len(self._heaps)))

    def split_along(self, axis: int) -> tuple[int, int]:
        """Split the box with the largest RE; return its number and the code of the cut, or (-1, 0) without a box."""
        number = self._worst(axis)
        if number is None:
            return -1, 0
        before, bounds = -self._heaps[axis][0][0], self._bounds[number]
        rows = np.moveaxis(self._table[bounds], axis, 0).reshape(bounds[axis].stop - bounds[axis].start, -1)
        place, lower, upper = best_cut(np.ascontiguousarray(rows))
        cut = bounds[axis].start + int(place)
        parts = slice(bounds[axis].start, cut), slice(cut, bounds[axis].stop)
        self._add((*bounds[:axis], parts[0], *bounds[axis + 1 :]), float(lower), number)
        self._add((*bounds[:axis], parts[1], *bounds[axis + 1 :]), float(upper))
        self.error += float(lower + upper) - before
        return number, cut

    def _add(self, bounds: tuple[slice, ...], error: float, number: int | None = None) -> None:
        if number is None:
            number = self.count
            self.count += 1
            self._bounds.append(bounds)
            self._version.append(0)
        else:
            self._bounds[number] = bounds
            self._version[number] += 1
        if error > self._least:
            for axis, part in enumerate(bounds):
                if part.stop - part.start > 1:
                    heapq.heappush(self._heaps[axis], (-error, number, self._version[number]))

    def _worst(self, axis: int) -> int | None:
        heap = self._heaps[axis]
        while heap and heap[0][2] != self._version[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None


def partition_steps(counts: np.ndarray) -> Steps:
    """Return the steps of Algorithm 3 for a one-way marginal, and of Algorithm 4 for other marginals."""
    return algorithm_3(counts) if counts.ndim == 1 else algorithm_4(counts)
