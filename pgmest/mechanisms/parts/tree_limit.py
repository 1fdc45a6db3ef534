"""TreeLimit: which cliques could be measured next without the junction tree outgrowing its limit."""

from __future__ import annotations

from collections.abc import Iterable

from pgmest.domain import Clique, Domain
from pgmest.junction_tree import JunctionTree


class TreeLimit:
    """The junction tree of what was measured, and a limit to what it may grow to.

    Junction trees only grow, so what does not fit under the largest limit ever used is not tried again. A tree along
    the present elimination order is tried before one with an order of its own, which takes ten times as long to find.

    Args:
        domain: the attributes.
        cliques: those measured so far.
        max_megabytes: the limit, 8 bytes a cell.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], max_megabytes: float):
        self._domain, self._limit = domain, max_megabytes
        self._too_large: set[Clique] = set()
        self._megabytes: dict[Clique, float] = {}
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
        self._megabytes.clear()

    def _covered(self, clique: Clique) -> bool:
        members = frozenset(clique)
        return any(members <= held for held in self._held)

    def _fits(self, clique: Clique, allowed: float) -> bool:
        if clique in self._too_large:
            return False
        if clique not in self._megabytes:
            self._megabytes[clique] = self._size(clique)
            if self._megabytes[clique] > self._limit:
                self._too_large.add(clique)
        return self._megabytes[clique] <= allowed

    def _size(self, clique: Clique) -> float:
        """Megabytes of the tree with another clique."""
        cliques = [*self._cliques, clique]
        along = JunctionTree.from_cliques(self._domain, cliques, order=self.tree.elimination_order).megabytes
        if along <= 1.5 * self.tree.megabytes:
            return along
        return min(along, JunctionTree.from_cliques(self._domain, cliques, effort="low").megabytes)
