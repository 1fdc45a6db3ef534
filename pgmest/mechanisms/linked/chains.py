"""Chains: children of ordered families, each drawn so that it follows the one before it as the tables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.linked.families import NUMBER, PARENT, Families, Layout
from pgmest.mechanisms.linked.search import Target
from pgmest.tables.domain import Clique

CANDIDATES = 32
"""The number of children from which the next one of a family is drawn."""
LEAST = 1e-6
"""The smallest ratio of a cell's count to that of independent attributes, and of a code among first children."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Ratios of tables to those of independent attributes, by which the next child of a family is drawn.

    Attributes:
        layout: the attributes.
        above: (parent's attribute, child's attribute) -> the logarithms of the ratios of their table.
        across: (child's attribute, next child's attribute) -> the same.
        first: for each attribute of a child, the logarithms of the ratios of first children to all.
    """

    layout: Layout
    above: Mapping[tuple[int, int], np.ndarray]
    across: Mapping[tuple[int, int], np.ndarray]
    first: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, layout: Layout, targets: Mapping[Clique, Target], counts: Mapping[str, np.ndarray]) -> Chains:
        """Return the ratios in the tables of a search.

        Args:
            layout: the attributes.
            targets: the tables.
            counts: the counts of each attribute of a child, and of a next child, in averages.
        """
        above, across, first = {}, {}, []
        for clique, target in targets.items():
            places = layout.place(clique[0]), layout.place(clique[1])
            if layout.is_across(clique):
                across[places] = _log_ratios(target.table)
            elif layout.kind(clique[0]) in (PARENT, NUMBER):
                above[places] = _log_ratios(target.table)
        if layout.rising is not None:
            axis = list(layout.child).index(layout.rising)
            size = layout.child[layout.rising]
            falls = np.tril(np.ones((size, size), dtype=bool), -1)
            across[axis, axis] = np.where(falls, -np.inf, across.get((axis, axis), np.zeros((size, size))))
        for name, following in zip(layout.members, layout.others, strict=True):
            every = np.maximum(counts[name][:-1], 0.0) + LEAST
            begin = np.maximum(every - np.maximum(counts[following][:-1], 0.0), LEAST * every)
            first.append(np.log(begin / every))
        return cls(layout, above, across, tuple(first))

    def drawn(self, families: Families, generator: np.random.Generator) -> Families:
        """Return the families with children drawn one after the other, each from those of families of the same size.

        Each is drawn from a few candidates with weights that are the products of the ratios to the attributes of the
        parent and of the child before it.
        """
        children, sizes = families.children.copy(), families.sizes
        for size in np.unique(sizes[sizes > 0]):
            alike = np.flatnonzero(sizes == size)
            pool = families.children[np.repeat(families.first[alike], size) + np.tile(np.arange(size), len(alike))]
            for place in range(size):
                rows = families.first[alike] + place
                offered = pool[generator.integers(len(pool), size=(len(alike), CANDIDATES))]
                before = None if place == 0 else children[rows - 1]
                weights = self._log_weights(families.parents[alike], before, offered)
                noise = generator.gumbel(size=weights.shape)
                children[rows] = offered[np.arange(len(alike)), np.argmax(weights + noise, axis=1)]
        return Families(families.layout, families.parents, children)

    def _log_weights(self, parents: np.ndarray, before: np.ndarray | None, offered: np.ndarray) -> np.ndarray:
        """Return the logarithms of the weights of candidates, shape (families, candidates)."""
        found = np.zeros(offered.shape[:2])
        for (x, y), ratios in self.above.items():
            found += ratios[parents[:, x, None], offered[:, :, y]]
        if before is None:
            for y, ratios in enumerate(self.first):
                found += ratios[offered[:, :, y]]
            return found
        for (x, y), ratios in self.across.items():
            found += ratios[before[:, x, None], offered[:, :, y]]
        return found


def _log_ratios(table: np.ndarray) -> np.ndarray:
    table = np.maximum(table, 0.0)
    whole = max(float(table.sum()), 1e-300)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / whole
    return np.log(np.maximum(table / np.maximum(independent, 1e-9 * whole), LEAST))
