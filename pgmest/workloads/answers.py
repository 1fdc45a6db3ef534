"""The answers of a workload from any source.

Each marginal is computed once, and many together. Factored queries on large tables are answered without the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.queries import Kron
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.workloads.item import Item

TABLE_CELLS = 1 << 20
"""A factored query on a table of more cells is answered without materializing the table, if the source permits."""

ANSWERED_CELLS = 1 << 24
"""Marginals are computed in blocks of at most this many cells (128 MB) in all."""

ANSWERED_ITEMS = 1 << 14
"""A block has at most this many items, which bounds the memory of tiny marginals."""

LOOKUP_ROWS = 1 << 16
"""Records are evaluated in batches of at most this many, which bounds the memory used."""

RECORD_COST = 64
"""The cost of a query row for one record, relative to that of a cell of the table, in the choice between the two."""


class Projectable(Protocol):
    """An object that has marginals in counts: a Dataset, a Model, a mechanism's result."""

    def project(self, attributes: Clique, /) -> Factor: ...


@runtime_checkable
class Answering(Protocol):
    """An object, such as a model, that answers factored queries without computing the marginals that they read."""

    def answer(self, query: Sequence[Kron], /) -> list[Factor]: ...


def answers(source: Projectable, items: Sequence[Item]) -> Iterator[np.ndarray]:
    """Yield the answers of each item in counts, shape (rows,); at most one block of marginals is in memory."""
    for block in _blocks(source, items):
        yield from _block_answers(source, block)


def marginals(source: Projectable, cliques: Sequence[Clique]) -> list[Factor]:
    """Return the marginal of each clique, axes in its order; each set of attributes is computed once."""
    needed = {frozenset(clique): clique for clique in reversed(cliques)}
    together = getattr(source, "project_many", lambda asked: [source.project(clique) for clique in asked])
    tables = together(list(needed.values()))
    found = dict(zip(needed, tables, strict=True))
    return [found[frozenset(clique)].transpose(clique) for clique in cliques]


def _blocks(source: Projectable, items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield blocks of consecutive items whose marginals together have at most `ANSWERED_CELLS` cells."""
    block: list[Item] = []
    cells, counted = 0, set()
    for item in items:
        size = 0 if _factored(source, item) or frozenset(item.clique) in counted else _cells(source, item)
        if block and (cells + size > ANSWERED_CELLS or len(block) == ANSWERED_ITEMS):
            yield block
            block, cells, counted = [], 0, set()
        block.append(item)
        cells += size
        counted.add(frozenset(item.clique))
    if block:
        yield block


def _block_answers(source: Projectable, items: Sequence[Item]) -> list[np.ndarray]:
    """Return the answers of the items of a block, each flat."""
    found: list[Any] = [None] * len(items)
    factored = [place for place, item in enumerate(items) if _factored(source, item)]
    for place, values in zip(factored, _factored_answers(source, [items[i].query for i in factored]), strict=True):
        found[place] = values.reshape(-1)
    tabled = [place for place in range(len(items)) if found[place] is None]
    tables = marginals(source, [items[place].clique for place in tabled])
    for place, table in zip(tabled, tables, strict=True):
        found[place] = items[place].answer(table)
    return found


def _cells(source: Projectable, item: Item) -> int:
    """Return the number of cells of the item's marginal; 0 if neither the query nor the source determines it."""
    if item.query is not None:
        return item.query.cells
    domain = getattr(source, "domain", None)
    return domain.size(item.clique) if domain is not None else 0


def _factored(source: Projectable, item: Item) -> TypeGuard[Any]:
    """Return whether the item's query is answered without its marginal, which is large."""
    if item.query is None or item.query.attributes is None or item.query.cells <= TABLE_CELLS:
        return False
    if isinstance(source, Dataset):
        return item.query.rows * source.records <= RECORD_COST * item.query.cells
    return isinstance(getattr(source, "model", source), Answering)


def _factored_answers(source: Any, queries: Sequence[Any]) -> list[np.ndarray]:
    """Return the answers of factored queries from records or from a model, without their marginals."""
    if not queries:
        return []
    if isinstance(source, Dataset):
        return [_answer_from_records(source, query) for query in queries]
    model: Answering = getattr(source, "model", source)
    return [factor.values for factor in model.answer(list(queries))]


def _answer_from_records(data: Dataset, query: Kron) -> np.ndarray:
    """Return the sum over records of the outer product of the columns of the factors' matrices at the record's codes.

    A factor of one row only multiplies each record by a weight. These factors come first, and records of weight 0 are
    dropped before the other factors are evaluated.
    """
    matrices = {name: factor.matrix() for name, factor in query.factors.items()}
    total = np.zeros(query.rows)
    for start in range(0, data.records, LOOKUP_ROWS):
        rows = np.arange(start, min(start + LOOKUP_ROWS, data.records))
        weights = np.ones(len(rows)) if data.weights is None else data.weights[rows]
        for name in sorted(matrices, key=lambda name: len(matrices[name])):
            if len(matrices[name]) > 1:
                break
            weights = weights * matrices[name][0, data.column(name)[rows]]
            rows, weights = rows[weights != 0], weights[weights != 0]
        total += _outer_sum([matrices[name][:, data.column(name)[rows]] for name in query.attributes], weights)
    return total


def _outer_sum(columns: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return the sum over records n of weights[n] * (columns[0][:, n] x columns[1][:, n] x ...), flat and row-major.

    The first half and the second half of the factors are expanded separately, so that one matrix product does the sum.
    """
    halves: dict[bool, np.ndarray] = defaultdict(lambda: np.ones((1, len(weights))))
    halves[False] = weights[None, :]
    for place, column in enumerate(columns):
        if len(column) == 1 and (column == 1).all():
            continue
        late = place >= (len(columns) + 1) // 2
        halves[late] = (halves[late][:, None, :] * column[None, :, :]).reshape(-1, len(weights))
    return (halves[False] @ halves[True].T).reshape(-1)
