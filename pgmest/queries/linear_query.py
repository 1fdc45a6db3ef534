"""LinearQuery: the interface of all linear queries on a table of counts, independent of how the matrix is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.queries.base import MatrixQuery


class LinearQuery(ABC):
    """A matrix Q of linear queries on a table of counts; the answers are Q times the vector of cells.

    `MatrixQuery` is one matrix, applied to the cells of any clique of its size. `Kron` is the Kronecker product of one
    matrix for each of its attributes. Cells and answers are row-major in their axes.

    Attributes:
        shape: (rows, cells), the shape of the matrix.
        table_shape: the shape of the table of cells; its product is `cells`.
        answer_shape: the shape of the answers; its product is `rows`.
        attributes: the attributes of the axes if the query names them (a Kron), else None.
        matrices: the matrices whose Kronecker product is Q, in the order of the answer's axes; one for a MatrixQuery.
        spec: the "kind" of the query and its arguments, as measurement files store them.
    """

    shape: tuple[int, int]
    table_shape: tuple[int, ...]
    answer_shape: tuple[int, ...]
    attributes: Clique | None = None
    matrices: tuple[MatrixQuery, ...]
    spec: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """The number of queries."""
        return self.shape[0]

    @property
    def cells(self) -> int:
        """The number of cells of the table, and of columns of the matrix."""
        return self.shape[1]

    @abstractmethod
    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> LinearQuery:
        """Return the query of the same kind, on the same attributes, with other matrices."""

    @abstractmethod
    def apply(self, table: Any) -> np.ndarray:
        """Return Q times the cells, an array of shape `answer_shape`.

        Args:
            table: the cells, in counts: an array of shape `table_shape`, or flat.

        Raises:
            ShapeError: the table has another shape.
        """

    @abstractmethod
    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        """Return the answers, flat, from a marginal in counts.

        Args:
            marginal: a table that has all attributes of the clique; other attributes are summed out.
            clique: the attributes of the query; its cells are row-major in this order.

        Raises:
            UnknownAttributeError: the marginal lacks an attribute.
            QueryError, ShapeError: the clique's number of cells is not that of the query.
        """

    @abstractmethod
    def transpose(self, answers: Any) -> np.ndarray:
        """Return Q^T times one number per query, an array of shape `table_shape`.

        Args:
            answers: one number per query: an array of shape `answer_shape`, or flat.

        Raises:
            ShapeError: the answers have another shape.
        """

    @abstractmethod
    def squared(self) -> LinearQuery:
        """Return the query whose entries are the squares of this query's; column norms and variances use it."""

    @abstractmethod
    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        """Check that the query fits a domain.

        Args:
            domain: attribute -> number of values.
            clique: the attributes of the query; may be None if the query names them itself.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: the clique's number of cells is not that of the query, or a clique is needed and missing.
        """

    @abstractmethod
    def in_order(self, clique: Clique) -> LinearQuery:
        """Return the same queries on cells that are row-major in the clique's order.

        Raises:
            QueryError: the query names other attributes.
        """

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """Return sum_r weights[r] * Q[r, j]^2 for each cell j, shape `table_shape`; weights may be a scalar."""
        return self.squared().transpose(np.broadcast_to(weights, (self.rows,)))

    def max_column_norm(self) -> float:
        """Return max_j ||Q e_j||_2: the l2 sensitivity of the exact answers to one record (1 for identity)."""
        return float(np.sqrt(np.max(self.weighted_column_squares(1.0))))

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """Return Q as a dense array of shape (rows, cells); meant for small queries and for tests."""

    def sparse_rows(self, rows: np.ndarray | None = None) -> Any:
        """Return some rows of Q, by default all, as a csr_array of shape (rows, cells)."""
        from scipy.sparse import csr_array, vstack

        found = []
        for row in range(self.rows) if rows is None else rows:
            unit = np.zeros(self.rows)
            unit[row] = 1.0
            found.append(csr_array(self.transpose(unit).reshape(1, -1)))
        return csr_array(vstack(found)) if found else csr_array((0, self.cells))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.matrix().astype(dtype or np.float64, copy=False)

    def __matmul__(self, values: Any) -> np.ndarray:
        return self.apply(values)
