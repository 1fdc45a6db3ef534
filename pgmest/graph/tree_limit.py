"""TreeLimit: which cliques could be measured next without the junction tree outgrowing its limit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pgmest.graph.elimination_order import QuickSearch, as_matrix
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.tree_growth import TreeGrowth
from pgmest.graph.triangulation import interaction_graph
from pgmest.tables.domain import Clique, Domain

MEGABYTES_PER_CELL = 8e-6

CERTAIN = 0.75
"""Beyond this share of the limit an order at hand is not enough, since the search of `estimate` might miss it."""


HOPELESS = 8.0
"""A clique that exceeds the limit this many times along each order at hand is not searched for."""

SMALL = 0.25
"""A tree below this share of the limit may be far from the best one: whatever fits, fits into it as well."""

WORTH_A_SEARCH = 1.25
"""A larger tree is searched for longer when it is this many times larger than the last one that was."""


class TreeLimit:
    """The junction tree of what was measured, and a limit to what it may grow to.

    A clique fits if the tree with it stays well within the limit along an order that is at hand (`TreeGrowth`), or
    within it along one that a quick search finds; `estimate` searches in the same way, and longer. Trees only grow, so
    a clique that did not fit is tried again only when the limit has grown past the size it had.

    Args:
        domain: the attributes.
        cliques: those measured so far.
        max_megabytes: the limit, 8 bytes a cell.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], max_megabytes: float):
        self._domain, self._limit = domain, max_megabytes
        self._vertex = {name: vertex for vertex, name in enumerate(domain)}
        self._search = QuickSearch(domain.shape)
        self._searched = 0.0  # megabytes of the last tree that was searched for longer
        self._found: dict[Clique, tuple[int, float]] = {}  # by a search with so many cliques measured: megabytes
        self._adopt(list(dict.fromkeys(cliques)))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """What was measured."""
        return tuple(self._cliques)

    def add(self, clique: Clique) -> None:
        """A clique was measured."""
        if clique not in self._cliques:
            inside = self._covered(clique)
            self._cliques.append(clique)
            if inside:  # the tree stays, but fill that it could do without is measured now
                self.tree: JunctionTree = replace(self.tree, measured=(*self.tree.measured, clique))
                self._graph = as_matrix(interaction_graph(self._domain, self._cliques))
                self._growths = {}
            else:
                self._adopt(self._cliques)

    def fitting(self, cliques: Iterable[Clique], share: float = 1.0) -> list[Clique]:
        """The cliques with which the tree would take at most this share of the limit, or no more than it does now.

        Args:
            cliques: candidates, in the order of the answer.
            share: between 0 and 1.
        """
        return [clique for clique in cliques if self._covered(clique) or self._fits(clique, self._limit * share)]

    def _adopt(self, cliques: list[Clique]) -> None:
        self._cliques = cliques
        self._graph = as_matrix(interaction_graph(self._domain, cliques))
        self.tree = self._grown(cliques)
        self._growths: dict[str | None, TreeGrowth] = {}

    def _grown(self, cliques: list[Clique]) -> JunctionTree:
        """A tree of the cliques: of a quick search, and where that is much larger than before of a longer one."""
        tree = JunctionTree.from_cliques(self._domain, cliques, effort="low")
        if tree.megabytes <= max(SMALL * self._limit, WORTH_A_SEARCH * self._searched):
            return tree
        tree = JunctionTree.from_cliques(self._domain, cliques)
        self._searched = tree.megabytes
        return tree

    def _covered(self, clique: Clique) -> bool:
        return self.tree.holds(clique)

    def _fits(self, clique: Clique, allowed: float) -> bool:
        measured, megabytes = self._found.get(clique, (-1, 0.0))
        if megabytes > allowed:
            return False
        at_hand = self._at_hand(clique, min(allowed, CERTAIN * self._limit))
        if at_hand <= min(allowed, CERTAIN * self._limit) or at_hand > HOPELESS * allowed:
            return at_hand <= allowed
        if measured != len(self._cliques):
            megabytes = self._cells_with(clique) * MEGABYTES_PER_CELL
            self._found[clique] = len(self._cliques), megabytes
        return megabytes <= allowed

    def _cells_with(self, clique: Clique) -> float:
        """Cells of the tree with this clique, too, along the order that a quick search finds."""
        vertices = [self._vertex[name] for name in clique]
        block = np.ix_(vertices, vertices)
        before = self._graph[block]
        self._graph[block] = 1 - np.eye(len(vertices), dtype=np.uint8)
        cells = self._search.cells(self._graph)
        self._graph[block] = before
        return cells

    def _at_hand(self, clique: Clique, allowed: float) -> float:
        """Megabytes along the tree's own order or one that ends with one of the attributes: the first, or the least."""
        least = math.inf
        for last in (None, *clique):
            growth = self._growths.get(last)
            if growth is None:
                growth = self._growths[last] = TreeGrowth(self.tree, last)
            least = min(least, growth.with_clique(clique) * MEGABYTES_PER_CELL)
            if least <= allowed:
                break
        return least
