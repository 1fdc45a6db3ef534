"""Merging paths, splitting paths, grids, and merging what noise cannot tell apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest import LinearMeasurement
from pgmest.mechanisms.ppsyn.partitions import (
    Grids,
    MergingPath,
    Partition,
    denoised,
    joint_mass,
    splitting_path,
    squared_error,
)
from pgmest.queries import MatrixQuery

VALUES = st.lists(st.integers(0, 50), min_size=1, max_size=9)


def paths_of(**values):
    return {name: MergingPath.of(np.array(v) / np.sum(v), joint_mass) for name, v in values.items()}


def finest_grid(paths, clique, buckets):
    """Return the last grid on the splitting path with at most `buckets` buckets, or the first one."""
    grids = list(splitting_path(paths, clique))
    return [grid for grid in grids if np.prod(grid) <= max(buckets, 1)][-1]


def sums(partition, cells):
    """Return the sum of each box, shape (count,)."""
    return np.bincount(partition.boxes, cells.reshape(-1), partition.count)


def test_a_merging_path_by_hand():
    path = MergingPath.of([4.0, 1.0, 2.0, 9.0], joint_mass)
    assert path.boundaries.tolist() == [1, 0, 2]
    assert path.costs.tolist() == [3.0, 7.0, 16.0]
    assert [path.groups(buckets).tolist() for buckets in (4, 3, 2, 1)] == [
        [0, 1, 2, 3],
        [0, 1, 1, 2],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]


@given(VALUES, st.sampled_from([joint_mass, squared_error]))
def test_partitions_are_nested_intervals(values, cost):
    path = MergingPath.of(values, cost)
    finer = path.groups(path.codes)
    assert finer.tolist() == list(range(len(values)))
    for buckets in range(path.codes - 1, 0, -1):
        groups = path.groups(buckets)
        assert groups.max() + 1 == buckets
        assert set(np.diff(groups)) <= {0, 1}
        assert all(len(set(groups[finer == bucket])) == 1 for bucket in range(buckets + 1))
        finer = groups


@given(VALUES)
def test_the_costs_of_merging_add_up_to_the_squared_error_of_uniform_buckets(values):
    path = MergingPath.of(values, squared_error)
    for buckets in range(1, path.codes + 1):
        groups = path.groups(buckets)
        error = sum(
            np.square(np.array(values)[groups == b] - np.mean(np.array(values)[groups == b])).sum()
            for b in range(buckets)
        )
        assert path.costs[: path.codes - buckets].sum() == pytest.approx(error, abs=1e-8)


def test_heavy_buckets_are_split_first():
    paths = paths_of(a=[48, 47], b=[96, 2, 1, 1])
    assert list(splitting_path(paths, ("a", "b"))) == [(1, 1), (2, 1), (2, 2), (2, 3), (2, 4)]
    assert finest_grid(paths, ("a", "b"), 5) == (2, 2)
    assert finest_grid(paths, ("a", "b"), 0.1) == (1, 1)
    assert finest_grid(paths, ("a", "b"), 1e9) == (2, 4)


def test_the_boxes_of_a_grid():
    paths = paths_of(a=[5, 5, 1], b=[3, 3])
    cells = np.arange(6.0).reshape(3, 2)
    grid = Partition.of_grid(paths, ("a", "b"), (2, 2))
    assert grid.boxes.tolist() == [0, 1, 2, 3, 2, 3]
    query = grid.query
    assert isinstance(query, MatrixQuery)
    assert sums(grid, cells).tolist() == query.apply(cells.reshape(-1)).tolist() == [0.0, 1.0, 6.0, 8.0]
    assert Partition.of_grid(paths, ("a", "b"), (3, 2)).query is None


@given(VALUES, VALUES, st.data())
def test_boxes_keep_the_total_and_never_add_error(a, b, data):
    paths = {
        "a": MergingPath.of(np.array(a, dtype=float), joint_mass),
        "b": MergingPath.of(np.array(b, dtype=float), joint_mass),
    }
    counts = data.draw(st.sampled_from(list(splitting_path(paths, ("a", "b")))))
    error = np.random.default_rng(0).integers(-5, 6, (len(a), len(b))).astype(float)
    found = sums(Partition.of_grid(paths, ("a", "b"), counts), error)
    assert found.shape == (np.prod(counts),)
    assert found.sum() == pytest.approx(error.sum())
    assert np.abs(found).sum() <= np.abs(error).sum() + 1e-9


def test_what_noise_cannot_tell_apart_is_merged():
    flat = denoised(LinearMeasurement([101.0, 99.0, 100.0, 500.0, 502.0], ("a",), stddev=10.0))
    assert flat.values.tolist() == [300.0, 1002.0]
    assert np.allclose(flat.stddev, 10 * np.sqrt([3, 2]))
    clear = LinearMeasurement([100.0, 300.0, 50.0], ("a",), stddev=1.0)
    assert denoised(clear) is clear


def test_merging_brings_smooth_marginals_closer_to_the_truth():
    rng = np.random.default_rng(0)
    truth = np.repeat([100.0, 400.0, 50.0], 30)
    before = after = 0.0
    for _ in range(20):
        noisy = LinearMeasurement(truth + rng.normal(0, 60, 90), ("a",), stddev=60.0)
        merged = denoised(noisy)
        before += np.square(noisy.values - truth).sum()
        assert isinstance(merged.query, MatrixQuery)
        sizes = merged.query.apply(np.ones(90))
        after += np.square(merged.query.transpose(merged.values / sizes) - truth).sum()
    assert after < 0.4 * before


@given(VALUES.filter(any), VALUES.filter(any), st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_kept_grids_are_the_finest_ones(a, b, limits):
    paths = paths_of(a=a, b=b)
    grids = Grids(paths)
    for buckets in limits:
        expected = Partition.of_grid(paths, ("a", "b"), finest_grid(paths, ("a", "b"), buckets))
        found = grids.finest(("a", "b"), buckets)
        assert found.count == expected.count
        assert np.array_equal(found.boxes, expected.boxes)
        assert grids.finest(("a", "b"), buckets) is found
