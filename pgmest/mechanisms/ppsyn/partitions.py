"""Partitions of a marginal's cells into boxes that are measured as sums (PPSyn).

A merging path joins neighboring codes of one attribute; a splitting path of a marginal splits the attribute with the
heaviest bucket next. A path is computed once and contains partitions of every fineness.
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
"""The cost of a bucket in `denoised`, in variances of the noise. On the marginals of Adult and loans, 4 to 9 are better
than 2 for any noise, and much better for large noise."""

MergeCost = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function of the buckets' sums and widths, each of shape (k,), to the cost of merging each bucket with the next, of
shape (k - 1,)."""


def joint_mass(sums: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return the sum of both buckets, so that the lightest buckets are merged first."""
    return sums[:-1] + sums[1:]


def squared_error(sums: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return the increase of the squared error of uniform buckets (Ward's criterion)."""
    means = sums / widths
    return np.square(means[1:] - means[:-1]) * widths[1:] * widths[:-1] / (widths[1:] + widths[:-1])


@dataclass(frozen=True, eq=False)
class MergingPath:
    """Nested partitions of an attribute's codes into intervals, from one interval per code to a single interval.

    >>> path = MergingPath.of([5.0, 1.0, 2.0, 9.0], joint_mass)
    >>> path.groups(2).tolist(), path.costs.tolist()
    ([0, 0, 0, 1], [3.0, 8.0, 17.0])

    Attributes:
        boundaries: the boundaries in the order of merging, shape (n - 1,); c is the boundary between codes c and c + 1.
        costs: the cost of each merge, shape (n - 1,).
    """

    boundaries: np.ndarray
    costs: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray | list[float], cost: MergeCost) -> MergingPath:
        """Merge the two neighbors with the least cost until one interval is left.

        Args:
            values: the count of each code, shape (n,).
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
        """Return the bucket of each code, shape (n,), in the partition into 1 <= buckets <= n buckets."""
        kept = np.zeros(self.codes, dtype=np.int64)
        kept[self.boundaries[self.codes - buckets :] + 1] = 1
        return np.cumsum(kept)


def splitting_path(paths: Mapping[str, MergingPath], clique: Clique) -> Iterator[tuple[int, ...]]:
    """Yield finer and finer grids of a marginal: the number of buckets along each attribute, from one to all codes.

    The next split reverses the merge with the highest cost.

    Args:
        paths: the merging path of each attribute, with costs as fractions of the records.
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


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of a marginal's cells into boxes.

    Attributes:
        boxes: the box of each cell, from 0 to count - 1, in row-major order, shape (cells,).
        count: the number of boxes.
    """

    boxes: np.ndarray
    count: int

    @classmethod
    def of_grid(cls, paths: Mapping[str, MergingPath], clique: Clique, counts: tuple[int, ...]) -> Partition:
        """Return the boxes of a grid with these numbers of buckets along the attributes."""
        boxes = np.zeros(1, dtype=np.int64)
        for name, count in zip(clique, counts, strict=True):
            boxes = (boxes[:, None] * count + paths[name].groups(count)).reshape(-1)
        return cls(boxes, math.prod(counts))

    @property
    def query(self) -> MatrixQuery | None:
        """The query of the sums over boxes; None if every cell is a box."""
        return None if self.count == len(self.boxes) else compress(len(self.boxes), self.boxes.tolist())


class Grids:
    """The grids of all marginals on the same merging paths, each computed once.

    Args:
        paths: the merging path of each attribute.
    """

    def __init__(self, paths: Mapping[str, MergingPath]):
        self._paths = paths
        self._paths_of: dict[Clique, tuple[list[int], list[tuple[int, ...]]]] = {}
        self._partitions: dict[Clique, tuple[tuple[int, ...], Partition]] = {}

    def finest(self, clique: Clique, buckets: float) -> Partition:
        """Return the partition by the finest grid with at most `buckets` buckets, or else by the coarsest grid."""
        found = self._paths_of.get(clique)
        if found is None:
            path = list(splitting_path(self._paths, clique))
            found = self._paths_of[clique] = [math.prod(counts) for counts in path], path
        counts = found[1][max(bisect_right(found[0], buckets) - 1, 0)]
        kept = self._partitions.get(clique)
        if kept is None or kept[0] != counts:
            kept = self._partitions[clique] = counts, Partition.of_grid(self._paths, clique, counts)
        return kept[1]


def denoised(measurement: LinearMeasurement) -> LinearMeasurement:
    r"""Return a one-way measurement with neighboring codes merged if the noise hides their difference.

    The partition is the one on the merging path of the noisy answers y, of noise variance s^2, that minimizes

    .. math:: \sum_b \sum_{x \in b} (y_x - \bar y_b)^2 + \text{penalty} \cdot s^2 \cdot \text{buckets}

    over its buckets b. (With a penalty of 2 and a partition that does not depend on the noise, this is Stein's unbiased
    estimate of the squared error. This partition does depend on the noise, so a larger penalty is better:
    `BUCKET_PENALTY`.) The result measures the sums over buckets. It is a function of the noisy answers alone.
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
