"""Values of ordered columns, drawn together from the bins of each record.

They are drawn one column after the other, each from the values of its bin that are at least the earlier ones and leave
some to the later ones. Records whose codes no values meet, which a model that was estimated without the schema's
structural zeros may have, get values outside of their bins that keep the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pgmest.schema.bins import uniform
from pgmest.schema.grid import Grid
from pgmest.schema.orders import Order
from pgmest.schema.writing import off_markers


class Ends(NamedTuple):
    """The least and the greatest value of each record, in units, and which records have one; shapes (records,)."""

    first: np.ndarray
    last: np.ndarray
    there: np.ndarray


Limits = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Column -> the least and the greatest value of each record, in units as floats; infinite where there is none."""


def draw_ordered(
    order: Order,
    codes: Mapping[str, np.ndarray],
    generator: np.random.Generator,
    known: Mapping[str, np.ndarray],
    limits: Limits | None = None,
) -> dict[str, np.ndarray]:
    """Return for each column a value of each record, in units; those of records without a value mean nothing.

    Args:
        order: the order.
        codes: for each column an array of shape (records,).
        generator: of the draws.
        known: the values that some columns have already, in units; NaN where the code says all.
        limits: what values keep besides, also where their bins have no such value.
    """
    values: dict[str, np.ndarray] = {}
    limits = limits or {}
    for name, (first, last, there) in _ends(order, codes, known, limits).items():
        if name in limits:
            least = limits[name][0]
            first = np.where(least > first, least, first).astype(first.dtype)
        free = np.isnan(known[name]) if name in known else np.True_
        for earlier in order.before[name]:
            both = free & there & (codes[earlier] < order.columns[earlier].regular)
            first = np.where(both, np.maximum(first, values[earlier]), first)
        last = np.maximum(first, last)
        values[name] = off_markers(order.columns[name], first, last, uniform(first, last, generator))
    return values


def values_left(order: Order, column: Grid, codes: Mapping[str, np.ndarray], limits: Limits | None = None) -> Ends:
    """Return the values in each record's bin of a column that leave some to the later columns of an order.

    If no value does, the one value returned is as late as the later columns allow.

    Args:
        order: the order.
        column: a column that comes after no other one.
        codes: for each column an array of shape (records,).
        limits: as for `draw_ordered`.
    """
    limits = limits or {}
    alone = Order(columns={column.name: column}, before={column.name: frozenset()})
    ends = _ends(order if column.name in order.columns else alone, codes, {}, limits)[column.name]
    if column.name not in limits:
        return ends
    first = np.where(limits[column.name][0] > ends.first, limits[column.name][0], ends.first).astype(ends.first.dtype)
    return ends._replace(first=first, last=np.maximum(first, ends.last))


def _ends(
    order: Order, codes: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray], limits: Limits
) -> dict[str, Ends]:
    """Return for each column the values that leave some to the columns after it; one that is as late as they allow,
    where there is none."""
    ends = {name: bin_ends(column, codes[name], known.get(name)) for name, column in order.columns.items()}
    for name in set(order.columns) & set(limits):
        last, most = ends[name].last, limits[name][1]
        ends[name] = ends[name]._replace(last=np.where(most < last, most, last).astype(last.dtype))
    for name, column in reversed(list(order.columns.items())):
        first, last, there = ends[name]
        last = np.maximum(off_markers(column, first, last, last), column.points[0][0])
        ends[name] = Ends(np.minimum(first, last), last, there)
        for earlier in order.before[name]:
            one = ends[earlier]
            both = one.there & there & (np.isnan(known[earlier]) if earlier in known else np.True_)
            ends[earlier] = one._replace(last=np.where(both, np.minimum(one.last, last), one.last))
    return ends


def bin_ends(column: Grid, codes: np.ndarray, known: np.ndarray | None) -> Ends:
    """Return the values of each record's bin, one where it is known."""
    there = codes < column.regular
    first, last = (points[np.where(there, codes, 0)] for points in column.points)
    if known is not None:
        free = np.isnan(known)
        numbers = np.where(free, 0, known).astype(first.dtype)
        first, last = np.where(free, first, numbers), np.where(free, last, numbers)
    return Ends(first, last, there)
