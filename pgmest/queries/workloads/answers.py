"""Answering a workload from any source: each marginal made once, many together, and large ones not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.queries import Kron
from pgmest.queries.workloads.item import Item
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

TABLE_CELLS = 1 << 20
"""A factored query about a larger table is answered without materializing the table, where the source can."""

ANSWERED_CELLS = 1 << 24
"""Marginals of at most this many cells in all (128 MB) are asked for, and held, at once."""

ANSWERED_ITEMS = 1 << 14

LOOKUP_ROWS = 1 << 16
"""At most this many records are looked up at a time, which bounds the memory used."""


class Projectable(Protocol):
    """Whatever has marginals in counts: a Dataset, a Model, a mechanism's result."""

    def project(self, attributes: Clique, /) -> Factor: ...


@runtime_checkable
class Answering(Protocol):
    """What answers factored queries without making the marginals that they are about: a model."""

    def answer(self, query: Sequence[Kron], /) -> list[Factor]: ...


def answers(source: Projectable, items: Sequence[Item]) -> Iterator[np.ndarray]:
    """The answers of each item in counts, of shape (rows,); at no time more than a block of marginals is held."""
    for block in _blocks(source, items):
        yield from _block_answers(source, block)


def marginals(source: Projectable, cliques: Sequence[Clique]) -> list[Factor]:
    """The marginal of each clique, axes in its order; those over the same attributes are made once."""
    needed = {frozenset(clique): clique for clique in reversed(cliques)}
    together = getattr(source, "project_many", lambda asked: [source.project(clique) for clique in asked])
    tables = together(list(needed.values()))
    found = dict(zip(needed, tables, strict=True))
    return [found[frozenset(clique)].transpose(clique) for clique in cliques]


def _blocks(source: Projectable, items: Sequence[Item]) -> Iterator[list[Item]]:
    """Consecutive items whose marginals fit in a block together."""
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
    """The cells of the item's marginal; 0 where neither query nor source says."""
    if item.query is not None:
        return item.query.cells
    domain = getattr(source, "domain", None)
    return domain.size(item.clique) if domain is not None else 0


def _factored(source: Projectable, item: Item) -> TypeGuard[Any]:
    """Whether the item is answered without its marginal: a large one, from records or from a model."""
    if item.query is None or item.query.attributes is None or item.query.cells <= TABLE_CELLS:
        return False
    if isinstance(source, Dataset):
        return item.query.rows * source.records <= 64 * item.query.cells
    return isinstance(getattr(source, "model", source), Answering)


def _factored_answers(source: Any, queries: Sequence[Any]) -> list[np.ndarray]:
    if not queries:
        return []
    if isinstance(source, Dataset):
        return [_answer_from_records(source, query) for query in queries]
    model: Answering = getattr(source, "model", source)
    return [factor.values for factor in model.answer(list(queries))]


def _answer_from_records(data: Dataset, query: Kron) -> np.ndarray:
    """The sum over records of the outer product of their columns of the factors' matrices.

    Factors of one row only weigh the records; those whose weight is 0 are dropped before the others are looked at.
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
    """sum over records n of weights[n] * (columns[0][:, n] x columns[1][:, n] x ...), flat and row-major."""
    halves: dict[bool, np.ndarray] = defaultdict(lambda: np.ones((1, len(weights))))
    halves[False] = weights[None, :]
    for place, column in enumerate(columns):
        if len(column) == 1 and (column == 1).all():
            continue
        late = place >= (len(columns) + 1) // 2
        halves[late] = (halves[late][:, None, :] * column[None, :, :]).reshape(-1, len(weights))
    return (halves[False] @ halves[True].T).reshape(-1)
