"""Regions and counting numbers, on graphs small enough to check by hand."""

import numpy as np
import pytest

from pgmest.inference.regions.region_graph import RegionGraph, _kikuchi
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

TREE = ["ab", "bc", "bd", "c"]
CYCLE = ["ab", "bc", "cd", "ad"]
TRIANGLE = ["ab", "bc", "ac"]
OVERLAPPING = ["abc", "abd", "cde", "ae"]


def graph(cliques, names="abcde"):
    return RegionGraph.of(Layout.of(Domain(dict.fromkeys(names, 2)), map(tuple, cliques)))


def counts(found):
    regions = map("".join, (*found.outer, *found.inner))
    return dict(zip(regions, (*found.outer_counts, *found.inner_counts), strict=True))


def test_regions_are_the_closure_under_intersection():
    found = graph(OVERLAPPING)
    assert set(found.outer) == {tuple("abc"), tuple("abd"), tuple("cde"), tuple("ae")}
    assert found.inner == (tuple("ab"), ("a",), ("c",), ("d",), ("e",))
    assert [found.outer[o] for o in found.holders[0]] == [tuple("abc"), tuple("abd")]
    assert found.cells == 3 * 8 + 4 + 4 + 4 * 2


def test_cliques_may_nest_permute_be_empty_and_leave_attributes_out():
    found = graph(["ba", "ab", "", "b"])
    assert found.outer == (tuple("ab"), ("c",), ("d",), ("e",))
    assert found.inner == (("b",),)
    assert found.is_tree


def test_kikuchi_counts_of_overlapping_triples():
    found = graph(OVERLAPPING)
    assert found.inner == (tuple("ab"), *zip("acde", strict=True))
    assert _kikuchi(found.outer, found.inner) == [-1, -1, -1, -1, -1]


@pytest.mark.parametrize(("cliques", "tree"), [(TREE, True), (CYCLE, False), (TRIANGLE, False), (OVERLAPPING, False)])
def test_what_is_a_tree(cliques, tree):
    assert graph(cliques).is_tree is tree


def test_convex_counts_of_a_tree_are_exact():
    found = graph(TREE)
    assert found.outer_counts.tolist() == [1.0] * len(found.outer)
    assert found.inner_counts.tolist() == _kikuchi(found.outer, found.inner)


@pytest.mark.parametrize("cliques", [CYCLE, TRIANGLE, OVERLAPPING, ["abc", "bcd", "cde", "ade", "abe"]])
def test_convex_counts_are_provably_so_and_count_each_attribute_once(cliques):
    found = graph(cliques)
    for name in found.domain:
        once = sum(count for region, count in counts(found).items() if name in region)
        assert once == pytest.approx(1.0, abs=0.02)
    assert conditional_weights_exist(found)


def conditional_weights_exist(found):
    """Return whether c is a combination of entropies and conditional entropies with weights of at least 0, by LP."""
    from scipy.optimize import linprog

    n_outer, n = len(found.outer), len(found.outer) + len(found.inner)
    edges = [(o, n_outer + i) for i, above in enumerate(found.holders) for o in above]
    matrix = np.zeros((n, n + len(edges)))
    matrix[:, :n] = np.eye(n)
    for column, (o, i) in enumerate(edges, n):
        matrix[o, column], matrix[i, column] = 1.0, -1.0
    target = np.concatenate([found.outer_counts, found.inner_counts])
    return linprog(np.zeros(matrix.shape[1]), A_eq=matrix, b_eq=target, bounds=(0, None)).success
