"""TreeLimit: which cliques could be measured next without the junction tree outgrowing its limit."""

from __future__ import annotations

from collections.abc import Iterable

from pgmest.domain import Clique, Domain
from pgmest.junction_tree import JunctionTree


class TreeLimit:
    """The junction tree of what was measured, and a limit to what it may grow to.

    Sizes are those of the trees that `estimate` would find. Trees only grow, so a clique that did not fit is tried
    again only when the limit has grown past the size it had.

    Args:
        domain: the attributes.
        cliques: those measured so far.
        max_megabytes: the limit, 8 bytes a cell.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], max_megabytes: float):
        self._domain, self._limit = domain, max_megabytes
        self._sizes: dict[Clique, tuple[int, float]] = {}  # for how many cliques measured, and how many megabytes
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
            if not inside:
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
        self.tree = JunctionTree.from_cliques(self._domain, cliques)
        self._held = [frozenset(clique) for clique in self.tree.cliques]

    def _covered(self, clique: Clique) -> bool:
        members = frozenset(clique)
        return any(members <= held for held in self._held)

    def _fits(self, clique: Clique, allowed: float) -> bool:
        measured, megabytes = self._sizes.get(clique, (-1, 0.0))
        if measured != len(self._cliques) and megabytes <= allowed:
            megabytes = JunctionTree.from_cliques(self._domain, [*self._cliques, clique]).megabytes
            self._sizes[clique] = len(self._cliques), megabytes
        return megabytes <= allowed
