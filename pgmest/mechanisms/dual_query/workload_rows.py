"""The queries of DualQuery: those of the workload, scaled to answers from -1 to 1, with integer steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.mechanisms.dual_query.query_rows import QueryRows
from pgmest.mechanisms.mechanism import relevant_workload
from pgmest.privacy.grid import on_grid
from pgmest.privacy.neighbors import Neighbors, Replace
from pgmest.queries import LinearQuery, MatrixQuery
from pgmest.queries.matrices import DenseQuery, Identity, SparseQuery, dense, sparse_query
from pgmest.queries.norms import entry_bounds
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload, all_kway

ENTRY_BITS = 12
"""The bits of the largest entry of a query whose scaled entries are not integers. More bits would leave fewer for the
learning rate: exponents have 60."""


@dataclass(frozen=True, eq=False)
class WorkloadRows:
    """The scaled queries of a workload.

    Attributes:
        rows: the queries; each item is divided by its largest entry.
        units: the power of two that makes all entries integers; 1 if they are -1, 0 and 1.
    """

    rows: QueryRows
    units: int

    @classmethod
    def of(cls, domain: Domain, workload: Workload | None) -> WorkloadRows:
        """Return the queries of a workload; for None the cells of all pairs.

        A marginal that occurs several times, with its attributes in any order, counts once. Items whose queries are all
        zero are left out.

        Raises:
            ArgumentError: if all queries are zero.
            QueryError: if the entries of a query are not known (a LinearOperator).
        """
        given = all_kway(domain, min(2, len(domain))) if workload is None else relevant_workload(domain, workload)
        found: dict[object, tuple[Clique, LinearQuery | None]] = {}
        step = 1.0
        for place, item in reversed(list(enumerate(given))):
            names, query = domain.clique(item.clique), _scaled(item)
            if query is None:
                found[frozenset(names)] = names, None
            elif any(entry_bounds(query)):
                rounded, entry_step = on_grid(query, ENTRY_BITS)
                found[place] = names, rounded
                step = min(step, entry_step)
        if not found:
            raise ArgumentError("workload has no query that is not zero: give one at least, or None for all pairs.")
        cliques, matrices = tuple(names for names, _ in found.values()), tuple(query for _, query in found.values())
        cells_only = all(query is None for query in matrices)
        return cls(QueryRows(domain, cliques, None if cells_only else matrices), round(1 / step))

    def reach(self, neighbors: Neighbors) -> int:
        """Return the most by which one individual moves an answer, in units of counts.

        An added record moves an answer by an entry of the query's row, a replaced one by a difference of two entries.
        """
        low, high = (Fraction(bound) for bound in self.rows.bounds)
        largest = high - min(low, Fraction(0)) if isinstance(neighbors, Replace) else max(-low, high)
        return neighbors.records * math.ceil(largest * self.units)


def _scaled(item: Item) -> LinearQuery | None:
    """Return the item's query divided by its largest entry, factor by factor; None for the cells of the marginal."""
    query = item.query
    if query is None or (query.attributes is not None and all(isinstance(one, Identity) for one in query.matrices)):
        return None
    return query.with_matrices([_divided(matrix) for matrix in query.matrices])


def _divided(matrix: MatrixQuery) -> MatrixQuery:
    """Return a matrix divided by its largest entry, which is then 1 or -1 exactly."""
    largest = max(map(abs, entry_bounds(matrix)))
    if largest in (0.0, 1.0):
        return matrix
    if isinstance(matrix, SparseQuery):
        values = matrix.values.copy()
        values.data = np.clip(values.data / largest, -1.0, 1.0)
        return sparse_query(values)
    assert isinstance(matrix, DenseQuery)
    return dense(np.clip(matrix.values / largest, -1.0, 1.0))
