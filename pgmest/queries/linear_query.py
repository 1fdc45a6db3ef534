"""LinearQuery: what every linear query about a table of counts offers, whatever its matrix is kept as."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.queries.base import MatrixQuery


class LinearQuery(ABC):
    """A matrix Q of linear queries about a table of counts, never densified: the answers are Q times the cells.

    `MatrixQuery` is one matrix about the cells of whatever clique it is asked of; `Kron` is the Kronecker product of
    one such matrix for each of its attributes. Cells and answers are row-major in their axes.

    Attributes:
        shape: (rows, cells), the shape of the matrix, as of `matrix()`.
        table_shape: the axes of the table that the query reads; their product is `cells`.
        answer_shape: the axes of its answers; their product is `rows`.
        attributes: the attributes of both kinds of axes, where the query names them itself (a Kron), else None.
        matrices: the matrices whose Kronecker product it is, in the order of the answer's axes; one for a MatrixQuery.
        spec: how the query is made: its "kind" and arguments, as measurement files have them.
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
        """The number of cells that each query weighs."""
        return self.shape[1]

    @property
    def columns(self) -> int:
        """The number of columns of the matrix: `cells`, in the words of matrices."""
        return self.shape[1]

    @abstractmethod
    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> LinearQuery:
        """The query of the same kind, about the same attributes, with other matrices."""

    @abstractmethod
    def apply(self, table: Any) -> np.ndarray:
        """Q times the cells: from an array of `table_shape`, or flat, to one of `answer_shape`.

        Raises:
            ShapeError: the array has another shape.
        """

    @abstractmethod
    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        """The answers, flat, about a marginal that covers a clique, whose cells are row-major in the clique's order.

        Raises:
            UnknownAttributeError: the marginal lacks an attribute.
            QueryError, ShapeError: it has another number of cells than the query was made for.
        """

    @abstractmethod
    def transpose(self, answers: Any) -> np.ndarray:
        """Q^T times one number per query: from an array of `answer_shape`, or flat, to one of `table_shape`.

        Raises:
            ShapeError: the array has another shape.
        """

    @abstractmethod
    def squared(self) -> LinearQuery:
        """The query whose entries are the squares of this one's; column norms and variances need it."""

    @abstractmethod
    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        """See that the query fits a domain.

        Args:
            domain: attribute -> number of values.
            clique: the attributes that the query is about; may be left out where it names them itself.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: it was made for another number of cells, or no clique is given.
        """

    @abstractmethod
    def in_order(self, clique: Clique) -> LinearQuery:
        """The same queries, reading the cells of a clique row-major in the clique's order.

        Raises:
            QueryError: the query names other attributes.
        """

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """sum_r weights[r] * Q[r, j]^2 for each cell j, shape `table_shape`; weights may be a scalar."""
        return self.squared().transpose(np.broadcast_to(weights, (self.rows,)))

    def max_column_norm(self) -> float:
        """max_j ||Q e_j||_2: how far, in l2, one record moves the exact answers (1 for identity)."""
        return float(np.sqrt(np.max(self.weighted_column_squares(1.0))))

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """Q itself, dense, shape (rows, cells): for small queries and for checking."""

    def apply_transpose(self, answers: Any, *axis: int) -> np.ndarray:
        """The former name of `transpose`."""
        warnings.warn("apply_transpose is now transpose", DeprecationWarning, stacklevel=2)
        return self.transpose(answers, *axis)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.matrix().astype(dtype or np.float64, copy=False)

    def __matmul__(self, values: Any) -> np.ndarray:
        return self.apply(values)
