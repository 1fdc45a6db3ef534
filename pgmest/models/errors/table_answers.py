"""TableAnswer: a noisy table over groups of codes, which is what a measurement says about a marginal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron
from pgmest.queries.matrices import Identity
from pgmest.tables.domain import Clique, Domain

MOST_ROWS = 2_000
"""The largest number of rows or columns of a query's matrix that is inverted; answers to larger ones are not read."""
DETERMINED = 1e-6
"""The largest relative error with which a pseudo-inverse may return what the answers determine."""


@dataclass(frozen=True, eq=False)
class Side:
    """The answers' matrix along one attribute.

    Attributes:
        labels: the group of each code: codes of a group are always counted together.
        matrix: the matrix over groups, shape (rows, groups); None is the identity.
        deviations: whether the groups are known up to their sum only, so that the inverse returns counts of sum 0.
    """

    labels: np.ndarray
    matrix: np.ndarray | None = None
    deviations: bool = False

    @classmethod
    def of(cls, query: Any, size: int) -> Side | None:
        """Read the matrix of an attribute; None if it is too large to be inverted."""
        if query is None or isinstance(query, Identity):
            return cls(np.arange(size))
        if max(query.rows, size) > MOST_ROWS:
            return None
        columns, labels = np.unique(query.matrix(), axis=1, return_inverse=True)
        first = np.unique(labels, return_index=True)[1]  # number groups by their first code
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        matrix = columns[:, order]
        square = matrix.shape[0] == matrix.shape[1]
        one_each = square and bool(np.all((matrix != 0).sum(axis=0) == 1)) and bool(np.all(matrix.max(axis=0) == 1))
        labels = rank[np.reshape(labels, -1)]
        if one_each:
            return cls(np.argmax(matrix, axis=0)[labels])
        return cls(labels, matrix)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    @cached_property
    def inverse(self) -> np.ndarray | None:
        """The pseudo-inverse of the matrix, shape (groups, rows); None is the identity."""
        if self.matrix is None or not self.deviations:
            return None if self.matrix is None else np.linalg.pinv(self.matrix)
        return np.linalg.pinv(self.matrix - self.matrix.mean(axis=1, keepdims=True))

    @cached_property
    def sums(self) -> float | None:
        """The factor by which the noise's deviation grows if all groups are added; None if their sum is unknown."""
        if self.inverse is None or self.matrix is None:
            return math.sqrt(self.groups)
        weights = self.inverse.sum(axis=0)
        if np.abs(weights @ self.matrix - 1).max(initial=0.0) > DETERMINED:
            return None
        return float(np.linalg.norm(weights))

    @cached_property
    def centered_spread(self) -> float:
        """The root-mean-square factor by which the noise's deviation grows in a count, if their mean is subtracted."""
        inverse = np.eye(self.groups) if self.inverse is None else self.inverse
        off = inverse - inverse.mean(axis=0) if self.groups > 1 else inverse
        return math.sqrt(float(np.square(off).sum()) / self.groups)

    @cached_property
    def variances(self) -> np.ndarray:
        """The factor by which the noise's variance grows in each count, given their sum where it is unknown."""
        if self.inverse is None:
            return np.ones(self.groups)
        found = np.square(self.inverse).sum(axis=1)
        return found if self.sums is not None or self.groups < 2 else found / (1 - 1 / self.groups)

    def rows(self) -> Any:
        """Return the matrix over codes, as a csr_array of shape (rows, codes)."""
        codes = np.arange(len(self.labels))
        groups = csr_array((np.ones(len(codes)), (self.labels, codes)), shape=(self.groups, len(codes)))
        return groups if self.matrix is None else csr_array(self.matrix @ groups)

    def are_codes(self, size: int) -> bool:
        """Return whether each group is one code, in their order."""
        return self.groups == size == len(self.labels) and bool((self.labels == np.arange(size)).all())


@dataclass(frozen=True, eq=False)
class TableAnswer:
    """A noisy table over groups of codes.

    Attributes:
        clique: the attributes.
        sides: the matrix along each attribute.
        values: the noisy answers, an axis for each attribute.
        stddev: the standard deviation of the noise in each answer.
    """

    clique: Clique
    sides: tuple[Side, ...]
    values: np.ndarray
    stddev: float

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> TableAnswer | None:
        """Read a measurement; None if its query is no product of matrices that can be inverted."""
        clique, query = tuple(measurement.clique), measurement.query
        stddev = float(np.sqrt(np.mean(np.square(measurement.stddev))))
        if query is not None and not isinstance(query, Kron) and len(clique) > 1:
            return cls._general(measurement, domain, stddev)
        factors = query.factors if isinstance(query, Kron) else dict.fromkeys(clique, query)
        sides = [Side.of(factors[name], domain[name]) for name in clique]
        if any(side is None for side in sides):
            return None
        known = tuple(side for side in sides if side is not None)
        if isinstance(query, Kron):
            axes = [query.attributes.index(name) for name in clique]
            values = measurement.values.reshape(query.answer_shape).transpose(axes)
        else:
            values = measurement.values.reshape([s.groups if s.matrix is None else len(s.matrix) for s in known] or [1])
        values = values.reshape(()) if not clique else values
        return cls(clique, known, values, stddev)

    @classmethod
    def _general(cls, measurement: LinearMeasurement, domain: Domain, stddev: float) -> TableAnswer | None:
        """Read answers to a matrix over all cells of a clique: their least-squares table, with its mean error."""
        cells = domain.size(measurement.clique)
        assert measurement.query is not None
        if max(cells, measurement.query.rows) > MOST_ROWS:
            return None
        inverse = np.linalg.pinv(measurement.query.matrix())
        if np.linalg.matrix_rank(inverse) < cells:
            return None
        sides = tuple(Side(np.arange(domain[name])) for name in measurement.clique)
        shape = tuple(domain[name] for name in measurement.clique)
        error = stddev * math.sqrt(float(np.square(inverse).sum()) / cells)
        return cls(tuple(measurement.clique), sides, (inverse @ measurement.values).reshape(shape), error)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each attribute."""
        return tuple(side.groups for side in self.sides)

    @property
    def key(self) -> tuple[bytes | None, ...]:
        """A key that is equal for answers to the same query."""
        return tuple(
            part for s in self.sides for part in (s.labels.tobytes(), None if s.matrix is None else s.matrix.tobytes())
        )

    def averaged(self, other: TableAnswer) -> TableAnswer:
        """Return the average of two answers to the same query, weighted by precision."""
        one, two = self.stddev**-2, other.stddev**-2
        values = (one * self.values + two * other.values) / (one + two)
        return TableAnswer(self.clique, self.sides, values, (one + two) ** -0.5)

    def beyond(self, expected: np.ndarray) -> np.ndarray:
        """Return the least-squares table of the answers minus those of an expected table, over groups."""
        off = self.values - along([side.matrix for side in self.sides], expected)
        return along([side.inverse for side in self.sides], off)

    def tells_of_all(self, sizes: Sequence[int]) -> bool:
        """Return whether codes of each attribute are told apart; if not, the answers are about fewer attributes.

        Args:
            sizes: the numbers of codes.
        """
        return all(side.groups > 1 or size < 2 for side, size in zip(self.sides, sizes, strict=True))

    @property
    def centered_stddev(self) -> float:
        """The standard deviation of the noise in a count of `beyond` without the means along each attribute."""
        return self.stddev * math.prod(side.centered_spread for side in self.sides)

    def noise(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw the noise of the least-squares table, shape (count, *groups)."""
        drawn = self.stddev * generator.standard_normal((count, *self.values.shape))
        return along([None, *(side.inverse for side in self.sides)], drawn)

    def grouped(self, table: np.ndarray) -> np.ndarray:
        """Return the sums of a table of codes, or of many along further axes in front, over the groups."""
        more = table.ndim - len(self.sides)
        for axis, side in enumerate(self.sides):
            table = sums_by(table, side.labels, side.groups, more + axis)
        return table

    def expanded(self, table: np.ndarray) -> np.ndarray:
        """Return, for each cell of codes, the value of its cell of groups; the last axes are those of groups."""
        return table[(..., *np.ix_(*(side.labels for side in self.sides)))]

    def onto(self, clique: Sequence[str]) -> TableAnswer | None:
        """Return what the answers say about a part of their attributes; None if they do not determine it."""
        stddev, table = self.stddev, self.values
        for axis in reversed(range(len(self.clique))):
            if self.clique[axis] in clique:
                continue
            side = self.sides[axis]
            if side.sums is None:
                return None
            weights = np.ones(table.shape[axis]) if side.inverse is None else side.inverse.sum(axis=0)
            table, stddev = np.tensordot(table, weights, axes=(axis, 0)), stddev * side.sums
        kept = [axis for axis, name in enumerate(self.clique) if name in clique]
        names = tuple(self.clique[axis] for axis in kept)
        order = [names.index(name) for name in clique]
        sides = [self.sides[axis] for axis in kept]
        return TableAnswer(tuple(clique), tuple(sides[i] for i in order), table.transpose(order), stddev)


def centered(tables: np.ndarray) -> np.ndarray:
    """Return tables, along the first axis, shifted evenly to have margins of zero."""
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables


def along(matrices: Iterable[np.ndarray | None], table: np.ndarray) -> np.ndarray:
    """Multiply a table by a matrix along each axis; None is the identity."""
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            table = np.moveaxis(np.tensordot(table, matrix, axes=(axis, 1)), -1, axis)
    return table


def sums_by(table: np.ndarray, labels: np.ndarray, groups: int, axis: int) -> np.ndarray:
    """Return the sums of a table along an axis over groups of codes, in any order."""
    if len(labels) == groups and bool((labels == np.arange(groups)).all()):
        return table
    members = np.zeros((groups, len(labels)))
    members[labels, np.arange(len(labels))] = 1.0
    return np.moveaxis(np.tensordot(table, members, axes=(axis, 1)), -1, axis)


def read_answers(measurements: Iterable[LinearMeasurement], domain: Domain) -> tuple[TableAnswer, ...]:
    """Return the answers of all measurements that can be read; those without an upper end say nothing of errors."""
    closed = (m for m in measurements if m.clique and (m.high is None or np.isfinite(m.high).all()))
    return tuple(a for a in (TableAnswer.of(m, domain) for m in closed) if a is not None)
