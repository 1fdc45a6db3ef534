"""PropagationPlan: a layout and a junction tree that holds it."""

from __future__ import annotations

import pytest

from pgmest import Domain
from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout

LAYOUT = Layout.of(Domain(dict.fromkeys("abc", 2)), [("a", "b"), ("b", "c")])


def test_the_tree_may_be_given():
    tree = JunctionTree.from_cliques(LAYOUT.domain, [("a", "b", "c")])
    assert PropagationPlan.of(LAYOUT, tree).tree is tree
    assert PropagationPlan.of(LAYOUT).tree == JunctionTree.from_cliques(LAYOUT.domain, LAYOUT.cliques)


def test_a_tree_without_a_measured_clique_is_refused():
    tree = JunctionTree.from_cliques(LAYOUT.domain, [("a", "b")])
    with pytest.raises(ArgumentError, match=r"no clique that holds \('b', 'c'\)"):
        PropagationPlan.of(LAYOUT, tree)
