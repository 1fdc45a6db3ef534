"""Partitions of a marginal's cells into boxes that are measured as sums (PPSyn).

Along one attribute neighboring codes are merged; in several, the attribute whose bucket is heaviest is split next.
Both are paths: computed once, and then a partition of any fineness is read off.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import MatrixQuery, compress
from pgmest.tables.domain import Clique

BUCKET_PENALTY = 4.0
"""What a bucket costs in `denoised`, in variances of the noise. On the marginals of Adult and loans 4 to 9 are better
than 2 for any noise, and much better for much noise."""

MergeCost = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""What merging each bucket with the next costs, (k - 1,), from the buckets' sums and widths, each of shape (k,)."""


def joint_mass(sums: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The sum of both buckets: the lightest are merged first."""
    return sums[:-1] + sums[1:]


def squared_error(sums: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """By how much the squared error of assuming uniform buckets grows (Ward's criterion)."""
    means = sums / widths
    return np.square(means[1:] - means[:-1]) * widths[1:] * widths[:-1] / (widths[1:] + widths[:-1])


@dataclass(frozen=True, eq=False)
class MergingPath:
    """Nested partitions of the codes of an attribute into intervals, from each code by itself to all in one.

    >>> path = MergingPath.of([5.0, 1.0, 2.0, 9.0], joint_mass)
    >>> path.groups(2).tolist(), path.costs.tolist()
    ([0, 0, 0, 1], [3.0, 8.0, 17.0])

    Attributes:
        boundaries: the boundaries (c for the one between code c and c + 1) in the order in which merging removes them,
            shape (n - 1,).
        costs: what each merge cost, shape (n - 1,).
    """

    boundaries: np.ndarray
    costs: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray | list[float], cost: MergeCost) -> MergingPath:
        """Merge the two neighbors that cost least, again and again.

        Args:
            values: a number for each code, shape (n,).
            cost: `joint_mass` or `squared_error`.
        """
        sums = np.array(values, dtype=np.float64)
        widths, left = np.ones(len(sums)), np.arange(len(sums) - 1)
        boundaries, costs = [], []
        while len(left):
            growth = cost(sums, widths)
            at = int(np.argmin(growth))
            boundaries.append(left[at])
            costs.append(growth[at])
            for array in (sums, widths):
                array[at] += array[at + 1]
            sums, widths, left = (
                np.delete(array, place) for array, place in ((sums, at + 1), (widths, at + 1), (left, at))
            )
        return cls(np.array(boundaries, dtype=np.int64), np.array(costs, dtype=np.float64))

    @property
    def codes(self) -> int:
        """The number of codes n."""
        return len(self.boundaries) + 1

    def groups(self, buckets: int) -> np.ndarray:
        """The bucket of each code, shape (n,), where 1 <= buckets <= n."""
        kept = np.zeros(self.codes, dtype=np.int64)
        kept[self.boundaries[self.codes - buckets :] + 1] = 1
        return np.cumsum(kept)


def splitting_path(paths: Mapping[str, MergingPath], clique: Clique) -> Iterator[tuple[int, ...]]:
    """Ever finer grids of a marginal: the number of buckets along each attribute, from one to all codes.

    The bucket split next is the one whose halves merging joined at the highest cost.

    Args:
        paths: for each attribute, with costs as shares of the records.
        clique: the attributes of the marginal.
    """
    counts = [1] * len(clique)
    heap = [(-float(paths[name].costs[-1]), axis) for axis, name in enumerate(clique) if paths[name].codes > 1]
    heapq.heapify(heap)
    yield tuple(counts)
    while heap:
        _, axis = heapq.heappop(heap)
        counts[axis] += 1
        path = paths[clique[axis]]
        if counts[axis] < path.codes:
            heapq.heappush(heap, (-float(path.costs[-counts[axis]]), axis))
        yield tuple(counts)


def finest_grid(paths: Mapping[str, MergingPath], clique: Clique, buckets: float) -> tuple[int, ...]:
    """The finest grid on the splitting path with at most `buckets` buckets; at least the coarsest one."""
    found = tuple(1 for _ in clique)
    for counts in splitting_path(paths, clique):
        if math.prod(counts) > buckets:
            break
        found = counts
    return found


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of a marginal's cells into boxes.

    Attributes:
        boxes: of each cell, row-major, shape (cells,): 0..count-1.
        count: the number of boxes.
    """

    boxes: np.ndarray
    count: int

    @classmethod
    def of_grid(cls, paths: Mapping[str, MergingPath], clique: Clique, counts: tuple[int, ...]) -> Partition:
        """The boxes of a grid, from the number of buckets along each attribute."""
        boxes = np.zeros(1, dtype=np.int64)
        for name, count in zip(clique, counts, strict=True):
            boxes = (boxes[:, None] * count + paths[name].groups(count)).reshape(-1)
        return cls(boxes, math.prod(counts))

    @property
    def query(self) -> MatrixQuery | None:
        """The sums of the marginal over the boxes; None where every cell is a box of its own."""
        return None if self.count == len(self.boxes) else compress(len(self.boxes), self.boxes.tolist())

    def sums(self, cells: np.ndarray) -> np.ndarray:
        """The sum of each box, shape (count,)."""
        return np.bincount(self.boxes, cells.reshape(-1), self.count)

    def uniform_within(self, cells: np.ndarray) -> np.ndarray:
        """The marginal under the uniformity assumption, each box's sum shared equally; of the shape of `cells`."""
        shares = self.sums(cells) / np.bincount(self.boxes, minlength=self.count)
        return shares[self.boxes].reshape(cells.shape)


class Grids:
    """The grids of many marginals on the same merging paths, each made once.

    Args:
        paths: of each attribute.
    """

    def __init__(self, paths: Mapping[str, MergingPath]):
        self._paths = paths
        self._paths_of: dict[Clique, tuple[list[int], list[tuple[int, ...]]]] = {}
        self._partitions: dict[Clique, tuple[tuple[int, ...], Partition]] = {}

    def finest(self, clique: Clique, buckets: float) -> Partition:
        """The partition by the finest grid with at most so many buckets (`finest_grid`)."""
        found = self._paths_of.get(clique)
        if found is None:
            path = [tuple(1 for _ in clique), *splitting_path(self._paths, clique)]
            found = self._paths_of[clique] = [math.prod(counts) for counts in path], path
        counts = found[1][max(bisect_right(found[0], buckets) - 1, 0)]
        kept = self._partitions.get(clique)
        if kept is None or kept[0] != counts:
            kept = self._partitions[clique] = counts, Partition.of_grid(self._paths, clique, counts)
        return kept[1]


def denoised(measurement: LinearMeasurement) -> LinearMeasurement:
    r"""The noisy answers of a one-way marginal, with neighbors merged that noise cannot tell apart.

    Of the partitions on the merging path into buckets b of the noisy answers y, whose noise has variance s^2, the one
    that minimizes

    .. math:: \sum_b \sum_{x \in b} (y_x - \bar y_b)^2 + \text{penalty} \cdot s^2 \cdot \text{buckets}

    is taken. (At a penalty of 2 that is Stein's unbiased estimate of the squared error, for a partition that does not
    depend on the noise. This one does, and merging more is better.) The answers are then sums over buckets, with the
    noise that sums have. It reads nothing but the noisy answers.
    """
    stddev = measurement.uniform_stddev
    assert stddev is not None
    assert measurement.query is None
    path = MergingPath.of(measurement.values, squared_error)
    merges = np.arange(path.codes)
    risks = np.concatenate([[0.0], np.cumsum(path.costs)]) - BUCKET_PENALTY * stddev**2 * merges
    buckets = path.codes - int(np.argmin(risks))
    if buckets == path.codes:
        return measurement
    query = compress(path.codes, path.groups(buckets))
    spread = stddev * np.sqrt(query.apply(np.ones(path.codes)))
    return LinearMeasurement(query.apply(measurement.values), measurement.clique, spread, query)
