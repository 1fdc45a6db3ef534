"""The total as a free parameter: the limits and the report are those of all rounds together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import pgmest as pg
from pgmest.solvers import SOLVERS, Status
from pgmest.solvers.fitted_total import best_scale
from pgmest.solvers.problem import Problem
from tests.estimation.test_estimate import noisy

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
MEASURED = noisy(DOMAIN, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(3), 4.0, total=80.0)


@pytest.mark.parametrize("limit", [0, 1, 7, 150, 400])
@pytest.mark.parametrize("loss", ["l2", "huber"])
def test_max_iterations_bounds_all_rounds(limit, loss):
    seen = []
    report = pg.estimate(
        MEASURED, DOMAIN, total="fit", loss=loss, tolerance=0, max_iterations=limit,
        callback=lambda progress: seen.append((progress.iteration, progress.oracle_calls, progress.seconds)),
    ).report  # fmt: skip
    assert report.iterations == len(seen) <= limit
    assert [iteration for iteration, _, _ in seen] == list(range(1, len(seen) + 1))
    assert all(before[1] < after[1] and before[2] <= after[2] for before, after in pairwise(seen))
    assert report.oracle_calls >= report.iterations
    assert report.seconds >= max((seconds for _, _, seconds in seen), default=0.0)


def test_the_report_counts_every_round(monkeypatch):
    calls = []
    marginals = Problem.marginals

    def counted(self, theta, out=None):
        calls.append(1)
        return marginals(self, theta, out)

    monkeypatch.setattr(Problem, "marginals", counted)
    seen = []
    report = pg.estimate(
        MEASURED, DOMAIN, total="fit", loss="huber", tolerance=1e-6, callback=lambda progress: seen.append(progress)
    ).report
    assert report.converged
    assert report.iterations == len(seen) > 100
    assert report.oracle_calls >= len(calls) > report.iterations


def test_cut_short_it_has_the_best_total_for_the_marginals_so_far():
    model = pg.estimate(MEASURED, DOMAIN, total="fit", tolerance=0, max_iterations=7)
    assert model.report.status is Status.ITERATIONS
    assert "max_iterations=7 reached" in model.report.message
    loss = pg.losses.L2Loss(MEASURED, DOMAIN)
    assert model.report.loss == pytest.approx(loss.value(model.marginals))
    for factor in (0.99, 1.01):
        assert loss.value(model.marginals * factor) > model.report.loss
    fixed = pg.estimate(MEASURED, DOMAIN, total=model.total, tolerance=1e-9, max_iterations=20_000).report
    assert model.report.gap >= model.report.loss - fixed.loss - 1e-9


@pytest.mark.parametrize("stop", [lambda: True, lambda: (_ for _ in ()).throw(KeyboardInterrupt)])
def test_a_callback_or_ctrl_c_ends_all_rounds(stop):
    seen = []

    def callback(progress):
        seen.append(progress.iteration)
        return progress.iteration == 5 and stop()

    report = pg.estimate(MEASURED, DOMAIN, total="fit", tolerance=0, callback=callback).report
    assert seen == [1, 2, 3, 4, 5]
    assert report.iterations == 5
    assert report.status in (Status.CALLBACK, Status.INTERRUPTED)


@pytest.mark.parametrize("method", [name for name in SOLVERS if name not in ("smoothing", "ipf")])
def test_every_solver_keeps_to_the_limit(method):
    report = pg.estimate(MEASURED, DOMAIN, total="fit", method=method, tolerance=1e-9, max_iterations=120).report
    assert report.iterations <= 120
    assert np.isfinite(report.loss)
    assert report.gap >= 0


def test_the_best_scale_is_in_closed_form_or_found():
    p = np.random.default_rng(0).dirichlet(np.ones(6))
    for loss in (pg.losses.L2Loss, pg.losses.HuberLoss):
        problem = Problem.of(loss([MEASURED[0]], DOMAIN), 80.0)
        factor = best_scale(problem, p)
        least = problem.with_total(80.0 * factor).loss_and_gradient(p)[0]
        for other in (0.999, 1.001):
            assert problem.with_total(80.0 * factor * other).loss_and_gradient(p)[0] > least


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["noisy", "rounded", "random"])
def test_sparse_tables_have_a_fitted_total(kind, seed):
    """Alternation moves slowly toward the best total of a sparse table; brute force over totals checks the end."""
    generator = np.random.default_rng(seed)
    truth = generator.poisson(0.3, (12, 15))
    table = {
        "noisy": lambda: pg.LinearMeasurement(truth + generator.normal(0, 3, truth.shape), ("a", "b"), 3.0),
        "rounded": lambda: pg.LinearMeasurement.rounded(3 * np.round(truth / 3), ("a", "b"), 3),
        "random": lambda: pg.LinearMeasurement.rounded(3 * generator.poisson(truth / 3), ("a", "b"), 3, random=True),
    }[kind]()
    domain = {"a": 12, "b": 15}
    model = pg.estimate([table], domain, total="fit", tolerance=1e-4)
    assert model.report.converged
    near = [pg.estimate([table], domain, total=model.total * factor, tolerance=1e-4) for factor in (0.9, 1.1)]
    assert all(model.report.loss <= other.report.loss + 0.02 for other in near)


@pytest.mark.parametrize("loss", ["l2", "l1", "huber", "likelihood"])
def test_all_losses_fit_the_same_total_far_from_the_first(loss):
    """A sparse table's best total is far above the unbiased one; cells that the first total empties must fill again."""
    generator = np.random.default_rng(0)
    values = generator.poisson(0.3, (20, 25)) + generator.normal(0, 3, (20, 25))
    domain = {"a": 20, "b": 25}
    model = pg.estimate([pg.LinearMeasurement(values, ("a", "b"), 3.0)], domain, total="fit", loss=loss)
    assert model.report.converged
    assert model.total == pytest.approx(np.maximum(values, 0).sum(), rel=1e-3)  # each cell alone, without a known total


@pytest.mark.parametrize("loss", ["l2", "l1", "huber", "likelihood"])
def test_answers_below_zero_fit_a_total_of_nearly_zero(loss):
    values = -np.abs(np.random.default_rng(0).normal(0, 3, (5, 6)))
    domain = {"a": 5, "b": 6}
    model = pg.estimate([pg.LinearMeasurement(values, ("a", "b"), 3.0)], domain, total="fit", loss=loss)
    assert model.report.converged
    assert 0 < model.total < 1e-5
    assert model.sample(seed=0).records == 0


def test_exact_answers_leave_no_total_to_fit():
    tables = [pg.LinearMeasurement.exact([10, 20, 30], "a"), pg.LinearMeasurement([50.0, 40.0], "b", stddev=0.5)]
    model = pg.estimate(tables, DOMAIN, total="fit")
    assert model.total == 60.0
    assert model.total_stddev is None


def test_a_fitted_total_is_at_least_what_facts_need():
    fact = pg.LinearMeasurement.exact([160.0], "a", query=pg.queries.point(3, 0))
    model = pg.estimate([fact, pg.LinearMeasurement([60.0, 40.0], "b", stddev=1.0)], DOMAIN, total="fit")
    assert model.report.converged
    assert model.total == pytest.approx(160.0)
    assert model.project("a").values == pytest.approx([160.0, 0.0, 0.0], abs=1e-6)
