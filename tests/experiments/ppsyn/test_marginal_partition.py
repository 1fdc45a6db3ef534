"""Algorithms 3 and 4 of PPSyn: each step against a case worked out by hand, and against plain loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from experiments.ppsyn.marginal_partition import (
    algorithm_3,
    algorithm_4,
    partition_steps,
    reconstruction_error,
    required_budget,
)
from experiments.ppsyn.steps import errors_over_the_bound

COUNTS = st.integers(0, 40).map(float)


def uniform_error(table, labels):
    """RE = ||M - M_P||_1 from its definition."""
    cells = table.reshape(-1)
    return sum(np.abs(cells[labels == one] - cells[labels == one].mean()).sum() for one in np.unique(labels))


def test_the_budget_fills_what_the_reconstruction_error_leaves_with_noise():
    rho = float(required_budget(6, 10.0, 40.0))
    assert rho == pytest.approx(36 / (math.pi * 900))
    sigma = math.sqrt(1 / (2 * rho))
    assert math.sqrt(2 / math.pi) * 6 * sigma == pytest.approx(30.0)  # Theorem 3 and Theorem 4, equation 8
    assert required_budget(6, 40.0, 40.0) == required_budget(6, 50.0, 40.0) == np.inf
    assert required_budget(6, 0.0, 0.0) == np.inf


def test_theorem_4_bounds_the_mean_and_not_each_draw():
    """RE + NE is about as often above eta Contr as below it, the error itself less often."""
    counts = np.arange(40.0) ** 2
    errors, sums = errors_over_the_bound(counts, algorithm_3(counts), 0.7 * reconstruction_error(counts))
    assert (errors <= sums + 1e-9).all()
    assert sums.mean() == pytest.approx(1.0, abs=0.05)
    assert errors.mean() <= 1 < errors.max()
    assert 0.3 < np.mean(sums > 1) < 0.6


def test_algorithm_3_by_hand():
    # Sorted: 1, 2, 2, 10, 14. The two 2s cost nothing; 10 and 14 cost 4; 1 and the 2s cost 4/3; all of it 24.8.
    steps = algorithm_3(np.array([10.0, 2.0, 14.0, 1.0, 2.0]))
    assert steps.intervals.tolist() == [5, 4, 3, 2, 1]
    assert steps.errors.tolist() == pytest.approx([0, 0, 4 / 3, 4 / 3 + 4, 24.8])
    assert [steps.partition(t).tolist() for t in range(5)] == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 1],
        [0, 1, 2, 1, 1],
        [0, 1, 0, 1, 1],
        [0, 0, 0, 0, 0],
    ]


def test_algorithm_3_stops_before_the_first_increase():
    steps = algorithm_3(np.array([10.0, 2.0, 14.0, 1.0, 2.0]))
    # With eta Contr = 12: rho = 25/144, 16/144, 9/(12 - 4/3)^2, 4/(12 - 16/3)^2 over pi: 0.0790 and then 0.0900.
    step, rho = steps.first_increase(12.0)
    assert (step, rho) == (2, pytest.approx(9 / (math.pi * (12 - 4 / 3) ** 2)))
    # With little room no merge that costs anything is worth it, and with none at all nothing can be paid.
    assert steps.first_increase(1.0) == (1, pytest.approx(16 / math.pi))
    assert steps.first_increase(0.0)[1] == np.inf
    # With all the room that there is the last partition is the cheapest.
    assert steps.first_increase(1e6)[0] == 4


def test_the_first_increase_is_taken_and_not_the_best():
    counts = np.array([0.0, 0.0, 10.0, 10.0, 10.0, 30.0])
    steps = algorithm_3(counts)
    rho = required_budget(steps.intervals, steps.errors, 25.0)
    step, found = steps.first_increase(25.0)
    assert found == rho[step]
    assert step + 1 == len(rho) or rho[step + 1] > rho[step]
    assert (np.diff(rho[: step + 1]) <= 0).all()


def test_algorithm_4_by_hand():
    # The rows first, which leaves 32/3 of 64/3; then the columns of the first row, after the second.
    table = np.array([[8.0, 8.0, 0.0], [0.0, 0.0, 0.0]])
    steps = algorithm_4(table)
    assert steps.intervals.tolist() == [1, 2, 3]
    assert steps.errors.tolist() == pytest.approx([4 * 8 / 3 + 2 * 16 / 3, 32 / 3, 0.0])
    assert steps.axes.tolist() == [0, 1]
    assert steps.partition(1).tolist() == [0, 0, 0, 1, 1, 1]
    assert steps.partition(2).tolist() == [0, 0, 1, 2, 2, 2]


def test_algorithm_4_takes_dimensions_in_turn_even_where_another_would_be_better():
    table = np.array([[9.0, 0.0], [9.0, 0.0]])  # only the second dimension matters
    steps = algorithm_4(table)
    assert steps.axes.tolist()[:2] == [0, 1]
    assert steps.errors.tolist()[:2] == [18.0, 18.0]
    assert steps.errors[-1] == 0
    assert steps.intervals[-1] == 4  # each half was split again


def test_algorithm_4_starts_where_the_reconstruction_error_leaves_room():
    table = np.array([[8.0, 8.0, 0.0], [0.0, 0.0, 0.0]])
    steps = algorithm_4(table)  # errors 64/3, 32/3, 0 with 1, 2 and 3 intervals
    assert steps.first_increase(11.0) == (2, pytest.approx(9 / (math.pi * 11.0**2)))
    assert steps.first_increase(100.0)[0] == 0  # one interval for (78.7)^2 is cheaper than two


@given(arrays.arrays(np.float64, arrays.array_shapes(min_dims=1, max_dims=3, max_side=5), elements=COUNTS))
def test_partitions_are_nested_and_their_errors_as_defined(table):
    steps = partition_steps(table)
    finer_first = table.ndim == 1
    before = None
    for step in range(len(steps.intervals)):
        labels = steps.partition(step)
        assert labels.max() + 1 == steps.intervals[step] == len(np.unique(labels))
        assert steps.errors[step] == pytest.approx(uniform_error(table, labels), abs=1e-8)
        first = [int(np.flatnonzero(labels == one)[0]) for one in range(labels.max() + 1)]
        assert first == sorted(first)
        if before is not None:
            coarse, fine = (labels, before) if finer_first else (before, labels)
            assert all(len(set(coarse[fine == one])) == 1 for one in np.unique(fine))
        before = labels
    assert steps.errors[0 if finer_first else -1] == pytest.approx(0.0, abs=1e-9)


@given(st.lists(COUNTS, min_size=2, max_size=8))
def test_each_merge_is_the_cheapest_of_sorted_neighbors(counts):
    table = np.array(counts)
    steps = algorithm_3(table)
    for step in range(len(steps.boundaries)):
        labels = steps.partition(step)
        runs = sorted({one: np.sort(table[labels == one]) for one in np.unique(labels)}.values(), key=lambda r: r[0])
        runs = sorted(runs, key=lambda run: (run[0], run[-1]))
        costs = [
            reconstruction_error(np.concatenate([a, b])) - reconstruction_error(a) - reconstruction_error(b)
            for a, b in itertools.pairwise(runs)
        ]
        assert steps.errors[step + 1] - steps.errors[step] == pytest.approx(min(costs), abs=1e-8)


@given(arrays.arrays(np.float64, (4, 3), elements=COUNTS))
def test_each_split_is_the_best_cut_of_the_worst_box(table):
    steps = algorithm_4(table)
    codes = np.indices(table.shape)
    for step, (box, axis) in enumerate(zip(steps.split, steps.axes, strict=True)):
        assert axis == step % 2
        if box < 0:
            continue
        before, after = steps.partition(step), steps.partition(step + 1)
        errors = {one: reconstruction_error(table.reshape(-1)[before == one]) for one in np.unique(before)}
        along = codes[axis].reshape(-1)
        wide = [one for one in errors if np.ptp(along[before == one])]
        worst = max(errors[one] for one in wide)
        (split,) = (one for one in errors if len(np.unique(after[before == one])) > 1)
        assert errors[split] == pytest.approx(worst, abs=1e-8)
        cells, places = table.reshape(-1)[before == split], along[before == split]
        cuts = [
            reconstruction_error(cells[places < cut]) + reconstruction_error(cells[places >= cut])
            for cut in np.unique(places)[1:]
        ]
        assert steps.errors[step + 1] == pytest.approx(steps.errors[step] - worst + min(cuts), abs=1e-8)


def test_a_marginal_of_one_cell_or_none_different():
    assert algorithm_3(np.array([3.0])).first_increase(1.0) == (0, pytest.approx(1 / math.pi))
    flat = algorithm_4(np.full((3, 4), 2.0))
    assert flat.intervals.tolist() == [1]
    assert flat.partition(0).tolist() == [0] * 12
