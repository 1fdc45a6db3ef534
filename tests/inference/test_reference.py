"""Belief propagation in plain NumPy, the truth for larger models, against the full joint table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

from pgmest import CliqueVector
from pgmest.errors import ImpossibleModelError
from pgmest.inference import reference
from tests.inference.exact.test_belief_propagation import indicators
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=100, deadline=None)


@quick
@given(problems())
def test_marginals_are_those_of_the_joint_table(problem):
    assume(problem.possible)
    mu, log_partition = reference.marginal_oracle(problem.vector, 2.0)
    expected, expected_log = problem.truth.run(problem.theta, 2.0)
    assert np.abs(mu.flat - expected).max(initial=0) <= 1e-10
    assert np.isclose(log_partition, expected_log, rtol=1e-12, atol=1e-10)
    assert (mu.flat[np.isneginf(problem.theta)] == 0).all()


@quick
@given(problems())
def test_max_marginals_are_those_of_the_joint_table(problem):
    best, top = reference.max_marginals(problem.vector)
    joint = problem.truth.log_joint(problem.theta).values.reshape(-1)
    assert np.isclose(top, joint.max(), rtol=1e-12, atol=1e-10)
    cells = np.where(indicators(problem) == 1, joint, -np.inf).max(axis=1)
    assert np.allclose(best.flat, cells, rtol=1e-12, atol=1e-10)


@quick
@given(problems())
def test_the_record_has_the_largest_potential(problem):
    assume(problem.possible)
    record = reference.map_record(problem.vector)
    joint = problem.truth.log_joint(problem.theta)
    assert tuple(record) == tuple(problem.sizes)
    assert np.isclose(joint.values[tuple(record.values())], joint.values.max(), rtol=1e-12, atol=1e-10)


@quick
@given(problems(magnitudes=(1.0, 10.0)))
def test_the_covariance_is_that_of_the_indicators(problem):
    assume(problem.possible)
    v, x, p = problem.direction(), indicators(problem), problem.joint.reshape(-1)
    expected = 3.0 * (x @ (p * (v @ x)) - (x @ p) * (v @ x @ p))
    moved = reference.covariance(problem.vector, CliqueVector.of(problem.layout, v), 3.0)
    assert np.allclose(moved.flat, expected, rtol=0, atol=1e-9)


def test_an_impossible_model_is_refused():
    problem = Problem({"a": 2, "b": 2}, (("a", "b"),))
    nothing = CliqueVector.of(problem.layout, np.full(problem.layout.cells, -np.inf))
    with pytest.raises(ImpossibleModelError, match="the log-partition function is -inf"):
        reference.marginal_oracle(nothing)
