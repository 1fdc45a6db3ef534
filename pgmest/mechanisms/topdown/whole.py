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

MOST_CELLS = 1 << 17
"""The most cells of all children together that a repair may change: as many as its integer programs have."""


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
        nothing = np.zeros((0, table.shape[1]))
        return _repaired(self._rounded(fitted, total, 0), table, limits, None, nothing, self.generator)

    def children(self, tables: np.ndarray, family: Family, limits: Limits, above: np.ndarray) -> np.ndarray:
        """Return whole numbers near the tables of a level that add up to the parents' tables.

        Args:
            tables: the tables of the level.
            family: the level above.
            limits: the constraints of the level.
            above: the queries of the constraints of all levels above, shape (queries, cells).
        """
        found = np.empty_like(tables)
        ends = [*family.starts, len(tables)]
        for parent, (begin, end) in enumerate(pairwise(ends)):
            areas, sums = slice(begin, end), family.tables[parent]
            found[areas] = sums if end == begin + 1 else self._split(tables[areas], sums, limits.of(areas), above)
        return found

    def _split(self, tables: np.ndarray, sums: np.ndarray, limits: Limits, above: np.ndarray) -> np.ndarray:
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
        return _repaired(whole.T, tables, limits, sums, above, self.generator)

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
    counts: np.ndarray,
    tables: np.ndarray,
    limits: Limits,
    sums: np.ndarray | None,
    above: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return counts, shape (areas, cells), changed to hold the limits; the sums of children stay, if that is possible.

    If no children with the sums of their parent hold the limits, the sums change, since limits are facts. If possible,
    the parent's answers to the queries above stay, and its number of records.

    Args:
        counts: whole numbers.
        tables: the expected counts.
        limits: the constraints of the areas.
        sums: the table of the parent; None for a root.
        above: the queries of the constraints of all levels above, shape (queries, cells).
        generator: chooses the cells that may change, if there are many.
    """
    if not limits.missed(counts).any():
        return counts
    found = _by_cells(counts, tables, limits, sums, generator)
    if sums is not None and limits.missed(found).any():
        above = np.concatenate([above, np.ones((1, len(sums)))])
        found = _by_queries(counts, tables, limits, above, above @ sums, generator)
    if not limits.missed(found).any():
        return found
    return _by_queries(counts, tables, limits, above[:0], np.zeros(0), generator)


def _by_cells(
    counts: np.ndarray, tables: np.ndarray, limits: Limits, sums: np.ndarray | None, generator: np.random.Generator
) -> np.ndarray:
    """Return counts that hold the limits, if possible; those of children keep the sums of each cell.

    A cell without records in the parent has none in its children. So only the others take part: all of them, or if
    there are more than `MOST_CELLS` with all children, some of each set of cells that no query tells apart.
    """
    areas, cells = len(counts), np.arange(counts.shape[1]) if sums is None else np.flatnonzero(sums > 0.0)
    most = max(1, MOST_CELLS // areas)
    if sums is not None and cells.size > most:
        cells = generator.permutation(cells)
        alike = _alike(limits.rows[:, cells])
        order = np.argsort(alike, kind="stable")
        rank = np.empty(cells.size, dtype=np.int64)
        rank[order] = np.arange(cells.size) - np.searchsorted(alike[order], alike[order])
        cells = np.sort(cells[np.argsort(rank, kind="stable")[:most]])
    others = np.ones(counts.shape[1], dtype=bool)
    others[cells] = False
    fixed = counts[:, others] @ limits.rows[:, others].T
    flat, every = counts[:, cells].reshape(-1), np.arange(areas * cells.size)
    rows = _rows_of_areas(limits, limits.rows[:, cells], fixed)
    by_cell = [] if sums is None else [(0, np.tile(np.arange(cells.size), areas), 1)]
    expected, possible = tables[:, cells].reshape(-1), limits.possible[:, cells].reshape(-1)
    repair([ChangingTable(flat, expected, possible, every, [(0, every)], by_cell)], [rows], generator)
    found = counts.copy()
    found[:, cells] = flat.reshape(areas, -1)
    return found


def _by_queries(
    counts: np.ndarray,
    tables: np.ndarray,
    limits: Limits,
    above: np.ndarray,
    answers: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return counts that hold the limits, and of which the sum over areas has the given answers to queries above.

    Cells that no query tells apart change together, so that the integer program is small.
    """
    alike = _alike(np.concatenate([limits.rows, above]))
    first = np.unique(alike, return_index=True)[1]
    areas, number = len(counts), len(first)
    own = _rows_of_areas(limits, limits.rows[:, first], np.zeros(limits.low.shape))
    every = np.arange(areas * number)
    rows, about = [own], [(0, every)]
    if len(above):
        rows.append(FactRows(csr_array(np.tile(above[:, first], areas)), answers, answers))
        about.append((1, every))
    classes = (np.arange(areas)[:, None] * number + alike).reshape(-1)
    flat = counts.reshape(-1).copy()
    repair([ChangingTable(flat, tables.reshape(-1), limits.possible.reshape(-1), classes, about, [])], rows, generator)
    return flat.reshape(counts.shape)


def _rows_of_areas(limits: Limits, rows: np.ndarray, fixed: np.ndarray) -> FactRows:
    """Return the limits of all areas as rows over the cells of all areas, less answers that are fixed."""
    low, high = _whole_ends(limits)
    matrix = csr_array(kron(csr_array(np.eye(len(limits.low))), csr_array(rows)))
    return FactRows(matrix, (low - fixed).reshape(-1), (high - fixed).reshape(-1))


def _alike(rows: np.ndarray) -> np.ndarray:
    """Return a number for each column of a matrix, the same for equal columns: 0, 1, ..., without gaps."""
    found = np.zeros(rows.shape[1], dtype=np.int64)
    for row in rows:
        values, codes = np.unique(row, return_inverse=True)
        found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found
