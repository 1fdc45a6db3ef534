"""The errors of queries about a marginal, against what random tables show."""

import numpy as np
import pytest

from pgmest.mechanisms.lamp.candidates import (
    MEAN_ABSOLUTE,
    SHARE_GRID,
    NoiseModel,
    QueryView,
    magnitude_histogram,
    range_candidate,
    table_candidate,
)
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.query_errors import QueryErrors, answered_fraction
from pgmest.queries import identity, prefix
from pgmest.tables.groups import summed

SIZE, TOTAL = 8, 8000.0
COUNTS = np.full(SIZE, TOTAL / SIZE)
LEVELS = nested_groups(COUNTS)
PREFIX = prefix(SIZE).matrix() / SIZE


def prefixes(attributes=2):
    return QueryErrors.of([PREFIX] * attributes, [COUNTS] * attributes, [LEVELS] * attributes)


def codes():
    return QueryErrors.of([None, None], [COUNTS, COUNTS], [LEVELS, LEVELS])


def centered(table):
    return table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "records", [[0.0, 0.0, 0.0, 0.0, 5.0, 3.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]
)
@pytest.mark.parametrize("factor", [None, PREFIX], ids=["codes", "prefixes"])
def test_groups_without_records_have_no_errors_of_their_own(records, factor):
    """Structural zeros leave some codes no records in a table of few."""
    counts = np.array(records)
    found = QueryErrors.of([factor] * 2, [counts, COUNTS], [LEVELS, LEVELS])
    numbers = [*found.systematic([1.0] * len(LEVELS)), *(found.chance(level) for level in range(len(LEVELS)))]
    assert np.isfinite(numbers).all()
    assert all(np.isfinite(found.noise_weights(level)).all() for level in range(len(LEVELS)))


def test_noise_adds_up_in_prefix_sums_as_it_does_in_random_tables():
    rng = np.random.default_rng(0)
    level = len(LEVELS) - 1
    found = MEAN_ABSOLUTE * np.sqrt(prefixes().noise_weights(level).sum(axis=1)).sum()
    drawn = [np.abs(PREFIX @ centered(rng.standard_normal((SIZE, SIZE))) @ PREFIX.T).sum() for _ in range(2000)]
    assert found == pytest.approx(np.mean(drawn), rel=0.05)


def test_chance_inside_groups_is_what_random_tables_show():
    rng = np.random.default_rng(0)
    for level in range(len(LEVELS) - 1):
        found = MEAN_ABSOLUTE * prefixes().chance(level)
        drawn = []
        for _ in range(1000):
            off = centered(rng.standard_normal((SIZE, SIZE))) * np.sqrt(TOTAL / SIZE**2)
            labels = LEVELS[level]
            sizes = np.bincount(labels)
            means = summed(off, (labels, labels)) / np.outer(sizes, sizes)
            drawn.append(np.abs(PREFIX @ (off - means[np.ix_(labels, labels)]) @ PREFIX.T).sum())
        assert found == pytest.approx(np.mean(drawn), rel=0.05)


def test_of_codes_all_that_is_systematic_is_seen_and_of_prefixes_the_less_the_finer_it_is():
    amounts = [100.0, 50.0, 25.0]
    assert codes().systematic(amounts) == pytest.approx(amounts, rel=0.1)
    seen = np.array(prefixes().systematic(amounts)) / amounts
    assert (np.diff(seen) < 0).all()
    assert seen[0] < 0.5
    smooth = np.outer(np.repeat([1.0, -1.0], 4), np.repeat([1.0, -1.0], 4))
    exact = np.abs(PREFIX @ smooth @ PREFIX.T).sum() / np.abs(smooth).sum()
    assert seen[0] == pytest.approx(exact, rel=0.35)


def offered(views, dependence=2000.0):
    sides = [(magnitude_histogram(summed(COUNTS, (labels,))),) * 2 for labels in LEVELS]
    finest = [level == len(LEVELS) - 1 for level in range(len(LEVELS))]
    return table_candidate(
        ("a", "b"), sides, finest, Dependence(dependence, dependence), 2, TOTAL, NoiseModel(1.0, 1.0), None, views
    )


def test_an_offer_for_prefixes_starts_with_their_error_and_is_measured_more_coarsely():
    cells, ranges = offered([QueryView(1.0)]), offered([QueryView(1.0, prefixes(), "p")])
    assert ranges.errors[0] < 0.5 * cells.errors[0]
    assert (np.diff(ranges.errors) <= 1e-9).all()
    assert all(ranges.level(share) <= cells.level(share) for share in (1e-4, 1e-3, 1e-2))
    assert any(ranges.level(share) < cells.level(share) for share in SHARE_GRID[1:])


def test_codes_asked_for_as_queries_have_the_errors_of_cells():
    cells, same = offered([QueryView(1.0)]), offered([QueryView(1.0, codes(), "c")])
    assert same.errors == pytest.approx(cells.errors, rel=0.15, abs=20)


def test_several_views_are_averaged_and_each_knows_its_part():
    both = offered([QueryView(3.0, None, ()), QueryView(1.0, prefixes(), "p")])
    cells, ranges = offered([QueryView(1.0)]).errors[0], offered([QueryView(1.0, prefixes(), "p")]).errors[0]
    assert both.errors[0] == pytest.approx((3 * cells + ranges) / 4)
    assert both.seen[()] * both.errors[0] == pytest.approx(cells)
    assert both.seen["p"] * both.errors[0] == pytest.approx(ranges)


def test_more_of_an_attribute_is_bought_over_ranges_where_ranges_are_asked_for():
    size, noise_model = 64, NoiseModel(100.0, 1.0)
    covariance = 400.0 * (np.eye(size) - 1 / size)
    levels = nested_groups(np.full(size, 100.0))
    rows = prefix(size).matrix() / size
    ranges = range_candidate(("a",), covariance, levels, [("p", 1.0, rows)], noise_model)
    cells = range_candidate(("a",), covariance, levels, [((), 1.0, None)], noise_model)
    exact = MEAN_ABSOLUTE * np.sqrt(np.einsum("rc,cd,rd->r", rows, covariance, rows)).sum()
    assert ranges.errors[0] == pytest.approx(exact)
    assert cells.errors[0] == pytest.approx(MEAN_ABSOLUTE * size * 20, rel=0.02)
    assert ranges.level(0.5) < len(levels) - 1
    assert cells.level(0.9) == len(levels) - 1
    whole = rows @ (np.linalg.inv(np.linalg.inv(400.0 * np.eye(size)) + np.eye(size) / 100.0)) @ rows.T
    assert ranges.errors[-1] <= MEAN_ABSOLUTE * np.sqrt(np.diag(whole)).sum() * 1.01


def test_what_a_query_sees_of_the_other_attributes_is_their_mean_answer():
    assert answered_fraction({}, {}) == 1
    assert answered_fraction({"a": PREFIX}, {"a": COUNTS}) == pytest.approx((SIZE + 1) / 2 / SIZE)
    assert answered_fraction({"a": identity(SIZE).matrix()}, {"a": COUNTS}) == pytest.approx(1)
