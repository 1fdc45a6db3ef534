"""The part of a junction tree that a query needs: the smallest subtree that connects its attributes.

Such a subtree is a junction tree of its attributes: in the marginals of its cliques all others are already summed out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique


@dataclass(frozen=True)
class Subtree:
    """The cliques of a junction tree that connect some attributes; in a forest they may form several parts.

    Attributes:
        cliques: the positions of the cliques in the tree, parents before children.
        parents: the index in `cliques` of the parent of each clique, -1 for a root.
        separators: the attributes that each clique shares with its parent, () for a root.
        kept: the attributes of each clique that are asked for or shared with a neighbor, in domain order.
    """

    cliques: tuple[int, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]
    kept: tuple[Clique, ...]


@lru_cache(maxsize=1024)
def connecting_subtree(tree: JunctionTree, asked: frozenset[str]) -> Subtree:
    """Return the smallest subtree for the attributes; the root of each part is the clique that keeps the most cells."""
    single = tree.containing(asked)
    if single is not None:
        return Subtree((single,), (-1,), ((),), (tree.domain.ordered(asked),))
    neighbors = _pruned(tree, asked)
    kept = {
        position: tree.domain.ordered(
            (asked | {name for other in near for name in tree.cliques[other]}).intersection(tree.cliques[position]),
        )
        for position, near in neighbors.items()
    }
    cells = {position: math.prod([tree.domain[name] for name in names]) for position, names in kept.items()}
    order: list[tuple[int, int]] = []
    index: dict[int, int] = {}
    for root in sorted(neighbors, key=lambda position: (-cells[position], position)):
        stack = [(root, -1)] if root not in index else []
        while stack:
            position, parent = stack.pop()
            index[position] = len(order)
            order.append((position, parent))
            stack += [(other, position) for other in sorted(neighbors[position], reverse=True) if other != parent]
    shared = [set(kept[p]).intersection(kept[q]) if q >= 0 else set() for p, q in order]
    return Subtree(
        tuple(position for position, _ in order),
        tuple(index.get(parent, -1) for _, parent in order),
        tuple(tree.domain.ordered(names) for names in shared),
        tuple(kept[position] for position, _ in order),
    )


def _pruned(tree: JunctionTree, asked: frozenset[str]) -> dict[int, set[int]]:
    """Return the neighbors of each clique in the subtree: paths up from the attributes, without idle ends."""
    neighbors: dict[int, set[int]] = {}
    for name in asked:
        position = tree.containing((name,))
        while position is not None and position not in neighbors:
            neighbors[position] = set()
            position = tree.parents[position] if tree.parents[position] >= 0 else None
    for position in neighbors:
        parent = tree.parents[position]
        if parent >= 0:
            neighbors[position].add(parent)
            neighbors[parent].add(position)
    ends = [position for position, near in neighbors.items() if len(near) <= 1]
    while ends:
        position = ends.pop()
        if position not in neighbors:
            continue
        near = neighbors[position]
        wanted = asked.intersection(tree.cliques[position])
        if wanted.issubset(*(tree.cliques[other] for other in near)) if near else not wanted:
            del neighbors[position]
            for other in near:
                neighbors[other].discard(position)
                ends += [other] if len(neighbors[other]) <= 1 else []
    return neighbors
