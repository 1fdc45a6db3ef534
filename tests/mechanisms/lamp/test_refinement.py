"""Records changed until they have all tables."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.lamp import records as lamp_records
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.grouped_model import GroupedModel
from pgmest.mechanisms.lamp.records import refine_rows, target_tables, two_at_once
from pgmest.synthesis.local_search import TargetTable

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2, "d": 5})


def pair_tables(rows, domain=DOMAIN, ways=(2,)):
    data = pg.Dataset.from_codes(list(rows.T), domain)
    return {clique: data.project(clique).values for many in ways for clique in combinations(domain, many)}


def distance(rows, goals, scale=1.0):
    found = pair_tables(rows, ways=(2, 3))
    total = 0.0
    for goal in goals:
        target = goal.table * scale
        weight = 1 / np.sqrt((target + 1) * (goal.variance * scale**2 + 1))
        total += float((weight * (found[goal.clique] - target) ** 2).sum())
    return total


def random_rows(rng, count):
    return np.stack([rng.integers(0, size, count) for size in DOMAIN.shape], axis=1).astype(np.uint16)


@pytest.mark.parametrize("by_attribute", [False, True])
@given(st.integers(0, 10**6), st.integers(20, 200), st.integers(1, 6))
@settings(max_examples=30)
def test_no_change_of_one_code_brings_records_closer(by_attribute, seed, count, kept):
    rng = np.random.default_rng(seed)
    truth = pair_tables(random_rows(rng, count), ways=(2,) if by_attribute else (2, 3))
    chosen = [list(truth)[place] for place in rng.permutation(len(truth))[:kept]]
    noisy = {pair: np.maximum(truth[pair] + rng.normal(0, 2, truth[pair].shape), 0.0) for pair in chosen}
    goals = [TargetTable(pair, table, 4.0 * rng.random()) for pair, table in noisy.items()]
    rows = random_rows(rng, count)
    before = distance(rows, goals)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lamp_records, "MANY_ATTRIBUTES", 0 if by_attribute else 32)
        for _ in range(10):
            refine_rows(rows, DOMAIN, goals, 1.0, rng, chosen)
    least = distance(rows, goals)
    assert least <= before + 1e-6
    for place in rng.integers(0, count, 5):
        for axis, size in enumerate(DOMAIN.shape):
            for code in range(size):
                other = rows.copy()
                other[place, axis] = code
                assert distance(other, goals) >= least - 1e-3 * max(1.0, least)


@pytest.mark.parametrize("many", [0, 32])
def test_tables_that_records_can_have_are_met(monkeypatch, many):
    monkeypatch.setattr(lamp_records, "MANY_ATTRIBUTES", many)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 2000)
    rows = np.stack([first, (first + rng.integers(0, 2, 2000)) % 4, rng.integers(0, 2, 2000), first + 1], axis=1)
    tables = pair_tables(rows)
    goals = [TargetTable(pair, table, 0.0) for pair, table in tables.items()]
    found = random_rows(rng, 2000)
    for _ in range(5):
        refine_rows(found, DOMAIN, goals, 1.0, rng, list(tables))
    for pair, table in tables.items():
        assert np.abs(pair_tables(found)[pair] - table).sum() < 0.02 * 2 * 2000


@pytest.mark.parametrize("many", [0, 32])
def test_what_is_in_no_table_stays(monkeypatch, many):
    monkeypatch.setattr(lamp_records, "MANY_ATTRIBUTES", many)
    rng = np.random.default_rng(0)
    rows, goal = random_rows(rng, 300), TargetTable(("a", "b"), np.full((3, 4), 25.0), 0.0)
    before = rows.copy()
    refine_rows(rows, DOMAIN, [goal], 1.0, rng, [goal.clique])
    assert np.array_equal(before[:, 2:], rows[:, 2:])
    refine_rows(rows, DOMAIN, [], 1.0, rng)
    assert np.abs(pair_tables(rows)[("a", "b")] - 25).max() <= 1


def test_records_stay_possible():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 3000), rng.integers(0, 4, 3000)
    kept = first + second < 5
    data = pg.Dataset.from_codes([first[kept], second[kept], first[kept] % 2], {"a": 4, "b": 4, "c": 2})
    codes = [(a, b, c) for a in range(4) for b in range(4) for c in range(2) if a + b >= 5 or a % 2 != c]
    mechanism = LAMP(rho=0.01, backend="simulation", records=5000, structural_zeros={("a", "b", "c"): codes})
    table = mechanism.fit(data, seed=0, progress=False).project(("a", "b", "c")).values
    assert all(table[code] == 0 for code in codes)


def test_tables_of_few_records_have_as_many_as_a_thousand():
    data = pg.Dataset.from_codes([np.arange(30) % 3, np.arange(30) % 2], {"a": 3, "b": 2})
    model = LAMP(rho=10.0, backend="simulation", records=2000).fit(data, seed=0, progress=False).model
    assert model.records.weights.sum() == pytest.approx(model.total)
    assert np.abs(model.project(("a", "b")).values - data.project(("a", "b")).values).max() < 2


def test_what_three_attributes_say_beyond_their_pairs_is_met():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    data = pg.Dataset.from_codes(
        [first, second, first ^ second, rng.integers(0, 5, 4000)], {"a": 2, "b": 2, "c": 2, "d": 5}
    )
    rows = np.stack([rng.integers(0, size, 4000) for size in data.domain.shape], axis=1).astype(np.uint16)
    goals = [TargetTable(clique, data.project(clique).values, 1.0) for clique in (("a", "b", "c"), ("a", "d"))]
    refine_rows(rows, data.domain, goals, 1.0, rng)
    found = pg.Dataset.from_codes(list(rows.T), data.domain)
    assert np.abs(found.project(("a", "b", "c")).values - goals[0].table).sum() < 0.05 * 4000
    assert np.abs(found.project(("a", "d")).values - goals[1].table).sum() < 0.05 * 4000


def test_what_was_not_measured_has_the_variance_of_one_sample():
    domain = pg.Domain({name: 3 for name in "abcde"})
    rng = np.random.default_rng(0)
    weights = rng.random(400)
    weighted = pg.Dataset.from_codes([rng.integers(0, 3, 400) for _ in domain], domain, weights)
    counted = [LinearMeasurement(np.full(3, 300.0), (name,), 1.0) for name in domain]
    measured = LinearMeasurement(np.full(9, 100.0), ("a", "b"), 5.0)
    model = GroupedModel.of(Evidence.of([*counted, measured], domain, 900.0), 8.0)
    goals = {goal.clique: goal for goal in target_tables(weighted, model)}
    assert len(goals) == 10
    noise = goals["a", "b"].variance
    drawn = 900.0 * float((weights**2).sum() / weights.sum() ** 2)  # records for each that the sample is worth
    beside_c = noise + drawn * goals["a", "c"].table.mean()
    assert goals["a", "c"].variance == pytest.approx(beside_c * (3 + 4) / 2)  # a has 3 such tables, c has 4
    assert goals["c", "d"].variance > goals["a", "c"].variance > noise


def wide_model(records=3000, attributes=40):
    """Return weighted records, a model of a wide table of which one pair was measured, and that pair."""
    rng = np.random.default_rng(0)
    domain = pg.Domain({f"x{place}": 2 + place % 4 for place in range(attributes)})
    counts = {name: rng.dirichlet(np.full(size, 5.0)) * 5000 for name, size in domain.items()}
    counted = [LinearMeasurement(counts[name], (name,), 1.0) for name in domain]
    tied = np.outer(counts["x0"], counts["x1"]) / 5000 + np.outer([100, -100], [100, 0, -100])
    measured = LinearMeasurement(tied.ravel(), ("x0", "x1"), 5.0)
    model = GroupedModel.of(Evidence.of([*counted, measured], domain, 5000.0), 8.0)
    drawn = model.records(records, rng)
    return pg.Dataset(domain, drawn.columns, records, np.full(records, 5000 / records)), model


def mean_error(records, model):
    pairs = list(combinations(records.domain, 2))
    found = [factor.values / factor.values.sum() for factor in records.project_many(pairs)]
    return np.mean(
        [np.abs(one - table / table.sum()).sum() / 2 for one, table in zip(found, model.tables(pairs), strict=True)]
    )


def test_records_of_wide_tables_have_the_tables_of_the_model_and_not_those_of_a_sample():
    weighted, model = wide_model()
    records = lamp_records.refined_records(weighted, model, [], np.random.default_rng(0))
    assert mean_error(records, model) < 0.1 * mean_error(weighted, model)


def test_records_of_wide_tables_do_not_depend_on_the_number_of_threads():
    weighted, model = wide_model(500)
    found = []
    try:
        for threads in (1, 2, 3):
            pg.set_threads(threads)
            found.append(lamp_records.refined_records(weighted, model, [], np.random.default_rng(0)))
    finally:
        pg.set_threads(None)
    assert found[0] == found[1] == found[2]


def test_wide_tables_keep_what_was_measured_where_a_sweep_would_take_too_long(monkeypatch):
    weighted, model = wide_model()
    whole = len(target_tables(weighted, model))
    monkeypatch.setattr(lamp_records, "MOST_PAIR_STEPS", 5000 * 800.0)
    some = target_tables(weighted, model)
    assert some[0].clique == ("x0", "x1")
    assert 90 < len(some) <= 101 < whole == 40 * 39 // 2
    monkeypatch.setattr(lamp_records, "MOST_PAIR_STEPS", 0.0)
    assert [goal.clique for goal in target_tables(weighted, model)] == [("x0", "x1")]


@given(st.permutations(range(7)), st.sets(st.sets(st.integers(0, 6), min_size=2, max_size=2).map(frozenset)))
def test_measured_pairs_do_not_change_at_once(order, apart):
    groups = two_at_once(order, apart)
    assert sorted(attribute for group in groups for attribute in group) == list(range(7))
    assert all(len(group) <= 2 and frozenset(group) not in apart for group in groups)
    alone = [group[0] for group in groups if len(group) == 1]
    assert all(frozenset(pair) in apart for pair in combinations(alone, 2))


def test_records_of_a_single_attribute_have_its_counts_and_not_those_of_a_sample():
    counts = np.array([0, 1367, 1246, 645, 454, 225, 88, 31, 14])
    data = pg.Dataset.from_codes(np.repeat(np.arange(9), counts)[:, None], {"size": 9})
    made = LAMP(rho=1e6, backend="simulation").fit(data, seed=0, progress=False).sample(seed=0)
    assert np.abs(made.project(("size",)).values - counts).max() <= 1
