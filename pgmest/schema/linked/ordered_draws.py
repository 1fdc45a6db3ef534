"""Numbers drawn within their bins so that they do not fall from row to row of one parent (`order:`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.schema.bins import uniform
from pgmest.schema.grid import Grid
from pgmest.schema.joint_draws import Limits, draw_ordered, values_left
from pgmest.schema.writing import off_markers

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import TableSchema


def draw_in_order(
    part: TableSchema,
    data: Dataset,
    parent_rows: np.ndarray,
    generator: np.random.Generator,
    known: Mapping[str, np.ndarray],
    limits: Limits,
) -> np.ndarray:
    """Return numbers of the column that orders the rows, which leave values to the columns after it in an order.

    Each row's number is drawn, and those of one parent are sorted. Where a row then has a number that leaves none to
    its other columns, the numbers of the parent are drawn again, from intervals whose ends do not fall. Where there are
    no such numbers, the rows come as late as the rows after them allow.

    Args:
        part: the table.
        data: its codes, which do not fall from row to row of one parent; the rows of one parent are adjacent.
        parent_rows: the parent row of each row, shape (rows,); it does not fall.
        generator: of the draws.
        known: the numbers of other columns of the table that are drawn already; NaN where free.
        limits: the least and the greatest numbers that orders with other tables leave.

    Returns:
        Numbers in the units of `Grid.points`, shape (rows,); NaN where the column is missing.
    """
    assert part.order_by is not None
    name, column = part.order_by, part.schema.column(part.order_by)
    assert isinstance(column, Grid)
    codes = {attribute: data.column(attribute).astype(np.int64) for attribute in data.domain}
    order = part.schema.order
    ends = values_left(order, column, codes, limits)
    rows = np.flatnonzero(ends.there)
    first, last, parents = ends.first[rows], ends.last[rows], parent_rows[rows]
    last = _lowest_from(last, parents)
    first = np.minimum(_highest_until(first, parents), last)
    if name not in order.columns:
        drawn = uniform(first, last, generator)
    else:
        drawn = draw_ordered(order, codes, generator, known, limits)[name][rows]
    drawn = drawn[np.lexsort((drawn, parents))]
    wrong = np.isin(parents, parents[(drawn < first) | (drawn > last)])
    drawn[wrong] = uniform(first[wrong], last[wrong], generator)
    drawn = off_markers(column, first, last, drawn)
    found = np.full(len(parent_rows), np.nan)
    found[rows] = drawn[np.lexsort((drawn, parents))]
    return found


def _highest_until(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the highest value of each group up to each row; the groups do not fall."""
    distinct, ranks = np.unique(values, return_inverse=True)
    steps = groups * len(distinct)
    return distinct[np.maximum.accumulate(ranks + steps) - steps]


def _lowest_from(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the lowest value of each group from each row on; the groups do not fall."""
    return -_highest_until(-values[::-1], -groups[::-1])[::-1]
