"""Counting: columns of codes to a marginal table, at the speed of reading them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from pgmest._base.memory import LARGEST_TABLE, check_room
from pgmest._base.threads import get_threads, run_together
from pgmest.data.codes import code_type
from pgmest.data.pair_counting import PairTasks, count_pairs
from pgmest.errors import MOST_AXES, ModelTooLarge, count_text, listed, memory_text
from pgmest.tables.domain import Domain

ROWS_AT_ONCE = 1 << 18  # the cell numbers of this many records stay in cache, and bound the memory used
TABLE_ROWS_AT_ONCE = 1 << 14  # of all columns, for a kernel that reads a few of them at a time
TOGETHER_STEPS = 1 << 23  # tables times records from which the kernel is worth loading


def count_cells(columns: Sequence[np.ndarray], domain: Domain, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the number of records (or their weight) in each cell of a marginal, as float64 of shape `domain.shape`.

    Args:
        columns: the codes of each attribute of the marginal, at least one, each of shape (records,).
        domain: the attributes of the marginal, in the order of the columns.
        weights: shape (records,); None counts each record once.

    Raises:
        ModelTooLarge: the table would have more than `LARGEST_TABLE` cells, or more than fit in memory.
    """
    counts = zero_table(domain)
    for start in range(0, len(columns[0]), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        cells = cell_numbers([column[rows] for column in columns], domain.shape)
        # On a float64 table this is as fast as np.bincount, and touches no cell that stays 0.
        np.add.at(counts, cells, 1.0 if weights is None else weights[rows])
    return counts.reshape(domain.shape)


def zero_table(domain: Domain) -> np.ndarray:
    """Return a flat table of zeros, one per cell, which takes no memory until written to.

    Raises:
        ModelTooLarge: as for `count_cells`.
    """
    cells = domain.size()
    if cells <= LARGEST_TABLE:
        if len(domain) > MOST_AXES:
            raise ModelTooLarge.of_axes(domain)
        try:
            return np.zeros(cells)
        except MemoryError:
            pass
    raise ModelTooLarge(
        f"the marginal over {listed(domain)} has {count_text(cells)} cells, which take {memory_text(8 * cells)}. "
        "Ask for fewer attributes at a time, or give them fewer values."
    )


def cell_numbers(columns: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """Return the row-major cell of each record, computed in the smallest type that holds them all."""
    kind = code_type(math.prod(shape))
    cells = columns[0].astype(kind)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        cells *= kind.type(size)
        cells += column
    return cells.astype(np.intp)


def count_tables(
    columns: Sequence[np.ndarray], shape: Sequence[int], cliques: Sequence[Sequence[int]]
) -> list[np.ndarray]:
    """Return the tables of many cliques of columns, counted together by compiled kernels on all threads.

    Pairs of attributes of few values are counted several by one increment (`pair_counting`). Of the others some records
    are read at a time, so that all columns of them stay in the cache while one clique after the other reads its own.

    Args:
        columns: the codes of each attribute, each of shape (records,).
        shape: the number of codes of each.
        cliques: positions of attributes, at least two each; a table has fewer than 2^32 cells.

    Returns:
        for each clique its counts, float64.

    Raises:
        ModelTooLarge: the tables take more than fits in memory.
    """
    shapes = [tuple([shape[axis] for axis in clique]) for clique in cliques]
    ends = np.cumsum([0, *map(math.prod, shapes)], dtype=np.int64)
    check_room("the tables of marginals", int(ends[-1]))
    counts = np.zeros(int(ends[-1]))
    pairs = np.array([position for position, clique in enumerate(cliques) if len(clique) == 2], dtype=np.int64)
    asked = np.array([clique for clique in cliques if len(clique) == 2], dtype=np.int64).reshape(-1, 2)
    work = PairTasks.of(shape, asked)
    if len(work.tasks):
        count_pairs(columns, shape, work, asked, ends[pairs], counts)
    others = np.ones(len(cliques), dtype=bool)
    others[pairs[work.positions]] = False
    left = np.flatnonzero(others).tolist()
    if left:
        _count_each(columns, shape, [cliques[position] for position in left], ends[left], counts)
    places = zip(pairwise(ends.tolist()), shapes, strict=True)
    return [counts[start:end].reshape(sides) for (start, end), sides in places]


def _count_each(
    columns: Sequence[np.ndarray],
    shape: Sequence[int],
    cliques: Sequence[Sequence[int]],
    starts: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add the records to the tables of cliques, each by itself; the tables start in `counts` where `starts` says."""
    from pgmest.data.kernels import count_tables as kernel

    widths = np.array([len(clique) for clique in cliques], dtype=np.uint64)
    members = np.zeros((len(cliques), int(widths.max(initial=0))), dtype=np.uint64)
    for row, clique in zip(members, cliques, strict=True):
        row[: len(clique)] = clique
    sizes, begins = np.array(shape, dtype=np.uint64), starts.astype(np.uint64)
    kind = np.result_type(*(column.dtype for column in columns))
    parts = list(pairwise(np.linspace(0, len(cliques), get_threads() + 1).astype(int).tolist()))
    room = [np.empty(min(TABLE_ROWS_AT_ONCE, len(columns[0])), dtype=np.uint32) for _ in parts]
    for start in range(0, len(columns[0]), TABLE_ROWS_AT_ONCE):
        codes = np.stack([column[start : start + TABLE_ROWS_AT_ONCE] for column in columns]).astype(kind, copy=False)
        run_together(
            partial(kernel, codes, members, widths, sizes, begins, *part, cells, counts)
            for part, cells in zip(parts, room, strict=True)
        )


def inside_others(cliques: Collection[frozenset[str]]) -> set[frozenset[str]]:
    """Return the cliques that another one contains."""
    longest, having = max(map(len, cliques), default=0), defaultdict(list)
    for clique in cliques:
        for name in clique:
            having[name].append(clique)
    return {
        clique
        for clique in cliques
        if len(clique) < longest and any(clique < other for other in min([having[name] for name in clique], key=len))
    }
