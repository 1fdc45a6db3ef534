"""SupportModel: every answer against the table of its records."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import (
    ArgumentError,
    CodeRangeError,
    DomainError,
    FileFormatError,
    ImpossibleModelError,
    QueryError,
    UnknownAttributeError,
)
from pgmest.models.support import sampled_rows
from pgmest.priors import Support, SupportModel
from tests.inference.support.test_support import DOMAIN, brute_force, random_support
from tests.priors.records import joint


@pytest.fixture
def model() -> SupportModel:
    support = random_support()
    return SupportModel(support, pg.CliqueVector.random(DOMAIN, [("a", "b"), ("c",)], seed=5), total=250.0)


def test_the_weights_are_the_tilted_prior(model):
    _, p, _, _ = brute_force(model.support, model.potentials.layout, model.potentials.flat)
    np.testing.assert_allclose(model.weights, 250.0 * p)
    assert model.weights.sum() == pytest.approx(model.total)
    assert model.effective_size == pytest.approx(1.0 / np.sum(p**2))


@pytest.mark.parametrize("attributes", ["a", ("c", "a"), ("b", "c", "a"), ()])
def test_project(model, attributes):
    expected = pg.Factor(DOMAIN, joint(model.records).reshape(DOMAIN.shape)).project(attributes)
    np.testing.assert_allclose(model.project(attributes).values, expected.values)


def test_project_given_evidence(model):
    table = joint(model).reshape(DOMAIN.shape)
    np.testing.assert_allclose(model.project(("c", "a"), {"b": 1}).values, table[:, 1, :].T)
    with pytest.raises(CodeRangeError):
        model.project("a", {"b": 2})
    with pytest.raises(QueryError):
        model.project("a", {"a": 0})
    with pytest.raises(UnknownAttributeError):
        model.project("z")


def test_marginals_and_project_many(model):
    assert model.cliques == (("a", "b"), ("c",))
    np.testing.assert_allclose(model.marginals[("a", "b")].values, model.project(("a", "b")).values)
    pair, one = model.project_many([("c", "b"), "a"])
    np.testing.assert_allclose(pair.values, model.project(("c", "b")).values)
    np.testing.assert_allclose(one.values, model.project("a").values)


def test_answers_are_those_of_the_table(model):
    kron = pg.Kron({"c": pg.queries.prefix(4), "a": pg.queries.total(3)})
    expected = kron.apply(pg.Factor(DOMAIN, joint(model).reshape(DOMAIN.shape)))
    np.testing.assert_allclose(model.answer(kron).values, expected)
    np.testing.assert_allclose(model.answer([kron, kron])[1].values, expected)
    given_b = kron.apply(model.project(("c", "a"), {"b": 0}).values)
    np.testing.assert_allclose(model.answer(kron, given={"b": 0}).values, given_b)
    np.testing.assert_allclose(model.answer(pg.queries.prefix(4), "c").values, np.cumsum(model.project("c").values))
    measured = pg.LinearMeasurement(np.zeros(3), "a", 1.0)
    np.testing.assert_allclose(model.answer(measured).values, model.project("a").values)


def test_a_query_about_more_cells_than_any_table_may_have():
    domain = pg.Domain(dict.fromkeys("abcdefgh", 100))
    rng = np.random.default_rng(0)
    support = Support(pg.Dataset.from_codes(rng.integers(100, size=(5000, 8)), domain))
    model = SupportModel(support, pg.CliqueVector.random(domain, [("a", "b")], seed=1), total=10.0)
    matrices = {name: rng.normal(size=(2 if name in "ab" else 1, 100)) for name in domain}
    columns = [matrices[name][:, support.records.column(name)] for name in domain]
    expected = np.einsum("i,ai,bi,ci,di,ei,fi,gi,hi->abcdefgh", model.weights, *columns)
    np.testing.assert_allclose(model.answer(pg.Kron(matrices)).values, expected)


def test_probabilities_entropy_and_divergence(model):
    p = joint(model) / 250.0
    records = pg.Dataset.from_codes(np.indices(DOMAIN.shape).reshape(3, -1).T, DOMAIN)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.log_prob(records), np.log(p))
    positive = p > 0
    assert model.entropy() == pytest.approx(-np.sum(p[positive] * np.log(p[positive])))
    prior = joint(model.support.records) / model.support.total
    expected = np.sum(p[positive] * np.log(p[positive] / prior[positive]))
    assert model.kl(model.support) == pytest.approx(expected)
    assert model.kl(Support(model.support.records)) == pytest.approx(expected)
    assert model.kl(model) == pytest.approx(0.0, abs=1e-12)
    uniform = pg.Model(pg.CliqueVector.zeros(DOMAIN, [("a",)]), 1.0)
    assert model.kl(uniform) == pytest.approx(np.log(DOMAIN.size()) - model.entropy())
    smaller = Support(model.support.records.take(slice(0, 3)))
    assert model.kl(smaller) == np.inf
    with pytest.raises(DomainError):
        model.log_prob(records.select(("a", "b")))


def test_dependence_within_the_table(model):
    table = model.project(("a", "c")).values / 250.0
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    positive = table > 0
    expected = np.sum(table[positive] * np.log(table[positive] / independent[positive]))
    assert model.mutual_information("a", "c") == pytest.approx(expected)
    np.testing.assert_allclose(model.conditional("a", "c").values.sum(axis=0), 1.0)


def test_conditioning_keeps_the_records_with_these_codes(model):
    given = model.condition({"a": 1})
    assert given.total == pytest.approx(float(model.project((), {"a": 1})))
    for clique in [("b", "c"), ("c",), ()]:
        np.testing.assert_allclose(given.project(clique).values, model.project(clique, {"a": 1}).values)
    assert list(given.domain) == ["b", "c"]
    record = model.map_record()
    alone = model.condition(record)
    assert (len(alone.domain), alone.total) == (0, pytest.approx(model.weights.max()))
    excluded = SupportModel(model.support, pg.CliqueVector(DOMAIN, {("a",): [0.0, -np.inf, 0.0]}), 5.0)
    with pytest.raises(ImpossibleModelError, match="a=1 has probability 0"):
        excluded.condition({"a": 1})


def test_the_most_probable_record(model):
    record = model.map_record()
    assert model.project(tuple(DOMAIN)).values[tuple(record.values())] == model.project(tuple(DOMAIN)).values.max()
    assert list(record) == list(DOMAIN)


def test_duplicates_without_attributes_are_merged(model):
    nothing = pg.Dataset(pg.Domain({}), (), 3, np.array([1.0, 2.0, 4.0]))
    assert Support(nothing).weights.tolist() == [7.0]


# -- records and files -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(0, 300))
@settings(max_examples=40, deadline=None)
def test_rounded_samples_hold_each_record_its_expected_number_of_times(seed, n):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(20, 0.3))
    rows = sampled_rows(p, n, "round", rng)
    counts = np.bincount(rows, minlength=20)
    assert counts.sum() == n
    assert np.all(np.abs(counts - n * p) < 1.0 + 1e-9)
    assert np.all(np.abs(np.cumsum(counts) - n * np.cumsum(p)) < 1.0 + 1e-9)


@pytest.mark.parametrize("method", ["round", "multinomial"])
def test_samples_are_unbiased(method):
    p, rng = np.array([0.5, 0.0, 0.13, 0.37]), np.random.default_rng(0)
    draws = np.array([np.bincount(sampled_rows(p, 7, method, rng), minlength=4) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), 7 * p, atol=0.1)
    assert draws[:, 1].sum() == 0


def test_samples(model):
    records = model.sample(seed=0)
    assert records.records == 250
    assert records.weights is None
    assert np.abs(joint(records) - joint(model)).max() < 1.0
    assert model.sample(seed=0) == records
    assert model.sample(7, seed=0).records == 7
    batches = list(model.sample_batches(25, batch=10, seed=1))
    assert [batch.records for batch in batches] == [10, 10, 5]
    assert pg.Dataset.concat(batches) == model.sample(25, seed=1)
    with pytest.raises(ArgumentError, match="method='best'"):
        model.sample(method="best")
    with pytest.raises(ArgumentError, match="n=-1"):
        model.sample(-1)


def test_files_give_back_the_same_model(model, tmp_path):
    estimated = pg.estimate([pg.LinearMeasurement([60.0, 20.0, 20.0], "a", 1.0)], DOMAIN, prior=model.support)
    for saved in (model, estimated):
        saved.save(tmp_path / "model.npz")
        loaded = pg.load(tmp_path / "model.npz")
        assert isinstance(loaded, SupportModel)
        np.testing.assert_array_equal(loaded.weights, saved.weights)
        assert loaded.records == saved.records
        timeless = saved.report and dataclasses.replace(saved.report, seconds=None)  # files hold no times
        assert loaded.report == timeless
        assert (loaded.total, loaded.total_stddev) == (saved.total, saved.total_stddev)


def test_a_damaged_file_is_named(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    with np.load(path) as members:
        arrays = dict(members)
    np.savez(path, **{**arrays, "codes": arrays["codes"][:-1]})
    with pytest.raises(FileFormatError, match="its codes have not one row for each attribute"):
        pg.load(path)
    np.savez(path, **{**arrays, "codes": arrays["codes"] + np.uint8(200)})
    with pytest.raises(FileFormatError, match="not a code"):
        pg.load(path)


def test_pickling(model):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.weights, model.weights)


def test_its_text(model):
    text = repr(model)
    assert text.startswith("SupportModel: 250.0 records, 3 attributes, 2 measured cliques\n  support ")
    estimated = pg.estimate([pg.LinearMeasurement([60.0, 20.0, 20.0], "a", 1.0)], DOMAIN, prior=model.support)
    assert "(standard error" in repr(estimated)
    assert "estimate     converged: accelerated" in repr(estimated)


def test_mistakes(model):
    with pytest.raises(ArgumentError, match="another domain"):
        SupportModel(model.support, pg.CliqueVector.zeros(pg.Domain({"z": 2}), [("z",)]), 1.0)
    with pytest.raises(ArgumentError, match="total=-1"):
        SupportModel(model.support, model.potentials, -1)
    nothing = pg.CliqueVector(DOMAIN, {("a",): np.full(3, -np.inf)})
    with pytest.raises(ImpossibleModelError):
        SupportModel(model.support, nothing, 1.0).project("a")
