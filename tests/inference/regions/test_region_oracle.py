"""Message passing on region graphs: exact on trees, consistent and unique elsewhere, and its bounds hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain
from tests.inference.brute_force_oracle import BruteForceOracle
from tests.inference.problems import problems

CYCLE = [tuple(pair) for pair in ("ab", "bc", "cd", "da")]
TRIPLES = [tuple(clique) for clique in ("abc", "bcd", "cde", "aef", "abf", "d")]


def layout(cliques=TRIPLES, size=3):
    return Layout.of(Domain(dict.fromkeys(sorted(set().union(*cliques)), size)), cliques)


def potentials(of, scale=1.0, seed=0):
    return np.random.default_rng(seed).standard_normal(of.cells) * scale


@st.composite
def trees(draw):
    """A problem whose cliques are those of a junction tree, with some of their subsets and permutations."""
    problem = draw(problems(zeros=(0.0,)))
    tree = JunctionTree.from_cliques(problem.layout.domain, problem.layout.cliques, effort="low")
    cliques = [*map(draw, map(st.permutations, tree.cliques)), *problem.layout.cliques]
    found = Layout.of(problem.layout.domain, cliques)
    return found, potentials(found, problem.magnitude, problem.seed)


@settings(deadline=None, max_examples=60)
@given(trees())
def test_trees_are_exact(problem):
    of, theta = problem
    oracle = RegionOracle(of, tolerance=1e-12)
    assert oracle.graph.is_tree
    mu, log_partition = oracle.run(theta, total=3.0)
    expected, expected_partition = BruteForceOracle(of).run(theta, total=3.0)
    np.testing.assert_allclose(mu, expected, atol=1e-8)
    assert log_partition == pytest.approx(expected_partition, abs=1e-8, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(problems(magnitudes=(0.1, 1.0, 3.0), zeros=(0.0,)))
def test_convex_tables_agree_wherever_they_overlap(problem):
    oracle = RegionOracle(problem.layout, tolerance=1e-7, sweeps=5000)
    mu = CliqueVector.of(problem.layout, oracle.run(problem.theta)[0])
    assert oracle.inconsistency <= 1e-6
    assert np.all(mu.flat >= 0)
    for left in mu.cliques:
        for right in mu.cliques:
            shared = tuple(set(left).intersection(right))
            np.testing.assert_allclose(mu[left].project(shared).values, mu[right].project(shared).values, atol=1e-5)


@pytest.mark.parametrize("cliques", [CYCLE, TRIPLES])
def test_the_convex_fixed_point_does_not_depend_on_the_start(cliques):
    of = layout(cliques)
    theta, elsewhere = potentials(of), potentials(of, 5.0, seed=1)
    oracle = RegionOracle(of, tolerance=1e-10, sweeps=5000)
    first, value = oracle.run(theta)
    oracle.run(elsewhere)
    second, again = oracle.run(theta)
    oracle.reset()
    np.testing.assert_allclose(second, first, atol=1e-7)
    np.testing.assert_allclose(oracle.run(theta)[0], first, atol=1e-7)
    assert again == pytest.approx(value, abs=1e-7)


def test_marginals_are_the_gradient_of_the_log_partition():
    of = layout(CYCLE)
    theta, step = potentials(of), potentials(of, 1e-4, seed=1)
    oracle = RegionOracle(of, tolerance=1e-12, sweeps=2000)
    mu = oracle.run(theta)[0]
    slope = oracle.run(theta + step)[1] - oracle.run(theta - step)[1]
    assert slope == pytest.approx(2 * mu @ step, rel=1e-4)


@settings(deadline=None, max_examples=60)
@given(problems(zeros=(0.0, 0.1)))
def test_bounds_hold(problem):
    if not problem.possible:
        return
    oracle, truth = RegionOracle(problem.layout), BruteForceOracle(problem.layout)
    slack = 1e-9 * (1 + problem.magnitude)
    assert oracle.maximum(problem.theta) >= truth.maximum(problem.theta) - slack
    best, joint = oracle.max_marginals(problem.theta), truth.log_joint(problem.theta)
    for position, clique in enumerate(problem.layout.cliques):
        start, end = problem.layout.offsets[position : position + 2]
        dropped = tuple(name for name in problem.layout.domain if name not in clique)
        exact = joint.max(dropped).transpose(clique).datavector() if dropped else joint.transpose(clique).datavector()
        assert np.all(best[start:end] >= exact - slack)


def test_extreme_potentials_do_not_underflow():
    of = layout([("a", "b"), ("b", "c")])
    theta = potentials(of, 1e4)
    mu, _ = RegionOracle(of).run(theta)
    np.testing.assert_allclose(mu, BruteForceOracle(of).run(theta)[0], atol=1e-10)


def test_impossible_cells_stay_so():
    of = layout(CYCLE)
    theta = potentials(of)
    theta[:3] = -np.inf
    mu, _ = RegionOracle(of).run(theta)
    assert np.all(mu[:3] == 0)
    assert np.all(np.isfinite(mu))
    theta[:9] = -np.inf
    with pytest.raises(ImpossibleModelError, match="leave no possible cell"):
        RegionOracle(of).run(theta)


def test_wrong_arguments():
    of = layout(CYCLE)
    with pytest.raises(ArgumentError, match="tolerance=0 is not valid"):
        RegionOracle(of, tolerance=0)
    with pytest.raises(ShapeError, match="expected shape"):
        RegionOracle(of).run(np.zeros(3))
    with pytest.raises(ArgumentError, match="differentiates through the oracle"):
        RegionOracle(of).covariance(np.zeros(of.cells))
