"""Noisy answers, read as statements about tables over groups of codes, and the queries that were asked for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.pgm.offers import interaction
from pgmest.queries import Kron, compress, identity
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity


@dataclass(frozen=True, eq=False)
class Answer:
    """Noisy answers about attributes over groups of their codes: (A x B x ...) T + noise, T the table of counts.

    Attributes:
        clique: two attributes or three.
        groups: of each attribute, the group of each code.
        factors: A, B, ..., shape (rows, groups); None for the identity.
        values: the answers, an axis for each attribute.
        variance: of the noise in each.
        public: whether it is a public table's, taken as it is.
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray | None, ...]
    values: np.ndarray
    variance: float
    public: bool = False

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> Answer:
        """What a measurement of two attributes or three says."""
        query, stddev = measurement.query, float(np.mean(measurement.stddev))
        assert query is None or isinstance(query, Kron)
        names = measurement.clique
        sides = [read_grouping(None if query is None else query.factors[name], domain[name]) for name in names]
        shape = tuple(int(labels[-1]) + 1 if factor is None else len(factor) for labels, factor in sides)
        groups, factors = zip(*sides, strict=True)
        return cls(names, groups, factors, measurement.values.reshape(shape), stddev**2)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table: the numbers of groups."""
        return tuple(int(labels[-1]) + 1 for labels in self.groups)

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for answers to the same question."""
        return tuple(part.tobytes() for part in (*self.groups, *(np.asarray(f) for f in self.factors if f is not None)))

    def averaged(self, other: Answer) -> Answer:
        """Both answers to the same question as one, weighted by precision."""
        a, b = 1 / self.variance, 1 / other.variance
        return replace(self, values=(a * self.values + b * other.values) / (a + b), variance=1 / (a + b))

    def table(self, expected: np.ndarray) -> np.ndarray:
        """The table that has these answers and is closest to an expected one (least squares)."""
        off = self.values - _along_axes(self.factors, expected)
        return expected + _along_axes(
            [None if factor is None else np.linalg.pinv(factor) for factor in self.factors], off
        )

    def noise(self) -> float:
        """The standard deviation of the noise in a cell of `table`, beyond what marginals of fewer attributes say."""
        return math.sqrt(self.variance * interaction(self.shape))

    def one_way(self, axis: int, total: float) -> tuple[np.ndarray, float] | None:
        """Counts of one attribute's groups, and their variance; None where the answers say nothing of them."""
        own = self.factors[axis]
        if any(factor is not None for place, factor in enumerate(self.factors) if place != axis):
            return None
        others = tuple(place for place in range(self.values.ndim) if place != axis)
        sums, variance = self.values.sum(axis=others), self.values.size // self.values.shape[axis] * self.variance
        return (sums if own is None else total / own.shape[1] + np.linalg.pinv(own) @ sums), variance


def _along_axes(factors: Sequence[np.ndarray | None], table: np.ndarray) -> np.ndarray:
    """A table multiplied by a matrix along each axis."""
    for axis, factor in enumerate(factors):
        if factor is not None:
            table = np.moveaxis(np.tensordot(table, factor, axes=(axis, 1)), -1, axis)
    return table


def grouping_query(clique: Clique, groups: Iterable[np.ndarray], contrasts: Iterable[bool] = (False, False)) -> Kron:
    """The counts over groups of codes, or along an attribute their contrasts: see `contrast_matrix`."""
    return Kron(
        {name: _factor(labels, contrast) for name, labels, contrast in zip(clique, groups, contrasts, strict=True)}
    )


def _factor(labels: np.ndarray, contrast: bool) -> Any:
    if contrast and labels[-1] > 0:
        return contrast_matrix(int(labels[-1]) + 1)[:, labels]
    return identity(len(labels)) if is_identity(labels) else compress(len(labels), labels.tolist())


def contrast_matrix(count: int) -> np.ndarray:
    r"""An orthonormal basis of what remains of `count` numbers without their mean, shape (count - 1, count): Helmert's.

    Its columns have the squared norm $1 - 1/n$. So a table's interaction alone, which is all that remains to be said of
    it when its one-way marginals are known, costs less than the table: a factor $(1 - 1/n)(1 - 1/m)$ of variance,
    a quarter for two binary attributes (residuals; Xiao, He, Zhang, Kifer 2023).
    """
    rows = np.arange(1, count)[:, None]
    columns = np.arange(count)[None, :]
    matrix = np.where(columns < rows, 1.0, np.where(columns == rows, -rows.astype(np.float64), 0.0))
    return matrix / np.sqrt(rows * (rows + 1.0))


def read_grouping(query: Any, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The group of each code, read off a factor of `grouping_query`, and its matrix over groups, None for the identity.

    Groups are ranges of codes, so that a new one starts where the matrix has another column.
    """
    if query is None:
        return np.arange(size), None
    if counts_all(query):
        return np.rint(query.transpose(np.arange(query.rows, dtype=np.float64))).astype(np.int64), None
    matrix = query.matrix()
    starts = np.concatenate([[True], (np.diff(matrix, axis=1) != 0).any(axis=0)])
    return np.cumsum(starts) - 1, matrix[:, starts]


def counts_all(query: Any) -> bool:
    """Whether a factor of `grouping_query` counts every record once, so that its answers sum to their number."""
    return isinstance(query, Identity | Grouping)


@dataclass(frozen=True, eq=False)
class RangeAnswers:
    """Noisy answers about ranges of one attribute's codes: H x + noise.

    Attributes:
        matrix: H, shape (rows, codes).
        values: the answers.
        variance: of the noise in each.
    """

    matrix: np.ndarray
    values: np.ndarray
    variance: float

    @classmethod
    def of(cls, measurement: LinearMeasurement) -> RangeAnswers:
        """What a measurement by `grouping_query` says."""
        assert measurement.query is not None
        return cls(measurement.query.matrices[0].matrix(), measurement.values, float(np.mean(measurement.stddev)) ** 2)

    def applied(self, counts: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts and the covariance of their errors, after these answers (best linear estimate)."""
        across = covariance @ self.matrix.T
        inside = self.matrix @ across + self.variance * np.eye(len(self.matrix))
        gain = np.linalg.solve(inside, across.T).T
        return counts + gain @ (self.values - self.matrix @ counts), covariance - gain @ across.T


def about_ranges(measurement: LinearMeasurement, size: int) -> bool:
    """Whether a measurement of one attribute is about ranges of its codes, several in one."""
    query = measurement.query
    return query is not None and not is_identity(read_grouping(query.matrices[0], size)[0])
