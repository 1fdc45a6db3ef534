"""Messages in logarithms, for all potentials, against the algorithm in plain NumPy and the full joint table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain, Factor, JunctionTree
from pgmest.inference import reference
from pgmest.inference.exact import axes
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.exact.tree_messages import TreeMessages
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=150, deadline=None)


@quick
@given(problems(), st.sampled_from([1, 3, 64]))
def test_each_length_of_a_row_agrees_with_the_reference(problem, inner):
    """Rows without an index map, and with one, hold the same marginals and derivatives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(axes, "INNER_CELLS", inner)
        messages = TreeMessages(problem.layout, problem.plan().tree)
    mu, moved = np.empty((2, problem.layout.cells))
    for _ in range(2):  # the second run finds what the first one left in the workspace
        log_partition = messages.run(problem.theta, 2.0, mu)
        if not problem.possible:
            assert log_partition == -math.inf
            continue
        truth, expected = problem.truth.run(problem.theta, 2.0)
        assert np.abs(mu - truth).max(initial=0) <= 1e-10
        assert (mu[np.isneginf(problem.theta)] == 0).all()
        assert abs(log_partition - expected) <= 1e-10 * max(1, abs(expected))
        v = CliqueVector.of(problem.layout, problem.direction())
        messages.covariance(v.flat, moved)
        assert np.allclose(moved, reference.covariance(problem.vector, v, 2.0).flat, rtol=0, atol=1e-9)


@quick
@given(problems())
def test_the_factors_of_a_clique_multiply_to_its_marginal(problem):
    assume(problem.possible)
    messages = TreeMessages(problem.layout, problem.plan().tree)
    messages.run(problem.theta, 1.0, np.empty(problem.layout.cells))
    for position, clique in enumerate(messages.tree.cliques):
        domain = problem.layout.domain.project(clique)
        logs, table = Factor.zeros(domain), messages.clique_table(position)
        for factor in messages.log_factors(position):
            logs = logs + factor.expand(domain)
        assert table.domain == domain
        assert np.allclose(logs.exp().values, table.values, rtol=0, atol=1e-9)


def test_long_chains_of_large_potentials_stay_exact():
    """The messages do not grow with the chain, so that their logarithms keep all their digits."""
    names = [f"x{i}" for i in range(400)]
    cliques = list(itertools.pairwise(names))
    theta = CliqueVector.zeros(Domain(dict.fromkeys(names, 2)), cliques) + 1e4
    mu = np.empty(theta.layout.cells)
    log_partition = TreeMessages(theta.layout, JunctionTree.from_cliques(theta.domain, cliques)).run(
        theta.flat, 1.0, mu
    )
    assert np.abs(mu - 0.25).max() <= 1e-13
    assert log_partition == pytest.approx(1e4 * 399 + 400 * math.log(2), rel=1e-13)


def test_an_oracle_takes_potentials_whose_products_underflow():
    """The three cliques exclude the best cells of one another: each record is far below the product of their maxima."""
    same, differ = [0.0, -2e3, -2e3, 0.0], [-2e3, 0.0, 0.0, -2e3]
    problem = Problem({"a": 2, "b": 2, "c": 2}, (("a", "b"), ("b", "c"), ("c", "a")))
    theta = np.array([*same, *same, *differ])
    oracle = ExactOracle(PropagationPlan.of(problem.layout), threads=1)
    assert oracle.contracted.run(theta, 1.0, np.empty(12)) is None
    mu, log_partition = oracle.run(theta)
    truth, expected = problem.truth.run(theta)
    assert np.allclose(mu, truth, rtol=1e-12)
    assert log_partition == pytest.approx(expected, rel=1e-14)
