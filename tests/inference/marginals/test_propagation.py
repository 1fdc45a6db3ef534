"""Many marginals at once, against the full joint table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.marginals import propagation, routes
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.propagation import propagate
from pgmest.inference.marginals.routes import find_routes
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")


def expected(problem: Problem, clique: Sequence[str]) -> np.ndarray:
    names = list(problem.sizes)
    table = problem.joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in clique))
    left = [name for name in names if name in clique]
    return table.transpose([left.index(name) for name in clique])


@given(
    problems(), st.data(), st.sampled_from([1, 1 << 20]), st.sampled_from([0, 1 << 16]), st.sampled_from([1, 1 << 22])
)
@settings(max_examples=120, deadline=None)
def test_marginals_equal_those_of_the_joint_table(
    problem: Problem, data: st.DataObject, block: int, carried: int, local: int
) -> None:
    assume(problem.possible)
    subsets = [c for k in range(len(problem.sizes) + 1) for c in itertools.permutations(problem.sizes, k)]
    cliques = data.draw(st.lists(st.sampled_from(subsets), max_size=12))
    find_routes.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "MARGINAL_BLOCK", block)
        patch.setattr(routes, "SMALL_MESSAGE", carried)
        patch.setattr(routes, "LARGEST_LOCAL", local)
        tables = propagate(CalibratedTree(problem.vector, problem.plan()), cliques, total=7.0)
    for clique, table in zip(cliques, tables, strict=True):
        np.testing.assert_allclose(table, 7.0 * expected(problem, clique), rtol=0, atol=1e-9)


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
def test_all_marginals_of_some_arity_on_a_branching_tree(arity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them by elimination, and branches joined three at a time."""
    monkeypatch.setattr(propagation, "eliminate", lambda *arguments: pytest.fail("eliminated"))
    star = (("a", "b"), ("a", "c"), ("a", "d"), ("d", "e"), ("d", "f"), ("g", "h"))
    problem = Problem(dict.fromkeys("abcdefgh", 2), star)
    cliques = list(itertools.combinations("hgfedcba", arity))
    tree = CalibratedTree(problem.vector, problem.plan())
    for clique, table in zip(cliques, propagate(tree, cliques), strict=True):
        np.testing.assert_allclose(table, expected(problem, clique), atol=1e-12)


PAIRED = {
    "attributes in no clique": ("abcdefg", ()),
    "a forest": ("abcdefgh", (("a", "b"), ("c", "d"), ("d", "e"), ("f", "g"))),
    "a hub": ("abcdefg", tuple(("a", name) for name in "bcdefg")),
    "a hub of two": ("abcdefg", tuple(("a", "b", name) for name in "cdefg")),
    "two hubs": ("abcdefgh", (("a", "b"), *(("a", name) for name in "cde"), *(("b", name) for name in "fgh"))),
    "hubs with tails": ("abcdefgh", (("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("a", "f"), ("f", "g"))),
}


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("block", [1, 6, 1 << 20])
@pytest.mark.parametrize("arity", [2, 3])
def test_sets_made_together_equal_those_of_the_joint_table(name, block, arity, monkeypatch):
    names, cliques = PAIRED[name]
    sizes = {attribute: 1 + position % 3 for position, attribute in enumerate(names)}
    problem = Problem(sizes, cliques, zeros=0.1, seed=3)
    assert problem.possible
    find_routes.cache_clear()
    monkeypatch.setattr(routes, "MARGINAL_BLOCK", block)
    tree = CalibratedTree(problem.vector, problem.plan())
    asked = list(itertools.combinations(names[::-1], arity))
    tables = propagate(tree, asked, total=3.0)
    if arity == 2 and name != "hubs with tails":  # which has too few branches anywhere
        assert find_routes(tree.tree, tuple(map(frozenset, asked))).paired
    for clique, table in zip(asked, tables, strict=True):
        np.testing.assert_allclose(table, 3.0 * expected(problem, clique), rtol=0, atol=1e-12)


def test_pairings_are_few_where_blocks_would_be_many(monkeypatch):
    domain = Domain({f"x{i}": 3 for i in range(60)})
    tree = JunctionTree.from_cliques(domain, [("x0", f"x{i}") for i in range(1, 30)])
    found = find_routes(tree, tuple(map(frozenset, itertools.combinations(domain, 2))))
    made = [names for group in (found.joined, found.paired) for block in group for names, _ in block.parts]
    assert len(made) == len(set(made)) == 60 * 59 // 2 - 29
    assert len(found.paired) <= 3
    assert len(found.joined) <= 60


class TestRoutes:
    chain = JunctionTree.from_cliques(
        Domain(dict.fromkeys("abcde", 2)), [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    )

    def test_marginals_in_a_clique_are_taken_from_it(self) -> None:
        found = find_routes(self.chain, (frozenset("ab"), frozenset("d"), frozenset()))
        assert [names for names, _ in found.inside] == [frozenset("ab"), frozenset("d"), frozenset()]
        assert (found.by_elimination, found.upward, found.joined) == ((), (), ())

    def test_each_set_is_made_once(self) -> None:
        found = find_routes(self.chain, (frozenset("ae"), frozenset("ea"), frozenset("be"), frozenset("ad")))
        made = [names for block in found.joined for names, _ in block.parts]
        assert sorted(map(sorted, made)) == [["a", "d"], ["a", "e"], ["b", "e"]]

    def test_a_set_that_would_be_costly_to_carry_is_left_to_elimination(self) -> None:
        domain = Domain({"a": 2, "m": 300, "n": 300, "z": 2})
        tree = JunctionTree.from_cliques(domain, [("a", "m", "n"), ("m", "n", "z")])
        assert find_routes(tree, (frozenset("az"),)).by_elimination == (frozenset("az"),)

    def test_deep_trees_are_no_problem(self) -> None:
        names = [f"x{i}" for i in range(3000)]
        tree = JunctionTree.from_cliques(Domain(dict.fromkeys(names, 2)), itertools.pairwise(names))
        found = find_routes(tree, (frozenset((names[0], names[-1])),))
        assert len(found.joined) == 1

    def test_full_products(self) -> None:
        combinations = [(1, 5, 7), (1, 5, 8), (2, 5, 7), (2, 5, 8), (2, 6, 8)]
        products = [set(itertools.product(*lists)) for lists in routes.full_products(combinations)]
        assert set.union(*products) == set(combinations)
        assert sum(map(len, products)) == len(combinations)


def test_a_chain_of_many_attributes() -> None:
    names = [f"x{i}" for i in range(200)]
    theta = CliqueVector.random(Domain(dict.fromkeys(names, 2)), itertools.pairwise(names), seed=0)
    tree = CalibratedTree(theta)
    ends, near = propagate(tree, [(names[-1], names[0]), (names[0], names[2])])
    step = [tree.conditional(tree.tree.containing(pair) or 0, pair, pair[:1]) for pair in itertools.pairwise(names)]
    start = tree.marginal(tree.tree.containing(names[:1]) or 0, names[:1])
    np.testing.assert_allclose(near, start[:, None] * (step[0] @ step[1]), atol=1e-12)
    np.testing.assert_allclose(ends, (start[:, None] * np.linalg.multi_dot(step)).T, atol=1e-12)
