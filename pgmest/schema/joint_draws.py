"""Values of ordered columns, drawn together from the bins of each record.

They are drawn independently, and again where the order is broken; after `TRIES` draws column by column, each from the
values that leave some to the later ones. Records whose codes no values meet, which a model that was estimated without
the schema's structural zeros may have, get values outside of their bins that keep the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pgmest.schema.bins import uniform
from pgmest.schema.grid import Grid
from pgmest.schema.later import Later
from pgmest.schema.orders import Ends, Order, differences_of_codes, values_of_codes
from pgmest.schema.writing import marked

TRIES = 20
"""The number of independent draws before a record's values are drawn column by column."""

Values = dict[str, np.ndarray]
"""For each column a number in units for each record."""


@dataclass(frozen=True)
class Cells:
    """The intervals of some records.

    Attributes:
        own: for each column the interval of its value, where its code is a bin of its values.
        steps: for each column with a reference the interval of its difference, where its code is one of differences.
        records: the number of records.
    """

    own: Mapping[str, Ends]
    steps: Mapping[str, Ends]
    records: int

    def rows(self, rows: np.ndarray) -> Cells:
        """Return the cells of some records."""
        own, steps = (
            {name: Ends(ends.first[rows], ends.last[rows], ends.there[rows]) for name, ends in each.items()}
            for each in (self.own, self.steps)
        )
        return Cells(own, steps, len(rows))

    def there(self, name: str) -> np.ndarray:
        """Return which records have a value of a column."""
        steps = self.steps.get(name)
        return self.own[name].there if steps is None else self.own[name].there | steps.there


def draw_ordered(
    order: Order, codes: Mapping[str, np.ndarray], generator: np.random.Generator, known: Mapping[str, np.ndarray]
) -> Values:
    """Return a value for each column and record, in units; those of records without a value mean nothing.

    Args:
        order: the order.
        codes: for each column an array of shape (records,).
        generator: of the draws.
        known: the values that some columns have already, in units; NaN where the code says all.
    """
    cells = _cells(order, codes, known)
    values = _independent(order, cells, generator)
    bad = np.flatnonzero(~_met(order, cells, values))
    for _ in range(TRIES):
        if not len(bad):
            return values
        part = cells.rows(bad)
        again = _independent(order, part, generator)
        good = _met(order, part, again)
        for name, column in again.items():
            values[name][bad[good]] = column[good]
        bad = bad[~good]
    part = cells.rows(bad)
    for name, column in _repaired(order, part, _one_by_one(order, part, generator), known).items():
        values[name][bad] = column
    return values


def values_left(order: Order | None, column: Grid, codes: Mapping[str, np.ndarray]) -> Ends:
    """Return the values in each record's bin of a column that leave some to the other columns of its order.

    If no value does, the one value returned is as late as the later columns allow.

    Args:
        order: the order; None if the column is in none.
        column: a column that comes after no other one.
        codes: for each column an array of shape (records,).
    """
    own = _at(values_of_codes(column), codes[column.name])
    if order is None:
        return own
    ends = _open_intervals(order, _cells(order, codes, {}))[column.name]
    last = np.maximum(ends.last, column.points[0][0])
    return Ends(np.minimum(ends.first, last), last, own.there)


def _cells(order: Order, codes: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray]) -> Cells:
    own, steps = {}, {}
    for name in order.columns:
        column = order.coded(name)
        own[name] = _at(values_of_codes(column), codes[name])
        if isinstance(column, Later) and column.reference is not None:
            steps[name] = _at(differences_of_codes(column), codes[name])
    for name, numbers in known.items():
        if name in own:
            own[name] = _fixed(own[name], numbers)
            if name in steps and order.reference is not None and order.reference in known:
                steps[name] = _fixed(steps[name], numbers - known[order.reference])
    return Cells(own, steps, len(next(iter(codes.values()))))


def _at(ends: Ends, codes: np.ndarray) -> Ends:
    return Ends(ends.first[codes], ends.last[codes], ends.there[codes])


def _fixed(ends: Ends, numbers: np.ndarray) -> Ends:
    """Return intervals of one number each where it is known."""
    known = ends.there & ~np.isnan(numbers)
    numbers = np.where(known, numbers, 0).astype(ends.first.dtype)
    return Ends(np.where(known, numbers, ends.first), np.where(known, numbers, ends.last), ends.there)


def _independent(order: Order, cells: Cells, generator: np.random.Generator) -> Values:
    values = {name: uniform(ends.first, ends.last, generator) for name, ends in cells.own.items()}
    return _with_differences(
        order, cells, values, {name: uniform(ends.first, ends.last, generator) for name, ends in cells.steps.items()}
    )


def _with_differences(order: Order, cells: Cells, values: Values, differences: Values) -> Values:
    """Return the values, with those of columns that are coded as differences from the reference."""
    if order.reference is None:
        return values
    start = values[order.reference]
    return values | {
        name: np.where(cells.steps[name].there, start + drawn, values[name]) for name, drawn in differences.items()
    }


def _met(order: Order, cells: Cells, values: Values) -> np.ndarray:
    """Return which records have values in the order, and differences that lead to values within the bounds; none of
    the values reads as a missing one."""
    met = np.ones(cells.records, dtype=bool)
    for name, column in order.columns.items():
        for earlier in order.before[name]:
            met &= (values[earlier] <= values[name]) | ~cells.there(earlier) | ~cells.there(name)
        if name in cells.steps:
            inside = (values[name] >= column.low) & (values[name] <= column.high)
            met &= inside | ~cells.steps[name].there
        met &= ~marked(column, values[name]) | ~cells.there(name)
    return met


def _one_by_one(order: Order, cells: Cells, generator: np.random.Generator) -> Values:
    """Return values of which each is drawn from those that leave some to the columns after it."""
    values = _drawn(order, _open_intervals(order, cells), generator)
    if order.reference is None:
        return values
    start, bounded = values[order.reference], {}
    for name, ends in cells.steps.items():
        low, high = order.columns[name].low - start, order.columns[name].high - start
        bounded[name] = Ends(np.maximum(ends.first, low), np.minimum(ends.last, high), ends.there)
    return _with_differences(order, cells, values, _drawn(order, _ascending(order, bounded), generator))


def _open_intervals(order: Order, cells: Cells) -> dict[str, Ends]:
    """Return intervals of values that leave some to each other column; where none do, they start above their end, or
    are one value that leaves none below the bounds."""
    own = dict(cells.own)
    if order.reference is not None:  # so that the differences lead to values within the bounds
        start = own[order.reference]
        first, last = start.first, start.last
        for name, ends in _ascending(order, cells.steps).items():
            column = order.columns[name]
            first = np.where(ends.there, np.maximum(first, column.low - ends.last), first)
            last = np.where(ends.there, np.minimum(last, column.high - ends.first), last)
        last = np.maximum(last, order.columns[order.reference].low)
        own[order.reference] = Ends(np.minimum(first, last), last, start.there)
    return _ascending(order, own)


def _ascending(order: Order, ends: Mapping[str, Ends]) -> dict[str, Ends]:
    """Return intervals that start where some value of each earlier column is below, and end likewise."""
    tight = dict(ends)
    for name in [name for name in order.columns if name in ends]:
        for earlier in [other for other in order.before[name] if other in ends]:
            one, other = tight[name], ends[earlier]
            both = one.there & other.there
            first = np.where(both, np.maximum(one.first, other.first), one.first)
            tight[name] = Ends(first, one.last, one.there)
            one, other = ends[name], tight[earlier]
            last = np.where(both, np.minimum(other.last, one.last), other.last)
            tight[earlier] = Ends(other.first, last, other.there)
    return tight


def _drawn(order: Order, ends: Mapping[str, Ends], generator: np.random.Generator) -> Values:
    """Return numbers drawn in the order, each at least the earlier ones."""
    values: Values = {}
    for name in [name for name in order.columns if name in ends]:
        one = ends[name]
        first = one.first
        for earlier in order.before[name] & values.keys():
            first = np.where(ends[earlier].there & one.there, np.maximum(first, values[earlier]), first)
        values[name] = uniform(first, np.maximum(first, one.last), generator)
    return values


def _repaired(order: Order, cells: Cells, values: Values, known: Mapping[str, np.ndarray]) -> Values:
    """Return values in the order: those that are too late become as early as needed, those too early as late."""
    values, caps = dict(values), {}
    for name in reversed(list(order.columns)):
        first, last = order.columns[name].points
        if name not in known:
            values[name] = np.clip(values[name], first[0], last[-1])
            for later in order.later(name):
                both = cells.there(later) & cells.there(name)
                values[name] = np.where(both, np.minimum(values[name], caps[later]), values[name])
        caps[name] = values[name] if name in known else last[-1]
    for name in order.columns:
        for earlier in order.before[name]:
            both = cells.there(earlier) & cells.there(name) & (name not in known)
            values[name] = np.where(both, np.maximum(values[name], values[earlier]), values[name])
    return values
