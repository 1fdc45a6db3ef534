"""mbi's types to ours and back, and our estimation with mbi's arguments."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.errors import ArgumentError, QueryError

mbi = pytest.importorskip("mbi")

from pgmest.adapters import mbi as adapter  # noqa: E402

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})


def theirs(stddev: float = 2.0) -> list:
    """Noisy marginals of 60 records, as mbi has them."""
    rng = np.random.default_rng(0)
    tables = {("a", "b"): [12, 8, 10, 5, 15, 10], ("b", "c"): [9, 8, 13, 10, 11, 9]}
    return [
        mbi.LinearMeasurement(np.array(cells) + rng.normal(0, stddev, 6), clique, stddev)
        for clique, cells in tables.items()
    ]


def their_domain():
    return adapter.to_mbi_domain(DOMAIN)


def test_domains_there_and_back():
    assert their_domain() == mbi.Domain(["a", "b", "c"], [2, 3, 2])
    assert adapter.from_mbi_domain(their_domain()) == DOMAIN


@pytest.mark.parametrize(
    ("query", "matrix"),
    [
        (mbi.WeightedQuery(np.array([1.0, 0.5, 2.0])), np.diag([1, 0.5, 2])),
        (mbi.SlicedQuery(1), np.eye(3)[1:]),
        (lambda factor: factor.datavector().cumsum(), np.tril(np.ones((3, 3)))),
    ],
)
def test_queries_become_matrices(query, matrix):
    measurement = mbi.LinearMeasurement(np.arange(len(matrix)), ("b",), 3.0, query)
    ours = adapter.from_mbi_measurement(measurement, DOMAIN)
    assert ours.query is not None
    np.testing.assert_allclose(np.asarray(ours.query.matrix()), matrix)
    assert ours.values.tolist() == list(range(len(matrix)))
    assert ours.stddev == 3.0


def test_plain_marginals_stay_plain():
    measurement = adapter.from_mbi_measurement(theirs()[0], their_domain())
    assert measurement.query is None
    assert measurement.clique == ("a", "b")
    legacy = mbi.LinearMeasurement(np.zeros(3), ("b",), 1.0, mbi.Factor.datavector)
    assert adapter.from_mbi_measurement(legacy, DOMAIN).query is None


def test_a_query_that_is_not_linear_is_refused():
    squared = mbi.LinearMeasurement(np.zeros(3), ("b",), 1.0, lambda factor: factor.datavector() ** 2)
    with pytest.raises(QueryError, match=r"the query measured on \('b',\) is not linear"):
        adapter.from_mbi_measurement(squared, DOMAIN)


@pytest.mark.parametrize(
    "measurement",
    [
        pg.LinearMeasurement([1.0, 2, 3], "b", 2.0),
        pg.LinearMeasurement([1.0, 2, 3], "b", [1.0, 2.0, 4.0]),
        pg.LinearMeasurement([1.0, 2, 3], "b", 2.0, pg.queries.prefix(3)),
        pg.LinearMeasurement(np.arange(6.0), ("a", "b"), 2.0, pg.Kron({"b": pg.queries.prefix(3), "a": np.eye(2)})),
    ],
)
def test_the_same_loss_on_both_sides(measurement):
    cells = np.random.default_rng(1).uniform(0, 9, DOMAIN.project(measurement.clique).shape)
    converted = adapter.to_mbi_measurement(measurement, DOMAIN)
    factor = mbi.Factor(their_domain().project(measurement.clique), cells)
    residual = (np.asarray(converted.query(factor)) - converted.noisy_measurement) / converted.stddev
    expected = (measurement.answer_cells(cells.reshape(-1)) - measurement.values) / measurement.stddev
    np.testing.assert_allclose(np.sum(residual**2), np.sum(expected**2), rtol=1e-5)


def test_models_there_and_back():
    model = pg.Model(pg.CliqueVector.random(DOMAIN, [("a", "b"), ("c", "b")], seed=0), total=60)
    converted = adapter.to_mbi(model)
    assert isinstance(converted, mbi.MarkovRandomField)
    for clique in [("a", "b"), ("a", "c"), ("c",)]:
        np.testing.assert_allclose(converted.project(clique).values, model.project(clique).values, rtol=1e-4)
        np.testing.assert_allclose(adapter.from_mbi(converted).project(clique).values, model.project(clique).values)
    assert len(converted.synthetic_data(20).to_dict()["a"]) == 20


def test_estimation_is_ours_and_at_least_as_good():
    fitted = adapter.mirror_descent(their_domain(), theirs())
    ours = pg.estimate([adapter.from_mbi_measurement(m, DOMAIN) for m in theirs()], DOMAIN)
    np.testing.assert_allclose(fitted.project(("a", "c")).values, ours.project(("a", "c")).values, rtol=1e-5)
    peer = mbi.estimation.MirrorDescent().estimate(their_domain(), theirs(), known_total=float(fitted.total), iters=200)
    loss = mbi.marginal_loss.from_linear_measurements(theirs(), their_domain())
    assert float(loss(fitted.marginals)) <= float(loss(peer.marginals)) * 1.001


def test_losses_made_by_mbi_are_understood():
    for norm in ("l2", "l1"):
        loss = mbi.marginal_loss.from_linear_measurements(theirs(), their_domain(), norm=norm)
        fitted = adapter.estimate(their_domain(), loss, known_total=60.0)
        ours = pg.estimate([adapter.from_mbi_measurement(m, DOMAIN) for m in theirs()], DOMAIN, total=60, loss=norm)
        np.testing.assert_allclose(fitted.project("b").values, ours.project("b").values, rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"it must be a list of mbi\.LinearMeasurement"):
        adapter.estimate(their_domain(), mbi.MarginalLossFn([("a",)], lambda mu, data: 0.0))


def test_warm_start_and_estimator_object():
    first = adapter.estimate(their_domain(), theirs()[:1])
    estimator = adapter.Estimator(method="mirror_descent")
    for start in (first, first.potentials):
        again = estimator.estimate(their_domain(), theirs(), warm_start=start, iters=3000, patience=2)
        plain = adapter.estimate(their_domain(), theirs())
        np.testing.assert_allclose(again.project("b").values, plain.project("b").values, atol=0.1)


@pytest.mark.parametrize(
    "constraint",
    [
        {"attributes": ("a", "c"), "invalid": np.array([[0, 1], [1, 0]])},
        {"attributes": ("a", "c"), "valid": np.array([[0, 0], [1, 1]])},
        {"attributes": ("a", "c"), "mapping": np.array([0, 1])},
    ],
)
def test_constraints_are_structural_zeros(constraint):
    table = their_domain().project(constraint.pop("attributes"))
    fitted = adapter.estimate(their_domain(), theirs(), constraints=[mbi.Constraint(table, **constraint)])
    counts = np.asarray(fitted.project(("a", "c")).values)
    assert np.isfinite(counts).all()
    assert counts[0, 1] + counts[1, 0] == pytest.approx(0, abs=1e-6)
    assert counts.sum() == pytest.approx(float(fitted.total), rel=1e-4)
