"""PrivBasis: exact where noise is nothing, close where it is little, and charged for all that it reads."""

import itertools

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, BudgetExceeded, DomainError
from pgmest.mechanisms.privbasis import frequent_itemsets
from pgmest.mechanisms.privbasis.itemsets import FrequentCount, support, supports_of
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho
from tests.privacy.amounts import rho


def baskets(items=20, records=4000, seed=0):
    """Items that are bought together in threes, with frequencies from 60 % down."""
    rng = np.random.default_rng(seed)
    occasions = rng.random((records, items // 3 + 1)) < np.linspace(0.55, 0.05, items // 3 + 1)
    columns = [occasions[:, item // 3] & (rng.random(records) < 0.85) for item in range(items)]
    return pg.Dataset.from_codes(columns, {f"i{item:02}": 2 for item in range(items)})


def exact(data, theta):
    """All frequent itemsets, by Apriori."""
    table = np.stack([data.column(name) for name in data.domain], axis=1).astype(bool)
    names, found = list(data.domain), {}
    level = [frozenset([name]) for name in names]
    while level:
        counts = {one: int(table[:, [names.index(name) for name in one]].all(axis=1).sum()) for one in level}
        found |= {one: count for one, count in counts.items() if count >= theta * data.records}
        size = len(next(iter(level))) + 1
        frequent = [one for one in counts if one in found]
        level = list({one | other for one, other in itertools.combinations(frequent, 2) if len(one | other) == size})
    return found


def curator_of(data, budget, **options):
    return Curator(data, budget, backend="simulation", seed=0, **options)


@pytest.mark.parametrize("budget", [Rho(1e9), Epsilon(1e6)])
@pytest.mark.parametrize(("theta", "largest"), [(0.2, 12), (0.2, 6), (0.15, 12), (0.3, 4), (0.45, 12)])
def test_with_next_to_no_noise_supports_are_exact(budget, theta, largest):
    data = baskets()
    found = frequent_itemsets(curator_of(data, budget), budget, theta, largest=largest)
    truth = exact(data, theta)
    assert {one: round(value) for one, value in found.supports.items()} == truth
    assert list(found.supports.values()) == sorted(found.supports.values(), reverse=True)
    assert {name for one in truth for name in one} == set(found.items)


@pytest.mark.parametrize("neighbors", [AddRemove(), Replace(), AddRemove(3)])
def test_with_noise_most_are_found_and_errors_are_as_stated(neighbors):
    data, misses, deviations = baskets(records=20_000), 0, []
    truth = exact(data, 0.15)
    for seed in range(10):
        curator = Curator(data, Rho(0.05), backend="simulation", seed=seed, neighbors=neighbors)
        found = frequent_itemsets(curator, Rho(0.05), 0.15, largest=6)
        misses += len(set(truth) ^ set(found.supports))
        for one, value in found.supports.items():
            count = supports_of(data, [tuple(sorted(one))])[0]
            deviations.append((value - count) / found.stddevs[one])
    assert misses <= 0.2 * 10 * len(truth)
    assert 0.5 < np.std(deviations) < 1.6


def test_it_pays_for_everything_and_no_more():
    data, curator = baskets(), curator_of(baskets(), Rho(1.0))
    found = frequent_itemsets(curator, Rho(0.6), 0.2, largest=5)
    assert 0.59 < rho(curator.ledger.total) <= 0.6
    kinds = [entry.kind for entry in curator.ledger]
    assert kinds.count("select") == 2 + len(found.items) + len(found.pairs)
    with pytest.raises(BudgetExceeded):
        frequent_itemsets(curator, Rho(0.6), 0.2)
    assert len(data.domain) == 20


def test_one_record_moves_each_score_by_at_most_one():
    rng = np.random.default_rng(0)
    domain = {name: 2 for name in "abcde"}
    itemsets = (*itertools.combinations("abcde", 1), *itertools.combinations("abcde", 2))
    for _ in range(40):
        rows = rng.integers(0, 2, (12, 5))
        more = np.vstack([rows, rng.integers(0, 2, (1, 5))])
        scores = FrequentCount(itemsets, float(rng.uniform(0, 12)))
        before, after = (
            scores.evaluate(pg.Dataset.from_codes(one, domain), range(len(itemsets) + 1)) for one in (rows, more)
        )
        assert np.abs(np.subtract(before, after)).max() <= 1 + 1e-9


def test_how_many_is_right_where_it_is_zero():
    data = pg.Dataset.from_codes(np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0]]), {name: 2 for name in "abc"})
    itemsets = (("a",), ("b",), ("c",))  # supports 3, 2, 0
    for threshold, number in ((3.5, 0), (2.5, 1), (1.0, 2)):
        scores = FrequentCount(itemsets, threshold).evaluate(data, range(4))
        assert [place for place, score in enumerate(scores) if score == 0] == [number]


def test_the_support_of_an_itemset_adds_up_the_cells_that_have_it():
    first = pg.LinearMeasurement(np.arange(8.0), ("a", "b", "c"), stddev=2.0)
    second = pg.LinearMeasurement([[1.0, 2.0], [3.0, 14.0]], ("b", "d"), stddev=1.0)
    assert support("ab", [first, second]) == (6.0 + 7.0, pytest.approx(2 * np.sqrt(2)))
    # b: 2 + 3 + 6 + 7 of variance 16, and 3 + 14 of variance 2
    value, stddev = support("b", [first, second])
    assert value == pytest.approx((18 / 16 + 17 / 2) / (1 / 16 + 1 / 2))
    assert stddev == pytest.approx((1 / 16 + 1 / 2) ** -0.5)
    with pytest.raises(ArgumentError, match="a part of a basis"):
        support("ad", [first, second])


def test_where_nothing_is_frequent_nothing_is_found():
    data = pg.Dataset.from_codes(np.zeros((1000, 5), dtype=int), {name: 2 for name in "abcde"})
    found = frequent_itemsets(curator_of(data, Rho(1e6)), Rho(1e6), 0.3)
    assert found.supports == {}
    assert found.items == ()


@pytest.mark.parametrize("theta", [0, -0.1, 1.5, True])
def test_a_share_that_is_none_is_refused_before_anything_is_spent(theta):
    curator = curator_of(baskets(), Rho(1.0))
    with pytest.raises(ArgumentError, match="theta="):
        frequent_itemsets(curator, Rho(1.0), theta)
    with pytest.raises(ArgumentError, match="largest="):
        frequent_itemsets(curator, Rho(1.0), 0.1, largest=1)
    assert len(curator.ledger) == 0


def test_attributes_that_are_no_items_are_refused():
    data = pg.Dataset.from_codes(np.zeros((3, 2), dtype=int), {"a": 2, "b": 3})
    with pytest.raises(DomainError, match="'b' has 3"):
        frequent_itemsets(curator_of(data, Rho(1.0)), Rho(1.0), 0.1)


def test_the_same_journal_pays_once(tmp_path):
    data = baskets(items=8, records=500)
    runs = []
    for _ in range(2):
        curator = Curator(data, Rho(0.5), journal=tmp_path / "journal")
        runs.append(frequent_itemsets(curator, Rho(0.5), 0.2))
        curator.close()
    assert runs[0].supports == runs[1].supports
