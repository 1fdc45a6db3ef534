"""Facts: answers that every estimate must meet exactly, and very precise answers that are treated in the same way.

A fact is a row a with a value b, and the marginals p of every distribution that a solver visits obey <a, p> = b. A fact
of 0 whose row has no negative entry needs no multiplier: its cells are structural zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.losses import make_loss
from pgmest.losses.base import FlatLoss, cell_positions
from pgmest.losses.compose import SumLoss
from pgmest.losses.l2 import L2Loss
from pgmest.losses.residual import Residuals
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain

STIFF = 100.0
"""Tables whose curvature is above STIFF times that of the least precise table become rows of `Facts` with a weight."""

DENSE = 3.0
"""Noisy tables are rows of `Facts` only if no cell is below DENSE standard deviations."""

LARGEST_MATRIX = 10_000_000
"""The largest number of entries of a query matrix whose signs are read, to find the cells that a fact of 0 excludes."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Linear answers A p = b, exact or with a weight, as a map of flat marginals.

    Attributes:
        residuals: the measurements as a linear map; their targets are b, in the unit of the marginals.
        kept: the positions of the rows that have a multiplier, among the rows of `residuals`.
        weights: the weight w of the term w/2 (<a, p> - b)^2 of each kept row; inf for a fact.
        excluded: the cells that facts of 0 exclude, as positions in flat arrays.
    """

    residuals: Residuals
    kept: np.ndarray
    weights: np.ndarray
    excluded: np.ndarray

    @classmethod
    def of(
        cls,
        measurements: Iterable[LinearMeasurement],
        layout: Layout,
        precise: Iterable[LinearMeasurement] = (),
    ) -> Facts | None:
        """Return the facts among measurements, in counts; None without any.

        Args:
            measurements: measurements that fit the layout's domain; their exact rows are facts.
            layout: a layout with a table over the attributes of each of them.
            precise: noisy measurements whose rows have the weight 1 / stddev^2.
        """
        exact, stiff = [m for m in measurements if m.exact_rows.any()], tuple(precise)
        if not exact and not stiff:
            return None
        every = (*exact, *stiff)
        residuals = Residuals(every, layout, [1.0] * len(every))
        rows = [m.exact_rows for m in exact] + [np.ones(m.rows, dtype=bool) for m in stiff]
        weights = [np.full(m.rows, math.inf) for m in exact]
        weights += [np.broadcast_to(1.0 / np.square(m.stddev), (m.rows,)) for m in stiff]
        chosen, weight = np.concatenate(rows), np.concatenate(weights)
        excluding = [_excluding(m) for m in exact] + [np.zeros(m.rows, dtype=bool) for m in stiff]
        empty = np.concatenate(excluding)
        excluded = np.flatnonzero(residuals.weighted_column_squares(empty.astype(np.float64)) > 0)
        kept = np.flatnonzero(chosen & ~empty)
        return cls(residuals, kept, weight[kept], excluded)

    def of_fractions(self, total: float) -> Facts:
        """Return the facts about marginals that sum to one instead of `total`."""
        scaled = self.residuals.of_fractions(total)
        return replace(self, residuals=scaled, weights=self.weights * total**2)

    @property
    def rows(self) -> int:
        """The number of rows that have a multiplier."""
        return len(self.kept)

    @cached_property
    def values(self) -> np.ndarray:
        """The values b."""
        return self.residuals.targets[self.kept]

    @cached_property
    def exact(self) -> np.ndarray:
        """True for the rows that are facts."""
        return np.isinf(self.weights)

    def answers(self, p: np.ndarray) -> np.ndarray:
        """Return A p, shape (rows,)."""
        return self.residuals.answers(p)[self.kept]

    def transpose(self, multipliers: np.ndarray) -> np.ndarray:
        """Return A^T times the multipliers, by cell."""
        every = np.zeros(len(self.residuals.targets))
        every[self.kept] = multipliers
        return self.residuals.transpose(every)

    def variances(self, p: np.ndarray) -> np.ndarray:
        """Return the variance of each row's value at one random record of p."""
        squares = self.residuals.squared_answers(p)[self.kept]
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
        precise: the measurements that are rows of the facts although they have noise.
        rough: the loss without those, over the same layout; None if there are none.
    """

    loss: FlatLoss
    exact: tuple[LinearMeasurement, ...] = ()
    precise: tuple[LinearMeasurement, ...] = ()
    rough: FlatLoss | None = None

    @classmethod
    def of(cls, loss: Any, measurements: Sequence[LinearMeasurement], domain: Domain, by_precision: bool) -> Terms:
        """Make the terms of measurements that fit the domain.

        Args:
            loss: the argument `loss` of `estimate`.
            measurements: the answers.
            domain: the attributes.
            by_precision: whether very precise measurements may be rows of the facts, which the squared loss allows.

        Raises:
            ArgumentError: as `make_loss` raises it.
        """
        exact = tuple(m for m in measurements if m.exact_rows.any())
        made = make_loss(loss, measurements, domain)
        if not by_precision or type(made) is not L2Loss:
            return cls(made, exact)
        rough, precise = split_by_precision(made.measurements)
        if not precise or not _independent(precise):
            return cls(made, exact)
        whole = L2Loss([*rough, *precise], domain)
        parts = SumLoss([L2Loss(rough, domain), L2Loss(precise, domain)], [1.0, 0.0])
        return cls(whole, exact, tuple(precise), parts)

    def facts(self, layout: Layout) -> Facts | None:
        """Return the facts over a layout that has the cliques of the loss and of `potentials`; None without any."""
        return Facts.of(self.exact, layout, self.precise)

    def potentials(self) -> list[CliqueVector]:
        """Return potentials of zero on the cliques of the facts, which bring these into the layout of a problem."""
        held = {frozenset(clique) for clique in self.loss.cliques}
        cliques = {frozenset(m.clique): m.clique for m in self.exact}
        return [CliqueVector.zeros(self.loss.domain, [c]) for names, c in cliques.items() if names not in held]


def split_by_precision(
    measurements: Sequence[LinearMeasurement],
) -> tuple[list[LinearMeasurement], list[LinearMeasurement]]:
    """Return noisy measurements of ordinary precision, and those that are far more precise than the least precise one.

    The curvature of a measurement is the largest entry of its Hessian. Steps of mirror descent are as short as the
    largest curvature demands, so tables of a much larger one are better treated as facts with a weight.
    """
    curvatures = np.array([float(m.column_squares.max(initial=0.0)) for m in measurements])
    if not len(curvatures) or not curvatures.max() > STIFF * curvatures.min():
        return list(measurements), []
    rough = curvatures <= STIFF * curvatures.min()
    return (
        [m for m, one in zip(measurements, rough, strict=True) if one],
        [m for m, one in zip(measurements, rough, strict=True) if not one],
    )


def _independent(measurements: Sequence[LinearMeasurement]) -> bool:
    """Return whether any answers close to these can be met by some distribution.

    So it is for tables of disjoint attributes without cells that may be empty. Noisy tables that share attributes
    contradict each other, and negative answers contradict every table; the more precise, the larger the multipliers.
    """
    names = [name for m in measurements for name in m.clique]
    dense = all((m.values >= DENSE * np.asarray(m.stddev)).all() for m in measurements)
    return dense and len(names) == len(set(names)) and all(m.query is None for m in measurements)


def _excluding(measurement: LinearMeasurement) -> np.ndarray:
    """Return which rows are facts of 0 without negative entries: nothing can be in the cells that they count."""
    rows = measurement.exact_rows & (measurement.values == 0.0)
    query = measurement.query
    if not rows.any() or query is None or isinstance(query, Identity | Grouping):
        return rows
    if query.shape[0] * query.shape[1] > LARGEST_MATRIX:
        return np.zeros(measurement.rows, dtype=bool)
    return rows & (query.matrix() >= 0).all(axis=1)


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
