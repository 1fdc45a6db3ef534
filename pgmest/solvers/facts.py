"""Facts: answers that every estimate must meet exactly.

A fact is a row a with a value b, and the marginals p of every distribution that a solver visits obey <a, p> = b. Rows
are divided by their largest entry, so that violations are in records whatever the unit of a query. A fact of 0 whose
row has no negative entry needs no multiplier: its cells are structural zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.losses import make_loss
from pgmest.losses.base import FlatLoss, cell_positions
from pgmest.losses.residual import Residuals
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain

LARGEST_MATRIX = 10_000_000
"""The largest number of entries of a query matrix whose signs are read, to find the cells that a fact of 0 excludes."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Exact linear answers A p = b, as a map of flat marginals.

    Attributes:
        residuals: the measurements as a linear map; their targets are b, in the unit of the marginals.
        kept: the positions of the rows that have a multiplier, among the rows of `residuals`.
        units: the largest absolute entry of each of these rows, by which it is divided.
        excluded: the cells that facts of 0 exclude, as positions in flat arrays.
    """

    residuals: Residuals
    kept: np.ndarray
    units: np.ndarray
    excluded: np.ndarray

    @classmethod
    def of(cls, measurements: Iterable[LinearMeasurement], layout: Layout) -> Facts | None:
        """Return the facts among measurements, in counts; None without any.

        Args:
            measurements: measurements that fit the layout's domain; their exact rows are facts.
            layout: a layout with a table over the attributes of each of those.
        """
        exact = [m for m in measurements if m.exact_rows.any()]
        if not exact:
            return None
        residuals = Residuals(exact, layout, [1.0] * len(exact))
        chosen = np.concatenate([m.exact_rows for m in exact])
        empty = np.concatenate([_excluding(m) for m in exact])
        excluded = np.flatnonzero(residuals.weighted_column_squares(empty.astype(np.float64)) > 0)
        kept = np.flatnonzero(chosen & ~empty)
        settled = np.concatenate([_counting_all(m) for m in exact])[kept]
        kept = kept if settled.all() else kept[~settled]
        return cls(residuals, kept, np.concatenate([_units(m) for m in exact])[kept], excluded)

    def of_fractions(self, total: float) -> Facts:
        """Return the facts about marginals that sum to one instead of `total`."""
        return replace(self, residuals=self.residuals.of_fractions(total))

    @property
    def rows(self) -> int:
        """The number of rows that have a multiplier."""
        return len(self.kept)

    @cached_property
    def values(self) -> np.ndarray:
        """The values b."""
        return self.residuals.targets[self.kept] / self.units

    def answers(self, p: np.ndarray) -> np.ndarray:
        """Return A p, shape (rows,)."""
        return self.residuals.answers(p)[self.kept] / self.units

    def transpose(self, multipliers: np.ndarray) -> np.ndarray:
        """Return A^T times the multipliers, by cell."""
        every = np.zeros(len(self.residuals.targets))
        every[self.kept] = multipliers / self.units
        return self.residuals.transpose(every)

    def variances(self, p: np.ndarray) -> np.ndarray:
        """Return the variance of each row's value at one random record of p."""
        squares = self.residuals.squared_answers(p)[self.kept] / self.units**2
        return np.maximum(squares - self.answers(p) ** 2, 0.0)

    @cached_property
    def partitions(self) -> list[Partition]:
        """Sets of rows that count different cells of one table; rows with other entries than 0 and 1 are in none."""
        stops = np.cumsum([0, *(m.rows for m in self.residuals.measurements)])
        first = np.searchsorted(self.kept, stops)
        order = np.arange(self.residuals.layout.cells)
        found = []
        for m, start, begin, end in zip(self.residuals.measurements, stops, first[:-1], first[1:], strict=False):
            cells = order[cell_positions(self.residuals.layout, m.clique)]
            for rows, members in _disjoint(m, self.kept[begin:end] - start):
                found.append(Partition(begin + rows, cells[members >= 0], members[members >= 0]))
        return found

    @cached_property
    def counting(self) -> bool:
        """True if every row is in one of the `partitions`."""
        return sum(len(partition.rows) for partition in self.partitions) == self.rows


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows that count different cells of one table.

    Attributes:
        rows: the positions of the rows among all rows of the facts.
        cells: the cells that they count, as positions in flat arrays.
        row_of_cell: for each of these cells the position of its row in `rows`.
    """

    rows: np.ndarray
    cells: np.ndarray
    row_of_cell: np.ndarray

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Return the largest entry of a flat array among the cells of each row."""
        largest = np.full(len(self.rows), -np.inf)
        np.maximum.at(largest, self.row_of_cell, values[self.cells])
        return largest


@dataclass(frozen=True, eq=False)
class Terms:
    """The parts of an estimation problem that come from measurements: a loss, and facts.

    Attributes:
        loss: the loss of the answers that are not exact, as a function of marginals in counts.
        exact: the measurements with exact answers.
    """

    loss: FlatLoss
    exact: tuple[LinearMeasurement, ...] = ()

    @classmethod
    def of(cls, loss: Any, measurements: Sequence[LinearMeasurement], domain: Domain) -> Terms:
        """Make the terms of measurements that fit the domain.

        Args:
            loss: the argument `loss` of `estimate`.
            measurements: the answers.
            domain: the attributes.

        Raises:
            ArgumentError: as `make_loss` raises it.
        """
        return cls(make_loss(loss, measurements, domain), tuple(m for m in measurements if m.exact_rows.any()))

    def facts(self, layout: Layout) -> Facts | None:
        """Return the facts over a layout that has the cliques of the loss and of `potentials`; None without any."""
        return Facts.of(self.exact, layout)

    def potentials(self) -> list[CliqueVector]:
        """Return potentials of zero on the cliques of the facts, which bring these into the layout of a problem."""
        held = {frozenset(clique) for clique in self.loss.cliques}
        cliques = {frozenset(m.clique): m.clique for m in self.exact}
        return [CliqueVector.zeros(self.loss.domain, [c]) for names, c in cliques.items() if names not in held]


def counts_cells(measurement: LinearMeasurement) -> bool:
    """Return whether a measurement has no exact answers, or answers that count different cells of its table."""
    return not measurement.exact_rows.any() or isinstance(measurement.query, Identity | Grouping | None)


def _excluding(measurement: LinearMeasurement) -> np.ndarray:
    """Return which rows are facts of 0 without negative entries: nothing can be in the cells that they count."""
    rows = measurement.exact_rows & (measurement.values == 0.0)
    query = measurement.query
    if not rows.any() or query is None or isinstance(query, Identity | Grouping):
        return rows
    if query.shape[0] * query.shape[1] > LARGEST_MATRIX:
        return np.zeros(measurement.rows, dtype=bool)
    return rows & (query.matrix() >= 0).all(axis=1)


def _counting_all(measurement: LinearMeasurement) -> np.ndarray:
    """Return which rows of a matrix count all records: no multiplier changes them, and their curvature is 0."""
    query = measurement.query
    if query is None or isinstance(query, Identity | Grouping) or query.shape[0] * query.shape[1] > LARGEST_MATRIX:
        return np.zeros(measurement.rows, dtype=bool)
    return (query.matrix() == 1.0).all(axis=1)


def _units(measurement: LinearMeasurement) -> np.ndarray:
    """Return the largest absolute entry of each row; 1 for rows of zeros, and for queries too large to read."""
    query = measurement.query
    if query is None or isinstance(query, Identity | Grouping) or query.shape[0] * query.shape[1] > LARGEST_MATRIX:
        return np.ones(measurement.rows)
    largest = np.abs(query.matrix()).max(axis=1, initial=0.0)
    return np.where(largest > 0.0, largest, 1.0)


def _disjoint(measurement: LinearMeasurement, chosen: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return sets of rows of a measurement that count different cells, built greedily.

    Args:
        measurement: the measurement.
        chosen: the positions of the rows to consider.

    Returns:
        for each set the positions of its rows in `chosen`, and for each cell of the clique's table the position of the
        row that counts it in that set, or -1.
    """
    query = measurement.query
    if not len(chosen):
        return []
    if query is None or isinstance(query, Identity | Grouping):
        groups = query.groups if isinstance(query, Grouping) else np.arange(measurement.cells)
        place = np.full(measurement.rows, -1)
        place[chosen] = np.arange(len(chosen))
        return [(np.arange(len(chosen)), place[groups])]
    if query.shape[0] * query.shape[1] > LARGEST_MATRIX:
        return []
    ordered: Any = query.in_order(measurement.clique)
    matrix = ordered.matrix()[chosen]
    sets: list[tuple[list[int], np.ndarray]] = []
    for row in np.flatnonzero(np.isin(matrix, (0.0, 1.0)).all(axis=1) & matrix.any(axis=1)):
        counted = matrix[row] > 0
        fitting = next((one for one in sets if not (counted & (one[1] >= 0)).any()), None)
        if fitting is None:
            fitting = ([], np.full(measurement.cells, -1))
            sets.append(fitting)
        fitting[1][counted] = len(fitting[0])
        fitting[0].append(int(row))
    return [(np.array(rows), members) for rows, members in sets]
