"""The graphical model of a public table: its cliques, its smoothing, and that it is the likeliest."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, UnknownAttributeError
from pgmest.priors.public_model import dependent_pairs, prior_cliques, public_model, smoothed_marginals
from tests.estimation.full_table import fitted_table
from tests.priors.records import joint

DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 2, "d": 2})


def chained(records: int = 4000, seed: int = 0) -> pg.Dataset:
    """a determines b most of the time, b tells something of c, d is independent."""
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=records)
    b = np.where(rng.random(records) < 0.8, a, rng.integers(3, size=records))
    c = np.where(rng.random(records) < 0.3, b % 2, rng.integers(2, size=records))
    return pg.Dataset.from_codes([a, b, c, rng.integers(2, size=records)], DOMAIN)


def test_dependent_pairs_by_strength_and_chance_left_out():
    pairs = dependent_pairs(chained())
    assert pairs[0] == ("a", "b")
    assert pairs[1] == ("b", "c")
    assert not any("d" in pair for pair in pairs)


def test_cliques_are_the_measured_ones_and_the_strongest_pairs_that_fit():
    data = chained()
    assert set(prior_cliques(data, [("c", "d")], 1.0)) == {("c", "d"), ("a", "b"), ("b", "c"), ("a", "c")}
    small = prior_cliques(data, [("c", "d")], max_megabytes=8e-6 * 13)  # 4 + 9 cells, but not 6 more
    assert set(small) == {("c", "d"), ("a", "b")}
    least = prior_cliques(data, [("c", "d")], max_megabytes=1e-9)
    assert set(least) == {("c", "d"), ("a",), ("b",)}
    assert prior_cliques(data, [("a", "b", "c"), ("b", "a"), ("b",)], 1.0)[0] == ("a", "b", "c")


def test_it_is_the_likeliest_model_of_the_smoothed_table():
    data = chained(300)
    model = public_model(data, [("a", "d")], smoothing=2.0)
    marginals = smoothed_marginals(data, list(model.cliques), 2.0)
    expected = fitted_table(DOMAIN, model.cliques, [m.datavector() for m in marginals], np.ones(DOMAIN.size()))
    np.testing.assert_allclose(joint(model), expected, atol=0.05)
    assert model.total == 300.0
    assert model.report is not None
    assert model.report.converged


def test_smoothed_marginals_agree_with_each_other_and_are_positive():
    data = pg.Dataset.from_codes(np.zeros((5, 4), dtype=int), DOMAIN)
    one, two = smoothed_marginals(data, [("a", "b"), ("b", "c", "d")], 0.5)
    np.testing.assert_allclose(one.project("b").values, two.project("b").values)
    assert one.values.min() > 0
    assert two.values.sum() == pytest.approx(5.0)
    barely = smoothed_marginals(data, [("a", "b")], 1e-6)[0]
    assert barely.values[0, 0] == pytest.approx(5.0, abs=1e-5)


def test_private_records_that_no_public_record_resembles_stay_possible():
    public = pg.Dataset.from_codes(np.zeros((50, 4), dtype=int), DOMAIN)
    private = pg.LinearMeasurement([10.0, 80.0, 10.0], "a", 1.0)
    model = pg.estimate([private], DOMAIN, prior=public)
    np.testing.assert_allclose(model.project("a").values, [10.0, 80.0, 10.0], atol=0.1)


def test_weights_count():
    data = chained(200)
    doubled = pg.Dataset.from_codes(list(data.columns), DOMAIN, np.full(200, 2.0))
    twice = pg.Dataset.concat([data, data])
    np.testing.assert_allclose(joint(public_model(doubled)), joint(public_model(twice)), atol=1e-2)


def test_mistakes():
    data = chained(10)
    with pytest.raises(ArgumentError, match="smoothing=0"):
        public_model(data, smoothing=0)
    with pytest.raises(ArgumentError, match="max_megabytes=-1"):
        public_model(data, max_megabytes=-1)
    with pytest.raises(UnknownAttributeError):
        public_model(data, [("z",)])
    with pytest.raises(DataError, match="cannot serve as a prior"):
        public_model(pg.Dataset.from_codes([np.zeros(2, int)] * 4, DOMAIN, [0.0, 0.0]))
