"""One contract for all solvers: theta and p belong together, runs keep to their limits, and count what they do."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest

import pgmest as pg
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.losses import L1Loss, L2Loss
from pgmest.solvers import SOLVERS, LocalLeastSquares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.acceleration import AcceleratedSolver
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.smoothing import AcceleratedSmoothing
from pgmest.solvers.solver import Solver
from tests.estimation.full_table import marginal_matrix
from tests.estimation.test_estimate import noisy

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
LOOP = [("a", "b"), ("b", "c"), ("a", "c")]


def measured_for(name, seed=0) -> list[pg.LinearMeasurement]:
    if name != "ipf":
        return noisy(DOMAIN, LOOP, np.random.default_rng(seed), 3.0)
    table = np.random.default_rng(seed).dirichlet(np.full(24, 0.5)) * 100
    return [pg.LinearMeasurement(marginal_matrix(DOMAIN, c) @ table, c, 1.0) for c in LOOP]


def problem_for(name, seed=0):
    measured = measured_for(name, seed)
    loss = L1Loss if name == "smoothing" else L2Loss
    return Problem.of(loss(measured, DOMAIN), 100.0)


@pytest.mark.parametrize("name", SOLVERS)
def test_potentials_and_marginals_belong_together_at_every_step(name):
    problem = problem_for(name)
    solver = SOLVERS[name]()
    state = solver.start(problem, problem.base.copy())
    for _ in range(130):
        p, log_partition = problem.marginals(state.theta)
        np.testing.assert_allclose(state.p, p, rtol=1e-9, atol=1e-12)
        assert state.log_partition == pytest.approx(log_partition, rel=1e-9, abs=1e-9)
        if state.status is not None:
            break
        state = solver.step(problem, state)


@pytest.mark.parametrize("cliques", [LOOP, [*LOOP, ("a",), ()], [("a", "b"), ("b", "c")]])
def test_so_do_those_of_tables_that_agree(cliques):
    """The tables of the local polytope are the pseudo-marginals of their potentials once they agree."""
    measured = noisy(DOMAIN, cliques, np.random.default_rng(1), 3.0)
    problem = Problem.of(L2Loss(measured, DOMAIN), 100.0, oracle=lambda layout: RegionOracle(layout))
    solver = LocalLeastSquares()
    state = solver.start(problem, problem.base.copy())
    for _ in range(300):
        state = solver.step(problem, state)
        if state.status is not None:
            break
    p, log_partition = RegionOracle(problem.layout, 1e-10, 4000).run(state.theta)
    assert state.point.inconsistency < 1e-5
    np.testing.assert_allclose(p, state.p, atol=1e-3)
    assert log_partition == pytest.approx(state.log_partition, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "mirror_flow"])
@pytest.mark.parametrize("limit", [0, 1, 7])
def test_the_callback_is_called_once_for_each_iteration(name, limit):
    seen = []
    loss = "l1" if name == "smoothing" else "l2"
    report = pg.estimate(
        measured_for(name),
        DOMAIN, total=100.0, loss=loss, method=name, tolerance=0, max_iterations=limit,
        callback=lambda progress: seen.append(progress.iteration),
    ).report  # fmt: skip
    assert report.iterations <= limit
    assert seen == list(range(1, report.iterations + 1))


def test_the_callback_sees_the_last_iteration_of_a_run_that_converges():
    seen = []
    report = pg.estimate(
        noisy(DOMAIN, LOOP, np.random.default_rng(0), 3.0), DOMAIN, callback=lambda p: seen.append((p.iteration, p.gap))
    ).report
    assert report.converged
    assert seen[-1] == (report.iterations, report.gap)


def test_solvers_are_made_of_parts_and_not_of_each_other():
    """A solver inherits from the contract, or from the engine whose parts it chooses; from no other solver."""
    bases = {cls.__mro__[1] for cls in (*SOLVERS.values(), LocalLeastSquares)}
    assert bases == {Solver, AcceleratedSolver}
    assert AcceleratedSolver.__mro__[1] is Solver


@pytest.mark.parametrize("solver", [AcceleratedMirrorDescent, AcceleratedSmoothing])
@pytest.mark.parametrize("strength", [1.0, 300.0])
def test_a_penalty_is_a_part_of_either(solver, strength):
    """At the optimum, the gap by the penalty's own bound is closed, and the prior is the limit of a heavy penalty."""
    problem = problem_for("smoothing" if solver is AcceleratedSmoothing else "accelerated")
    prior = np.random.default_rng(2).normal(0, 1, problem.layout.cells)
    q, log_partition = problem.marginals(prior)
    penalized = solver(penalty=EntropyPenalty(prior, strength * 100.0, log_partition))
    state = penalized.start(problem, prior.copy())
    for _ in range(3000):
        state = penalized.step(problem, state)
    objective = penalized.objective(problem, state)
    gap = objective - penalized.lower_bound(problem, state, 0.0)
    assert -1e-9 * abs(objective) <= gap <= 1e-4 * abs(objective)
    assert strength == 1.0 or np.abs(state.p - q).max() < 0.05


@pytest.mark.parametrize("name", SOLVERS)
def test_reports_do_not_depend_on_the_callback(name):
    if name in ("ipf", "smoothing"):
        pytest.skip("made for other losses")
    measured = noisy(DOMAIN, LOOP, np.random.default_rng(0), 3.0)
    options = {"total": 100.0, "method": name, "max_iterations": 150}
    quiet = pg.estimate(measured, DOMAIN, **options).report
    told = pg.estimate(measured, DOMAIN, callback=lambda progress: None, **options).report
    same = [field.name for field in fields(quiet) if field.name != "seconds"]
    assert [getattr(quiet, name) for name in same] == [getattr(told, name) for name in same]


class Logarithmic:
    """-sum y log mu, infinite where a cell with y > 0 is empty."""

    smooth = True
    lipschitz = None

    def __init__(self, tables):
        self.tables = tables
        self.cliques = tuple(tables)

    def value_and_gradient(self, marginals):
        with np.errstate(divide="ignore", invalid="ignore"):
            value = sum(
                float(np.sum(np.where(y > 0, -y * np.log(marginals[c].values), 0))) for c, y in self.tables.items()
            )
            return value, {c: np.where(y > 0, -y / marginals[c].values, 0.0) for c, y in self.tables.items()}


def fitted(seed):
    """Exact marginals of a table: -sum y log mu is least at them."""
    joint = pg.Factor(DOMAIN, np.random.default_rng(seed).dirichlet(np.full(24, 0.2)).reshape(DOMAIN.shape) * 1000)
    return {clique: joint.project(clique).values for clique in LOOP}


@pytest.mark.parametrize(
    ("seed", "method"), [*itertools.product(range(4), ["auto", "accelerated", "universal", "lbfgs"])]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_smooth_loss_may_be_infinite_at_zero(seed, method):
    tables = fitted(seed)
    loss = Logarithmic(tables)
    best = -sum(float(np.sum(y[y > 0] * np.log(y[y > 0]))) for y in tables.values())
    start = pg.estimate([], DOMAIN, total=1000.0, loss=loss, method=method, max_iterations=0).report
    report = pg.estimate([], DOMAIN, total=1000.0, loss=loss, method=method).report
    assert report.loss - report.gap - 1e-6 <= best <= report.loss + 1e-6
    assert report.loss < start.loss
    if method in ("auto", "accelerated"):
        assert report.converged
        assert report.loss == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("limit", [1, 3, 20])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_cut_short_never_ends_where_the_loss_is_infinite(limit):
    for seed, method in itertools.product(range(4), ["auto", "universal", "mirror_descent"]):
        loss = Logarithmic(fitted(seed))
        assert np.isfinite(
            pg.estimate([], DOMAIN, total=1000.0, loss=loss, method=method, max_iterations=limit).report.loss
        )


def test_a_loss_that_is_infinite_where_it_starts_is_refused_with_a_remedy():
    tables = {("a", "b"): np.full((3, 2), 10.0)}
    with pytest.raises(pg.errors.ArgumentError, match=r"the loss is inf where 'accelerated' starts.*structural_zeros"):
        pg.estimate([], DOMAIN, total=60.0, loss=Logarithmic(tables), structural_zeros={("a", "b"): [(0, 0)]})
