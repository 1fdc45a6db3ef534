"""TreeLimit: select the cliques that can be measured next within a limit on the size of the junction tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress

import numpy as np

from pgmest.graph.elimination_order import QuickSearch, as_matrix
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.triangulation import interaction_graph
from pgmest.mechanisms.tree_growth import TreeGrowth
from pgmest.tables.domain import Clique, Domain

MEGABYTES_PER_CELL = 8e-6
"""The memory of a cell, a float64, in megabytes of 10^6 bytes."""

CERTAIN = 0.75
"""The share of the limit up to which a known order suffices; above it, the search of `estimate` might not find an order
as good, so that a search has to confirm the clique."""

HOPELESS = 8.0
"""A clique is refused without a search if its tree exceeds the limit by this factor along every known order."""

SMALL = 0.25
"""A tree below this share of the limit is not optimized by a longer search: candidates fit into it anyway."""

WORTH_A_SEARCH = 1.25
"""A larger tree gets a longer search when it has grown by this factor since the last longer search."""


class TreeLimit:
    """The junction tree of the measured cliques, and a limit on its size.

    A clique fits if the tree with it stays well within the limit along a known order (`TreeGrowth`), or within the
    limit along an order that a quick search finds; `estimate` searches in the same way, for longer. Trees only grow,
    so a clique that did not fit is tried again only when the limit has grown past the size that its tree had.

    Args:
        domain: the attributes.
        cliques: the cliques measured so far.
        max_megabytes: the limit, at 8 bytes a cell.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], max_megabytes: float):
        self._domain, self._limit = domain, max_megabytes
        self._search = QuickSearch(domain.shape)
        self._searched = 0.0  # megabytes of the last tree that got a longer search
        self._candidates = _Candidates(domain)
        self._rebuild(list(dict.fromkeys(cliques)))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques measured so far."""
        return tuple(self._cliques)

    def add(self, clique: Clique) -> None:
        """Add a clique that was measured."""
        if clique not in self._cliques:
            covered = self.tree.holds(clique)
            self._cliques.append(clique)
            if covered:  # the tree stays, but some of its fill edges may have become measured edges
                self.tree: JunctionTree = replace(self.tree, measured=(*self.tree.measured, clique))
                self._graph_changed()
            else:
                self._rebuild(self._cliques)

    def fitting(self, cliques: Iterable[Clique], share: float = 1.0) -> list[Clique]:
        """Return the cliques with which the tree stays within this share of the limit, or does not grow.

        Args:
            cliques: the candidates; the result keeps their order.
            share: the share of the limit that the tree may take, between 0 and 1.
        """
        asked = list(cliques)
        return list(compress(asked, self._fit(self._candidates.numbers(asked), self._limit * share).tolist()))

    def _rebuild(self, cliques: list[Clique]) -> None:
        self._cliques = cliques
        self.tree = self._grown(cliques)
        self._joined = as_matrix(interaction_graph(self._domain, self.tree.cliques))
        self._graph_changed()

    def _graph_changed(self) -> None:
        """Forget the results that depend on the graph of the measured cliques."""
        self._graph = as_matrix(interaction_graph(self._domain, self._cliques))
        self._growths: dict[str | None, TreeGrowth] = {}
        self._candidates.found[:] = np.inf

    def _grown(self, cliques: list[Clique]) -> JunctionTree:
        """Return a tree from a quick search, or from a longer one if that tree has grown much since the last."""
        tree = JunctionTree.from_cliques(self._domain, cliques, effort="low")
        if tree.megabytes <= max(SMALL * self._limit, WORTH_A_SEARCH * self._searched):
            return tree
        tree = JunctionTree.from_cliques(self._domain, cliques)
        self._searched = tree.megabytes
        return tree

    def _fit(self, asked: np.ndarray, allowed: float) -> np.ndarray:
        """Return whether each of the candidates with these numbers fits."""
        from pgmest.mechanisms.growth_kernels import covered_cliques

        candidates, covered = self._candidates, np.empty(len(asked), dtype=np.bool_)
        covered_cliques(candidates.rows, asked, self._joined, covered)
        certain = min(allowed, CERTAIN * self._limit)
        open_ = asked[~covered & (candidates.refused[asked] <= allowed)]
        megabytes = self._cells_along_known_orders(open_, certain / MEGABYTES_PER_CELL) * MEGABYTES_PER_CELL
        fits = np.zeros(len(candidates.rows), dtype=np.bool_)
        fits[open_] = megabytes[open_] <= certain
        uncertain = open_[(megabytes[open_] > certain) & (megabytes[open_] <= HOPELESS * allowed)]
        searched = uncertain[candidates.found[uncertain] > allowed]
        cells = self._search.cells_with(self._graph, candidates.rows, searched, allowed / MEGABYTES_PER_CELL)
        candidates.found[searched] = cells[searched] * MEGABYTES_PER_CELL
        fits[uncertain] = candidates.found[uncertain] <= allowed
        candidates.refused[uncertain] = np.where(fits[uncertain], 0.0, candidates.found[uncertain])
        return covered | fits[asked]

    def _cells_along_known_orders(self, open_: np.ndarray, enough: float) -> np.ndarray:
        """Return the least cells along the tree's order and orders that end with an attribute of the clique.

        A candidate is not evaluated along further orders once it has at most `enough` cells.
        """
        from pgmest.mechanisms.growth_kernels import undecided

        rows, found = self._candidates.rows, np.empty(len(open_), dtype=np.int64)
        least = np.full(len(rows), np.inf)
        for vertex, last in enumerate((None, *self._domain), -1):
            some = found[: undecided(rows, open_, least, enough, vertex, found)]
            if len(some):
                growth = self._growths.get(last)
                if growth is None:
                    growth = self._growths[last] = TreeGrowth(self.tree, last, self._graph)
                growth.lower(rows, some, least)
        return least


class _Candidates:
    """The candidate cliques so far, numbered in the order of their first appearance, and the sizes of their trees.

    Attributes:
        rows: the positions of the attributes of each candidate in the domain, padded with -1.
        refused: the megabytes of the tree with a candidate that did not fit, 0 for all others.
        found: the megabytes that a search found for the present measured cliques; inf without a search.
    """

    def __init__(self, domain: Domain):
        self._vertex = {name: vertex for vertex, name in enumerate(domain)}
        self._number: dict[Clique, int] = {}
        self._last: tuple[list[Clique], np.ndarray] = [], np.empty(0, dtype=np.int64)
        self.rows = np.empty((0, 0), dtype=np.int32)
        self.refused = np.empty(0)
        self.found = np.empty(0)

    def numbers(self, cliques: list[Clique]) -> np.ndarray:
        """Return the numbers of these cliques; new cliques are added."""
        if cliques != self._last[0]:
            new = [clique for clique in dict.fromkeys(cliques) if clique not in self._number]
            self._number |= {clique: len(self._number) + place for place, clique in enumerate(new)}
            self._add(new)
            numbers = [self._number[clique] for clique in cliques]
            self._last = list(cliques), np.array(numbers, dtype=np.int64)
        return self._last[1]

    def _add(self, new: list[Clique]) -> None:
        before, width = len(self.rows), max((self.rows.shape[1], *map(len, new)))
        rows = np.full((before + len(new), width), -1, dtype=np.int32)
        rows[:before, : self.rows.shape[1]] = self.rows
        for row, clique in zip(rows[before:], new, strict=True):
            row[: len(clique)] = [self._vertex[name] for name in clique]
        self.rows = rows
        self.refused = np.concatenate([self.refused, np.zeros(len(new))])
        self.found = np.concatenate([self.found, np.full(len(new), np.inf)])
