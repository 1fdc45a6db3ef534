"""The certificate against the optimum on the full joint table, at any distribution and for every kind of query."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.losses import L2Loss
from pgmest.solvers import acceleration, certificate
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.certificate import duality_gap
from pgmest.solvers.certificate_kernels import best_blocks
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from tests.estimation.full_table import least_squares_optimum, marginal_matrix
from tests.estimation.test_estimate import noisy, problems

TOTAL = 100.0
TINY = pg.Domain({"a": 3, "b": 2, "c": 2})


@pytest.fixture
def thorough(monkeypatch):
    """All stages are run, however large the gap."""
    monkeypatch.setattr(certificate, "OUT_OF_REACH", (np.inf, np.inf, np.inf))


def gap_at(problem, magnitude, seed, enough=0.0):
    """The loss at a random distribution, the plain gap there, and the certificate."""
    theta = np.random.default_rng(seed).normal(0, magnitude, problem.layout.cells) + problem.base
    p, _ = problem.marginals(theta)
    loss, gradient = problem.loss_and_gradient(p)
    plain = float(gradient @ p) - problem.linear_minimum(gradient)
    return loss, plain, duality_gap(problem, p, gradient, enough)


def queried(domain, measurements, rng):
    """Return the measurements with prefix sums instead of cells in some, and a thousand times the noise in some."""
    made = []
    for measurement in measurements:
        cells, stddev = domain.size(measurement.clique), measurement.stddev * 10.0 ** rng.uniform(-1, 2)
        query = pg.queries.prefix(cells) if len(measurement.clique) == 1 and rng.random() < 0.5 else None
        values = measurement.values if query is None else np.cumsum(measurement.values)
        made.append(pg.LinearMeasurement(values, measurement.clique, stddev, query))
    return made


@given(problems(), st.sampled_from([0.0, 1.0, 10.0]), st.integers(0, 1000), st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_is_never_below_the_distance_from_the_optimum(drawn, magnitude, seed, structured):
    domain, measurements = drawn
    if structured:
        measurements = queried(domain, measurements, np.random.default_rng(seed))
    best, _ = least_squares_optimum(domain, measurements, TOTAL)
    problem = Problem.of(L2Loss(measurements, domain), TOTAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "OUT_OF_REACH", (np.inf, np.inf, np.inf))
        loss, plain, gap = gap_at(problem, magnitude, seed)
    assert gap <= plain + 1e-9 * max(1.0, abs(plain))
    assert gap >= loss - best - 1e-6 * max(1.0, best, loss)


@pytest.mark.parametrize("seed", range(5))
def test_one_marginal_is_certified_exactly_from_anywhere(seed, thorough):
    """With one clique the block ascent is the projection onto the simplex: nothing is left between gap and distance."""
    measurements = noisy(TINY, [("a", "b")], np.random.default_rng(seed), 5.0)
    best, _ = least_squares_optimum(TINY, measurements, TOTAL)
    loss, plain, gap = gap_at(Problem.of(L2Loss(measurements, TINY), TOTAL), 1.0, seed)
    assert gap == pytest.approx(loss - best, rel=1e-6, abs=1e-6)
    assert plain > 1.1 * gap


def loop(seed):
    """A ring of pairs and a chord, each with a target of its own: they contradict each other."""
    domain = pg.Domain(dict.fromkeys("abcdef", 4))
    cliques = [*zip("abcde", "bcdef", strict=True), ("a", "f"), ("b", "e")]
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(16, 0.2)) * 1000 + rng.normal(0, 5, 16) for _ in cliques]
    measurements = [pg.LinearMeasurement(table, clique, 5.0) for clique, table in zip(cliques, tables, strict=True)]
    return Problem.of(L2Loss(measurements, domain), 1000.0)


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_marginals_are_certified_far_tighter_than_by_the_plain_gap(seed, thorough):
    problem = loop(seed)
    solver = AcceleratedMirrorDescent()
    state = solver.start(problem, problem.base.copy())
    for _ in range(150):
        state = solver.step(problem, state)
    _, gradient = problem.loss_and_gradient(state.average)
    plain = float(gradient @ state.average) - problem.linear_minimum(gradient)
    assert duality_gap(problem, state.average, gradient) < 0.2 * plain


@pytest.mark.parametrize("seed", range(4))
def test_impossible_records_do_not_count(seed, thorough):
    """The bound holds over the possible records only, so it is tighter than one over all of them."""
    measurements = noisy(TINY, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(seed), 5.0)
    table = np.zeros((3, 2))
    table[0, 1] = table[2, 0] = -np.inf
    base = CliqueVector(TINY, {("a", "b"): table})
    problem = Problem.of(L2Loss(measurements, TINY), TOTAL, [base])
    allowed = np.isneginf(table.reshape(-1)) @ marginal_matrix(TINY, ("a", "b")) == 0
    best = _optimum_over(measurements, allowed)
    loss, _, gap = gap_at(problem, 1.0, seed)
    assert gap >= loss - best - 1e-6
    solved = pg.estimate(
        measurements, TINY, total=TOTAL, structural_zeros={("a", "b"): [(0, 1), (2, 0)]}, tolerance=1e-6
    )
    assert solved.report.loss == pytest.approx(best, rel=1e-4)
    assert gap <= 3 * (loss - best)


def _optimum_over(measurements, allowed):
    """min over joint tables that are zero outside `allowed`: a least-squares problem in the other cells."""
    from scipy.optimize import nnls

    rows = np.vstack([marginal_matrix(TINY, m.clique) / m.stddev for m in measurements])[:, allowed]
    values = np.concatenate([m.values / m.stddev for m in measurements])
    heavy = 1e4  # the total, as a very precise answer; more loses digits in older versions of nnls
    x, _ = nnls(np.vstack([rows, heavy * np.ones(rows.shape[1])]), np.append(values, heavy * TOTAL))
    return 0.5 * float(np.sum((rows @ (x * TOTAL / x.sum()) - values) ** 2))


def test_it_stops_at_what_is_enough_and_tries_no_stage_that_is_out_of_reach():
    measurements = noisy(TINY, [("a", "b"), ("b", "c")], np.random.default_rng(3), 5.0)
    problem = Problem.of(L2Loss(measurements, TINY), TOTAL)

    def sweeps(enough):
        before = problem.oracle.calls
        gap_at(problem, 1.0, 0, enough)
        return problem.oracle.calls - before - 3  # the marginals, and the plain gap twice

    _, plain, _ = gap_at(problem, 1.0, 0)
    assert sweeps(enough=1.01 * plain) == 0
    assert sweeps(enough=1e-9 * plain) == 0
    assert 2 <= sweeps(enough=0.99 * plain) < sweeps(enough=0.1 * plain)


def test_a_kinked_loss_has_the_plain_gap():
    from pgmest.losses import L1Loss

    measurements = noisy(TINY, [("a", "b"), ("b", "c")], np.random.default_rng(3), 5.0)
    _, plain, gap = gap_at(Problem.of(L1Loss(measurements, TINY), TOTAL), 1.0, 0)
    assert gap == pytest.approx(plain)


# -- the kernel --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([0.0, 0.4]))
@settings(max_examples=100, deadline=None)
def test_the_best_block_is_the_projection_onto_the_simplex(seed, cells, fixed):
    rng = np.random.default_rng(seed)
    weight = 10.0 ** rng.uniform(-2, 3, cells) * (rng.random(cells) >= fixed)
    filled, low = rng.dirichlet(np.full(cells, 0.3)), rng.normal(0, 10.0 ** rng.uniform(-3, 3), cells)
    low[rng.random(cells) < 0.1] = np.inf
    move = np.full(cells, np.nan)
    best_blocks(0, 1, np.array([0, cells]), low, filled, weight, move)
    assert np.all(move[weight == 0] == 0)
    assert np.all(filled + move >= -1e-12)
    movable, held = weight > 0, low[weight == 0].min(initial=np.inf)
    if not np.isfinite(low[movable]).any():
        return
    worth = low + weight * move
    worst = min(worth[movable & (filled + move > 1e-12)].min(initial=np.inf), worth[movable].min(), held)
    inside = movable & (filled + move > 1e-9)
    np.testing.assert_allclose(worth[inside], worst, rtol=1e-6, atol=1e-6 * np.abs(low[np.isfinite(low)]).max())
    mass = (filled + move)[movable].sum()
    assert mass == pytest.approx(1.0, abs=1e-6) or (worst == pytest.approx(held) and mass <= 1.0 + 1e-6)


# -- the solver --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shrink", [0.9, 0.95])
def test_a_long_epoch_never_loses_what_it_has_gained(shrink, monkeypatch):
    """With a momentum that ignored how L changes, the loss rose again after thousands of steps."""
    monkeypatch.setattr(acceleration, "SHRINK", shrink)
    problem, solver = loop(1), AcceleratedMirrorDescent(10**6)
    state = solver.start(problem, problem.base.copy())
    losses = []
    for _ in range(4000):
        state = solver.step(problem, state)
        losses.append(problem.loss_and_gradient(state.average)[0])
    late = np.array(losses[300:])
    assert np.max(late - np.minimum.accumulate(late)) <= 1e-8 * late[-1]
