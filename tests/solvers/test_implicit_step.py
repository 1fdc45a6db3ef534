"""The implicit step by its dual: the minimizer, a gap that holds, and what happens where the dual proves nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.losses.l2 import L2Loss
from pgmest.solvers import implicit_step, penalized
from pgmest.solvers.implicit_step import ImplicitStep
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from tests.estimation.test_estimate import noisy, problems

SMALL = pg.Domain({"a": 3, "b": 2, "c": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("c", "a"), ("a",)]


def objective(problem: Problem, prior: np.ndarray, strength: float, theta: np.ndarray) -> float:
    """f(p) + s KL(p || q), by definition."""
    _, at_prior = problem.marginals(prior)
    p, at_theta = problem.marginals(theta)
    finite = np.isfinite(prior)
    divergence = (theta - prior)[finite] @ p[finite] - at_theta + at_prior
    return float(problem.loss_and_gradient(p)[0] + strength * divergence)


@given(problem=problems(), seed=st.integers(0, 5), strength=st.sampled_from([1e-2, 1.0, 1e2, 1e4]))
@settings(max_examples=60, deadline=None)
def test_the_gap_holds(problem, seed, strength):
    """Against the certified minimum of accelerated mirror descent, from whose certificate this one shares nothing."""
    domain, measurements = problem
    flat = Problem.of(L2Loss(measurements, domain), 100.0)
    if not hasattr(flat.loss, "target"):  # another query than identity
        return
    rng, enough = np.random.default_rng(seed), 1e-2 * flat.loss.noise_floor
    prior, start = rng.normal(size=(2, flat.layout.cells))
    found = ImplicitStep(flat).minimize(prior, strength, start, enough)
    assert found is not None
    penalty = EntropyPenalty(prior, strength)
    least = penalized._accelerated(flat, penalty, prior, 1e-4 * enough)
    best = objective(flat, prior, strength, least.theta)
    assert objective(flat, prior, strength, found.theta) <= best + enough + 1e-9 * abs(best)
    np.testing.assert_allclose(flat.marginals(found.theta)[0], found.p, atol=1e-12)


@pytest.mark.parametrize("seed", [131, 246])
def test_curvature_that_changes_by_magnitudes_does_not_end_it(seed):
    """A cell without records, which the steps before had some: pairs kept of them point nowhere."""
    rng = np.random.default_rng(seed)
    answers = [np.array([99.4, 0.5]) + rng.normal(0, 0.5, 2) for _ in range(5)]
    domain = pg.Domain({"a": 1, "b": 2})
    flat = Problem.of(L2Loss([pg.LinearMeasurement(one, ("a", "b"), 0.5) for one in answers], domain), 100.0)
    prior, start = np.random.default_rng(0).normal(size=(2, 2))
    assert ImplicitStep(flat).minimize(prior, 1e-2, start, 1e-2 * flat.loss.noise_floor) is not None


@pytest.mark.parametrize("spread", [1.0, np.array([0.1, 3.0, 1.0, 1.0, 10.0, 1.0])])
def test_impossible_cells_stay_so_and_precisions_may_differ_in_a_table(spread):
    rng = np.random.default_rng(0)
    measurements = [*noisy(SMALL, CLIQUES, rng, 2.0), pg.LinearMeasurement(rng.normal(17, 1, 6), ("a", "b"), spread)]
    flat = Problem.of(L2Loss(measurements, SMALL), 100.0)
    prior = np.zeros(flat.layout.cells)
    prior[0] = -np.inf
    found = ImplicitStep(flat).minimize(prior, 10.0, prior, 1e-13)
    assert found is not None
    assert found.p[0] == 0.0
    assert np.isneginf(found.theta[0])
    _, gradient = flat.loss_and_gradient(found.p)
    fixed, _ = flat.marginals(prior - gradient / 10.0)  # the condition of the optimum
    np.testing.assert_allclose(fixed, found.p, atol=1e-5)


def test_without_a_proof_in_time_it_says_so_and_accelerated_mirror_descent_takes_over(monkeypatch):
    flat = Problem.of(L2Loss(noisy(SMALL, CLIQUES, np.random.default_rng(1), 1.0), SMALL), 1e4)
    prior = np.zeros(flat.layout.cells)
    expected = penalized.penalized(flat, prior, 10.0, prior)
    monkeypatch.setattr(implicit_step, "MAX_CALLS", 2)
    assert ImplicitStep(flat).minimize(prior, 10.0, prior, 1e-6) is None
    found = penalized.penalized(flat, prior, 10.0, prior)
    apart = np.sqrt(flat.loss.curvature_floor()) * (found.p - expected.p)
    assert apart @ apart <= 8.0 * penalized.GAP_SHARE * flat.loss.noise_floor
