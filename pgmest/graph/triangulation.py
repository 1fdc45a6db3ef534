"""Graphs of attributes: elimination, triangulation, and the tree of maximal cliques.

An attribute is a vertex, and two are neighbors when some clique holds both. Eliminating a vertex joins its
neighbors (the edges added are fill) and removes it; it and those neighbors are then a clique of the triangulated
graph. This module builds the cliques and the tree that follow from an order; `elimination_order` searches for a good
order, and `junction_tree` presents the result with attribute names.

Sets of vertices are Python integers used as bit masks: set algebra takes one machine operation per 30 vertices, and
mechanisms, which build small graphs in every round, need not set up arrays.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pgmest.tables.domain import Clique, Domain


def bits(mask: int) -> Iterator[int]:
    """Yield the vertices of a set in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(vertices: Iterable[int]) -> int:
    """Return the set of these vertices as a bit mask."""
    mask = 0
    for vertex in vertices:
        mask |= 1 << vertex
    return mask


class Elimination(NamedTuple):
    """A set of vertices eliminated together, and the separator: their remaining neighbors. Both form one clique."""

    group: int
    separator: int


def interaction_graph(domain: Domain, cliques: Iterable[Clique]) -> list[int]:
    """Return the neighbors of each attribute: the attributes with which it shares a clique."""
    position = {name: vertex for vertex, name in enumerate(domain)}
    graph = [0] * len(domain)
    for clique in cliques:
        vertices = [position[name] for name in clique]
        mask = mask_of(vertices)
        for vertex in vertices:
            graph[vertex] |= mask
    return [mask & ~(1 << vertex) for vertex, mask in enumerate(graph)]


def connected_components(graph: Sequence[int], vertices: int) -> Iterator[int]:
    """Yield the connected components of the subgraph on `vertices`, in order of their lowest vertex."""
    while vertices:
        component = front = vertices & -vertices
        while front:
            reached = 0
            for vertex in bits(front):
                reached |= graph[vertex]
            front = reached & vertices & ~component
            component |= front
        yield component
        vertices &= ~component


def triangulate(graph: Sequence[int], order: Iterable[int]) -> list[Elimination]:
    """Return the eliminations along a given order of all the vertices."""
    graph = list(graph)
    steps = []
    for vertex in order:
        near = graph[vertex]
        for other in bits(near):
            graph[other] = (graph[other] | near) & ~(1 << other | 1 << vertex)
        steps.append(Elimination(1 << vertex, near))
    return steps


def eliminate_simplicial(graph: list[int]) -> list[Elimination]:
    """Eliminate simplicial vertices (whose neighbors are all joined) until none is left; `graph` keeps the others.

    This is safe: any triangulation has a clique that holds such a vertex and its neighbors, and the best triangulation
    adds no edge at the vertex (a fill edge between attributes of two or more values never saves cells). A chordal graph
    is eliminated entirely, without fill. The almost simplicial rule (all neighbors but one are joined), which is safe
    for the treewidth, is not applied because it can cost cells: in the cycle a-b-c-d of sizes 3, 3, 3, 2, eliminating b
    adds the edge a-c and gives 27 + 18 cells, while the edge b-d gives 18 + 18.
    """
    steps = []
    stack = list(reversed(range(len(graph))))
    alive = waiting = mask_of(stack)
    while stack:
        vertex = stack.pop()
        waiting &= ~(1 << vertex)
        group = _simplicial_group(graph, vertex) if alive >> vertex & 1 else 0
        if group:
            separator = graph[vertex] & ~group
            steps.append(Elimination(group, separator))
            alive &= ~group
            for other in bits(separator):
                graph[other] &= ~group
            stack += bits(separator & ~waiting)
            waiting |= separator
    return steps


def _simplicial_group(graph: list[int], vertex: int) -> int:
    """Return a simplicial vertex with all others of the same closed neighborhood, and 0 if it is not simplicial."""
    group = 1 << vertex
    clique = graph[vertex] | group
    for other in bits(graph[vertex]):
        closed = graph[other] | 1 << other
        if clique & ~closed:
            return 0
        if closed == clique:
            group |= 1 << other
    return group


def maximal_cliques(steps: Sequence[Elimination]) -> tuple[list[int], list[int]]:
    """Return the maximal cliques of the triangulated graph, in order of their vertices, and the forest's separators.

    Going backwards through the steps, a group whose separator equals a clique found so far enlarges that clique. Any
    other group starts a new clique, which meets the earlier ones in its separator.
    """
    cliques: list[int] = []
    separators: list[int] = []
    whole: dict[int, int] = {}
    for group, separator in reversed(steps):
        node = whole.pop(separator, -1)
        if node < 0:
            node = len(cliques)
            cliques.append(separator)
            if separator:
                separators.append(separator)
        cliques[node] |= group
        whole[cliques[node]] = node
    return sorted(cliques, key=lambda clique: tuple(bits(clique))), separators


def join_cliques(cliques: Sequence[int], separators: Iterable[int], cells: Sequence[int]) -> list[tuple[int, int]]:
    """Return the edges of a maximum-weight spanning forest (weight: attributes shared), which is a junction forest.

    Among these, the forest minimizes the cells of the two ends of an edge, summed over edges, since a message reads
    both tables. For each separator, the cliques that hold it form parts which larger separators have joined already.
    The smallest clique of each part becomes a neighbor of the smallest clique of all parts. The resulting star also
    keeps the tree shallow.
    """
    holders = [0] * max((clique.bit_length() for clique in cliques), default=0)
    for node, clique in enumerate(cliques):
        for vertex in bits(clique):
            holders[vertex] |= 1 << node
    part = list(range(len(cliques)))
    edges = []
    for separator in sorted(set(separators), key=lambda mask: (-mask.bit_count(), mask)):
        holding = functools.reduce(operator.and_, (holders[vertex] for vertex in bits(separator)))
        smallest: dict[int, int] = {}
        for node in sorted(bits(holding), key=cells.__getitem__):
            smallest.setdefault(_find(part, node), node)
        hub, *others = smallest.values()
        for node in others:
            part[_find(part, node)] = _find(part, hub)
            edges.append((hub, node))
    return edges


def center_rooted(edges: Iterable[tuple[int, int]], cells: Sequence[int]) -> list[tuple[int, int]]:
    """Return the nodes of a forest in depth-first order, each with its parent (-1 for a root).

    The root is the center of its tree; of two centers, the larger clique. The total cost of messages is the same from
    any root, but from the center the longest chain of messages that depend on each other is shortest. In depth-first
    order a clique follows its parent soon, while the parent's table is in the cache.
    """
    neighbors: list[list[int]] = [[] for _ in cells]
    for left, right in edges:
        neighbors[left].append(right)
        neighbors[right].append(left)
    height = _peeling_rounds(neighbors)
    seen = [False] * len(cells)
    order = []
    for start in range(len(cells)):
        if seen[start]:
            continue
        component = [node for node, _ in _depth_first(neighbors, start)]
        root = max(component, key=lambda node: (height[node], cells[node], -node))
        for node, parent in _depth_first(neighbors, root):
            seen[node] = True
            order.append((node, parent))
    return order


def _peeling_rounds(neighbors: Sequence[Sequence[int]]) -> list[int]:
    """Return the round in which each node of a forest is removed when every round removes all leaves."""
    degree = [len(near) for near in neighbors]
    rounds = [0] * len(neighbors)
    leaves = [node for node, count in enumerate(degree) if count <= 1]
    while leaves:
        exposed = []
        for leaf in leaves:
            for node in neighbors[leaf]:
                degree[node] -= 1
                if degree[node] == 1:
                    rounds[node] = rounds[leaf] + 1
                    exposed.append(node)
        leaves = exposed
    return rounds


def _depth_first(neighbors: Sequence[Sequence[int]], root: int) -> Iterator[tuple[int, int]]:
    """Yield each node of the tree at `root` with its parent, parents first, lower children first."""
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        yield node, parent
        stack += [(child, node) for child in sorted(neighbors[node], reverse=True) if child != parent]


def _find(part: list[int], node: int) -> int:
    """Return the root of a node's part (union-find with path halving)."""
    while part[node] != node:
        part[node] = part[part[node]]
        node = part[node]
    return node
