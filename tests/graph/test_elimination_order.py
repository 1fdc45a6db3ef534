"""The search for an elimination order: its bookkeeping against a recount, its results against all orders."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

from pgmest.errors import ArgumentError
from pgmest.graph import kernels
from pgmest.graph.elimination_order import (
    HEURISTICS,
    QuickSearch,
    _EliminationGame,
    _Heuristic,
    _Kernel,
    as_matrix,
    find_elimination,
)
from pgmest.graph.triangulation import Elimination, bits, connected_components, mask_of, maximal_cliques, triangulate


def random_graph(seed: int, vertices: int, cliques: int, width: int = 2) -> list[int]:
    rng = np.random.default_rng(seed)
    graph = [0] * vertices
    for _ in range(cliques):
        clique = rng.choice(vertices, width, replace=False).tolist()
        for vertex in clique:
            graph[vertex] |= mask_of(clique) & ~(1 << vertex)
    return graph


def total_cells(steps: list[Elimination], sizes: list[int]) -> int:
    return sum(math.prod(sizes[vertex] for vertex in bits(clique)) for clique in maximal_cliques(steps)[0])


def networkx_cells(graph: list[int], sizes: list[int]) -> int:
    """The cells of the better of the trees that networkx's two heuristics give."""
    known = nx.Graph((u, v) for u, near in enumerate(graph) for v in bits(near))
    known.add_nodes_from(range(len(graph)))
    totals = []
    for heuristic in (treewidth_min_fill_in, treewidth_min_degree):
        filled = nx.Graph(known)
        for bag in heuristic(known)[1]:
            filled.add_edges_from(itertools.combinations(bag, 2))
        totals.append(sum(math.prod(sizes[v] for v in clique) for clique in nx.find_cliques(filled)))
    return min(totals)


def test_the_cheap_diagonal_of_a_square_is_found():
    square = [0b1010, 0b0101, 0b1010, 0b0101]
    steps = find_elimination(square, [3, 3, 3, 2])
    assert maximal_cliques(steps)[0] == [0b1011, 0b1110]  # 18 + 18 cells; the other diagonal costs 27 + 18


def test_a_chordal_graph_gets_no_fill():
    fan = [0b1110, 0b0101, 0b1011, 0b0101]
    cliques, separators = maximal_cliques(find_elimination(fan, [2, 2, 2, 2]))
    assert cliques == [0b0111, 0b1101]
    assert separators == [0b0101]


@pytest.mark.parametrize("seed", range(25))
def test_small_graphs_reach_the_optimum_over_all_orders(seed):
    graph = random_graph(seed, vertices=6, cliques=8)
    sizes = np.random.default_rng(seed).choice([2, 3, 5, 20, 50], 6).tolist()
    optimum = min(total_cells(triangulate(graph, order), sizes) for order in itertools.permutations(range(6)))
    assert total_cells(find_elimination(graph, sizes), sizes) == optimum
    assert total_cells(find_elimination(graph, sizes, "low"), sizes) <= 3 * optimum


@pytest.mark.parametrize(("seed", "vertices", "cliques", "width"), [(0, 15, 15, 3), (1, 15, 15, 3), (2, 20, 40, 2)])
def test_the_order_is_never_worse_than_that_of_networkx(seed, vertices, cliques, width):
    graph = random_graph(seed, vertices, cliques, width)
    sizes = np.random.default_rng(seed).integers(2, 100, vertices).tolist()
    low, auto = (total_cells(find_elimination(graph, sizes, effort), sizes) for effort in ("low", "auto"))
    assert auto <= low
    assert auto <= networkx_cells(graph, sizes)


def test_more_effort_finds_better_orders_and_never_worse():
    totals = []
    for seed in range(5):
        graph = random_graph(seed, vertices=12, cliques=16, width=3)
        sizes = np.random.default_rng(seed).integers(2, 40, 12).tolist()
        totals.append(
            [total_cells(find_elimination(graph, sizes, effort), sizes) for effort in ("low", "auto", "high")]
        )
    assert all(high <= auto <= low for low, auto, high in totals)
    assert any(auto < low for low, auto, _ in totals)


def test_the_same_input_gives_the_same_order():
    graph = random_graph(5, vertices=20, cliques=40)
    sizes = list(range(2, 22))
    assert find_elimination(graph, sizes) == find_elimination(graph, sizes)


def test_components_are_searched_apart():
    square = random_graph(7, vertices=10, cliques=20)
    twice = square + [near << 10 for near in square]
    sizes = [3, 7, 2, 9, 4, 5, 8, 2, 6, 3]
    once = total_cells(find_elimination(square, sizes), sizes)
    assert total_cells(find_elimination(twice, sizes * 2), sizes * 2) == 2 * once


def test_sizes_beyond_floating_point_are_no_obstacle():
    square = [0b1010, 0b0101, 0b1010, 0b0101]
    steps = find_elimination(square, [10**400, 2, 10**400, 3])
    assert maximal_cliques(steps)[0] == [0b1011, 0b1110]


def test_an_unknown_effort_is_refused_with_the_known_ones():
    with pytest.raises(ArgumentError) as caught:
        find_elimination([], [], effort="most")
    assert str(caught.value) == "effort='most' is not valid: it must be one of 'low', 'auto', 'high'."


@settings(deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_scores_kept_current_equal_scores_counted_anew(seed, weighted):
    graph = random_graph(seed, vertices=8, cliques=12)
    sizes = np.random.default_rng(seed).integers(1, 9, 8).tolist()
    game = _EliminationGame.start(_Kernel(list(range(8)), graph, sizes), weighted)
    arrays = game.graph, game.near, game.degree, game.sizes, game.weights, game.fill, game.cells
    left = list(range(8))
    for vertex in np.random.default_rng(seed).permutation(8).tolist():
        kernels.eliminate(*arrays, np.empty(8, dtype=np.uint8), vertex)
        left.remove(vertex)
        filled = [mask_of(np.flatnonzero(row).tolist()) for row in game.graph]
        fresh = _EliminationGame.start(_Kernel(list(range(8)), filled, sizes), weighted)
        assert not game.graph[vertex].any()
        assert np.array_equal(game.fill[left], fresh.fill[left])
        assert np.array_equal(game.cells[left], fresh.cells[left])


def greedy(kernel: _Kernel, rule: _Heuristic, factors: list[float]) -> list[Elimination]:
    """Eliminate as the library does, but count every score from the graph again in each step."""
    graph, steps = list(kernel.graph), []
    alive = set(range(len(graph)))
    weights = kernel.sizes if rule.weighted else [1] * len(graph)

    def key(vertex: int) -> tuple[float, int, int]:
        near = list(bits(graph[vertex]))
        fill = sum(weights[u] * weights[w] for u, w in itertools.combinations(near, 2) if not graph[u] >> w & 1)
        cells = math.prod([kernel.sizes[u] for u in (vertex, *near)])
        score = (math.log(cells) if fill else 0.0) if rule.by_cells else fill
        return score * factors[vertex], cells, vertex

    while alive:
        vertex = min(alive, key=key)
        near = graph[vertex]
        steps.append(Elimination(1 << vertex, near))
        alive.remove(vertex)
        if near == mask_of(alive):
            return [*steps, Elimination(near, 0)]
        for u in bits(near):
            graph[u] = (graph[u] | near) & ~(1 << u | 1 << vertex)
    return steps


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(HEURISTICS)), st.booleans())
def test_a_run_takes_the_lowest_score_and_costs_the_cells_of_its_maximal_cliques(seed, name, plain):
    graph = random_graph(seed, vertices=9, cliques=6, width=3)
    sizes = np.random.default_rng(seed).integers(1, 9, 9).tolist()
    for component in connected_components(graph, (1 << 9) - 1):
        kernel = _Kernel.of(component, graph, sizes)
        n = len(kernel.vertices)
        game = _EliminationGame.start(kernel, HEURISTICS[name].weighted)
        factors = np.ones(n) if plain else np.random.default_rng(seed).uniform(1, 3, n)
        outcome = game.play(HEURISTICS[name].by_cells, factors, math.inf)
        assert outcome.steps == greedy(kernel, HEURISTICS[name], factors.tolist())
        assert outcome.cost == total_cells(outcome.steps, kernel.sizes)
        assert game.play(HEURISTICS[name].by_cells, factors, outcome.cost).cost < 0


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
@example(131071, 33, False)  # falls into parts only when what has no fill is gone
def test_a_quick_search_counts_the_cells_of_the_tree_that_a_search_of_low_effort_finds(seed, vertices, large):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, vertices, int(rng.integers(0, 2 * vertices)) if vertices > 2 else 0, 2)
    sizes = rng.integers(1, 40 if large else 5, vertices).tolist()
    search = QuickSearch(sizes)
    for _ in range(2):  # its memory is used again
        cells = total_cells(find_elimination(graph, sizes, "low"), sizes)
        matrix, rows = as_matrix(graph).copy(), np.full((2, 2), -1, dtype=np.int32)
        rows[1] = 0, vertices - 1 if vertices > 1 else -1
        found, joined = search.cells_with(matrix, rows, np.arange(2), -1.0)
        assert found == cells or cells > 2**53
        more = list(graph)
        if vertices > 1:
            more[0], more[-1] = more[0] | 1 << vertices - 1, more[-1] | 1
        cells = total_cells(find_elimination(more, sizes, "low"), sizes)
        assert joined == cells or cells > 2**53
        assert joined <= search.cells_with(matrix, rows, np.arange(2), 2.0 * joined)[1] <= 2.0 * joined
        assert np.array_equal(matrix, as_matrix(graph))
        graph = [near & ~1 for near in graph]
        graph[0] = 0
