"""ProximalPoint: tables of very unequal noise are fitted together, to within a share of each table's noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

import pgmest as pg

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 3})
CLIQUES = [("a", "b"), ("b", "c"), ("a",), ("c",)]


def measured(truth, deviations, rng):
    return [
        pg.LinearMeasurement(table + rng.normal(0, s, table.shape), clique, s)
        for clique, s in zip(CLIQUES, deviations, strict=True)
        for table in [truth.project(clique).values]
    ]


def least_loss(measurements, total):
    """Return the least loss over all joint tables with this total, by bounded least squares."""
    units = np.eye(DOMAIN.size()).reshape(-1, *DOMAIN.shape)
    rows, right = [], []
    for m in measurements:
        rows.append(np.stack([m.answer(pg.Factor(DOMAIN, unit)) for unit in units], axis=1) / m.stddev)
        right.append(m.values / m.stddev)
    firm = 1e3 * max(1.0 / m.stddev for m in measurements)
    matrix = np.vstack([*rows, firm * np.ones((1, DOMAIN.size()))])
    found = lsq_linear(matrix, np.concatenate([*right, [firm * total]]), (0, np.inf), tol=1e-14, lsq_solver="exact")
    return float(found.cost)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([1e-4, 1e-3, 1e-2, 1.0, 30.0, 1e3, 1e6]), min_size=4, max_size=4),
    st.sampled_from([2.0, 50.0, 5000.0]),
)
def test_the_loss_is_that_of_bounded_least_squares(seed, deviations, mean):
    rng = np.random.default_rng(seed)
    truth = pg.Factor(DOMAIN, rng.poisson(mean, DOMAIN.shape).astype(float))
    answers = measured(truth, deviations, rng)
    model = pg.estimate(answers, DOMAIN, total=max(float(truth.values.sum()), 1.0), method="proximal_point")
    floor = 0.5 * sum(m.rows for m in answers)
    best = least_loss(answers, model.total)
    near_rounding = min(deviations) < 1e-6 * model.total  # there steps end early, and the report says at which gap
    assert model.report.loss <= best + (1.0 if near_rounding else 0.01) * max(floor, best)
    assert model.report.loss - model.report.gap <= best + 1e-3 * max(floor, best)


@pytest.mark.parametrize("deviations", [[1e-4, 1e6, 1.0, 1e3], [1.0, 1000.0, 1000.0, 1.0]])
def test_auto_fits_each_table_to_its_noise_in_few_sweeps(deviations):
    rng = np.random.default_rng(0)
    truth = pg.Factor(DOMAIN, rng.poisson(500, DOMAIN.shape).astype(float))
    answers = measured(truth, deviations, rng)
    model = pg.estimate(answers, DOMAIN)
    assert model.report.method == "proximal_point"
    assert model.report.oracle_calls < 5000
    for m in answers:
        off = m.answer(model.project(m.clique)) - m.values
        assert np.sqrt(np.mean(np.square(off / m.stddev))) < 3


def test_unequal_noise_beside_facts():
    rng = np.random.default_rng(1)
    truth = pg.Factor(DOMAIN, rng.poisson(500, DOMAIN.shape).astype(float))
    fact = pg.LinearMeasurement.exact(truth.project("b").values, "b")
    model = pg.estimate([*measured(truth, [1e-2, 1e4, 1.0, 1e3], rng), fact], DOMAIN)
    assert np.abs(model.project("b").values - fact.values).max() <= 1e-9 * model.total


def test_queries_need_another_method():
    total = pg.LinearMeasurement([10.0], "a", 1.0, query=np.ones((1, 3)))
    with pytest.raises(pg.errors.ArgumentError, match="method='auto'"):
        pg.estimate([total], DOMAIN, method="proximal_point")
    assert pg.estimate([total, pg.LinearMeasurement([5.0, 3.0, 2.0], "a", 1e-4)], DOMAIN).total == pytest.approx(10)
