"""Noisy answers about tables over groups of codes, and the queries that ask for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.candidates import interaction_fraction
from pgmest.queries import Kron, compress, identity
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity


@dataclass(frozen=True, eq=False)
class Answer:
    """Noisy answers (A x B x ...) T + noise, where T is a table of counts over groups of codes.

    Attributes:
        clique: Two attributes or three.
        groups: For each attribute, the group of each code.
        factors: The matrices A, B, ..., shape (rows, groups); None is the identity.
        values: The answers, one axis per attribute.
        variance: The variance of the noise in each answer.
        public: Whether this is a public table, which replaces an answer and has no noise.
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray | None, ...]
    values: np.ndarray
    variance: float
    public: bool = False

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> Answer:
        """Create an answer from a measurement of two attributes or three."""
        query, stddev = measurement.query, float(np.mean(measurement.stddev))
        assert query is None or isinstance(query, Kron)
        names = measurement.clique
        sides = [read_grouping(None if query is None else query.factors[name], domain[name]) for name in names]
        shape = tuple(int(labels[-1]) + 1 if factor is None else len(factor) for labels, factor in sides)
        groups, factors = zip(*sides, strict=True)
        return cls(names, groups, factors, measurement.values.reshape(shape), stddev**2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table: the number of groups of each attribute."""
        return tuple(int(labels[-1]) + 1 for labels in self.groups)

    @property
    def key(self) -> tuple[bytes, ...]:
        """A key that is equal for answers to the same query."""
        return tuple(part.tobytes() for part in (*self.groups, *(np.asarray(f) for f in self.factors if f is not None)))

    def averaged(self, other: Answer) -> Answer:
        """Return the average of two answers to the same query, weighted by precision."""
        a, b = 1 / self.variance, 1 / other.variance
        return replace(self, values=(a * self.values + b * other.values) / (a + b), variance=1 / (a + b))

    def table(self, expected: np.ndarray) -> np.ndarray:
        """Return the table that has these answers and is closest to an expected table (least squares)."""
        off = self.values - _along_axes(self.factors, expected)
        return expected + _along_axes(
            [None if factor is None else np.linalg.pinv(factor) for factor in self.factors], off
        )

    def noise(self) -> float:
        """Return the standard deviation of the noise in a cell of `table`, given all marginals of fewer attributes."""
        return math.sqrt(self.variance * interaction_fraction(self.shape))


def _along_axes(factors: Sequence[np.ndarray | None], table: np.ndarray) -> np.ndarray:
    """Multiply a table by a matrix along each axis."""
    for axis, factor in enumerate(factors):
        if factor is not None:
            table = np.moveaxis(np.tensordot(table, factor, axes=(axis, 1)), -1, axis)
    return table


def grouping_query(clique: Clique, groups: Iterable[np.ndarray], contrasts: Iterable[bool] = (False, False)) -> Kron:
    """Return the query for the counts of groups of codes, or for their contrasts (`contrast_matrix`)."""
    return Kron(
        {name: _factor(labels, contrast) for name, labels, contrast in zip(clique, groups, contrasts, strict=True)}
    )


def _factor(labels: np.ndarray, contrast: bool) -> Any:
    if contrast and labels[-1] > 0:
        return contrast_matrix(int(labels[-1]) + 1)[:, labels]
    return identity(len(labels)) if is_identity(labels) else compress(len(labels), labels.tolist())


def contrast_matrix(count: int) -> np.ndarray:
    r"""Return Helmert's orthonormal basis of the vectors of sum zero, shape (count - 1, count).

    Its columns have the squared norm $1 - 1/n$. So the interaction of a table, which is all that is unknown if the
    one-way marginals are known, has less noise than the table at the same budget: the factor $(1 - 1/n)(1 - 1/m)$ of
    variance, a quarter for two binary attributes (residual queries; Xiao, He, Zhang and Kifer 2023).
    """
    rows = np.arange(1, count)[:, None]
    columns = np.arange(count)[None, :]
    matrix = np.where(columns < rows, 1.0, np.where(columns == rows, -rows.astype(np.float64), 0.0))
    return matrix / np.sqrt(rows * (rows + 1.0))


def read_grouping(query: Any, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the groups that a factor of `grouping_query` uses, and its matrix over groups (None for the identity).

    Groups are ranges of codes, so a new group starts where the column of the matrix changes.
    """
    if query is None:
        return np.arange(size), None
    if counts_all(query):
        return np.rint(query.transpose(np.arange(query.rows, dtype=np.float64))).astype(np.int64), None
    matrix = query.matrix()
    starts = np.concatenate([[True], (np.diff(matrix, axis=1) != 0).any(axis=0)])
    return np.cumsum(starts) - 1, matrix[:, starts]


def counts_all(query: Any) -> bool:
    """Return whether a factor of `grouping_query` counts every record once, so that its answers sum to the total."""
    return isinstance(query, Identity | Grouping)


def least_total(measurements: Iterable[LinearMeasurement], domain: Domain) -> float:
    """Return the least number of records, at least 1, for which contrasts of single attributes imply no negative count.

    It replaces an estimate if a run is interrupted before the number of records is measured.
    """
    least = 1.0
    for measurement in measurements:
        if len(measurement.clique) == 1 and isinstance(measurement.query, Kron):
            size = domain[measurement.clique[0]]
            _, contrasts = read_grouping(measurement.query.matrices[0], size)
            if contrasts is not None:
                counts = np.linalg.pinv(contrasts) @ measurement.values
                least = max(least, -float(counts.min()) * contrasts.shape[1])
    return least


@dataclass(frozen=True, eq=False)
class RangeAnswers:
    """Noisy answers H x + noise about ranges of the codes of one attribute, with x the counts of its codes.

    Attributes:
        matrix: The matrix H, shape (rows, codes).
        values: The answers.
        variance: The variance of the noise in each answer.
    """

    matrix: np.ndarray
    values: np.ndarray
    variance: float

    @classmethod
    def of(cls, measurement: LinearMeasurement) -> RangeAnswers:
        """Create the answers from a measurement by `grouping_query`."""
        assert measurement.query is not None
        return cls(measurement.query.matrices[0].matrix(), measurement.values, float(np.mean(measurement.stddev)) ** 2)

    def applied(self, counts: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts and the covariance of their errors given these answers (best linear estimate)."""
        across = covariance @ self.matrix.T
        inside = self.matrix @ across + self.variance * np.eye(len(self.matrix))
        gain = np.linalg.solve(inside, across.T).T
        return counts + gain @ (self.values - self.matrix @ counts), covariance - gain @ across.T


def has_range_queries(measurement: LinearMeasurement, size: int) -> bool:
    """Return whether a measurement of one attribute is over ranges of several codes."""
    query = measurement.query
    return query is not None and not is_identity(read_grouping(query.matrices[0], size)[0])
