"""MatrixQuery: a matrix of linear queries on the values of one attribute, or on the cells of one clique."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.errors import QueryError, ShapeError, excerpt
from pgmest.queries.linear_query import LinearQuery
from pgmest.tables.domain import Clique, as_domain
from pgmest.tables.factor import Factor

SHOWN = 12
"""The most numbers of an array that the text of a query shows."""


@dataclass(frozen=True, eq=False)
class MatrixQuery(LinearQuery):
    """A (rows, n) query matrix Q; the answer of row r is sum_j Q[r, j] * x[j] for a vector x of n counts.

    The counts are those of one attribute's values, or of a clique's cells. A subclass applies Q and its transpose
    without materializing Q; `matrix()` materializes it.

    >>> from pgmest import queries
    >>> queries.prefix(3).apply([10.0, 20.0, 30.0])
    array([10., 30., 60.])
    """

    shape: tuple[int, int]
    """The number of rows, and the number n of columns."""
    spec: Mapping[str, Any]
    """The constructor of this query: its name under "kind", and its arguments other than n."""

    @property
    def table_shape(self) -> tuple[int, ...]:
        """The shape (n,)."""
        return self.shape[1:]

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """The shape (rows,)."""
        return self.shape[:1]

    @property
    def matrices(self) -> tuple[MatrixQuery, ...]:
        """This query alone."""
        return (self,)

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> MatrixQuery:
        """Return the given matrix, of which there must be one."""
        (matrix,) = matrices
        return matrix

    def in_order(self, clique: Clique) -> MatrixQuery:
        """Return this query, because it is applied to the cells of any clique."""
        return self

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        if clique is None:
            raise QueryError(f"the query {self} names no attributes; give the clique that it is about.")
        cells = as_domain(domain).size(clique)
        if self.cells != cells:
            raise QueryError(
                f"the query on {clique}: expected {cells:,} columns, one per cell, got a matrix of shape {self.shape}."
            )

    def apply(self, table: Any, axis: int = 0) -> np.ndarray:
        """Return Q applied along one axis, whose length changes from n to `rows`.

        The result may share memory with `table`.

        Raises:
            ShapeError: the axis has another length.
        """
        return self._along(self._apply, table, axis, self.cells)

    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        return self.apply(marginal.project(clique).datavector())

    def transpose(self, answers: Any, axis: int = 0) -> np.ndarray:
        """Return Q^T applied along one axis, whose length changes from `rows` to n.

        The result may share memory with `answers`.

        Raises:
            ShapeError: the axis has another length.
        """
        return self._along(self._apply_transpose, answers, axis, self.rows)

    def _along(self, operation: Any, values: Any, axis: int, length: int) -> np.ndarray:
        """Return the operation, which acts on the first axis, applied along `axis`, whose length must be `length`."""
        array = np.asarray(values, dtype=np.float64)
        if not -array.ndim <= axis < array.ndim or array.shape[axis] != length:
            raise ShapeError.of(f"axis {axis} of the argument of {self}", f"of length {length}", array.shape)
        if axis == 0:
            return operation(array)
        return np.moveaxis(operation(np.moveaxis(array, axis, 0)), 0, axis)

    @abstractmethod
    def _apply(self, values: np.ndarray) -> np.ndarray:
        """Return Q @ values along the first axis: (n, ...) -> (rows, ...)."""

    @abstractmethod
    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        """Return Q^T @ values along the first axis: (rows, ...) -> (n, ...)."""

    @abstractmethod
    def squared(self) -> MatrixQuery:
        """Return the query whose entries are the squares of this query's; column norms and variances use it."""

    def row(self, index: int = 0) -> np.ndarray:
        """Return one row of Q, shape (n,); it may share memory with the query."""
        unit = np.zeros(self.rows)
        unit[index] = 1.0
        return self._apply_transpose(unit)

    def matrix(self) -> np.ndarray:
        """Return Q as a dense array of shape (rows, n)."""
        return np.array(self.apply(np.eye(self.cells)))

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        arguments = [f"{name}={_short(value)}" for name, value in self.spec.items() if name != "kind"]
        return f"{self.spec['kind']}({', '.join([str(self.cells), *arguments])})"

    __repr__ = __str__


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > SHOWN:  # its text takes milliseconds and would be too long
        return "..."
    text = repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
    return " ".join(text.split()) if len(text) <= 60 else "..."


def positive_size(n: Any) -> int:
    """Return `n` as an int.

    Raises:
        QueryError: `n` is not a positive integer.
    """
    try:
        size = 0 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        size = 0
    if size < 1:
        raise QueryError(f"a query needs a positive integer number of values n, got {n!r}.")
    return size


def finite_vector(values: Any, n: int, what: str) -> np.ndarray:
    """Return `values` as a read-only float64 vector of length n.

    Raises:
        QueryError: the length differs, or an entry is not a finite number; `what` names the vector in the error.
    """
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(f"{what} must be {n} real numbers, got {excerpt(values)}.") from None
    if vector.shape != (n,):
        raise QueryError(f"{what}: expected shape ({n},), got {vector.shape}.")
    if not np.isfinite(vector).all():
        raise QueryError(f"{what} must not be NaN or infinite; give finite numbers.")
    vector.flags.writeable = False
    return vector
