"""MatrixQuery: a matrix of linear queries on the values of one attribute (or on the cells of one clique)."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.deprecation import Lookup, renamed_names
from pgmest._base.errors import QueryError, ShapeError
from pgmest.queries.linear_query import LinearQuery
from pgmest.tables.domain import Clique, as_domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False)
class MatrixQuery(LinearQuery):
    """A (rows, n) query matrix Q: row r answers sum_j Q[r, j] * x[j] about a vector x of n counts.

    The counts are those of one attribute's values, or of a clique's cells. A subclass knows how to apply Q and its
    transpose without materializing Q; `matrix()` does so on request.

    >>> from pgmest import queries
    >>> queries.prefix(3).apply([10.0, 20.0, 30.0])
    array([10., 30., 60.])
    """

    shape: tuple[int, int]
    """Rows, and the number of values n that each of them weighs."""
    spec: Mapping[str, Any]
    """The constructor that makes this query: its name under "kind", and its arguments other than n."""

    @property
    def table_shape(self) -> tuple[int, ...]:
        """(n,)."""
        return self.shape[1:]

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """(rows,)."""
        return self.shape[:1]

    @property
    def matrices(self) -> tuple[MatrixQuery, ...]:
        """Itself."""
        return (self,)

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> MatrixQuery:
        """The one matrix given."""
        (matrix,) = matrices
        return matrix

    def in_order(self, clique: Clique) -> MatrixQuery:
        """Itself: it reads the cells of whatever clique it is asked of."""
        return self

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        if clique is None:
            raise QueryError(f"{self} does not say which attributes it is about; name their clique.")
        cells = as_domain(domain).size(clique)
        if self.cells != cells:
            raise QueryError(
                f"the query on {clique}: expected {cells:,} columns, one per cell, got a matrix of shape {self.shape}."
            )

    def apply(self, table: Any, axis: int = 0) -> np.ndarray:
        """Q along one axis: that axis goes from length n to length `rows`. The result may share memory with `table`.

        Raises:
            ShapeError: the axis has another length.
        """
        return self._along(self._apply, table, axis, self.columns)

    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        return self.apply(marginal.project(clique).datavector())

    def transpose(self, answers: Any, axis: int = 0) -> np.ndarray:
        """Q^T along one axis: that axis goes from length `rows` to length n. The result may share memory.

        Raises:
            ShapeError: the axis has another length.
        """
        return self._along(self._apply_transpose, answers, axis, self.rows)

    def _along(self, operation: Any, values: Any, axis: int, length: int) -> np.ndarray:
        array = np.asarray(values, dtype=np.float64)
        if not -array.ndim <= axis < array.ndim or array.shape[axis] != length:
            raise ShapeError.of(f"axis {axis} of what {self} is applied to", f"of length {length}", array.shape)
        if axis == 0:
            return operation(array)
        return np.moveaxis(operation(np.moveaxis(array, axis, 0)), 0, axis)

    @abstractmethod
    def _apply(self, values: np.ndarray) -> np.ndarray:
        """Q @ values along the first axis: (n, ...) -> (rows, ...)."""

    @abstractmethod
    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        """Q^T @ values along the first axis: (rows, ...) -> (n, ...)."""

    @abstractmethod
    def squared(self) -> MatrixQuery:
        """The query whose entries are the squares of this one's; column norms and variances need it."""

    def row(self, index: int = 0) -> np.ndarray:
        """One row of Q, shape (n,). It may share memory with the query."""
        unit = np.zeros(self.rows)
        unit[index] = 1.0
        return self._apply_transpose(unit)

    def matrix(self) -> np.ndarray:
        """Q itself, dense, shape (rows, n)."""
        return np.array(self.apply(np.eye(self.columns)))

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        arguments = [f"{name}={_short(value)}" for name, value in self.spec.items() if name != "kind"]
        return f"{self.spec['kind']}({', '.join([str(self.columns), *arguments])})"

    __repr__ = __str__


def _short(value: Any) -> str:
    text = repr(value.tolist()) if isinstance(value, np.ndarray) and value.size <= 12 else repr(value)
    return " ".join(text.split()) if len(text) <= 60 else "..."


def positive_size(n: Any) -> int:
    """`n` as an int.

    Raises:
        QueryError: it is not a positive integer.
    """
    try:
        size = 0 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        size = 0
    if size < 1:
        raise QueryError(f"a query needs a positive integer number of values n, got {n!r}.")
    return size


def finite_vector(values: Any, n: int, what: str) -> np.ndarray:
    """`values` as a read-only float64 vector of length n.

    Raises:
        QueryError: another length, not numbers, NaN or infinite.
    """
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(f"{what} must be {n} real numbers, got {values!r}.") from None
    if vector.shape != (n,):
        raise QueryError(f"{what}: expected shape ({n},), got {vector.shape}.")
    if not np.isfinite(vector).all():
        raise QueryError(f"{what} must not be NaN or infinite; give finite numbers.")
    vector.flags.writeable = False
    return vector


__getattr__: Lookup = renamed_names(__name__, {"Query": "pgmest.queries.base.MatrixQuery"})
