"""Kron: a query on several attributes whose matrix is the Kronecker product of one matrix per attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from pgmest.errors import DuplicateAttributeError, QueryError, ShapeError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.matrices import as_matrix_query
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class Kron(LinearQuery):
    """A factored query (PGM Section 4.2): one query matrix per attribute; other attributes are summed out.

    The flattened answer is row-major over the rows of each attribute, in the order of `factors`. The Kronecker product
    is not materialized.

    >>> from pgmest import Domain, Factor, queries
    >>> table = Factor(Domain({"age": 3, "sex": 2}), [[1, 2], [3, 4], [5, 6]])
    >>> Kron({"age": queries.prefix(3), "sex": queries.identity(2)}).apply(table)
    array([[ 1.,  2.],
           [ 4.,  6.],
           [ 9., 12.]])
    >>> Kron({"sex": [[1, -1]]}).apply(table)
    array([-3.])

    Args:
        factors: attribute -> MatrixQuery, dense array, scipy sparse matrix or LinearOperator: a mapping, or pairs.
        axes: the names of the answer's axes, such as "diagnosis@chapter"; by default the attributes.

    Raises:
        DuplicateAttributeError: an attribute appears twice.
        QueryError: a name is not a string, or a matrix is not two-dimensional, finite and real.
    """

    def __init__(self, factors: Mapping[str, Any] | Iterable[tuple[str, Any]], *, axes: Iterable[str] | None = None):
        items: Iterable[Any] = factors.items() if isinstance(factors, Mapping) else factors
        pairs: list[tuple[str, Any]] = list(items)
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise DuplicateAttributeError.of(names, "the query")
        self.factors: Mapping[str, MatrixQuery] = MappingProxyType(
            {name: _factor(name, query) for name, query in pairs}
        )
        self.axes: Clique = tuple(self.factors) if axes is None else tuple(axes)
        if len(set(self.axes)) != len(pairs):
            raise QueryError(
                f"axes={self.axes} is not valid: give {len(pairs)} different names, one for each attribute."
            )

    @property
    def attributes(self) -> Clique:
        """The attributes, in the order of the answer's axes."""
        return tuple(self.factors)

    @cached_property
    def matrices(self) -> tuple[MatrixQuery, ...]:
        """The matrix of each attribute."""
        return tuple(self.factors.values())

    @cached_property
    def answer_shape(self) -> tuple[int, ...]:
        """The shape of the answer: the number of rows of each attribute's matrix."""
        return tuple(query.rows for query in self.matrices)

    @cached_property
    def table_shape(self) -> tuple[int, ...]:
        """The shape of the table of cells: the number of columns of each attribute's matrix."""
        return tuple(query.cells for query in self.matrices)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The shape (rows, cells) of the Kronecker product."""
        return math.prod(self.answer_shape), math.prod(self.table_shape)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The kind of the query, "kron", and its factors."""
        return {"kind": "kron", "factors": self.factors}

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> Kron:
        """Return the Kron of the same attributes with other matrices, one for each attribute."""
        return Kron(zip(self.attributes, matrices, strict=True))

    def in_order(self, clique: Clique) -> LinearQuery:
        """Return the same queries on cells that are row-major in the clique's order; the order of answers is kept.

        Raises:
            QueryError: the clique's attributes are not those of the query.
        """
        if tuple(clique) == self.attributes:
            return self
        if sorted(clique) != sorted(self.attributes):
            raise QueryError(f"the Kron over {self.attributes} cannot be applied to a table over {clique}.")
        return ReorderedKron(self, tuple(clique))

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        """Check that the query fits a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: a matrix's number of columns is not its attribute's number of values.
        """
        for name, query in self.factors.items():
            if query.cells != domain[name]:
                raise QueryError(
                    f"the query on '{name}': expected {domain[name]} columns, one per value, got a matrix of shape "
                    f"{query.shape}. Make it for n={domain[name]}."
                )

    def apply(self, table: Factor | Any) -> np.ndarray:
        """Return the answers, an array of shape `answer_shape`, axes in the order of `attributes`.

        Args:
            table: in counts: a Factor that has the query's attributes, or an array of shape `table_shape`, or flat.

        Raises:
            UnknownAttributeError, QueryError: the Factor's domain does not fit, see `check`.
            ShapeError: the array has another shape.
        """
        if isinstance(table, Factor):
            self.check(table.domain)
            cells = table.project(self.attributes).values
        else:
            cells = _shaped(table, self.table_shape, "the table of cells")
        for axis in self._order:
            cells = self.matrices[axis].apply(cells, axis)
        return cells

    def apply_many(self, tables: np.ndarray) -> np.ndarray:
        """Return the answers about many tables at once.

        Args:
            tables: tables of cells in counts, shape (tables, *table_shape).

        Returns:
            an array of shape (tables, *answer_shape).
        """
        for axis in self._order:
            tables = self.matrices[axis].apply(tables, axis + 1)
        return tables

    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        return self.apply(marginal).reshape(-1)

    def transpose(self, answers: Any) -> np.ndarray:
        """Return Q^T times one number per query, an array of shape `table_shape`.

        Args:
            answers: an array of shape `answer_shape`, or flat.

        Raises:
            ShapeError: the answers have another shape.
        """
        array = _shaped(answers, self.answer_shape, "the array of answers")
        for axis in reversed(self._order):
            array = self.matrices[axis].transpose(array, axis)
        return array

    def squared(self) -> Kron:
        """Return the query whose entries are the squares of this query's."""
        return self.with_matrices([query.squared() for query in self.matrices])

    def max_column_norm(self) -> float:
        """Return max_j ||Q e_j||_2, the product of the factors' norms."""
        return math.prod(query.max_column_norm() for query in self.matrices)

    def matrix(self) -> np.ndarray:
        """Return the Kronecker product as a dense array, (rows, cells); meant for small queries and for tests."""
        return reduce(np.kron, (query.matrix() for query in self.matrices), np.ones((1, 1)))

    @cached_property
    def _order(self) -> list[int]:
        """The axes in the order of application: those whose matrix shrinks the array most come first, to save work."""
        return sorted(range(len(self.factors)), key=lambda axis: self.answer_shape[axis] / self.table_shape[axis])

    def __reduce__(self) -> tuple[Any, ...]:
        return Kron, (tuple(self.factors.items()),)

    def __repr__(self) -> str:
        return f"Kron({', '.join(f'{name}: {query}' for name, query in self.factors.items())})"


class ReorderedKron(LinearQuery):
    """A Kron on cells whose axes have another order; the order of the answers is the Kron's.

    Args:
        kron: the query.
        clique: the query's attributes, in the order of the axes of the cells.
    """

    def __init__(self, kron: Kron, clique: Clique):
        self.kron: Kron = kron
        self.clique: Clique = clique
        self.spec: Mapping[str, Any] = kron.spec
        self.attributes: Clique | None = kron.attributes
        self.shape: tuple[int, int] = kron.shape
        self.answer_shape: tuple[int, ...] = kron.answer_shape
        self.matrices: tuple[MatrixQuery, ...] = kron.matrices
        self.table_shape: tuple[int, ...] = tuple(kron.factors[name].cells for name in clique)
        self._to_kron = tuple(clique.index(name) for name in kron.attributes)
        self._to_clique = tuple(kron.attributes.index(name) for name in clique)

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> LinearQuery:
        return self.kron.with_matrices(matrices).in_order(self.clique)

    def in_order(self, clique: Clique) -> LinearQuery:
        return self.kron.in_order(clique)

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        self.kron.check(domain)

    def apply(self, table: Any) -> np.ndarray:
        cells = _shaped(table, self.table_shape, "the table of cells")
        return self.kron.apply(cells.transpose(self._to_kron))

    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        return self.kron.answer(marginal, clique)

    def transpose(self, answers: Any) -> np.ndarray:
        return self.kron.transpose(answers).transpose(self._to_clique)

    def squared(self) -> LinearQuery:
        return self.kron.squared().in_order(self.clique)

    def max_column_norm(self) -> float:
        return self.kron.max_column_norm()

    def matrix(self) -> np.ndarray:
        cells = np.arange(self.cells).reshape(self.kron.table_shape).transpose(self._to_clique).reshape(-1)
        return self.kron.matrix()[:, cells]

    def __reduce__(self) -> tuple[Any, ...]:
        return ReorderedKron, (self.kron, self.clique)

    def __repr__(self) -> str:
        return repr(self.kron)


def _shaped(values: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return an array in the given shape; it may be given flat.

    Raises:
        ShapeError: the array has another shape; `what` names the array in the error.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape and array.shape != (math.prod(shape),):
        raise ShapeError.of(what, shape, array.shape)
    return array.reshape(shape)


def _factor(name: Any, query: Any) -> MatrixQuery:
    if not isinstance(name, str):
        raise QueryError(f"the attributes of a Kron must be strings, got {name!r}.")
    try:
        return as_matrix_query(query)
    except QueryError as error:
        raise QueryError(f"the query on '{name}': {error}") from None
