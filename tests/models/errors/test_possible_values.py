"""The values that a function of a table may have: shares are between 0 and 1, and means between codes."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import QueryError
from pgmest.models.errors.possible_values import MOST_CELLS, possible_values

DOMAIN = pg.Domain({"a": 3, "b": 4})
CODES = np.array([2.0, 3.0, 5.0, 9.0])


def small_model(noise: float = 15.0) -> pg.Model:
    """Return a model of 40 records, whose noise is as large as the counts."""
    table = np.array([[9.0, 5, 3, 0], [2, 8, 6, 1], [0, 1, 2, 3]])
    noisy = table + np.random.default_rng(1).normal(0, noise, table.shape)
    return pg.estimate([pg.LinearMeasurement(noisy, ("a", "b"), noise)], DOMAIN)


def means(table: pg.Factor) -> np.ndarray:
    return table.values @ CODES / table.values.sum(axis=1)


def correlation(table: pg.Factor) -> float:
    shares = table.values / table.values.sum()
    one, other = np.indices(shares.shape).astype(float)
    one, other = one - (shares * one).sum(), other - (shares * other).sum()
    return (shares * one * other).sum() / np.sqrt((shares * one**2).sum() * (shares * other**2).sum())


def group_without_records(counts: float) -> pg.Model:
    table = np.array([[90.0, 50, 30, 40], [20, 80, 60, 10], [counts] * 4])
    return pg.estimate([pg.LinearMeasurement(table, ("a", "b"), 10.0)], DOMAIN, total=380)


@pytest.mark.filterwarnings("error")
def test_groups_without_records_in_some_draws_have_the_interval_of_the_other_draws():
    """A mean that half of the draws lack is less certain than one that all have."""
    low, high = group_without_records(-8.0).interval(means, clique=("a", "b"))
    assert np.isfinite(low.values).all()
    assert np.isfinite(high.values).all()
    assert high.values[2] - low.values[2] > 3 * (high.values[1] - low.values[1])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_conditional_probabilities_shares_and_means_stay_within_their_range(level):
    model = small_model()
    functions = [
        (lambda one: one.conditional("b", "a"), None, 0, 1),
        (lambda table: table.values[0] / table.values.sum(), ("a", "b"), 0, 1),
        (means, ("a", "b"), CODES[0], CODES[-1]),
        (lambda table: table.values[1], ("a", "b"), 0, np.inf),
    ]
    for function, clique, least, most in functions:
        low, high = model.interval(function, clique=clique, level=level)
        assert low.values.min() >= least - 1e-9
        assert high.values.max() <= most + 1e-9
        assert (low.values < high.values).all()


def test_ends_inside_the_range_stay_as_they_are():
    """Of many records the ends are far from 0 and 1, and are those of the standard error."""
    table = np.array([[900.0, 500, 300, 400], [200, 800, 600, 100], [300, 100, 200, 300]])
    model = pg.estimate([pg.LinearMeasurement(table, ("a", "b"), 10.0)], DOMAIN)
    low, high = model.interval(means, clique=("a", "b"))
    middle = means(model.project(("a", "b")))
    reach = 1.96 * model.interval(means, clique=("a", "b"), level=0.6827).width.values / 2
    np.testing.assert_allclose(high.values - middle, reach, rtol=0.25)
    np.testing.assert_allclose(middle - low.values, reach, rtol=0.25)


def ends(function, totals=(5.0, 20.0), possible=None):
    shape = np.ones((3, 4), dtype=bool) if possible is None else possible

    def answered(counts: np.ndarray) -> np.ndarray:
        return np.asarray(function(pg.Factor(DOMAIN, counts)))

    return possible_values(answered, shape, totals, 0)


def test_the_range_is_that_of_tables_of_one_cell():
    low, high = ends(means)
    np.testing.assert_array_equal(low, np.full(3, 2.0))
    np.testing.assert_array_equal(high, np.full(3, 9.0))


def test_counts_are_at_most_the_number_of_records_and_differences_at_least_minus_it():
    low, high = ends(lambda table: [table.values[0, 0], table.values.sum(), table.values[0, 0] - table.values[2, 3]])
    np.testing.assert_array_equal(low, [0.0, 5.0, -20.0])
    np.testing.assert_array_equal(high, [20.0, 20.0, 20.0])


def test_a_table_that_may_be_empty_counts_too():
    low, _ = ends(lambda table: table.values.sum(), totals=(0.0, 20.0))
    assert low == 0.0


def test_impossible_cells_narrow_the_range():
    possible = np.ones((3, 4), dtype=bool)
    possible[0, 2:] = False
    _, high = ends(means, possible=possible)
    np.testing.assert_array_equal(high, [3.0, 9.0, 9.0])


def test_functions_whose_values_are_not_between_those_of_single_cells_have_no_known_range():
    assert ends(correlation) == (-np.inf, np.inf)
    low, high = ends(lambda table: [means(table)[0], correlation(table)])
    np.testing.assert_array_equal(low, [2.0, -np.inf])
    np.testing.assert_array_equal(high, [9.0, np.inf])
    squares = ends(lambda table: np.square(table.values / table.values.sum()).sum())
    assert squares == (-np.inf, np.inf)  # 1 for every single cell, but less for mixtures


def inequality(table: pg.Factor) -> np.ndarray:
    """Return the Gini coefficient of 10 codes, for groups of codes of the first attribute."""
    counts = table.values.reshape(10, -1, 10).sum(axis=1)
    codes = np.arange(1.0, 11)
    pairs = np.abs(codes[:, None] - codes)
    sums = counts.sum(axis=1)
    return np.einsum("ai,ij,aj->a", counts, pairs, counts) / (2 * sums * (counts @ codes))


@pytest.mark.parametrize("codes", [10, 40, 100])
def test_functions_of_each_of_many_groups_are_told_from_shares(codes):
    """A single cell has no inequality; each component reads a tenth of the cells only."""
    domain = pg.Domain({"a": codes, "b": 10})
    possible = np.ones(domain.shape, dtype=bool)
    for seed in range(5):
        low, high = possible_values(
            lambda counts: inequality(pg.Factor(domain, counts)), possible, (900.0, 1100.0), seed
        )
        known = np.isfinite(np.broadcast_to(low, 10)) | np.isfinite(np.broadcast_to(high, 10))
        assert known.sum() <= 1


def test_a_ratio_without_a_largest_value_has_none():
    low, high = ends(lambda table: table.values[0, 0] / table.values[1, 1])
    assert low == 0.0
    assert high == np.inf


def test_a_function_that_fails_for_tables_of_one_cell_has_an_interval():
    def strict(table: pg.Factor) -> float:
        if (table.values > 0).sum() < 2:
            raise ValueError("more cells, please")
        return float(table.values[0].sum() / table.values.sum())

    assert ends(strict) == (-np.inf, np.inf)
    low, high = group_without_records(8.0).interval(strict, clique=("a", "b"))
    assert low.values < high.values
    with pytest.raises(QueryError, match=r"fails for some tables .* more cells, please.*return NaN"):
        small_model().interval(strict, clique=("a", "b"))


def test_large_tables_are_not_tried():
    calls = []
    possible_values(lambda counts: calls.append(1) or counts, np.ones(MOST_CELLS + 1, dtype=bool), (1.0, 2.0), 0)
    assert not calls
