"""Spine: the tree of areas that TopDown goes down, from one root to the values of the attribute of areas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.queries import MatrixQuery, compress
from pgmest.tables.hierarchy import Hierarchy

ROOT = "all"
"""The name of the root, if no level of the hierarchy has a single group."""


@dataclass(frozen=True, eq=False)
class Spine:
    """Levels of areas. Areas are numbered such that the children of an area follow each other.

    Attributes:
        attribute: the attribute of areas.
        names: the name of each level, from the root to the leaves, which are named by the attribute.
        groups: for each level, the area of each value of the attribute, shape (values,).
    """

    attribute: str
    names: tuple[str, ...]
    groups: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, attribute: str, values: int, hierarchy: Hierarchy | None) -> Spine:
        """Return the levels of a hierarchy between a root and the single values; equal levels count once.

        Args:
            attribute: the attribute of areas.
            values: its number of values.
            hierarchy: the levels; None for a root and its children only.
        """
        levels = {} if hierarchy is None else dict(hierarchy.levels)
        levels = {name: groups for name, groups in levels.items() if int(groups.max()) + 1 < values}
        if not any(not groups.any() for groups in levels.values()) and values > 1:
            levels = {ROOT: np.zeros(values, dtype=np.int64), **levels}
        levels[attribute] = np.arange(values)
        order = np.lexsort([np.arange(values), *list(levels.values())[::-1]])
        names, groups = [], []
        for name, of in levels.items():
            own = np.empty(values, dtype=np.int64)
            own[order] = np.concatenate([[0], np.cumsum(np.diff(of[order]) != 0)])
            if not groups or own.max() > groups[-1].max():
                names.append(name)
                groups.append(own)
        names[-1] = attribute
        return cls(attribute, tuple(names), tuple(groups))

    @cached_property
    def order(self) -> np.ndarray:
        """The value of the attribute of each leaf, shape (values,)."""
        return np.argsort(self.groups[-1])

    def size(self, level: int) -> int:
        """Return the number of areas of a level."""
        return int(self.groups[level].max()) + 1

    def parents(self, level: int) -> np.ndarray:
        """Return the area above each area of a level, in increasing order; the level is not the root."""
        found = np.empty(self.size(level), dtype=np.int64)
        found[self.groups[level]] = self.groups[level - 1]
        return found

    def query(self, level: int) -> tuple[str, MatrixQuery | None] | None:
        """Return the attribute of areas with the matrix of a level: None for single values, or None for the root."""
        if level == 0 and len(self.names) > 1:
            return None
        if level == len(self.names) - 1:
            return (self.attribute, None) if len(self.names) > 1 else None
        return self.attribute, compress(len(self.groups[level]), self.groups[level].tolist())

    def in_own_order(self, level: int, rows: np.ndarray) -> np.ndarray:
        """Return answers in the order of the level's areas; those of the leaves come in the order of the values."""
        return rows[self.order] if level == len(self.names) - 1 and len(self.names) > 1 else rows

    def areas_of(self, members: np.ndarray) -> dict[int, int]:
        """Return the areas that consist of some values: level -> area; several if areas have a single child.

        Args:
            members: True for the values, shape (values,).
        """
        chosen = np.flatnonzero(members)
        if not chosen.size:
            return {}
        own = [(level, int(groups[chosen[0]])) for level, groups in enumerate(self.groups)]
        return {level: area for level, area in own if np.array_equal(self.groups[level] == area, members)}
