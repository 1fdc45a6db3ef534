"""Losses with kinks: the optimum of the linear program, certificates, and the losses that cannot be rounded off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.losses import FunctionLoss, L1Loss, NegativeLogLikelihood
from pgmest.solvers.problem import Problem
from pgmest.solvers.smoothing import AcceleratedSmoothing
from tests.estimation.full_table import least_absolute_optimum, marginal_matrix, stacked
from tests.estimation.test_estimate import noisy, problems

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})


@given(problems())
@settings(max_examples=60, deadline=None)
def test_l1_reaches_the_optimum_of_the_linear_program(problem):
    domain, measurements = problem
    best = least_absolute_optimum(domain, measurements, 100.0)
    report = pg.estimate(measurements, domain, total=100.0, loss="l1", tolerance=1e-7, max_iterations=20000).report
    assert report.method == "smoothing"
    assert report.loss == pytest.approx(best, rel=1e-6, abs=1e-8)
    assert report.gap >= report.loss - best - 1e-9 * max(1.0, best)


def structured(rng):
    """Prefixes, Haar wavelets and a dense matrix; duplicates, nested cliques, the total; very unequal noise."""
    table = rng.dirichlet(np.full(DOMAIN.size(), 0.5)) * 100
    kinds = [
        (("a",), pg.queries.prefix(3)),
        (("b", "a"), pg.Kron({"a": pg.queries.haar(3), "b": pg.queries.identity(2)})),
        (("b", "c"), rng.normal(size=(5, 4))),
        (("c", "b"), None),
        (("c", "b"), None),
        (("c",), None),
        ((), None),
    ]
    made = []
    for clique, query in kinds:
        rows = DOMAIN.size(clique) if query is None else len(query) if isinstance(query, np.ndarray) else query.rows
        stddev = 10.0 ** rng.uniform(-1, 2, rows)
        exact = pg.LinearMeasurement(np.zeros(rows), clique, stddev, query)
        answers = exact.answer_cells(marginal_matrix(DOMAIN, clique) @ table)
        made.append(pg.LinearMeasurement(answers + rng.normal(0, stddev), clique, stddev, query))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_l1_of_any_queries_and_unequal_noise(seed):
    measurements = structured(np.random.default_rng(seed))
    best = least_absolute_optimum(DOMAIN, measurements, 100.0)
    report = pg.estimate(measurements, DOMAIN, total=100.0, loss="l1", tolerance=1e-7, max_iterations=20000).report
    assert report.converged
    assert report.loss == pytest.approx(best, rel=1e-6)


@given(problems(), st.sampled_from(["smoothing", "universal"]))
@settings(max_examples=40, deadline=None)
def test_the_gap_bounds_the_distance_from_the_optimum(problem, method):
    domain, measurements = problem
    best = least_absolute_optimum(domain, measurements, 100.0)
    for iterations in (0, 3, 30, 200):
        report = pg.estimate(
            measurements, domain, total=100.0, loss="l1", method=method, tolerance=0, max_iterations=iterations
        ).report
        assert report.gap >= report.loss - best - 1e-6 * max(1.0, best)


@pytest.mark.parametrize("seed", range(3))
def test_it_stays_at_the_optimum_however_long_it_runs(seed):
    measurements = noisy(DOMAIN, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(seed), 5.0)
    best = least_absolute_optimum(DOMAIN, measurements, 100.0)
    problem, solver = Problem.of(L1Loss(measurements, DOMAIN), 100.0), AcceleratedSmoothing()
    state, losses = solver.start(problem, problem.base.copy()), []
    for _ in range(4000):  # estimate would stop when the gap is zero
        state = solver.step(problem, state)
        losses.append(problem.loss_and_gradient(state.p)[0])
    np.testing.assert_allclose(losses[1500:], best, rtol=1e-9)


def test_gaussian_and_laplace_noise_together():
    rng = np.random.default_rng(2)
    measurements = [
        *noisy(DOMAIN, [("a", "b")], rng, 3.0),
        *(pg.LinearMeasurement(m.values, m.clique, m.stddev, noise="laplace") for m in noisy(
            DOMAIN, [("b", "c"), ("a", "c")], rng, 6.0)),
    ]  # fmt: skip
    loss = NegativeLogLikelihood(measurements, DOMAIN)
    report = pg.estimate(measurements, DOMAIN, total=100.0, loss=loss, tolerance=1e-7, max_iterations=20000).report
    assert report.method == "smoothing"
    assert report.converged
    assert report.loss == pytest.approx(mixed_optimum(measurements, loss), rel=1e-5)


def mixed_optimum(measurements, loss):
    """min over joint tables by SLSQP, with a bound on each absolute residual as a further variable."""
    matrix, values, stddev = stacked(DOMAIN, measurements)
    n, squared = DOMAIN.size(), np.arange(len(values)) < 6
    b = stddev[~squared] / np.sqrt(2)

    def residuals(x):
        return (matrix @ x[:n] - values) / stddev

    start = np.full(n, 100 / n)
    excess = np.abs(matrix @ start - values)[~squared] / b
    result = minimize(
        lambda x: 0.5 * np.sum(residuals(x)[squared] ** 2) + x[n:].sum(),
        np.concatenate([start, excess]),
        bounds=[(0, None)] * (n + len(b)),
        constraints=[
            {"type": "eq", "fun": lambda x: x[:n].sum() - 100},
            {"type": "ineq", "fun": lambda x: x[n:] - np.sqrt(2) * residuals(x)[~squared]},
            {"type": "ineq", "fun": lambda x: x[n:] + np.sqrt(2) * residuals(x)[~squared]},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    marginals = np.concatenate([marginal_matrix(DOMAIN, clique) @ result.x[:n] for clique in loss.cliques])
    return loss.flat_value_and_gradient(marginals)[0]


def test_structural_zeros_and_a_prior_hold_for_l1_too():
    measurements = noisy(DOMAIN, [("a", "b"), ("b", "c")], np.random.default_rng(9), 2.0)
    prior = pg.CliqueVector.random(DOMAIN, [("a", "c")], seed=1)
    for method in ("smoothing", "universal"):
        model = pg.estimate(
            measurements, DOMAIN, total=100.0, loss="l1", method=method, prior=prior,
            structural_zeros={("a", "b"): [(0, 1)]}, max_iterations=20000,
        )  # fmt: skip
        assert model.report.converged
        assert model.project(("a", "b")).values[0, 1] == 0.0


def test_a_function_with_kinks_is_certified_by_the_universal_method():
    measurements = noisy(DOMAIN, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(5), 5.0)
    best = least_absolute_optimum(DOMAIN, measurements, 100.0)
    l1 = L1Loss(measurements, DOMAIN)
    function = FunctionLoss(l1.value_and_gradient, DOMAIN, l1.cliques, smooth=False)
    report = pg.estimate([], DOMAIN, total=100.0, loss=function, tolerance=1e-4, max_iterations=20000).report
    assert report.method == "universal"
    assert report.converged
    assert best - 1e-9 <= report.loss <= best * (1 + 1e-4)


def test_nothing_measured_and_only_the_total_measured():
    assert pg.estimate([], DOMAIN, total=10, loss="l1").report.loss == 0.0
    model = pg.estimate([pg.LinearMeasurement(12.0, (), noise="laplace")], DOMAIN, total=10.0, loss="l1")
    assert model.report.loss == pytest.approx(2.0 * np.sqrt(2))
    np.testing.assert_allclose(model.project(("b",)).values, 5.0)


def test_a_loss_without_kinks_is_refused():
    with pytest.raises(ArgumentError) as error:
        pg.estimate([pg.LinearMeasurement([1.0, 2.0], "b")], DOMAIN, method="smoothing")
    assert str(error.value) == (
        "method='smoothing' needs absolute residuals, as in loss='l1'; use method='auto' for this loss."
    )
