"""The oracle in float32 against the one in float64: the error that it states, and proofs that stay exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError
from pgmest.inference.exact import belief_propagation as oracles
from pgmest.inference.exact.single_precision import SinglePrecisionOracle
from tests.inference.problems import Problem, limited, limits, problems

EPS = 2.0**-24


def allowed(problem: Problem) -> float:
    """The relative error stated in the docstring."""
    finite = problem.theta[np.isfinite(problem.theta)]
    largest = np.abs(finite).max(initial=0.0) * len(problem.cliques) + 10.0
    return EPS * (100.0 + 2.0 * largest * (1 + len(problem.plan().tree.cliques)))


@settings(deadline=None, max_examples=120)
@given(problems(), limits(), st.sampled_from([1, 2]))
def test_marginals_are_within_the_stated_error(problem: Problem, thresholds: dict[str, int], threads: int):
    assume(problem.possible)
    with limited(thresholds):
        oracle = SinglePrecisionOracle(problem.plan(), threads)
        mu, log_partition = oracle.run(problem.theta.astype(np.float32), 3.0)
    expected, expected_partition = problem.truth.run(problem.theta.astype(np.float32).astype(np.float64), 3.0)
    share = allowed(problem)
    assert mu.dtype == np.float32
    assert not np.isnan(mu).any()
    np.testing.assert_allclose(mu, expected, rtol=share, atol=3.0 * share * 1e-3 + 1e-12)
    assert log_partition == pytest.approx(expected_partition, abs=share, rel=share)


@settings(deadline=None, max_examples=60)
@given(problems(magnitudes=(1.0, 30.0), zeros=(0.0,)))
def test_by_contraction_too(problem: Problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracles, "CONTRACTED_CELLS", 0)
        patch.setattr(oracles, "NANOSECONDS_A_CELL", 1e9)
        oracle = SinglePrecisionOracle(problem.plan(), 1)
    mu, log_partition = oracle.run(problem.theta.astype(np.float32), 2.0)
    expected, expected_partition = problem.truth.run(problem.theta, 2.0)
    share = allowed(problem) * 4
    np.testing.assert_allclose(mu, expected, rtol=share, atol=2.0 * share)
    assert log_partition == pytest.approx(expected_partition, abs=share, rel=share)


@settings(deadline=None, max_examples=30)
@given(problems())
def test_maxima_are_those_of_float64(problem: Problem):
    assume(problem.possible)
    oracle, double = SinglePrecisionOracle(problem.plan(), 1), problem.exact()
    assert oracle.maximum(problem.theta) == double.maximum(problem.theta)
    np.testing.assert_array_equal(oracle.max_marginals(problem.theta), double.max_marginals(problem.theta))
    assert oracle.calls == double.calls


def test_arrays_of_float64_are_converted_both_ways():
    problem = Problem({"a": 2, "b": 3, "c": 2}, (("a", "b"), ("b", "c")))
    oracle, out = SinglePrecisionOracle(problem.plan(), 1), np.empty(problem.layout.cells)
    mu, _ = oracle.run(problem.theta, 1.0, out)
    assert mu is out
    np.testing.assert_allclose(out, problem.truth.run(problem.theta)[0], atol=1e-6)
    double = problem.exact()
    double.run(problem.theta)
    tangent = oracle.covariance(problem.direction())
    np.testing.assert_allclose(tangent, double.covariance(problem.direction()), atol=1e-5)
    np.testing.assert_allclose(oracle.clique_table(0).values, double.clique_table(0).values, atol=1e-5)
    thetas = np.stack([problem.theta, 2 * problem.theta])
    np.testing.assert_allclose(oracle.run_many(thetas)[0], double.run_many(thetas)[0])


def test_what_is_refused():
    problem = Problem({"a": 2, "b": 3}, (("a", "b"),))
    oracle = SinglePrecisionOracle(problem.plan(), 1)
    with pytest.raises(ArgumentError, match="call run"):
        oracle.clique_table(0)
    with pytest.raises(ArgumentError, match="call run"):
        oracle.covariance(problem.direction())
    with pytest.raises(ImpossibleModelError):
        oracle.run(np.full(6, -np.inf, dtype=np.float32))
    with pytest.raises(ShapeError, match="float32"):
        oracle.run(np.zeros(6, dtype=np.int64))
