"""QueryRows: the queries of a workload, numbered item after item, as DualQuery samples them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.losses.base import cell_positions, loss_layout
from pgmest.queries import LinearQuery, MatrixQuery
from pgmest.queries.matrices import DenseQuery, SparseQuery
from pgmest.queries.norms import entry_bounds
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Linear queries with entries from -1 to 1, numbered item after item, each item row-major.

    Args:
        domain: the attributes.
        cliques: the marginal of each item. Without matrices, each set of attributes can occur once only.
        matrices: the query matrix of each item, None for the cells of its marginal; None if all are cells.

    Raises:
        ArgumentError: there is no clique, a clique is given twice without matrices, or an entry exceeds 1 in magnitude.
        QueryError: a matrix does not fit its clique, or its entries are not known (a LinearOperator).
        UnknownAttributeError: the domain lacks an attribute.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    matrices: tuple[LinearQuery | None, ...] | None = None

    def __post_init__(self) -> None:
        cliques = tuple(self.domain.clique(clique) for clique in self.cliques)
        object.__setattr__(self, "cliques", cliques)
        distinct = len(loss_layout(self.domain, cliques).cliques)
        if not cliques or (self.matrices is None and distinct != len(cliques)):
            raise ArgumentError.of("cliques", cliques, "at least one clique, and each set of attributes once")
        if self.matrices is None:
            return
        if len(self.matrices) != len(cliques):
            raise ArgumentError.of(
                "matrices", self.matrices, f"one matrix, or None, for each of {len(cliques)} cliques"
            )
        for clique, query in zip(cliques, self.matrices, strict=True):
            if query is not None:
                query.check(self.domain, clique)
        low, high = self.bounds
        if max(-low, high) > 1:
            raise ArgumentError(
                f"the entries of matrices are from {low:g} to {high:g}: divide each matrix by its largest entry, "
                "because DualQuery is about queries that count a record once at most."
            )

    @property
    def cells_only(self) -> bool:
        """True if the queries are the cells of the marginals."""
        return self.matrices is None

    @property
    def bounds(self) -> tuple[float, float]:
        """A lower and an upper bound of the entries."""
        found = [entry_bounds(query) for query in self.matrices or (None,)]
        return min(low for low, _ in found), max(high for _, high in found)

    @cached_property
    def layout(self) -> Layout:
        """The layout of the marginals, each set of attributes once."""
        return loss_layout(self.domain, self.cliques)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The number of the first query of each item, and the number of all queries, shape (items + 1,)."""
        if self.matrices is None:
            return self.layout.offsets
        rows = [
            self.domain.size(clique) if query is None else query.rows
            for clique, query in zip(self.cliques, self.matrices, strict=True)
        ]
        return np.concatenate([[0], np.cumsum(rows)])

    @property
    def count(self) -> int:
        """The number of queries."""
        return int(self.offsets[-1])

    @cached_property
    def _parts(self) -> list[tuple[slice | np.ndarray, LinearQuery | None, slice]]:
        """The positions of each item's cells in flat marginals, its matrix on them, and the numbers of its queries."""
        matrices = self.matrices or (None,) * len(self.cliques)
        return [
            (cell_positions(self.layout, clique), query and query.in_order(clique), slice(int(start), int(stop)))
            for clique, query, start, stop in zip(
                self.cliques, matrices, self.offsets[:-1], self.offsets[1:], strict=True
            )
        ]

    def answers(self, flat: np.ndarray) -> np.ndarray:
        """Return the answers of all queries, shape (count,), from marginals that are flat in the order of `layout`."""
        if self.cells_only:
            return flat
        found = np.empty(self.count)
        for cells, query, rows in self._parts:
            found[rows] = flat[cells] if query is None else query.apply(flat[cells]).reshape(-1)
        return found

    def transpose(self, numbers: np.ndarray) -> np.ndarray:
        """Return the transposed matrices times one number per query, flat in the order of `layout`."""
        if self.cells_only:
            return numbers
        found = np.zeros(self.layout.cells)
        for cells, query, rows in self._parts:
            found[cells] += numbers[rows] if query is None else query.transpose(numbers[rows]).reshape(-1)
        return found

    def columns(self, records: Dataset) -> RecordAnswers:
        """Return the answers of all queries about each single record."""
        codes = dict(zip(records.domain.attributes, records.columns, strict=True))
        matrices = self.matrices or (None,) * len(self.cliques)
        factors: list[list[np.ndarray]] = []
        for clique, query in zip(self.cliques, matrices, strict=True):
            if query is not None and query.attributes is not None:
                pairs = zip(query.attributes, query.matrices, strict=True)
                factors.append([_columns(matrix, codes[name]) for name, matrix in pairs])
                continue
            shape = self.domain.project(clique).shape
            cell = np.zeros(records.records, dtype=np.int64)
            for name, size in zip(clique, shape, strict=True):
                cell = cell * size + codes[name]
            factors.append([cell] if query is None else [_columns(query.matrices[0], cell)])
        return RecordAnswers(self, factors)


@dataclass(frozen=True, eq=False)
class RecordAnswers:
    """The answers of all queries about single records, as products of one column per attribute.

    Attributes:
        rows: the queries.
        factors: for each item the columns of its factors, each of shape (records, rows), or the record's cells, shape
            (records,).
    """

    rows: QueryRows
    factors: Sequence[Sequence[np.ndarray]]

    def __getitem__(self, record: int) -> np.ndarray:
        """Return the answers of all queries about one record, shape (count,)."""
        found = np.zeros(self.rows.count)
        self.add_to(found, record)
        return found

    def add_to(self, answers: np.ndarray, record: int) -> None:
        """Add the answers of all queries about one record to an array of shape (count,)."""
        for factors, start, stop in zip(self.factors, self.rows.offsets[:-1], self.rows.offsets[1:], strict=True):
            if factors and factors[0].ndim == 1:
                answers[start + factors[0][record]] += 1.0
            else:
                columns = [one[record] for one in factors]
                answers[start:stop] += reduce(np.multiply.outer, columns, np.ones(())).reshape(-1)


def _columns(matrix: MatrixQuery, codes: np.ndarray) -> np.ndarray:
    """Return the column of each code, shape (codes, rows)."""
    if isinstance(matrix, DenseQuery):
        return matrix.values.T[codes]
    distinct, places = np.unique(codes, return_inverse=True)
    if isinstance(matrix, SparseQuery):
        return matrix.values.tocsc()[:, distinct].toarray().T[places]
    found = np.empty((len(distinct), matrix.rows))
    for column, code in zip(found, distinct, strict=True):
        unit = np.zeros(matrix.cells)
        unit[code] = 1.0
        column[:] = matrix.apply(unit)
    return found[places]
