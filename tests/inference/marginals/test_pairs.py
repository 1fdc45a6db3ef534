"""Very many pairs at once, against the full joint table and against the general way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain
from pgmest.errors import ModelTooLarge
from pgmest.inference.marginals import pairs, propagation, routes
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.pairs import propagate_pairs, small_pairs
from pgmest.inference.marginals.propagation import propagate, propagate_cells
from tests.inference.marginals.test_propagation import PAIRED, expected
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(pairs, "MANY_PAIRS", 1)


@given(
    problems(), st.data(), st.sampled_from([1, 7, 1 << 20]), st.sampled_from([0, 1 << 16]), st.sampled_from([0, 1, 4])
)
@settings(max_examples=150, deadline=None)
def test_pairs_equal_those_of_the_joint_table(problem, data, block, carried, wasted):
    assume(problem.possible)
    all_pairs = list(itertools.permutations(problem.sizes, 2))
    assume(all_pairs)
    asked = data.draw(st.lists(st.sampled_from(all_pairs), max_size=30))
    others = [(), *((name,) for name in problem.sizes)]
    cliques = data.draw(st.permutations([*asked, *others]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "MANY_PAIRS", 1)
        patch.setattr(pairs, "WASTED", wasted)
        patch.setattr(routes, "MARGINAL_BLOCK", block)
        patch.setattr(routes, "SMALL_MESSAGE", carried)
        tree = CalibratedTree(problem.vector, problem.plan())
        tables, cells = propagate(tree, cliques, total=7.0), propagate_cells(tree, cliques, total=7.0)
    for clique, table, row in zip(cliques, tables, cells, strict=True):
        np.testing.assert_allclose(table, 7.0 * expected(problem, clique), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(table.reshape(-1), row)


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("block", [1, 6, 1 << 20])
def test_hubs_and_forests(name, block, monkeypatch):
    monkeypatch.setattr(routes, "MARGINAL_BLOCK", block)
    monkeypatch.setattr(pairs, "eliminate", lambda *arguments: pytest.fail("eliminated"))
    names, cliques = PAIRED[name]
    problem = Problem({name: 1 + place % 3 for place, name in enumerate(names)}, cliques, zeros=0.1, seed=3)
    assert problem.possible
    asked = list(itertools.permutations(names, 2))
    for clique, table in zip(asked, propagate(CalibratedTree(problem.vector), asked), strict=True):
        np.testing.assert_allclose(table, expected(problem, clique), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_tree_agrees_with_the_general_way(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": int(rng.integers(1, 5)) for i in range(40)})
    names = list(domain)
    measured = [(names[j], names[max(0, j - int(rng.integers(1, 4)))]) for j in range(1, 30)]
    measured += [tuple(names[i] for i in rng.choice(30, 3, replace=False)) for _ in range(3)]
    theta = CliqueVector.random(domain, measured, seed=seed)
    asked = [pair[:: 1 - 2 * (k % 2)] for k, pair in enumerate(itertools.combinations(names, 2))]
    found = propagate(CalibratedTree(theta), asked, total=100.0)
    monkeypatch.setattr(pairs, "MANY_PAIRS", 10**9)
    monkeypatch.setattr(propagation, "propagate_pairs", lambda *arguments: pytest.fail("pairs"))
    for one, other in zip(found, propagate(CalibratedTree(theta), asked, total=100.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


def test_tables_lie_one_after_the_other_in_the_order_asked():
    problem = Problem({"a": 2, "b": 3, "c": 1}, (("a", "b"), ("b", "c")))
    flat, offsets = propagate_pairs(CalibratedTree(problem.vector), np.array([[2, 0], [1, 0]]), 10.0)
    assert offsets.tolist() == [0, 2, 8]
    np.testing.assert_allclose(flat[:2], 10 * expected(problem, "ca").reshape(-1))
    np.testing.assert_allclose(flat[2:], 10 * expected(problem, "ba").reshape(-1))


def test_large_tables_and_trees_of_large_cliques_are_left_to_the_general_way(monkeypatch):
    tree = CalibratedTree(Problem({"a": 2, "b": 3, "c": 5}, (("a", "b"), ("b", "c"))).vector)
    cliques = [("a", "b"), ("c", "b"), ("a",), ()]
    assert small_pairs(tree, cliques) == {("a", "b"): (0, 1), ("c", "b"): (2, 1)}
    monkeypatch.setattr(pairs, "LARGEST_PAIR", 14)
    assert small_pairs(tree, cliques) == {("a", "b"): (0, 1)}
    monkeypatch.setattr(routes, "LARGEST_LOCAL", 14)
    assert small_pairs(tree, cliques) == {}
    monkeypatch.setattr(routes, "LARGEST_LOCAL", 15)
    monkeypatch.setattr(pairs, "MANY_PAIRS", 3)
    assert small_pairs(tree, cliques) == {}


def test_a_pair_of_too_many_cells_is_refused_as_ever():
    domain = Domain({"a": 2**16, "b": 2**16, "c": 2})
    tree = CalibratedTree(CliqueVector.zeros(domain, [("a",), ("b",), ("c",)]))
    with pytest.raises(ModelTooLarge):
        propagate(tree, [("a", "c"), ("a", "b")])
