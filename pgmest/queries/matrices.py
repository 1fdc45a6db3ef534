"""Query matrices by how they are stored: identity, a recoding into groups, and dense, sparse and implicit matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.errors import QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.ranges import membership


@dataclass(frozen=True, eq=False, repr=False)
class Identity(MatrixQuery):
    """The identity matrix."""

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return values

    _apply_transpose = _apply

    def squared(self) -> Identity:
        """Return this query, because its entries are 0 and 1."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Grouping(MatrixQuery):
    """The counts of an attribute after recoding: row g sums the codes j with groups[j] == g."""

    groups: np.ndarray

    @cached_property
    def _members(self) -> Any:
        return membership(self.groups, self.rows)

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return (self._members @ values.reshape(self.cells, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return values[self.groups]

    def sparse_rows(self, rows: np.ndarray | None = None) -> Any:
        return self._members if rows is None else self._members[rows]

    def squared(self) -> Grouping:
        """Return this query, because its entries are 0 and 1."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class DenseQuery(MatrixQuery):
    """A dense matrix."""

    values: np.ndarray

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.values, values, 1)

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.values.T, values, 1)

    def sparse_rows(self, rows: np.ndarray | None = None) -> Any:
        from scipy.sparse import csr_array

        return csr_array(self.values if rows is None else self.values[rows])

    def squared(self) -> DenseQuery:
        """Return the matrix of squares."""
        return dense(self.values**2)

    def row(self, index: int = 0) -> np.ndarray:
        """Return a view of one row."""
        return self.values[index]

    def matrix(self) -> np.ndarray:
        """Return a copy of the matrix."""
        return self.values.copy()


@dataclass(frozen=True, eq=False, repr=False)
class SparseQuery(MatrixQuery):
    """A scipy sparse matrix, stored by rows (CSR)."""

    values: Any

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return (self.values @ values.reshape(self.cells, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return (self._transposed @ values.reshape(self.rows, -1)).reshape(self.cells, *values.shape[1:])

    @cached_property
    def _transposed(self) -> Any:
        return self.values.T.tocsr()

    def sparse_rows(self, rows: np.ndarray | None = None) -> Any:
        return self.values if rows is None else self.values[rows]

    def squared(self) -> SparseQuery:
        """Return the sparse matrix of squares."""
        return sparse_query(self.values.power(2))

    def matrix(self) -> np.ndarray:
        """Return the matrix as a dense array."""
        return self.values.toarray()


BLOCK_CELLS = 1 << 22
"""Unit vectors are multiplied in blocks of at most this many cells (32 MB), which bounds the memory used."""


@dataclass(frozen=True, eq=False, repr=False)
class OperatorQuery(MatrixQuery):
    """A scipy LinearOperator, of which only products with vectors are known."""

    operator: Any

    def _apply(self, values: np.ndarray) -> np.ndarray:
        return self.operator.matmat(values.reshape(self.cells, -1)).reshape(self.rows, *values.shape[1:])

    def _apply_transpose(self, values: np.ndarray) -> np.ndarray:
        return self.operator.rmatmat(values.reshape(self.rows, -1)).reshape(self.cells, *values.shape[1:])

    def squared(self) -> DenseQuery:
        """Return the dense matrix of squares; the products do not give single entries, so it takes rows * n memory."""
        return dense(self.matrix() ** 2)

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """Return sum_r weights[r] * Q[r, j]^2 for each column j, from products with blocks of the n unit vectors."""
        block = max(1, BLOCK_CELLS // max(self.shape))
        squares = np.empty(self.cells)
        for start in range(0, self.cells, block):
            width = min(block, self.cells - start)
            units = np.zeros((self.cells, width))
            units[np.arange(start, start + width), np.arange(width)] = 1.0
            columns = self._apply(units)
            squares[start : start + width] = np.broadcast_to(weights, (self.rows,)) @ (columns * columns)
        return squares


def dense(matrix: Any, spec: dict[str, Any] | None = None) -> DenseQuery:
    """Return a checked copy of a dense matrix as a query.

    Raises:
        QueryError: the matrix is not two-dimensional, is empty, or holds an entry that is not a finite real number.
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
    """Return a checked copy of a scipy sparse matrix as a query.

    Raises:
        QueryError: the matrix is not two-dimensional, is empty, or holds an entry that is not a finite real number.
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
    """Return a scipy LinearOperator, or any object with shape, matmat and rmatmat, as a query.

    Raises:
        QueryError: the operator lacks the transposed product, is empty or complex, or has products that are not finite.
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
    """Return a LinearQuery for a LinearQuery, a dense array or nested lists, a scipy sparse matrix or LinearOperator.

    Raises:
        QueryError: `matrix` has another type, or its entries are not finite real numbers.
    """
    return matrix if isinstance(matrix, LinearQuery) else as_matrix_query(matrix)


def as_matrix_query(matrix: Any) -> MatrixQuery:
    """Return a MatrixQuery for the same arguments as `as_query`, but refuse a Kron, which names its own attributes.

    Raises:
        QueryError: `matrix` is a Kron or has another type, or its entries are not finite real numbers.
    """
    if isinstance(matrix, MatrixQuery):
        return matrix
    if isinstance(matrix, LinearQuery):
        raise QueryError(f"a factor of a Kron must be a matrix, got {matrix}; list its factors one by one instead.")
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
