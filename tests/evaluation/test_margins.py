"""How far off the counts of a table are, as reports say it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.evaluation.reports.margins import CountErrors, count_errors


def test_errors_of_a_table_are_those_of_its_cells_and_large_counts_have_their_own():
    """One cell of 100 has most records and a large error: other cells must not be said to be as far off."""
    counts, stddev = np.r_[10_000.0, np.full(99, 20.0), np.zeros(900)], np.r_[300.0, np.full(99, 5.0), np.ones(900)]
    draws = np.random.default_rng(0).normal(size=(400, 1000)) * stddev
    found = CountErrors.of(counts, draws)
    assert found.typical == pytest.approx(5, rel=0.1)
    assert found.within == pytest.approx(10, rel=0.1)
    assert np.mean(np.abs(draws[:, :100]) <= found.within) == pytest.approx(0.95, abs=1e-4)
    assert 400 < found.large < 700  # 10,000 of 11,980 records are in one cell
    assert 9 < found.noise < 12
    one = CountErrors.of(counts[:2], draws[:, :2])
    assert one.large == pytest.approx(1.96 * 300, rel=0.15)


@pytest.mark.parametrize(
    ("counts", "stddev", "noise"),
    [
        ([900, 800, 700], 10, 20),  # all are certain: twice the error
        ([45_000, 300, 200], 200, 400),  # one is, and the next is not: counts up to twice its error are not
        ([300, 200], 200, 400),  # none is
        ([0, 0], 10, 20),
        ([40_000, 0], 1e-9, 0),
    ],
)
def test_counts_are_mostly_noise_under_twice_their_errors(counts, stddev, noise):
    draws = np.random.default_rng(0).choice([-1.0, 1.0], (300, len(counts))) * stddev
    found = CountErrors.of(np.array(counts, dtype=float), draws)
    assert found.noise == pytest.approx(noise, rel=1e-6, abs=1e-6)
    assert found.typical == pytest.approx(stddev)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 3, 40, 500, 9000]), st.sampled_from([1, 7, 50, 400])), min_size=1, max_size=12
    )
)
def test_a_count_that_is_no_noise_is_not_below_what_counts_are_typically_off(cells):
    """Else a report said: typically off by 503, counts under 286 are mostly noise."""
    counts, stddev = np.array(cells, dtype=float).T
    found = CountErrors.of(counts, np.random.default_rng(0).choice([-1.0, 1.0], (200, len(counts))) * stddev)
    shown = counts >= min(0.5, counts.max())
    assert found.noise >= found.typical
    assert np.mean(stddev[shown] <= found.typical) >= 0.5
    assert np.mean(stddev[shown] >= found.typical) >= 0.5


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_distances_on_the_page_hold_as_many_counts_as_they_say(epsilon):
    rng = np.random.default_rng(1)
    first = np.minimum(rng.geometric(0.25, 3000) - 1, 11)
    second = np.minimum(first // 3 + rng.geometric(0.5, 3000) - 1, 7)
    data = pg.Dataset.from_codes([first, second, rng.integers(0, 3, 3000)], {"a": 12, "b": 8, "c": 3})
    held, large, ratios = [], [], []
    for seed in range(3):
        result = pg.mechanisms.LAMP(epsilon=epsilon, backend="simulation").fit(data, seed=seed, progress=False)
        for clique in (("a",), ("b",), ("a", "b"), ("a", "c"), ("b", "c")):
            counts, found = result.project(clique).datavector(), count_errors(result.model, clique)
            off, shown = np.abs(counts - data.project(clique).datavector()), counts >= 0.5
            held.append(np.mean(off[shown] <= found.within))
            large.append(np.average(off <= found.large, weights=counts))
            ratios.append(found.typical / max(np.median(off[shown]) / 0.6745, 0.5))
    assert np.mean(held) > 0.93
    assert np.mean(large) > 0.9
    assert 0.8 < np.median(ratios) < 2
