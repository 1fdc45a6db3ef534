"""Whole numbers of records in all areas of a level, which add up to the tables of the areas above.

For the children of one area, the cells and a chain of their margins are rounded up or down without bias, such that all
children together have their parent's table (controlled rounding; `pgmest.sampling.rounding`). Constraints that are then
missed are repaired by an integer program (`pgmest.sampling.repair`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array, kron

from pgmest.mechanisms.topdown.constraints import MET, Limits
from pgmest.mechanisms.topdown.least_squares import Family
from pgmest.sampling.clique_tables import CliqueTable
from pgmest.sampling.controlled import fit_cells
from pgmest.sampling.repair import ChangingTable, FactRows, repair
from pgmest.sampling.rounding import Network
from pgmest.tables.domain import Clique, Domain

AREAS = "areas of the spine"
"""The name of the axis of children in the networks of rounding."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """The rounding of tables of areas.

    Attributes:
        detail: the attributes of the tables.
        margins: the margins to protect, the most important first.
        generator: the source of randomness.
    """

    detail: Domain
    margins: tuple[Clique, ...]
    generator: np.random.Generator
    _networks: dict[int, Network] = field(default_factory=dict)

    def root(self, table: np.ndarray, limits: Limits) -> np.ndarray:
        """Return whole numbers near a table, shape (1, cells)."""
        total = np.rint(table.sum(axis=1))
        ones = np.flatnonzero(limits.totals)
        if ones.size:
            low, high = _whole_ends(limits)
            total = np.clip(total, low[:, ones[0]], high[:, ones[0]])
        cells = table if table.any() else limits.possible.astype(np.float64)
        cells = cells * (total / cells.sum())
        groups, values = _exact_groups(limits)
        fitted = fit_cells(cells, [(groups, values[0])], total) if values.size else cells
        return _repaired(self._rounded(fitted, total, 0), table, limits, None, self.generator)

    def children(self, tables: np.ndarray, family: Family, limits: Limits) -> np.ndarray:
        """Return whole numbers near the tables of a level that add up to the parents' tables."""
        found = np.empty_like(tables)
        ends = [*family.starts, len(tables)]
        for parent, (begin, end) in enumerate(pairwise(ends)):
            areas, sums = slice(begin, end), family.tables[parent]
            found[areas] = sums if end == begin + 1 else self._split(tables[areas], sums, limits.of(areas))
        return found

    def _split(self, tables: np.ndarray, sums: np.ndarray, limits: Limits) -> np.ndarray:
        """Return whole numbers near the tables of children, shape (children, cells), that add up to sums."""
        cells = np.where(tables.sum(axis=0) > 0.0, tables, limits.possible)
        cells = np.where(cells.sum(axis=0) > 0.0, cells, 1.0).T
        cells = cells * (sums / cells.sum(axis=1))[:, None]
        groups, values = _exact_groups(limits)
        if values.size:
            children = cells.shape[1]
            flat = np.where(groups[:, None] < 0, -1, groups[:, None] * children + np.arange(children)).reshape(-1)
            cells = fit_cells(cells, [(flat, values.T.reshape(-1))], sums)
        whole = self._rounded(cells, sums, len(tables))
        return _repaired(whole.T, tables, limits, sums, self.generator)

    def _rounded(self, cells: np.ndarray, totals: np.ndarray, children: int) -> np.ndarray:
        """Return whole numbers near cells with whole sums of each row.

        The rows are the detail cells and the columns the children; without children, there is one row for a root.
        """
        if children not in self._networks:
            self._networks[children] = self._network(cells, children)
        state = self.generator.integers(2**64, size=1, dtype=np.uint64)
        return self._networks[children].round(np.ascontiguousarray(cells), totals, state)

    def _network(self, cells: np.ndarray, children: int) -> Network:
        names, sizes = self.detail.attributes, {AREAS: children} if children else {}
        separator, new = (names, (AREAS,)) if children else ((), names)
        protected = tuple((*margin, *sizes) for margin in self.margins)
        return Network.of(Domain({**self.detail, **sizes}), CliqueTable(-1, separator, new, cells, protected))


def _exact_groups(limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Return the disjoint groups of cells whose numbers of records are known in all areas, and these numbers.

    The tables of the solver hold these up to its tolerance, and rounding keeps sums that are whole.

    Returns:
        the group of each cell, or -1; and the numbers, shape (areas, groups).
    """
    groups = np.full(limits.rows.shape[1], -1)
    chosen: list[int] = []
    for row in np.flatnonzero(limits.hard & np.isin(limits.rows, (0.0, 1.0)).all(axis=1)):
        members = limits.rows[row] == 1.0
        if (groups[members] < 0).all():
            groups[members] = len(chosen)
            chosen.append(int(row))
    return groups, limits.low[:, chosen]


def _whole_ends(limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends as whole numbers: those between the ends, or those around them if no whole number is between."""
    low, high = np.ceil(limits.low - MET), np.floor(limits.high + MET)
    return np.where(low > high, np.floor(limits.low), low), np.where(low > high, np.ceil(limits.high), high)


def _repaired(
    counts: np.ndarray, tables: np.ndarray, limits: Limits, sums: np.ndarray | None, generator: np.random.Generator
) -> np.ndarray:
    """Return counts, shape (areas, cells), changed to hold the limits; the sums of children stay, if that is possible.

    If no children with the sums of their parent hold the limits, the sums change, since limits are facts.
    """
    if not limits.missed(counts).any():
        return counts
    matrix = csr_array(kron(csr_array(np.eye(len(counts))), csr_array(limits.rows)))
    rows = FactRows(matrix, *(end.reshape(-1) for end in _whole_ends(limits)))
    cells = np.arange(counts.size)
    by_cell = [(0, np.tile(np.arange(counts.shape[1]), len(counts)), 1)]
    found = counts
    for together in ([] if sums is None else [by_cell]) + [[]]:
        flat = counts.reshape(-1).copy()
        table = ChangingTable(flat, tables.reshape(-1), limits.possible.reshape(-1), cells, [(0, cells)], together)
        repair([table], [rows], generator)
        found = flat.reshape(counts.shape)
        if not limits.missed(found).any():
            break
    return found
