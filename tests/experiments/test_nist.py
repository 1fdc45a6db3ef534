"""The NIST scores: their ends, hand-made cases, and plain loops that follow the definitions record by record."""

import math

import numpy as np
import pytest

import pgmest as pg
from experiments.dpsyn import nist2018
from experiments.dpsyn.nist2018 import PayGapDeviation, density_score, gini_index, pay_gap_deviation, range_score
from experiments.nist2020 import k_marginal_score

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 30})


def some_data(seed: int, records: int = 300, domain: pg.Domain = DOMAIN) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    return pg.Dataset.from_codes(np.stack([rng.integers(0, n, records) for n in domain.shape], axis=1), domain)


def constant(domain: pg.Domain, code: int, records: int = 50) -> pg.Dataset:
    return pg.Dataset.from_codes(np.full((records, len(domain)), code), domain)


def test_density_score():
    data, other = some_data(0), some_data(1, records=150)
    assert density_score(data, data, seed=0) == pytest.approx(1e6)
    assert density_score(constant(DOMAIN, 0), constant(DOMAIN, 1), seed=0) == pytest.approx(0.0)
    joint, its = data.project(("a", "b", "c")).values, other.project(("a", "b", "c")).values
    distance = np.abs(joint / 300 - its / 150).sum()
    assert density_score(data, other) == pytest.approx(1e6 * (1 - distance / 2))
    merged, theirs = (table.reshape(2, 3, 10, 3).sum(axis=3) for table in (joint, its))
    bucketed = np.abs(merged / 300 - theirs / 150).sum()
    assert density_score(data, other, numeric=["c"], buckets=10) == pytest.approx(1e6 * (1 - bucketed / 2))


def test_range_score_ends():
    data = some_data(0)
    assert range_score(data, data, numeric=["c"], seed=0) == pytest.approx(1e6)
    assert range_score(constant(DOMAIN, 0), constant(DOMAIN, 1), numeric=["c"], seed=0, probability=1.0) < 1e5
    model = pg.Model(pg.CliqueVector.zeros(DOMAIN, []), 300.0)
    assert 9e5 < range_score(data, model, numeric=["c"], seed=0) < 1e6


def test_range_score_follows_its_definition(monkeypatch):
    seen = []
    original = nist2018.conditions
    monkeypatch.setattr(nist2018, "conditions", lambda *args: seen.append(original(*args)) or seen[-1])
    data, other = some_data(0), some_data(1, records=100)
    score = range_score(data, other, numeric=["c"], probability=0.6, count=50, seed=3)
    squares = []
    for members in seen:
        fractions = []
        for source in (data, other):
            inside = np.ones(source.records, dtype=bool)
            for name, codes in members.items():
                inside &= np.isin(source.column(name), np.flatnonzero(codes))
            fractions.append(max(inside.mean(), 1e-6))
        assert fractions[0] >= 1 / 300  # some record satisfies them
        squares.append(math.log(fractions[1] / fractions[0]) ** 2)
    assert len(seen) == 50
    assert score == pytest.approx(1e6 * max(0.0, 1 + math.sqrt(np.mean(squares)) / math.log(1e-3)))
    for members in seen:
        if "c" in members:
            inside = np.flatnonzero(members["c"])
            assert inside.tolist() == list(range(inside[0], inside[-1] + 1))  # a range


def test_records_and_their_marginals_satisfy_range_queries_alike():
    data, model = some_data(0), some_data(1)
    exact = pg.estimate([pg.LinearMeasurement(model.project(tuple(DOMAIN)).values, tuple(DOMAIN))], DOMAIN)
    scores = [range_score(data, source, numeric=["c"], probability=0.5, seed=1) for source in (model, exact)]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)


def test_gap_and_gini_together_as_one_score():
    perfect = PayGapDeviation(0.0, 0.0, 4)
    assert perfect.score == 1e6
    reversed_order = PayGapDeviation(0.0, float(np.mean((np.arange(4) - np.arange(4)[::-1]) ** 2)), 4)
    assert reversed_order.score == pytest.approx(5e5)
    assert PayGapDeviation(1.0, 100.0, 4).score == 0.0
    assert PayGapDeviation(0.0, 0.0, 1).score == 1e6


def test_gini_index_is_the_mean_difference():
    rng = np.random.default_rng(0)
    counts, values = rng.integers(0, 9, (4, 5)).astype(float), rng.random(5)
    for row, found in zip(counts, gini_index(counts, values), strict=True):
        people = np.repeat(values, row.astype(int))
        expected = np.abs(people[:, None] - people[None]).mean() / (2 * people.mean())
        assert found == pytest.approx(expected)
    np.testing.assert_array_equal(gini_index(np.zeros((1, 5)), values), [0.0])


def test_pay_gap_by_hand():
    domain = pg.Domain({"city": 3, "sex": 2, "pay": 3})
    rows = [[0, 0, 2], [0, 1, 0], [1, 0, 1], [1, 1, 1]]  # gaps 20 and 0; nobody lives in city 2
    swapped = [[1, 0, 2], [1, 1, 0], [0, 0, 1], [0, 1, 1]]
    true, estimated = (pg.Dataset.from_codes(np.array(codes), domain) for codes in (rows, swapped))
    names = {"city": "city", "sex": "sex", "income": "pay", "values": [0.0, 10.0, 20.0]}
    same = pay_gap_deviation(true, true, **names)
    assert (same.gini, same.rank, same.cities) == (0.0, 0.0, 2)
    other = pay_gap_deviation(true, estimated, **names)
    assert (other.gini, other.rank) == (pytest.approx(0.25), 1.0)  # Gini 1/2 and 0, ranks 2 and 1, exchanged
    empty = pay_gap_deviation(true, pg.Dataset.from_codes(np.array([[2, 0, 0]]), domain), **names)
    assert (empty.gini, empty.rank) == (1.0, 1.0)


def test_k_marginal_score_follows_its_definition():
    domain = pg.Domain({"PUMA": 3, "YEAR": 2, "a": 2, "b": 3})
    true, estimated = some_data(0, 400, domain), some_data(1, 380, domain)
    drop = true.take((true.column("PUMA") != 2) | (true.column("YEAR") != 1))
    found = k_marginal_score(drop, estimated, penalty_from=15, seed=0)
    expected = np.empty((3, 2))
    for puma in range(3):
        for year in range(2):
            parts = [d.take((d.column("PUMA") == puma) & (d.column("YEAR") == year)) for d in (drop, estimated)]
            n, m = (part.records for part in parts)
            if not n or not m or abs(n - m) >= 15:
                expected[puma, year] = 2.0
                continue
            one, two = (part.project(("a", "b")).values for part in parts)
            expected[puma, year] = np.abs(one / n - two / m).sum()
    np.testing.assert_allclose(found.distances.values, expected)
    assert found.penalized >= 1
    assert found.score == pytest.approx(1000 * (1 - expected.mean() / 2))
    assert k_marginal_score(true, true, seed=0).score == pytest.approx(1000.0)


def test_groups_that_nobody_is_in_do_not_count():
    domain = pg.Domain({"PUMA": 2, "YEAR": 1, "a": 2, "b": 2})
    one = constant(domain, 0)
    found = k_marginal_score(one, one)
    assert found.score == 1000.0
    assert np.isnan(found.distances.values[1, 0])
