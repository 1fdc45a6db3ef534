"""Every kind of distribution answers the same questions, compared with one joint table."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, QueryError
from pgmest.models.distribution import Distribution
from pgmest.priors import Support, SupportModel

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
RECORDS = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, [3, 2, 2], (60, 3)), DOMAIN)
JOINT = RECORDS.project(("a", "b", "c"))
EXACT = [pg.LinearMeasurement(JOINT.values, ("a", "b", "c"), 1.0)]


@pytest.fixture(
    params=[
        pg.estimate(EXACT, DOMAIN, total=60.0, tolerance=1e-12, method="ipf"),
        pg.estimate(EXACT, DOMAIN, total=60.0, oracle="convex", tolerance=1e-9),
        SupportModel(Support(RECORDS), pg.CliqueVector.zeros(DOMAIN, [("a", "b", "c")]), 60.0),
    ],
    ids=lambda model: type(model).__name__,
)
def model(request) -> Distribution:
    return request.param


def test_marginals_and_conditionals(model):
    for clique in [("a",), ("c", "b"), ()]:
        np.testing.assert_allclose(model.project(clique).values, JOINT.project(clique).values, atol=1e-3)
    for found, clique in zip(model.project_many(["a", ("b", "c")]), ["a", ("b", "c")], strict=True):
        np.testing.assert_allclose(found.values, JOINT.project(clique).values, atol=1e-3)
    joint = JOINT.project(("b", "a")).values
    np.testing.assert_allclose(model.conditional("b", "a").values, joint / joint.sum(axis=0), atol=1e-4)
    p = joint / 60.0
    independent = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    assert model.mutual_information("a", "b") == pytest.approx(np.sum(p * np.log(p / independent)), abs=1e-4)


def test_answers(model):
    prefix = pg.queries.prefix(3)
    counts = JOINT.project(("a", "b")).values
    kron = pg.Kron({"a": prefix, "b": [[1, -1]]})
    expected = np.cumsum(counts, axis=0) @ [[1], [-1]]
    np.testing.assert_allclose(model.answer(kron).values, expected, atol=1e-2)
    first, second = model.answer([kron, pg.Kron({"c": pg.queries.identity(2)})])
    np.testing.assert_allclose(first.values, expected, atol=1e-2)
    np.testing.assert_allclose(second.values, JOINT.project("c").values, atol=1e-2)
    np.testing.assert_allclose(model.answer(prefix, "a").values, np.cumsum(counts.sum(axis=1)), atol=1e-2)
    measured = pg.LinearMeasurement(np.zeros(3), "a", 1.0, prefix)
    np.testing.assert_allclose(model.answer(measured, given={"b": 1}).values, np.cumsum(counts[:, 1]), atol=1e-2)
    assert model.answer([]) == []
    for wrong in (lambda: model.answer(prefix), lambda: model.answer(kron, "a"), lambda: model.answer(measured, "a")):
        with pytest.raises(QueryError, match="cannot be answered"):
            wrong()
    with pytest.raises(QueryError, match="'b' is in both the query and the evidence"):
        model.answer(kron, given={"b": 0})


def test_records(model):
    assert model.sample(seed=0).records == 60
    assert [batch.records for batch in model.sample_batches(25, 10, seed=1)] == [10, 10, 5]
    assert list(model.sample_batches(0)) == []
    for wrong in (lambda: model.sample(-1), lambda: model.sample_batches(True)):
        with pytest.raises(ArgumentError, match="n="):
            wrong()
    with pytest.raises(ArgumentError, match="batch=0"):
        model.sample_batches(5, 0)


def test_text_and_total(model):
    assert repr(model).startswith(f"{type(model).__name__}: 60.0 records, 3 attributes, 1 measured clique\n  ")
    with pytest.raises(ArgumentError, match="total=-1"):
        SupportModel(Support(RECORDS), pg.CliqueVector.zeros(DOMAIN, []), -1)
