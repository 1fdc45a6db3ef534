"""Conversion of mbi's queries, which are functions of a factor, to dense or sparse matrices or linear operators.

JAX differentiates the function: the derivative of a linear function is its matrix, and each row costs one evaluation.
A single query on ten thousand cells therefore costs one evaluation, not ten thousand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import double_precision, is_plain, jax, mbi
from pgmest.errors import QueryError
from pgmest.tables.domain import Clique

BLOCK_ENTRIES = 1 << 22
"""The most entries in a block of rows (32 MB)."""

FEW_CELLS = 1 << 10
"""On at most this number of cells, a function is evaluated for each cell, without JAX, which would compile it."""

MOST_WORK = 1 << 31
MOST_NONZEROS = 1 << 25
"""A query with more entries, or more nonzero entries (400 MB), becomes a linear operator instead of a matrix."""


@dataclass(frozen=True, eq=False)
class MatrixQuery:
    """A query matrix in the form that mbi takes: a function of a factor.

    Attributes:
        matrix: shape (rows, cells), dense or scipy sparse.
    """

    matrix: Any

    def __call__(self, factor: Any) -> Any:
        if isinstance(self.matrix, np.ndarray):
            return self.matrix @ factor.datavector()
        from jax.experimental.sparse import BCOO

        return BCOO.from_scipy_sparse(self.matrix) @ factor.datavector()

    def op_norm_sq(self) -> float:
        """Return the largest squared singular value, for a sparse matrix a bound; it determines mbi's step size."""
        if isinstance(self.matrix, np.ndarray):
            return float(np.linalg.norm(self.matrix, 2) ** 2)
        sizes = abs(self.matrix)
        return float(sizes.sum(axis=0).max() * sizes.sum(axis=1).max())


def from_mbi_query(query: Any, clique: Clique, names: Names, rows: int) -> Any:
    """Return a query of mbi as an argument `query` of `pgmest.LinearMeasurement`.

    Raises:
        QueryError: the query is not linear, or the number of its answers is not that of the values.
    """
    from scipy import sparse

    if is_plain(query):
        return None
    cells = names.domain.size(clique)
    kind = type(query).__name__
    if isinstance(query, MatrixQuery):
        return query.matrix
    if kind == "WeightedQuery":
        return sparse.diags(np.broadcast_to(np.asarray(query.weights, dtype=np.float64).reshape(-1), (cells,))).tocsr()
    if kind == "SlicedQuery":
        return sparse.eye(cells).tocsr()[query.start :]
    if cells <= FEW_CELLS:
        table = names.theirs.project(names.back(clique))
        with contextlib.suppress(TypeError, AttributeError):  # the query has no hash, or needs arrays of JAX
            return _of_few_cells(query, table, clique, rows)
    return _of_function(query, clique, names, rows)


@lru_cache(maxsize=1024)
def _of_few_cells(query: Callable[[Any], Any], table: Any, clique: Clique, rows: int) -> Any:
    """Return the matrix of a query on few cells; it is cached, since a mechanism converts it in every round."""
    with double_precision():
        return _of_unit_tables(query, table, clique, rows)


def _of_function(query: Callable[[Any], Any], clique: Clique, names: Names, rows: int) -> Any:
    cells = names.domain.size(clique)
    table = names.theirs.project(names.back(clique))

    def answer(values: Any) -> Any:
        return jax.numpy.ravel(jax.numpy.asarray(query(mbi.Factor(table, values.reshape(table.shape)))))

    probe = np.random.default_rng(0).uniform(0.5, 1.5, cells)
    with double_precision():
        try:
            answered, transpose = jax.vjp(jax.jit(answer), probe)
        except (TypeError, ValueError, jax.errors.JAXTypeError):  # JAX cannot trace a function written for NumPy
            return _of_unit_tables(query, table, clique, rows)
        _check_rows(len(answered), rows, clique)
        if rows * cells > MOST_WORK:
            matrix = _products(jax.jit(answer), transpose, rows, cells)
        else:
            blocks = _derivative_blocks(transpose, rows, cells)
            matrix = _stacked(blocks, rows, cells)
            matrix = _products(jax.jit(answer), transpose, rows, cells) if matrix is None else matrix
        _check_linear(matrix, lambda values: np.asarray(jax.jit(answer)(values)), cells, clique)
    return matrix


def _derivative_blocks(transpose: Callable[..., Any], rows: int, cells: int) -> Iterator[np.ndarray]:
    many = jax.jit(jax.vmap(lambda unit: transpose(unit)[0]))
    length = max(1, BLOCK_ENTRIES // max(cells, rows))
    for start in range(0, rows, length):
        yield np.asarray(many(np.eye(min(length, rows - start), rows, start)))


def _stacked(blocks: Iterator[np.ndarray], rows: int, cells: int) -> Any:
    """Return the rows as one matrix, sparse if few entries are nonzero; None if too many are."""
    from scipy import sparse

    parts, nonzeros = [], 0
    for block in blocks:
        parts.append(sparse.csr_array(block))
        nonzeros += parts[-1].nnz
        if nonzeros > MOST_NONZEROS:
            return None
    matrix = sparse.vstack(parts, format="csr") if parts else sparse.csr_array((rows, cells))
    return matrix.toarray() if nonzeros > 0.25 * rows * cells else matrix


def _products(answer: Callable[..., Any], transpose: Callable[..., Any], rows: int, cells: int) -> Any:
    """Return the query as a scipy LinearOperator."""
    from scipy.sparse.linalg import LinearOperator

    def apply(values: np.ndarray) -> np.ndarray:
        with double_precision():
            return np.asarray(answer(np.asarray(values, dtype=np.float64).reshape(-1)))

    def apply_transpose(values: np.ndarray) -> np.ndarray:
        with double_precision():
            return np.asarray(transpose(np.asarray(values, dtype=np.float64).reshape(-1))[0])

    operator: Any = LinearOperator
    return operator((rows, cells), matvec=apply, rmatvec=apply_transpose, dtype=np.float64)


def _of_unit_tables(query: Callable[[Any], Any], table: Any, clique: Clique, rows: int) -> Any:
    """Return the matrix of any linear function, from its answers on the tables with a single 1."""
    cells = int(np.prod(table.shape, dtype=np.int64))

    def answer(values: np.ndarray) -> np.ndarray:
        return np.asarray(query(mbi.Factor(table, values.reshape(table.shape))), dtype=np.float64).reshape(-1)

    _check_rows(len(answer(np.ones(cells))), rows, clique)
    if rows * cells > MOST_WORK:
        raise QueryError(
            f"the query measured on {clique} is written for NumPy and would be a matrix of {rows:,} x {cells:,} "
            "entries; write it with jax.numpy, which can transpose it, or give the matrix to pgmest.LinearMeasurement."
        )
    length = max(1, BLOCK_ENTRIES // max(cells, rows))
    starts = range(0, cells, length)
    blocks = (np.stack([answer(unit) for unit in np.eye(min(length, cells - at), cells, at)]) for at in starts)
    transposed = _stacked(blocks, cells, rows)
    if transposed is None:
        raise QueryError(f"the matrix of the query measured on {clique} has over {MOST_NONZEROS:,} entries.")
    matrix = transposed.T if isinstance(transposed, np.ndarray) else transposed.T.tocsr()
    _check_linear(matrix, answer, cells, clique)
    return matrix


def _check_rows(found: int, rows: int, clique: Clique) -> None:
    if found != rows:
        raise QueryError(
            f"the query measured on {clique} has {found:,} answers, and {rows:,} values were given; give one for each."
        )


def _check_linear(matrix: Any, answer: Callable[[np.ndarray], np.ndarray], cells: int, clique: Clique) -> None:
    """Raise QueryError if the matrix does not give the function's answers on two further tables, one of them empty."""
    for probe in (np.arange(1.0, cells + 1), np.zeros(cells)):
        expected = answer(probe)
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        if not np.allclose(np.asarray(matrix @ probe) / scale, expected / scale, rtol=1e-4, atol=1e-6):
            raise QueryError(f"the query measured on {clique} is not linear, so it has no matrix.")
