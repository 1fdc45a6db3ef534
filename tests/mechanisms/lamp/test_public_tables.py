"""LAMP with a public table: what it takes of it, and what it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, DomainError
from pgmest.evaluation import workload_error
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.one_way import OneWayEstimate
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.models.errors.mixture import shrinkage_risk, shrunk

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"])
PUBLIC, PRIVATE = CENSUS.take(slice(0, 5000)), CENSUS.take(slice(5000, 25_000))
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)


def reversed_codes(data):
    columns = [size - 1 - np.asarray(c) for c, size in zip(data.columns, data.domain.shape, strict=True)]
    return pg.Dataset.from_codes([columns[0], *map(np.asarray, data.columns[1:3]), *columns[3:]], data.domain)


def shuffled(data):
    rng = np.random.default_rng(0)
    return pg.Dataset.from_codes([rng.permutation(np.asarray(column)) for column in data.columns], data.domain)


def error(prior, seed=0, **budget):
    budget = budget or {"rho": 1e-4}
    result = LAMP(**budget, prior=prior, backend="simulation", records=5000).fit(PRIVATE, seed=seed, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    return workload_error(PRIVATE, result, PAIRS, norm="tv", per="record"), result


def mean_error(prior, **budget):
    return np.mean([error(prior, seed, **budget)[0] for seed in range(8)])


def test_a_table_of_the_same_kind_helps_most_where_there_is_little_budget_and_a_biased_one_does_no_harm():
    helped = []
    for rho, spoils in ((1e-5, [reversed_codes]), (1e-3, [reversed_codes, shuffled])):
        alone = mean_error(None, rho=rho)
        helped.append(mean_error(PUBLIC, rho=rho) / alone)
        for spoil in spoils:
            assert mean_error(spoil(PUBLIC), rho=rho) < 1.05 * alone
    little, more = helped
    assert little < 0.7
    assert little < more < 1


def test_pairs_that_the_public_table_has_right_are_believed_and_others_not():
    _, result = error(PUBLIC, rho=1e-3)
    assert ("sex", "relationship") in result.details["public_pairs"]
    assert "public table gives the dependence of" in result.details["report"]
    _, spoiled = error(reversed_codes(PUBLIC), rho=1e-2)
    assert ("age", "relationship") not in spoiled.details["public_pairs"]
    assert error(None)[1].details["public_pairs"] == ()


def test_a_model_and_log_potentials_of_the_public_table_will_do():
    model = pg.priors.public_model(PUBLIC, [("sex", "relationship"), ("age",), ("race",), ("income>50K",)])
    for prior in (model, pg.priors.Support(PUBLIC), PUBLIC):
        tables = PublicTables.of(prior, CENSUS.domain)
        assert tables is not None
        assert tables.one_way("sex", 100.0) == pytest.approx(
            PUBLIC.project("sex").values * 100 / PUBLIC.records, rel=0.02
        )
    tables = PublicTables.of(model.potentials, CENSUS.domain)
    assert tables is not None
    rows, columns = np.full(2, 50.0), np.full(6, 100 / 6)
    assert tables.pair(("sex", "relationship"), rows, columns).sum(axis=1) == pytest.approx(rows, rel=1e-3)


def test_what_cannot_be_used_costs_nothing():
    with pytest.raises(ArgumentError, match="prior"):
        LAMP(rho=1.0, prior="adult")
    charges = []
    with pytest.raises(DomainError, match="select"):
        LAMP(rho=1.0, prior=PUBLIC.select(["age", "sex"]), backend="simulation").fit(PRIVATE, progress=charges.append)
    with pytest.raises(DataError):
        LAMP(rho=1.0, prior=PUBLIC.take(slice(0, 0)), backend="simulation").fit(PRIVATE, progress=charges.append)
    assert charges == []


@given(st.floats(5.0, 20.0), st.integers(0, 100))
def test_the_dependence_of_a_public_table_is_kept_while_its_marginals_change(strength, seed):
    rng = np.random.default_rng(seed)
    public = rng.gamma(strength, size=(3, 4))
    data = pg.Factor(pg.Domain({"a": 3, "b": 4}), public)
    tables = PublicTables(_Source(data), data.domain)
    rows, columns = rng.gamma(5.0, size=3) * 100, rng.gamma(5.0, size=4) * 100
    columns *= rows.sum() / columns.sum()
    found = tables.pair(("a", "b"), rows, columns)
    assert found.sum(axis=1) == pytest.approx(rows, rel=1e-3)
    odds = [t[0, 0] * t[1, 1] / (t[0, 1] * t[1, 0]) for t in (found, public)]
    assert odds[0] == pytest.approx(odds[1], rel=0.1)


class _Source:
    def __init__(self, factor):
        self.factor = factor

    def project_many(self, cliques):
        return [self.factor.project(clique) for clique in cliques]


def test_the_risk_is_what_repeated_noise_shows():
    rng = np.random.default_rng(0)
    truth, expected = np.linspace(50, 150, 40), np.full(40, 100.0)
    for sigma in (5.0, 30.0, 200.0):
        found = []
        for _ in range(150):
            values = truth + rng.normal(0, sigma, 40)
            off = np.square(shrunk(values, expected, sigma) - truth).sum()
            found.append((shrinkage_risk(values, expected, sigma), off))
        risk, off = np.mean(found, axis=0)
        assert risk == pytest.approx(off, rel=0.2, abs=0.1 * 40 * sigma**2)


def test_public_counts_are_taken_where_they_are_right():
    rng = np.random.default_rng(0)
    truth = np.exp(rng.normal(5, 1.5, 30))
    right, wrong = truth * rng.uniform(0.95, 1.05, 30), truth[::-1].copy()
    right *= truth.sum() / right.sum()
    taken, off = np.zeros(2), np.zeros(3)
    for _ in range(20):
        values = truth + rng.normal(0, 100, 30)
        alone = OneWayEstimate.of(values, 100.0, truth.sum())
        publicly = [OneWayEstimate.publicly(values, 100.0, truth.sum(), public) for public in (right, wrong)]
        better = [min(alone, found, key=lambda estimate: estimate.risk) for found in publicly]
        taken += [found is not alone for found in better]
        off += [np.abs(found.counts - truth).sum() for found in (*better, alone)]
    assert taken[0] >= 15
    assert taken[1] <= 5
    assert off[0] < 0.5 * off[2]
    assert off[1] < 1.03 * off[2]


def test_a_pair_measured_coarsely_has_the_public_table_inside_its_groups():
    public = np.array([[40.0, 10, 10, 40], [10, 40, 40, 10]])
    domain = pg.Domain({"a": 2, "b": 4})
    tables = PublicTables(_Source(pg.Factor(domain, public)), domain)
    query = pg.Kron({"a": pg.queries.identity(2), "b": pg.queries.compress(4, [0, 0, 1, 1])})
    answers = [
        LinearMeasurement([100.0, 100.0], ("a",), 0.1),
        LinearMeasurement([50.0, 50.0, 50.0, 50.0], ("b",), 0.1),
        LinearMeasurement([50.0, 50.0, 50.0, 50.0], ("a", "b"), 1.0, query),
    ]
    with_public = Evidence.of(answers, domain, 200.0, tables, [("a", "b")])
    found = with_public.table(0, (np.arange(2), np.arange(4)))
    assert found == pytest.approx(public, abs=2)
    unmeasured = Evidence.of(answers[:2], domain, 200.0, tables, [("a", "b")])
    assert unmeasured.answer_about(("a", "b")) is None
    assert unmeasured.table(0, (np.arange(2), np.arange(4))) == pytest.approx(public, abs=2)
