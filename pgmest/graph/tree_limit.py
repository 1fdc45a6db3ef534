"""TreeLimit: which cliques could be measured next without the junction tree outgrowing its limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress

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
        self._search = QuickSearch(domain.shape)
        self._searched = 0.0  # megabytes of the last tree that was searched for longer
        self._known = _Known(domain)
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
                self._known.forget()
            else:
                self._adopt(self._cliques)

    def fitting(self, cliques: Iterable[Clique], share: float = 1.0) -> list[Clique]:
        """The cliques with which the tree would take at most this share of the limit, or no more than it does now.

        Args:
            cliques: candidates, in the order of the answer.
            share: between 0 and 1.
        """
        asked = list(cliques)
        return list(compress(asked, self._fit(self._known.numbers(asked), self._limit * share).tolist()))

    def _adopt(self, cliques: list[Clique]) -> None:
        self._cliques = cliques
        self._graph = as_matrix(interaction_graph(self._domain, cliques))
        self.tree = self._grown(cliques)
        self._joined = as_matrix(interaction_graph(self._domain, self.tree.cliques))
        self._growths: dict[str | None, TreeGrowth] = {}
        self._known.forget()

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

    def _fit(self, asked: np.ndarray, allowed: float) -> np.ndarray:
        """Whether each of the cliques with these numbers fits."""
        from pgmest.graph.growth_kernels import inside

        known, covered = self._known, np.empty(len(asked), dtype=np.bool_)
        inside(known.rows, asked, self._joined, covered)
        at_hand = min(allowed, CERTAIN * self._limit)
        open_ = asked[~covered & (known.refused[asked] <= allowed)]
        least = self._at_hand(open_, at_hand / MEGABYTES_PER_CELL)
        megabytes = least * MEGABYTES_PER_CELL
        fits = np.zeros(len(known.rows), dtype=np.bool_)
        fits[open_] = megabytes[open_] <= at_hand
        uncertain = open_[(megabytes[open_] > at_hand) & (megabytes[open_] <= HOPELESS * allowed)]
        searched = uncertain[known.found[uncertain] > allowed]
        cells = self._search.cells_with(self._graph, known.rows, searched, allowed / MEGABYTES_PER_CELL)
        known.found[searched] = cells[searched] * MEGABYTES_PER_CELL
        fits[uncertain] = known.found[uncertain] <= allowed
        known.refused[uncertain] = np.where(fits[uncertain], 0.0, known.found[uncertain])
        return covered | fits[asked]

    def _at_hand(self, open_: np.ndarray, enough: float) -> np.ndarray:
        """Cells along the tree's own order or one that ends with an attribute of the clique: enough, or the least."""
        from pgmest.graph.growth_kernels import undecided

        rows, found = self._known.rows, np.empty(len(open_), dtype=np.int64)
        least = np.full(len(rows), np.inf)
        for vertex, last in enumerate((None, *self._domain), -1):
            some = found[: undecided(rows, open_, least, enough, vertex, found)]
            if len(some):
                growth = self._growths.get(last)
                if growth is None:
                    growth = self._growths[last] = TreeGrowth(self.tree, last, self._graph)
                growth.lower(rows, some, least)
        return least


class _Known:
    """The cliques asked about so far, numbered, and what was found of them.

    Attributes:
        rows: the positions of their attributes in the domain, filled up with -1.
        refused: the megabytes of a clique that did not fit, 0 of others.
        found: the megabytes that a search found with the cliques measured now; inf where there was none.
    """

    def __init__(self, domain: Domain):
        self._vertex = {name: vertex for vertex, name in enumerate(domain)}
        self._number: dict[Clique, int] = {}
        self._last: tuple[list[Clique], np.ndarray] = [], np.empty(0, dtype=np.int64)
        self.rows = np.empty((0, 0), dtype=np.int32)
        self.refused = np.empty(0)
        self.found = np.empty(0)

    def numbers(self, cliques: list[Clique]) -> np.ndarray:
        """Their numbers; new ones are added."""
        if cliques != self._last[0]:
            new = [clique for clique in dict.fromkeys(cliques) if clique not in self._number]
            self._number |= {clique: len(self._number) + place for place, clique in enumerate(new)}
            self._add(new)
            numbers = [self._number[clique] for clique in cliques]
            self._last = list(cliques), np.array(numbers, dtype=np.int64)
        return self._last[1]

    def forget(self) -> None:
        """Another clique is measured now."""
        self.found[:] = np.inf

    def _add(self, new: list[Clique]) -> None:
        before, width = len(self.rows), max((self.rows.shape[1], *map(len, new)))
        rows = np.full((before + len(new), width), -1, dtype=np.int32)
        rows[:before, : self.rows.shape[1]] = self.rows
        for row, clique in zip(rows[before:], new, strict=True):
            row[: len(clique)] = [self._vertex[name] for name in clique]
        self.rows = rows
        self.refused = np.concatenate([self.refused, np.zeros(len(new))])
        self.found = np.concatenate([self.found, np.full(len(new), np.inf)])
