"""Kron: a query on several attributes whose matrix is the Kronecker product of one matrix per attribute."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from pgmest._base.errors import DuplicateAttributeError, QueryError, ShapeError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.matrices import as_matrix_query
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class Kron(LinearQuery):
    """A factored query (PGM Section 4.2): one query matrix per attribute; attributes left out are summed out.

    The flattened answer is row-major over the rows of each attribute, in the order given here. The product of the
    matrices is never materialized.

    >>> from pgmest import Domain, Factor, queries
    >>> table = Factor(Domain({"age": 3, "sex": 2}), [[1, 2], [3, 4], [5, 6]])
    >>> Kron({"age": queries.prefix(3), "sex": queries.identity(2)}).apply(table)
    array([[ 1.,  2.],
           [ 4.,  6.],
           [ 9., 12.]])
    >>> Kron({"sex": [[1, -1]]}).apply(table)
    array([-3.])

    Args:
        factors: attribute -> MatrixQuery, dense array, scipy sparse matrix or LinearOperator; a mapping or pairs.

    Raises:
        DuplicateAttributeError: an attribute appears twice.
        QueryError: a matrix cannot be used (NaN, not two-dimensional, ...).
    """

    def __init__(self, factors: Mapping[str, Any] | Iterable[tuple[str, Any]]):
        items: Iterable[Any] = factors.items() if isinstance(factors, Mapping) else factors
        pairs: list[tuple[str, Any]] = list(items)
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise DuplicateAttributeError.of(names, "the query")
        self.factors: Mapping[str, MatrixQuery] = MappingProxyType(
            {name: _factor(name, query) for name, query in pairs}
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
        """The shape of the answer: rows of each attribute's matrix."""
        return tuple(query.rows for query in self.matrices)

    @cached_property
    def table_shape(self) -> tuple[int, ...]:
        """The number of values of each attribute, as its matrix has it."""
        return tuple(query.columns for query in self.matrices)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(rows, cells), the shape of the Kronecker product."""
        return math.prod(self.answer_shape), math.prod(self.table_shape)

    @property
    def spec(self) -> Mapping[str, Any]:
        """ "kron", and its factors."""
        return {"kind": "kron", "factors": self.factors}

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> Kron:
        """The Kron of the same attributes with other matrices."""
        return Kron(zip(self.attributes, matrices, strict=True))

    def in_order(self, clique: Clique) -> LinearQuery:
        """The same queries, reading the cells of a clique row-major in the clique's order; answers keep theirs.

        Raises:
            QueryError: the clique is not exactly the query's attributes.
        """
        if tuple(clique) == self.attributes:
            return self
        if sorted(clique) != sorted(self.attributes):
            raise QueryError(f"the Kron over {self.attributes} cannot read the cells of {clique}; ask about its own.")
        return ReorderedKron(self, tuple(clique))

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        """See that the query fits a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: a matrix has another number of columns than its attribute has values.
        """
        for name, query in self.factors.items():
            if query.columns != domain[name]:
                raise QueryError(
                    f"the query on '{name}': expected {domain[name]} columns, one per value, got a matrix of shape "
                    f"{query.shape}. Make it for n={domain[name]}."
                )

    def apply(self, table: Factor | Any) -> np.ndarray:
        """The answers, an array of `answer_shape`, axes in `attributes` order.

        Args:
            table: a marginal that covers the attributes; or its cells, an array of `table_shape`, or flat.

        Raises:
            UnknownAttributeError, QueryError: a marginal that does not fit, as `check` says.
            ShapeError: an array of another shape.
        """
        if isinstance(table, Factor):
            self.check(table.domain)
            cells = table.project(self.attributes).values
        else:
            cells = _shaped(table, self.table_shape, "what the query is applied to")
        for axis in self._order:
            cells = self.matrices[axis].apply(cells, axis)
        return cells

    def answer(self, marginal: Factor, clique: Clique) -> np.ndarray:
        return self.apply(marginal).reshape(-1)

    def transpose(self, answers: Any) -> np.ndarray:
        """The transposed product: answers (of `answer_shape`, or flat) to an array with the attributes' own axes.

        Raises:
            ShapeError: not one value per query.
        """
        array = _shaped(answers, self.answer_shape, "what the transposed query is applied to")
        for axis in reversed(self._order):
            array = self.matrices[axis].transpose(array, axis)
        return array

    def squared(self) -> Kron:
        """The query whose entries are the squares of this one's."""
        return self.with_matrices([query.squared() for query in self.matrices])

    def max_column_norm(self) -> float:
        """max_j ||Q e_j||_2, the product of the factors' own."""
        return math.prod(query.max_column_norm() for query in self.matrices)

    def matrix(self) -> np.ndarray:
        """The Kronecker product, dense, (rows, cells): for small queries and for checking."""
        return reduce(np.kron, (query.matrix() for query in self.matrices), np.ones((1, 1)))

    def apply_cells(self, cells: np.ndarray) -> np.ndarray:
        """The former name of `apply` to cells."""
        warnings.warn("apply_cells is now apply, which takes cells as well as a Factor", DeprecationWarning, 2)
        return self.apply(cells)

    @cached_property
    def _order(self) -> list[int]:
        """Axes by how much their query shrinks the array, the strongest first, so that the others have less to do."""
        return sorted(range(len(self.factors)), key=lambda axis: self.answer_shape[axis] / self.table_shape[axis])

    def __reduce__(self) -> tuple[Any, ...]:
        return Kron, (tuple(self.factors.items()),)

    def __repr__(self) -> str:
        return f"Kron({', '.join(f'{name}: {query}' for name, query in self.factors.items())})"


class ReorderedKron(LinearQuery):
    """A Kron that reads the cells of a clique of its attributes in another order; its answers are the Kron's own.

    Args:
        kron: the query.
        clique: its attributes, in the order of the cells.
    """

    def __init__(self, kron: Kron, clique: Clique):
        self.kron: Kron = kron
        self.clique: Clique = clique
        self.spec: Mapping[str, Any] = kron.spec
        self.attributes: Clique | None = kron.attributes
        self.shape: tuple[int, int] = kron.shape
        self.answer_shape: tuple[int, ...] = kron.answer_shape
        self.matrices: tuple[MatrixQuery, ...] = kron.matrices
        self.table_shape: tuple[int, ...] = tuple(kron.factors[name].columns for name in clique)
        self._to_kron = tuple(clique.index(name) for name in kron.attributes)
        self._to_clique = tuple(kron.attributes.index(name) for name in clique)

    def with_matrices(self, matrices: Sequence[MatrixQuery]) -> LinearQuery:
        return self.kron.with_matrices(matrices).in_order(self.clique)

    def in_order(self, clique: Clique) -> LinearQuery:
        return self.kron.in_order(clique)

    def check(self, domain: Mapping[str, int], clique: Clique | None = None) -> None:
        self.kron.check(domain)

    def apply(self, table: Any) -> np.ndarray:
        cells = _shaped(table, self.table_shape, "what the query is applied to")
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
    """An array of a shape, or flat, in that shape.

    Raises:
        ShapeError: it is neither.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape and array.shape != (math.prod(shape),):
        raise ShapeError.of(what, shape, array.shape)
    return array.reshape(shape)


def _factor(name: Any, query: Any) -> MatrixQuery:
    if not isinstance(name, str):
        raise QueryError(f"the attributes of a Kron must be names, got {name!r}.")
    try:
        return as_matrix_query(query)
    except QueryError as error:
        raise QueryError(f"the query on '{name}': {error}") from None
