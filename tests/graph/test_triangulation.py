"""Graphs as bit masks: elimination, maximal cliques and junction forests, against networkx and by hand."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.graph.triangulation import (
    Elimination,
    bits,
    center_rooted,
    connected_components,
    eliminate_simplicial,
    interaction_graph,
    join_cliques,
    mask_of,
    maximal_cliques,
    triangulate,
)
from pgmest.tables.domain import Domain


def graph_of(count: int, edges: list[tuple[int, int]]) -> list[int]:
    graph = [0] * count
    for u, v in edges:
        graph[u] |= 1 << v
        graph[v] |= 1 << u
    return graph


def as_networkx(graph: list[int]) -> nx.Graph:
    known = nx.Graph((u, v) for u, near in enumerate(graph) for v in bits(near))
    known.add_nodes_from(range(len(graph)))
    return known


@st.composite
def graphs(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(1, 9))
    pairs = [(u, v) for u in range(count) for v in range(u)]
    return graph_of(count, draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else [])


SQUARE = graph_of(4, [(0, 1), (1, 2), (2, 3), (3, 0)])


def test_a_set_of_vertices_is_a_mask():
    assert mask_of([0, 3, 5]) == 0b101001
    assert list(bits(0b101001)) == [0, 3, 5]
    assert list(bits(0)) == []


def test_attributes_of_a_clique_are_neighbors():
    domain = Domain(dict.fromkeys("abcd", 2))
    assert interaction_graph(domain, [("c", "a"), ("a", "b"), ("a",), ()]) == [0b0110, 0b0001, 0b0001, 0]


@given(graphs())
def test_components_are_those_of_networkx_by_lowest_vertex(graph):
    found = [set(bits(mask)) for mask in connected_components(graph, (1 << len(graph)) - 1)]
    assert found == sorted(nx.connected_components(as_networkx(graph)), key=min)


def test_components_of_a_subgraph_use_its_vertices_only():
    assert list(connected_components(SQUARE, 0b0101)) == [0b0001, 0b0100]


def test_eliminating_a_corner_of_a_square_joins_its_neighbors():
    assert triangulate(SQUARE, [0, 1, 2, 3]) == [
        Elimination(0b0001, 0b1010),
        Elimination(0b0010, 0b1100),
        Elimination(0b0100, 0b1000),
        Elimination(0b1000, 0),
    ]
    assert SQUARE == [0b1010, 0b0101, 0b1010, 0b0101]


def test_a_square_has_no_simplicial_vertex():
    graph = list(SQUARE)
    assert eliminate_simplicial(graph) == []
    assert graph == SQUARE


def test_vertices_with_the_same_neighborhood_go_together():
    complete = graph_of(4, [(u, v) for u in range(4) for v in range(u)])
    assert eliminate_simplicial(complete) == [Elimination(0b1111, 0)]


def test_a_tail_is_eliminated_and_its_square_is_kept():
    graph = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])
    steps = eliminate_simplicial(graph)
    assert steps == [Elimination(1 << 5, 1 << 4), Elimination(1 << 4, 1 << 3)]
    assert graph[:4] == SQUARE


@given(graphs())
def test_simplicial_elimination_uses_up_chordal_graphs_and_adds_no_fill(graph):
    known = as_networkx(graph)
    steps = eliminate_simplicial(list(graph))
    for group, separator in steps:
        assert known.subgraph(bits(group | separator)).size() == math.comb((group | separator).bit_count(), 2)
    eliminated = sum(group.bit_count() for group, _ in steps)
    assert (eliminated == len(graph)) == nx.is_chordal(known)


@given(graphs(), st.randoms(use_true_random=False))
def test_maximal_cliques_and_separators_are_those_of_the_filled_graph(graph, random):
    order = random.sample(range(len(graph)), len(graph))
    steps = triangulate(graph, order)
    filled = as_networkx(graph)
    for group, separator in steps:
        clique = list(bits(group | separator))
        filled.add_edges_from((u, v) for u in clique for v in clique if u < v)
    assert nx.is_chordal(filled)
    cliques, separators = maximal_cliques(steps)
    assert cliques == sorted(map(mask_of, nx.find_cliques(filled)), key=lambda clique: list(bits(clique)))
    assert len(separators) == len(cliques) - nx.number_connected_components(filled)
    assert all(any(separator & ~clique == 0 for clique in cliques) for separator in separators)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_forest_has_the_most_shared_attributes_and_of_these_the_fewest_cells(graph, random):
    cliques, separators = maximal_cliques(triangulate(graph, random.sample(range(len(graph)), len(graph))))
    cells = [random.randint(1, 50) for _ in cliques]
    overlaps = nx.Graph()
    overlaps.add_nodes_from(range(len(cliques)))
    for left in range(len(cliques)):
        for right in range(left):
            shared = (cliques[left] & cliques[right]).bit_count()
            if shared:
                overlaps.add_edge(left, right, cost=cells[left] + cells[right] - 1000 * shared)
    edges = join_cliques(cliques, separators, cells)
    best = nx.minimum_spanning_tree(overlaps, weight="cost")
    assert len(edges) == best.number_of_edges()
    assert nx.is_forest(nx.Graph(edges)) if edges else True
    assert sum(overlaps.edges[edge]["cost"] for edge in edges) == best.size(weight="cost")


def test_cliques_around_one_attribute_are_tied_to_the_smallest():
    cliques = [0b00011, 0b00101, 0b01001, 0b10001]
    assert join_cliques(cliques, [1, 1, 1], cells=[30, 20, 10, 40]) == [(2, 1), (2, 0), (2, 3)]


@pytest.mark.parametrize(
    ("edges", "cells", "expected"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 4)], [9, 1, 1, 1, 9], [(2, -1), (1, 2), (0, 1), (3, 2), (4, 3)]),
        ([(0, 1), (1, 2), (2, 3)], [1, 5, 6, 1], [(2, -1), (1, 2), (0, 1), (3, 2)]),
        ([(0, 1), (1, 2), (2, 3)], [1, 6, 6, 1], [(1, -1), (0, 1), (2, 1), (3, 2)]),
        ([(1, 2)], [1, 1, 2], [(0, -1), (2, -1), (1, 2)]),
    ],
    ids=["center", "larger of two centers", "first of two equal centers", "forest"],
)
def test_a_tree_is_rooted_at_its_center(edges, cells, expected):
    assert center_rooted(edges, cells) == expected
