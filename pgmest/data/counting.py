"""Counting: columns of codes to a marginal table, at the speed of reading them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmest._base.errors import MOST_AXES, ModelTooLarge, count_text, listed, memory_text
from pgmest._base.memory import LARGEST_TABLE
from pgmest.data.codes import code_type
from pgmest.tables.domain import Domain

ROWS_AT_ONCE = 1 << 18  # the cell numbers of this many records stay in cache, and bound the memory used


def count_cells(columns: Sequence[np.ndarray], domain: Domain, weights: np.ndarray | None = None) -> np.ndarray:
    """The number of records (or their weight) in each cell of a marginal, as float64 of shape `domain.shape`.

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
    """A flat table of zeros, one per cell, which takes no memory until written to.

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
    """The row-major cell of each record, computed in the smallest type that holds them all."""
    kind = code_type(math.prod(shape))
    cells = columns[0].astype(kind)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        cells *= kind.type(size)
        cells += column
    return cells.astype(np.intp)
