"""Records changed code by code until they have all tables."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.synthesis import GradualUpdate, LocalSearch, local_search, synthesize
from pgmest.synthesis.local_search import Descent, TargetTable
from pgmest.synthesis.pair_descent import PairDescent

CENSUS = pg.datasets.load("census").take(slice(0, 10_000))
PAIRS = [CENSUS.project(pair) for pair in itertools.combinations(CENSUS.domain, 2)]


def off(records, tables):
    """The mean total variation error of the records in the tables."""
    apart = [
        np.abs(records.project(t.domain).values / records.records - t.values / t.values.sum()).sum() for t in tables
    ]
    return np.mean(apart) / 2


@st.composite
def problems(draw):
    """A domain, cliques of any size, and records."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    domain = pg.Domain({name: size for name, size in zip("abcde", sizes, strict=False)})
    subsets = [c for k in range(1, len(sizes) + 1) for c in itertools.combinations(domain, k)]
    cliques = draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=5, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    records = draw(st.integers(1, 60))
    rows = np.stack([rng.integers(0, size, records) for size in sizes], axis=1).astype(np.uint16)
    return domain, cliques, rows, rng


def squared(rows, domain, goals, scale):
    """The distance that is to fall, from its definition."""
    data = pg.Dataset.from_codes(list(rows.T), domain)
    total = 0.0
    for goal in goals:
        target = np.maximum(goal.table, 0.0) * scale
        weight = 1 / np.sqrt((target + 1) * (goal.variance * scale**2 + 1))
        total += float((weight * (data.project(goal.clique).values - target) ** 2).sum())
    return total


@given(problems(), st.sampled_from([0.5, 1.0, 3.0]))
@settings(max_examples=60, deadline=None)
def test_no_change_of_one_code_brings_records_closer_and_the_books_are_right(problem, scale):
    domain, cliques, rows, rng = problem
    goals = [
        TargetTable(c, rng.gamma(0.7, len(rows) / domain.size(c) + 1, domain.project(c).shape), rng.random())
        for c in cliques
    ]
    before = squared(rows, domain, goals, scale)
    descent = Descent.of(rows, domain, goals, scale)
    for _ in range(20):
        if not descent.sweep(rows, rng.permutation(len(rows))):
            break
    least = squared(rows, domain, goals, scale)
    assert least <= before * (1 + 1e-5) + 1e-4
    afresh = Descent.of(rows, domain, goals, scale)
    np.testing.assert_allclose(descent.costs, afresh.costs, rtol=1e-4, atol=1e-3)
    for place, axis in itertools.product(rng.integers(0, len(rows), 4), range(len(domain))):
        for code in range(domain.shape[axis]):
            other = rows.copy()
            other[place, axis] = code
            assert squared(other, domain, goals, scale) >= least - 1e-3 * max(1.0, least)


@given(problems())
@settings(max_examples=30, deadline=None)
def test_the_reported_error_is_that_of_the_records(problem):
    domain, cliques, rows, rng = problem
    wanted = [*cliques, *((name,) for name in domain)]
    tables = [pg.Factor(domain.project(c), rng.gamma(1.0, 1.0, domain.project(c).shape) + 0.01) for c in wanted]
    said = []
    columns = LocalSearch().records(tables, domain, len(rows), rng, lambda _, error: said.append(error))
    assert said[-1] == pytest.approx(off(pg.Dataset.from_codes(columns, domain), tables), abs=1e-4)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_attribute_after_attribute_no_change_of_one_code_brings_records_closer(problem):
    domain, _, rows, rng = problem
    sets = [pair for pair in itertools.permutations(domain, 2) if rng.random() < 0.5]
    tables = [pg.Factor(domain.project(c), rng.gamma(0.7, len(rows), domain.project(c).shape)) for c in sets]
    if not tables:
        return
    goals = [TargetTable(table.domain.attributes, table.values) for table in tables]
    before = squared(rows, domain, goals, 1.0)
    descent = PairDescent.of(sets, domain, [table.values for table in tables])
    for _ in range(20):
        if not descent.sweep(rows):
            break
    least = squared(rows, domain, goals, 1.0)
    assert least <= before * (1 + 1e-5) + 1e-4
    for place, axis in itertools.product(rng.integers(0, len(rows), 4), range(len(domain))):
        for code in range(domain.shape[axis]):
            other = rows.copy()
            other[place, axis] = code
            assert squared(other, domain, goals, 1.0) >= least - 1e-3 * max(1.0, least)


@given(problems(), st.integers(2, 3))
@settings(max_examples=30, deadline=None)
def test_attributes_that_change_together_come_no_further_from_the_other_tables(problem, many):
    domain, _, rows, rng = problem
    pairs = list(itertools.combinations(domain, 2))
    if not pairs:
        return
    together = rng.permutation(len(domain))[:many].tolist()
    goals = [TargetTable(c, rng.gamma(0.7, len(rows), domain.project(c).shape), rng.random()) for c in pairs]
    counted = [goal for goal in goals if len(set(domain.axes(goal.clique)) & set(together)) < 2]
    descent = PairDescent.of(pairs, domain, [goal.table for goal in goals], [goal.variance for goal in goals])
    before, old = squared(rows, domain, counted, 1.0), rows.copy()
    for at in together:
        single = rows.copy()
        descent.change(single, at, together)
        assert squared(single, domain, counted, 1.0) <= before * (1 + 1e-5) + 1e-4
        old[:, at] = single[:, at]
    descent.change_together(rows, together)
    assert np.array_equal(rows, old)


def test_both_orders_of_the_descent_end_as_close(monkeypatch):
    found, said = [], []
    for cells in (10**9, 0):
        monkeypatch.setattr(local_search, "NEAR_CELLS", cells)
        records = synthesize(
            PAIRS, CENSUS.domain, 5000, method=LocalSearch(), seed=0, callback=lambda _, error: said.append(error)
        )
        found.append(off(records, PAIRS))
        assert said[-1] == pytest.approx(found[-1], abs=1e-6)
    assert found[1] < 1.1 * found[0]


def test_improved_records_keep_their_places_in_either_order(monkeypatch):
    records = CENSUS.take(slice(0, 500))
    monkeypatch.setattr(local_search, "NEAR_CELLS", 0)
    tables = [records.project(t.domain.attributes) for t in PAIRS]
    same = LocalSearch().improved(records, tables, np.random.default_rng(0))
    assert same == records


def test_all_pairs_of_a_table_are_met_where_gradual_updates_leave_them():
    found = {
        kind: off(synthesize(PAIRS, CENSUS.domain, 10_000, method=kind, seed=0), PAIRS)
        for kind in (LocalSearch(), GradualUpdate(), GradualUpdate(alpha=0.3))
    }
    mine, *theirs = found.values()
    assert mine < 0.004
    assert min(theirs) > 5 * mine


@pytest.mark.parametrize("start", ["tree", "independent"])
def test_other_numbers_of_records_have_the_same_shares(start):
    records = synthesize(PAIRS, CENSUS.domain, 3000, method=LocalSearch(start=start), seed=0)
    assert records.records == 3000
    assert off(records, PAIRS) < 0.02


def test_improved_records_enter_no_cell_that_is_exactly_zero():
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 3, "b": 3, "c": 3})
    first = rng.integers(0, 3, 2000)
    start = pg.Dataset.from_codes([first, first, rng.integers(0, 3, 2000)], domain)
    ab = np.eye(3) * [[100], [900], [1000]]
    tables = [
        pg.Factor(domain.project(tuple("ab")), ab),
        pg.Factor(domain.project(tuple("bc")), rng.random((3, 3)) * 500),
    ]
    improved = LocalSearch().improved(start, tables, rng)
    assert (improved.project(("a", "b")).values[ab == 0] == 0).all()
    assert off(improved, tables[1:]) < off(start, tables[1:])


def test_nothing_to_do():
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 2, "b": 3})
    none = pg.Dataset.from_codes([np.zeros(0, int), np.zeros(0, int)], domain)
    assert LocalSearch().improved(none, [pg.Factor(domain, np.ones((2, 3)))], rng).records == 0
    some = pg.Dataset.from_codes([[0, 1], [2, 0]], domain)
    assert (
        LocalSearch().improved(some, [], rng).project(("a", "b")).values.tolist()
        == some.project(("a", "b")).values.tolist()
    )
    assert synthesize([pg.Factor(domain, np.ones((2, 3)))], domain, 0, method="local_search", seed=0).records == 0


def test_bad_parameters_are_named():
    with pytest.raises(ArgumentError, match="sweeps"):
        LocalSearch(sweeps=0)
    with pytest.raises(ArgumentError, match="start"):
        LocalSearch(start="forest")
