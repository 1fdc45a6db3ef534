"""Steps on weighted squares in three passes are the steps of any loss, one operation at a time."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.losses import L2Loss
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.passes import SEPARATE_PASSES, FusedSquaresPasses
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from tests.estimation.test_estimate import noisy

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4, "d": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("a", "c"), ("d",), ()]
PRIOR = pg.CliqueVector(DOMAIN, {("a", "d"): np.array([[0.0, -np.inf], [0.0, 1.0], [-2.0, 0.0]])})


def problem_of(cliques, seed, base=()):
    rng = np.random.default_rng(seed)
    measured = [replace(m, stddev=float(rng.uniform(0.5, 20.0))) for m in noisy(DOMAIN, cliques, rng, 3.0)]
    return Problem.of(L2Loss(measured, DOMAIN), 100.0, base)


class Both:
    """Compare three joint passes with separate ones over the same arrays."""

    def __init__(self, passes: FusedSquaresPasses):
        self.passes = passes
        self.average = np.empty(0)

    def propose(self, state):
        SEPARATE_PASSES.propose(state)
        expected, state.next_theta = state.next_theta, np.full_like(state.theta, np.nan)
        self.passes.propose(state)
        finite = np.isfinite(expected)
        assert np.array_equal(finite, np.isfinite(state.next_theta))
        np.testing.assert_allclose(state.next_theta[finite], expected[finite], rtol=1e-12, atol=1e-12)

    def compare(self, state, log_partition):
        y = state.point.copy()
        expected = SEPARATE_PASSES.compare(state, log_partition)
        found = self.passes.compare(state, log_partition)
        # Divergences are differences of log-partition functions, whose last digits are rounding errors.
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-20)
        self.average = y + state.momentum * state.change
        return found

    def accept(self, state):
        self.passes.accept(state)
        np.testing.assert_allclose(state.average, self.average, rtol=1e-12, atol=1e-15)


@given(
    st.lists(st.sampled_from(CLIQUES), min_size=1, max_size=6), st.integers(0, 1000), st.sampled_from([(), (PRIOR,)])
)
@settings(max_examples=40, deadline=None)
def test_are_the_same_steps(cliques, seed, base):
    """Also on measurements of different precision, repeated ones, and cliques that only the prior has."""
    problem, solver = problem_of(cliques, seed, base), AcceleratedMirrorDescent(epoch=25)
    state = solver.start(problem, problem.base.copy())
    assert isinstance(state.passes, FusedSquaresPasses)
    state.passes = Both(state.passes)
    for _ in range(60):
        state = solver.step(problem, state)


def test_survive_a_copy():
    solver = pickle.loads(pickle.dumps(AcceleratedMirrorDescent()))
    problem = problem_of(CLIQUES, 0)
    assert isinstance(solver.start(problem, problem.base).passes, FusedSquaresPasses)


class Other(WeightedSquares):
    """Squares of something else, for all that is known."""


def test_other_losses_and_penalties_are_not_taken_for_squares():
    problem = problem_of([("a", "b")], 0)
    penalized = AcceleratedMirrorDescent(penalty=EntropyPenalty(problem.base, 1.0, 0.0))
    assert penalized.start(problem, problem.base).passes is SEPARATE_PASSES
    squares = problem.loss
    assert isinstance(squares, WeightedSquares)
    problem.loss = Other(squares.layout, squares.target, squares.precision, squares.constant, squares.noise_floor)
    assert AcceleratedMirrorDescent().start(problem, problem.base).passes is SEPARATE_PASSES
