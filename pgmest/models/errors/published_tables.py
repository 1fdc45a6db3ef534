"""PublishedTable: plausible counts of a table of which answers lie between two ends, such as a rounded one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, kron, vstack
from scipy.sparse.linalg import splu

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.table_answers import TableAnswer
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.margins import margin_sums

MOST_CELLS, MOST_ENTRIES = 50_000, 5_000_000
"""The largest number of cells of a table, and of entries of a query's matrix."""
POINTS = 101
"""The number of values between two ends of which one is drawn; all whole numbers if there are fewer."""
FAR = 12.0
"""Answers are drawn up to this many times the expected one above the lower end."""
ROUNDS, CLOSE = 20, 0.01
"""The largest number of times that sums, and then cells, are moved back between their ends, and the distance, in
counts, from which on it is enough."""
LEAST = 1e-6
"""The least variance of an answer, in squared counts, and the largest rounding error of an end."""


def can_be_read(measurement: LinearMeasurement) -> bool:
    """Return whether the matrix of a measurement is small enough to be read."""
    return measurement.query is None or measurement.rows * measurement.cells <= MOST_ENTRIES


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers about sums of cells, of which plausible true ones are drawn.

    Attributes:
        matrix: the weights of the cells, shape (answers, cells).
        values: the noisy or the published answers.
        stddev: the standard deviation of their noise; None if the true answers lie between two ends.
        low, high: the ends; infinite for noisy answers.
        base: the base of random rounding, if any.
    """

    matrix: Any  # a csr_array, whose stubs lack shapes
    values: np.ndarray
    stddev: np.ndarray | None
    low: np.ndarray
    high: np.ndarray
    base: float | None = None

    @classmethod
    def between(cls, matrix: Any, low: np.ndarray, high: np.ndarray) -> Answers:
        """Create answers between two ends."""
        return cls(matrix, low, None, low, high)

    @classmethod
    def noisy(cls, matrix: Any, values: np.ndarray, stddev: float | np.ndarray) -> Answers:
        """Create answers with noise."""
        whole = np.full(len(values), np.inf)
        return cls(matrix, values, np.broadcast_to(stddev, values.shape), -whole, whole)

    @classmethod
    def of(cls, measurement: LinearMeasurement, onto: Any) -> Answers:
        """Read a measurement, given the cells of its clique as sums of the cells of a table."""
        matrix = csr_array(measurement.sparse_rows() @ onto)
        if measurement.low is None or measurement.high is None:
            return cls.noisy(matrix, measurement.values, measurement.stddev)
        return cls(matrix, measurement.values, None, measurement.low, measurement.high, measurement.base)

    def chosen(self, rows: np.ndarray) -> Answers:
        """Return some of the answers, where `rows` is true."""
        stddev = None if self.stddev is None else self.stddev[rows]
        ends = self.low[rows], self.high[rows]
        return Answers(self.matrix[np.flatnonzero(rows)], self.values[rows], stddev, *ends, self.base)

    @property
    def cells(self) -> np.ndarray:
        """The cells with a weight, all answers together: one for each if the answers are single cells."""
        return self.matrix.indices

    @property
    def are_single(self) -> np.ndarray:
        """Whether each answer is the count of a single cell."""
        weights = abs(self.matrix)
        return (np.diff(self.matrix.indptr) == 1) & (weights.sum(axis=1) == 1.0) & (self.matrix.sum(axis=1) == 1.0)

    @property
    def are_open(self) -> np.ndarray:
        """Whether each answer has no noise and no upper end."""
        return np.isinf(self.high) if self.stddev is None else np.zeros(len(self.values), dtype=bool)

    def draws(self, expected: np.ndarray, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw true answers, shape (count, answers), and return their variances, too.

        Args:
            expected: the cells that are expected without these answers.
            count: the number of draws.
            generator: the random generator.
        """
        if self.stddev is not None:
            noise = generator.standard_normal((count, len(self.values)))
            return self.values + self.stddev * noise, np.square(self.stddev)
        points, weights = self._likely(np.maximum(self.matrix @ expected, LEAST))
        below = np.cumsum(weights, axis=1)
        ranks = generator.permuted(np.tile(np.arange(count), (len(points), 1)), axis=1).T
        places = np.zeros(ranks.shape, dtype=np.int64)
        for place in range(points.shape[1] - 1):
            places += (ranks + 0.5) / count > below[:, place]
        means = (weights * points).sum(axis=1)
        variances = (weights * np.square(points - means[:, None])).sum(axis=1)
        return points[np.arange(len(points)), places], variances

    def _likely(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points between the ends, and how likely each is, given the means without ends."""
        sums = np.array_equal(self.matrix.data, np.rint(self.matrix.data))
        first, last = np.ceil(self.low - LEAST), np.floor(self.high + LEAST)
        whole = np.isfinite(self.high) & sums & (first <= last)
        first = np.where(whole, first, self.low)
        width = np.where(whole, last, self.high) - first
        few = whole & (width < POINTS)
        width = np.where(few, width, np.minimum(width, FAR * means))
        most = int(width.max(where=few, initial=0)) + 1 if few.all() else POINTS
        steps = np.arange(most)
        points = first[:, None] + np.where(few[:, None], steps, width[:, None] * (steps + 0.5) / most)
        weights = np.exp((first[:, None] - points) * np.log1p(1 / means)[:, None])
        weights = np.where(few[:, None] & (steps > width[:, None]), 0.0, weights)
        if self.base is not None:
            weights *= np.maximum(1 - np.abs(points - self.values[:, None]) / self.base, 0.0)
        return points, weights / weights.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table of which some answers lie between two ends, and others are exact or noisy.

    True answers are drawn each on its own: noisy ones with their noise; the others from an exponential distribution
    between the ends, which assumes least of counts with a given mean, times the probability of random rounding. The
    mean is the larger one of the model's count and of that of independent attributes. Least squares then makes the
    cells agree with all sums, as for normal distributions of the same variances. Last, cells and sums that are outside
    of their ends are moved back.

    Attributes:
        domain: the attributes of the table, in the order of the model's.
        counts: the model's cells, row-major.
        expected: the cells that are expected without the answers about each.
        single: the answers about single cells, at least one about each.
        sums: the answers about sums of cells.
    """

    domain: Domain
    counts: np.ndarray
    expected: np.ndarray
    single: tuple[Answers, ...]
    sums: tuple[Answers, ...]

    @classmethod
    def of(
        cls,
        clique: Clique,
        tables: ModelTables,
        measurements: Iterable[LinearMeasurement],
        answers: Iterable[TableAnswer],
    ) -> PublishedTable:
        """Collect what is known of a table.

        Args:
            clique: the attributes, in the order of the model's domain.
            tables: the model's marginals.
            measurements: all measurements, of which those about parts of the clique are read.
            answers: the answers that can be read, of which those about other attributes, too, are read.
        """
        domain, cells = tables.domain, tables.domain.size(clique)
        known = [
            Answers.of(one, margin_sums(domain, clique, one.clique))
            for one in measurements
            if set(one.clique) <= set(clique) and can_be_read(one)
        ]
        for answer in answers:
            names = tuple(name for name in clique if name in answer.clique)
            part = answer.onto(names) if names and not set(answer.clique) <= set(clique) else None
            if part is not None:
                sides = reduce(kron, [side.rows() for side in part.sides])
                matrix = csr_array(sides @ margin_sums(domain, clique, names))
                known.append(Answers.noisy(matrix, part.values.reshape(-1), part.stddev))
        counts, possible = tables.table(clique).reshape(-1), tables.possible(clique).reshape(-1)
        single = [one.chosen(one.are_single) for one in known]
        sums = [one.chosen(~one.are_single) for one in known]
        untold = np.ones(cells, dtype=bool)
        for one in single:
            untold[one.cells] = False
        every = Answers.between(csr_array(eye_array(cells)), np.zeros(cells), np.where(possible, np.inf, 0.0))
        single.append(every.chosen(untold | ~possible))
        expected = np.maximum(counts, tables.independent(clique).reshape(-1))
        single, sums = ([one for one in part if len(one.values)] for part in (single, sums))
        return cls(domain.project(clique), counts, expected, tuple(single), tuple(sums))

    def draws(self, margins: Mapping[Clique, np.ndarray], count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw errors of the model's table, shape (count, *shape).

        Args:
            margins: drawn errors of some of its margins, with which they agree, shape (count, *shape of the margin).
            count: the number of draws.
            generator: the random generator.
        """
        low, high = self.ends
        precision, cells = np.zeros(len(self.counts)), np.zeros((count, len(self.counts)))
        for one in sorted(self.single, key=lambda one: bool(one.are_open.any())):
            values, own = one.draws(self.expected, count, generator)
            weights = np.where(one.are_open & (precision[one.cells] > 0), 0.0, 1 / np.maximum(own, LEAST))
            precision[one.cells] += weights
            cells[:, one.cells] += weights * values
        cells, variances = cells / precision, 1 / precision
        onto = [margin_sums(self.domain, self.domain.attributes, names) for names in margins]
        wanted = [
            matrix @ self.counts + errors.reshape(count, -1)
            for matrix, errors in zip(onto, margins.values(), strict=True)
        ]
        closed = [one for one in (one.chosen(~one.are_open) for one in self.sums) if len(one.values)]
        drawn = [one.draws(self.expected, count, generator) for one in closed]
        own = [*([0.0] * len(onto)), *(noise for _, noise in drawn)]
        sums = _Sums.of([*onto, *(one.matrix for one in closed)], variances, own)
        cells = np.clip(sums.agreeing(cells, [*wanted, *(values for values, _ in drawn)]), low, high)
        ends = [one for one in self.sums if one.stddev is None]
        sums = _Sums.of([*onto, *(one.matrix for one in ends)], variances)
        for _ in range(ROUNDS):
            inside = [np.clip(cells @ one.matrix.T, one.low, one.high) for one in ends]
            moved = np.clip(sums.agreeing(cells, [*wanted, *inside]), low, high)
            cells, far = moved, np.abs(moved - cells).max(initial=0.0)
            if far < CLOSE:
                break
        return (cells - self.counts).reshape(count, *self.domain.shape)

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of each cell, row-major."""
        low, high = np.zeros(len(self.counts)), np.full(len(self.counts), np.inf)
        for one in self.single:
            np.maximum.at(low, one.cells, one.low)
            np.minimum.at(high, one.cells, one.high)
        return low, np.maximum(low, high)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of cells, with which least squares makes cells agree.

    Attributes:
        matrix: the weights of the cells, shape (sums, cells).
        spread: the same, times the variances of the cells.
        factors: the factors of the covariance of the sums' differences from the cells'.
    """

    matrix: Any
    spread: Any
    factors: Any

    @classmethod
    def of(
        cls, matrices: Sequence[Any], variances: np.ndarray, own: Sequence[np.ndarray | float] | None = None
    ) -> _Sums:
        """Create the sums of the rows of matrices.

        Args:
            matrices: the weights of the cells.
            variances: the variances of the cells.
            own: the variances of the sums of each matrix; 0 by default.
        """
        matrix: Any = csr_array(vstack(matrices))
        known = [0.0] * len(matrices) if own is None else own
        errors = [np.broadcast_to(one, rows.shape[0]) for one, rows in zip(known, matrices, strict=True)]
        spread: Any = csr_array(matrix @ diags_array(variances))
        both = spread @ matrix.T + diags_array(np.maximum(np.concatenate(errors), LEAST))
        return cls(matrix, spread, splu(csc_array(both)))

    def agreeing(self, cells: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
        """Return cells, shape (count, cells), that agree with sums, each of shape (count, sums of a matrix)."""
        off = np.concatenate(values, axis=1) - cells @ self.matrix.T
        return cells + (self.spread.T @ self.factors.solve(off.T)).T
