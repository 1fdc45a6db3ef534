"""Local non-negativity: exact agreement, the weighted optimum by a quadratic program, and residuals as measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from pgmest.errors import QueryError, ShapeError, UnknownAttributeError
from pgmest.strategies import ResidualStrategy
from pgmest.synthesis import consistent_tables, locally_nonnegative
from pgmest.synthesis.local_nonnegativity import Residuals
from pgmest.workloads import all_kway

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 1})


@st.composite
def noisy_tables(draw):
    """Measurements of a few overlapping cliques, in any axis order, with different noise."""
    sets = [c for k in (1, 2, 3) for c in itertools.combinations(DOMAIN, k)]
    cliques = draw(st.lists(st.sampled_from(sets), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    found = []
    for clique in cliques:
        names = tuple(str(name) for name in rng.permutation(clique))
        values = rng.normal(4.0, draw(st.sampled_from([1.0, 10.0])), DOMAIN.project(names).shape)
        found.append(pg.LinearMeasurement(values, names, draw(st.sampled_from([1.0, 3.0]))))
    return found


def directions(size: int) -> np.ndarray:
    """An orthonormal basis, (size, size - 1), of what sums to zero."""
    return np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]


def optimum(measurements, tables, total):
    """The cells of the tables by SLSQP over the coordinates of all residuals."""
    residuals = Residuals.of(measurements, DOMAIN, total)
    bases, start, variances = [], [], []
    for part in residuals.parts:
        basis = np.ones((1, 1))
        for name in part:
            basis = np.kron(basis, directions(DOMAIN[name]))
        bases.append(basis)
        start.append(basis.T @ residuals.tables[part].reshape(-1))
        variances.append(np.full(basis.shape[1], residuals.variances[part] or 1e-9))
    rows = []
    for table in tables:
        clique, columns = table.domain.attributes, []
        for part, basis in zip(residuals.parts, bases, strict=True):
            if not set(part) <= set(clique):
                columns.append(np.zeros((table.values.size, basis.shape[1])))
                continue
            shape = [DOMAIN[name] if name in part else 1 for name in clique]
            share = DOMAIN.size(part) / DOMAIN.size(clique)
            spread = [np.broadcast_to(v.reshape(shape) * share, table.domain.shape).reshape(-1) for v in basis.T]
            columns.append(np.array(spread).reshape(basis.shape[1], table.values.size).T)
        rows.append(np.concatenate(columns, axis=1))
    matrix, x0, spread = np.concatenate(rows), np.concatenate(start), np.concatenate(variances)
    found = minimize(
        lambda x: 0.5 * np.sum((x - x0) ** 2 / spread),
        x0,
        jac=lambda x: (x - x0) / spread,
        constraints=[{"type": "ineq", "fun": lambda x: matrix @ x, "jac": lambda x: matrix}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return matrix @ found.x if found.success else None


@settings(max_examples=60, deadline=None)
@given(noisy_tables())
def test_without_the_ascent_it_is_weighted_least_squares(measurements):
    found = locally_nonnegative(measurements, DOMAIN, total=40.0, rounds=0)
    expected = consistent_tables(measurements, DOMAIN, total=40.0, rounds=0)
    for table in expected:
        whole = next(t for t in found.tables if set(table.domain) <= set(t.domain))
        assert np.allclose(whole.project(table.domain).values, table.values, rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(noisy_tables())
def test_tables_agree_are_not_negative_and_nearest(measurements):
    found = locally_nonnegative(measurements, DOMAIN, total=40.0, rounds=30_000, tolerance=1e-9)
    assert found.negative <= 1e-9
    for one, other in itertools.combinations(found.tables, 2):
        shared = [name for name in one.domain if name in other.domain]
        assert np.allclose(one.project(shared).values, other.project(shared).values, atol=1e-9)
    for table in found.tables:
        assert table.values.sum() == pytest.approx(40.0)
    expected = optimum(measurements, found.tables, 40.0)
    if expected is not None:
        cells = np.concatenate([table.values.reshape(-1) for table in found.tables])
        assert np.allclose(cells, expected, atol=1e-4)


def test_measured_residuals_without_noise_are_the_marginals():
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(size, size=200) for size in DOMAIN.shape], DOMAIN)
    strategy = ResidualStrategy.of(DOMAIN, all_kway(DOMAIN, 2))
    measurements = []
    for clique, query in zip(strategy.cliques, strategy.queries, strict=True):
        cells = data.project(clique).datavector()
        answers = cells if query is None else query.apply(cells)
        measurements.append(pg.LinearMeasurement(answers, clique, 1.0, query))
    found = locally_nonnegative(measurements, DOMAIN)
    for table in found.tables:
        assert np.allclose(table.values, data.project(table.domain).values, atol=1e-9)


def test_the_total_is_measured_or_given():
    noisy = [pg.LinearMeasurement([6.0, 4.0], "a"), pg.LinearMeasurement([3.0, 3.0, 3.0], "b")]
    estimated = locally_nonnegative(noisy, DOMAIN).tables
    variances = 2.0, 3.0  # of the totals of both
    expected = (10 / variances[0] + 9 / variances[1]) / (1 / variances[0] + 1 / variances[1])
    assert all(table.values.sum() == pytest.approx(expected) for table in estimated)
    assert all(t.values.sum() == pytest.approx(20.0) for t in locally_nonnegative(noisy, DOMAIN, total=20).tables)


def test_what_is_no_marginal_is_refused():
    prefix = pg.LinearMeasurement([1.0, 2.0, 3.0], ("b",), 1.0, pg.Kron({"b": pg.queries.prefix(3)}))
    with pytest.raises(QueryError, match="neither the cells nor their residual"):
        locally_nonnegative([prefix], DOMAIN)
    strategy = ResidualStrategy.of(DOMAIN, all_kway(DOMAIN, 2))
    place = strategy.cliques.index(("a", "b"))
    alone = pg.LinearMeasurement(np.zeros(6), ("a", "b"), 1.0, strategy.queries[place])
    with pytest.raises(QueryError, match="but not the one on"):
        locally_nonnegative([alone], DOMAIN, total=5)
    with pytest.raises(QueryError, match="nothing was measured"):
        locally_nonnegative([], DOMAIN)
    with pytest.raises(UnknownAttributeError):
        locally_nonnegative([pg.LinearMeasurement([1.0, 2.0], "z")], DOMAIN)
    with pytest.raises(ShapeError):
        locally_nonnegative([pg.LinearMeasurement([1.0, 2.0, 3.0], "a")], DOMAIN)
