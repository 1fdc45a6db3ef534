"""Kron: a query on several attributes whose matrix is the Kronecker product of one matrix per attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from pgmest._base.errors import DuplicateAttributeError, QueryError, ShapeError
from pgmest.queries.base import Query
from pgmest.queries.matrices import as_query
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class Kron:
    """A factored query (PGM Section 4.2): one query matrix per attribute; attributes left out are summed out.

    The flattened answer is row-major over the rows of each attribute, in the order given here. The product of the
    matrices is never written down.

    >>> from pgmest import Domain, Factor, queries
    >>> table = Factor(Domain({"age": 3, "sex": 2}), [[1, 2], [3, 4], [5, 6]])
    >>> Kron({"age": queries.prefix(3), "sex": queries.identity(2)}).apply(table)
    array([[ 1.,  2.],
           [ 4.,  6.],
           [ 9., 12.]])
    >>> Kron({"sex": [[1, -1]]}).apply(table)
    array([-3.])

    Args:
        factors: attribute -> Query, dense array, scipy sparse matrix or LinearOperator; a mapping or pairs.

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
        self.factors: Mapping[str, Query] = MappingProxyType({name: _factor(name, query) for name, query in pairs})

    @property
    def attributes(self) -> Clique:
        """The attributes, in the order of the answer's axes."""
        return tuple(self.factors)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: rows of each attribute's matrix."""
        return tuple(query.rows for query in self.factors.values())

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The number of values of each attribute, as its matrix has it."""
        return tuple(query.columns for query in self.factors.values())

    @property
    def rows(self) -> int:
        """The number of queries in all."""
        return math.prod(self.shape)

    def check(self, domain: Mapping[str, int]) -> None:
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

    def apply(self, factor: Factor) -> np.ndarray:
        """The answers about a marginal that covers the attributes; an array of `shape`, axes in `attributes` order.

        Raises:
            UnknownAttributeError, QueryError: as `check` says.
        """
        self.check(factor.domain)
        return self.apply_cells(factor.project(self.attributes).values)

    def apply_cells(self, cells: np.ndarray) -> np.ndarray:
        """The answers about an array with one axis per attribute, in `attributes` order."""
        for axis in self._order:
            cells = self._queries[axis].apply(cells, axis)
        return cells

    def apply_transpose(self, values: Any) -> np.ndarray:
        """The transposed product: answers (of `shape`, or flat) to an array with the attributes' own axes.

        Raises:
            ShapeError: not one value per query.
        """
        array = np.asarray(values, dtype=np.float64)
        if array.shape not in (self.shape, (self.rows,)):
            raise ShapeError.of("what the transposed query is applied to", self.shape, array.shape)
        array = array.reshape(self.shape)
        for axis in reversed(self._order):
            array = self._queries[axis].apply_transpose(array, axis)
        return array

    def squared(self) -> Kron:
        """The query whose entries are the squares of this one's."""
        return Kron({name: query.squared() for name, query in self.factors.items()})

    def max_column_norm(self) -> float:
        """max_j ||Q e_j||_2, the product of the factors' own."""
        return math.prod(query.max_column_norm() for query in self._queries)

    def matrix(self) -> np.ndarray:
        """The Kronecker product, dense, (rows, cells): for small queries and for checking."""
        return reduce(np.kron, (query.matrix() for query in self._queries), np.ones((1, 1)))

    @cached_property
    def _queries(self) -> tuple[Query, ...]:
        return tuple(self.factors.values())

    @cached_property
    def _order(self) -> list[int]:
        """Axes by how much their query shrinks the array, the strongest first, so that the others have less to do."""
        return sorted(range(len(self.factors)), key=lambda axis: self.shape[axis] / self.columns[axis])

    def __repr__(self) -> str:
        return f"Kron({', '.join(f'{name}: {query}' for name, query in self.factors.items())})"


def _factor(name: Any, query: Any) -> Query:
    if not isinstance(name, str):
        raise QueryError(f"the attributes of a Kron must be names, got {name!r}.")
    try:
        return as_query(query)
    except QueryError as error:
        raise QueryError(f"the query on '{name}': {error}") from None
