"""Weights of records that fit tables, as far as these agree."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.grouped_model import GroupedModel
from pgmest.mechanisms.lamp.records import ONE_WAY_TOLERANCE, raked
from pgmest.sampling import kernels

TOTAL = 3000.0


def pool(rng, domain, count=4000):
    return pg.Dataset.from_codes([rng.integers(0, size, count) for size in domain.shape], domain)


def weighted(records, weights):
    return pg.Dataset(records.domain, records.columns, records.records, weights)


def noisy_model(rng, domain, counts, tables):
    """Counts nearly without noise, and tables that cannot all be had together."""
    measured = [LinearMeasurement(values, (name,), 0.1) for name, values in counts.items()]
    measured += [LinearMeasurement(table.ravel(), pair, 20.0) for pair, table in tables.items()]
    return GroupedModel.of(Evidence.of(measured, domain, TOTAL), 8.0)


@given(st.integers(0, 10**6))
@example(312046)  # converges slowly
@settings(max_examples=20, deadline=None)
def test_one_way_marginals_are_met_where_tables_contradict_each_other(seed):
    rng = np.random.default_rng(seed)
    domain = pg.Domain({"a": 3, "b": 3, "c": 3})
    counts = {name: TOTAL * rng.dirichlet(np.full(3, 3.0)) for name in domain}
    same, other = np.eye(3), np.roll(np.eye(3), 1, axis=1)  # b follows a, c follows b, and yet c is never a's
    tables = {("a", "b"): same, ("b", "c"): same, ("a", "c"): other}
    tables = {pair: TOTAL * (0.2 * table + 0.4 / 9) + rng.normal(0, 20, (3, 3)) for pair, table in tables.items()}
    model, records = noisy_model(rng, domain, counts, tables), pool(rng, domain)
    found = weighted(records, raked(records, model, rng))
    distances = [np.abs(found.project((name,)).values - model.evidence.counts(name)).sum() for name in domain]
    assert np.mean(distances) <= ONE_WAY_TOLERANCE * TOTAL


def test_raking_stops_where_the_records_cannot_meet_the_one_way_marginals(monkeypatch):
    rng = np.random.default_rng(0)
    domain, steps, rake = pg.Domain({"a": 2, "b": 2}), [], kernels.rake
    monkeypatch.setattr(kernels, "rake", lambda *arguments: steps.append(rake(*arguments)) or steps[-1])
    model = noisy_model(rng, domain, {"a": np.array([0.7, 0.3]) * TOTAL, "b": np.array([0.5, 0.5]) * TOTAL}, {})
    column = rng.integers(0, 2, 4000)
    records = pg.Dataset.from_codes([column, column], domain)  # a is always b, which contradicts the counts
    assert raked(records, model, rng).sum() == pytest.approx(TOTAL)
    assert len(steps) < 100


def test_tables_that_agree_are_met():
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 3, "b": 4, "c": 2})
    truth = weighted(pool(rng, domain), np.full(4000, TOTAL / 4000) * rng.gamma(2.0, 0.5, 4000))
    counts = {name: truth.project((name,)).values for name in domain}
    tables = {pair: truth.project(pair).values for pair in [("a", "b"), ("b", "c"), ("a", "c")]}
    model, records = noisy_model(rng, domain, counts, tables), pool(rng, domain)
    found = weighted(records, raked(records, model, rng))
    assert found.weights.sum() == pytest.approx(TOTAL)
    for pair, table in zip(tables, model.evidence.tables, strict=True):
        assert np.abs(found.project(pair).values - table).sum() < 5e-3 * TOTAL
