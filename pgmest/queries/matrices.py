"""Queries given by what they are: identity, a recoding into groups, or a user's dense, sparse or implicit matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.ranges import membership


@dataclass(frozen=True, eq=False, repr=False)
class Identity(MatrixQuery):
    """Every count by itself."""

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return values

    _apply_transpose = _apply

    def squared(self) -> Identity:
        """Itself."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Grouping(MatrixQuery):
    """Row g sums the codes j with groups[j] == g: the attribute recoded by a function."""

    groups: np.ndarray

    @cached_property
    def _members(self) -> Any:
        return membership(self.groups, self.rows)

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return (self._members @ values.reshape(self.columns, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return values[self.groups]

    def squared(self) -> Grouping:
        """Itself: the entries are 0 and 1."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class DenseQuery(MatrixQuery):
    """A dense matrix."""

    values: np.ndarray

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.values, values, 1)

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.values.T, values, 1)

    def squared(self) -> DenseQuery:
        """The matrix of squares."""
        return dense(self.values**2)

    def row(self, index: int = 0) -> np.ndarray:
        """A view of one row."""
        return self.values[index]

    def matrix(self) -> np.ndarray:
        """A copy of the matrix."""
        return self.values.copy()


@dataclass(frozen=True, eq=False, repr=False)
class SparseQuery(MatrixQuery):
    """A scipy sparse matrix, kept by rows."""

    values: Any

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return (self.values @ values.reshape(self.columns, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return (self._transposed @ values.reshape(self.rows, -1)).reshape(self.columns, *values.shape[1:])

    @cached_property
    def _transposed(self) -> Any:
        return self.values.T.tocsr()

    def squared(self) -> SparseQuery:
        """The matrix of squares, as sparse."""
        return sparse_query(self.values.power(2))

    def matrix(self) -> np.ndarray:
        """The matrix, dense."""
        return self.values.toarray()


@dataclass(frozen=True, eq=False, repr=False)
class OperatorQuery(MatrixQuery):
    """A scipy LinearOperator: only its products are known."""

    operator: Any

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return self.operator.matmat(values.reshape(self.columns, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return self.operator.rmatmat(values.reshape(self.rows, -1)).reshape(self.columns, *values.shape[1:])

    def squared(self) -> DenseQuery:
        """The squares, materialized: products do not give the entries, so this takes rows * n memory."""
        return dense(self.matrix() ** 2)

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """As for any query; exact, by products with blocks of unit vectors, n of them in all."""
        block = max(1, 2**22 // max(self.shape))
        squares = np.empty(self.columns)
        for start in range(0, self.columns, block):
            width = min(block, self.columns - start)
            units = np.zeros((self.columns, width))
            units[np.arange(start, start + width), np.arange(width)] = 1.0
            columns = self._apply(units)
            squares[start : start + width] = np.broadcast_to(weights, (self.rows,)) @ (columns * columns)
        return squares


def dense(matrix: Any, spec: dict[str, Any] | None = None) -> DenseQuery:
    """A dense matrix as a query, copied and checked.

    Raises:
        QueryError: not two-dimensional, empty, not real numbers, NaN or infinite.
    """
    try:
        values = np.array(matrix)
        if values.dtype.kind == "c":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"a query matrix must hold real numbers in rows of equal length, got {matrix!r}.") from None
    if values.ndim != 2:
        raise QueryError(f"a query matrix: expected two dimensions (rows, n), got shape {values.shape}.")
    _check_entries(values.shape, values)
    values.flags.writeable = False
    return DenseQuery(values.shape, spec or {"kind": "matrix", "rows": values}, values)


def sparse_query(matrix: Any) -> SparseQuery:
    """A scipy sparse matrix as a query.

    Raises:
        QueryError: not two-dimensional, empty, not real numbers, NaN or infinite.
    """
    from scipy import sparse

    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise QueryError(
            f"a sparse query matrix must be two-dimensional with real entries, got {matrix.dtype} {matrix.shape}."
        )
    values = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    values.sum_duplicates()
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    _check_entries(shape, values.data)
    return SparseQuery(shape, {"kind": "sparse", "values": values}, values)


def operator_query(operator: Any) -> OperatorQuery:
    """A scipy LinearOperator (or anything with shape, matmat and rmatmat) as a query.

    Raises:
        QueryError: it lacks the transposed product, is empty or complex, or its products are NaN or infinite.
    """
    rows, columns = shape = (int(operator.shape[0]), int(operator.shape[1]))
    if min(shape) < 1:
        raise QueryError(f"a query matrix must have at least one row and one column, got shape {shape}.")
    try:
        forward = np.asarray(operator.matmat(np.ones((columns, 1))))
        backward = np.asarray(operator.rmatmat(np.ones((rows, 1))))
    except (NotImplementedError, AttributeError, TypeError) as error:
        raise QueryError(
            f"the linear operator of shape {shape} cannot be used: its products fail ({error}). "
            "Give it matvec and rmatvec (the product with its transpose)."
        ) from None
    if forward.shape != (rows, 1) or backward.shape != (columns, 1) or "c" in (forward.dtype.kind, backward.dtype.kind):
        raise QueryError(f"the products of the linear operator of shape {shape} are complex or of the wrong shape.")
    _check_entries(shape, np.concatenate([forward, backward]))
    return OperatorQuery(shape, {"kind": "operator"}, operator)


def as_query(matrix: Any) -> LinearQuery:
    """A query from a LinearQuery, a dense array (nested lists will do), a scipy sparse matrix, or a LinearOperator.

    Raises:
        QueryError: it is none of these, or its entries cannot be used.
    """
    return matrix if isinstance(matrix, LinearQuery) else as_matrix_query(matrix)


def as_matrix_query(matrix: Any) -> MatrixQuery:
    """As `as_query`, of one matrix: a Kron, which names its own attributes, is refused.

    Raises:
        QueryError: it is none of these, or its entries cannot be used.
    """
    if isinstance(matrix, MatrixQuery):
        return matrix
    if isinstance(matrix, LinearQuery):
        raise QueryError(f"a matrix is needed here, got {matrix}; a Kron cannot be a factor of another query.")
    if hasattr(matrix, "tocsr"):
        return sparse_query(matrix)
    if hasattr(matrix, "matvec") and hasattr(matrix, "shape"):
        return operator_query(matrix)
    return dense(matrix)


def _check_entries(shape: tuple[int, ...], entries: np.ndarray) -> None:
    if min(shape) < 1:
        raise QueryError(f"a query matrix must have at least one row and one column, got shape {shape}.")
    if not np.isfinite(entries).all():
        raise QueryError("the query matrix holds NaN or infinite entries; give finite numbers.")
