"""Sums of columns: `sum: {total: [a, b]}` in the constraints of a schema.

In each record the total is the sum of its parts; if a part is missing, so is the total. A total of few combinations of
codes (`MOST_MEASURED`) has an attribute, which is coded by the sum (`total.py`), and whose codes exclude those of parts
that cannot add up to it: its own marginals are then measured. Any other total has none, and is computed from its parts.
Only where its bounds are narrower than those of the parts together, codes of parts without values within the bounds are
excluded.

Totals may be parts of other totals. No column is a part of two, so that totals form trees, in which intervals of sums
are exact: values exist if and only if at each total the sum of its parts' intervals meets its bounds.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.errors import count_text
from pgmest.schema.bins import uniform
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid, Integer, Real
from pgmest.schema.notation import SchemaNode
from pgmest.schema.orders import Ends, decimals_text, known_number
from pgmest.schema.total import Total
from pgmest.tables.domain import Clique

MOST_CELLS = 10**6
"""The largest number of combinations of parts of a total whose bounds exclude some: all are in one structural zero."""
MOST_MEASURED = 30_000
"""The largest number of combinations of a total and its parts with which the total has an attribute. On tables with
two parts, marginals of computed totals had up to four times the error of measured ones; but three sums of 90,000
combinations each made the flagship 16 times as slow."""
LARGEST = 4e18
"""The largest sum in units, below 2^62."""
TRIES = 20
"""The number of independent draws before a record's parts are drawn one after the other."""

Interval = tuple[Any, Any]


@dataclass(frozen=True)
class Sum:
    """A total and its parts.

    Attributes:
        total: the column of the total, as it is described.
        parts: the names of its parts, some of them perhaps totals.
        leaves: the columns, as they are described, that sum up to it and are no totals.
        bounded: whether its bounds exclude some sums of values of its parts.
        measured: whether it has an attribute.
        within: the least and the greatest total of each record, in units, if its attribute says more than its bounds.
    """

    total: Grid
    parts: tuple[str, ...]
    leaves: Mapping[str, Grid]
    bounded: bool
    measured: bool = False
    within: Interval | None = None

    @property
    def name(self) -> str:
        return self.total.name

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The least and the greatest value of the total, in units."""
        if self.within is not None:
            return self.within
        first, last = self.total.points
        return first[0], last[-1]

    def rows(self, rows: np.ndarray) -> Sum:
        """Return the sum for some records."""
        return self if self.within is None else replace(self, within=tuple(ends[rows] for ends in self.within))

    def coded(self) -> Total:
        """Return the column of its attribute."""
        return Total.of(self.total, tuple(self.leaves[part] for part in self.parts))

    def __str__(self) -> str:
        return f"sum: {{{self.name}: [{', '.join(self.parts)}]}}"


def read_sums(
    nodes: Sequence[SchemaNode], columns: Mapping[str, SchemaColumn], ordered: Collection[str] = ()
) -> list[Sum]:
    """Return the sums, those of parts before those of their totals.

    Args:
        nodes: mappings of one total to a list of its parts.
        columns: all columns of the schema, as they are described.
        ordered: the columns of orders.

    Raises:
        SchemaError: if a sum names something that is no column of numbers, columns of different types or decimals,
            a column in two sums, a total that is part of itself, or bounds that no values meet.
    """
    places: dict[str, SchemaNode] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        named = node.mapping("a mapping of a total to its parts, such as {total: [a, b]}")
        if not named:
            node.fail("names no total.")
        for name, item in named.items():
            place = item.called(f"{node.name}: {name}")
            if name in parts:
                place.fail(f"gives '{name}' a second time. A total is one sum: leave one of them out.")
            places[name], parts[name] = place, _parts(place, name, parts, columns)
    try:
        sequence = [name for name in graphlib.TopologicalSorter(parts).static_order() if name in parts]
    except graphlib.CycleError as error:
        circle = " of ".join(f"'{name}'" for name in error.args[1])
        places[error.args[1][0]].fail(f"makes {circle} a part: a total cannot be a part of itself. Leave one sum out.")
    made: dict[str, Sum] = {}
    for name in sequence:
        made[name] = _sum(places[name], name, parts[name], columns, made, ordered)
    nested = {part for one in made.values() for part in one.parts} & made.keys()
    return [_measured(one, {*nested, *ordered}) for one in made.values()]


def _measured(one: Sum, excluded: Collection[str]) -> Sum:
    """Return the sum with an attribute if it has few combinations, and no column that other totals or orders bound."""
    cells = one.total.size * math.prod(column.size for column in one.leaves.values())
    simple = cells <= MOST_MEASURED and not {one.name, *one.parts} & set(excluded)
    return replace(one, measured=simple)


def _parts(
    node: SchemaNode, total: str, others: Mapping[str, Sequence[str]], columns: Mapping[str, SchemaColumn]
) -> tuple[str, ...]:
    names = [item.text() for item in node.items()]
    if len(names) < 2:
        node.fail(f"needs two parts or more, such as [a, b], not {len(names)}.")
    for name in (total, *names):
        column = known_number(node, name, columns)
        if not isinstance(column, Integer | Real):
            node.fail(f"names '{name}' of type {type(column).__name__.lower()}, but only numbers have a sum.")
    for name in names:
        if name == total:
            node.fail(f"names '{name}' as a part of itself. Leave it out of its parts.")
        if names.count(name) > 1:
            node.fail(f"names '{name}' twice.")
        if used := [other for other, taken in others.items() if name in taken]:
            node.fail(f"names '{name}', which is already a part of '{used[0]}'. A column is a part of one sum.")
    return tuple(names)


def _sum(
    node: SchemaNode,
    name: str,
    parts: tuple[str, ...],
    columns: Mapping[str, SchemaColumn],
    known: Mapping[str, Sum],
    ordered: Collection[str],
) -> Sum:
    total = known_number(node, name, columns)
    leaves: dict[str, Grid] = {}
    for part in parts:
        leaves |= known[part].leaves if part in known else {part: known_number(node, part, columns)}
    if name in ordered:
        node.fail(f"is about '{name}', which is also ordered. Order one of its parts, or leave one of them out.")
    for column in leaves.values():
        _check_alike(node, total, column)
        if column.missing and not total.missing:
            node.fail(
                f"needs 'missing: true' in column '{name}' ({total.place}): its part '{column.name}' may be missing."
            )
    made = Sum(total, parts, leaves, bounded=True)
    if (size := float(sum(max(abs(end) for end in _ends(column)) for column in leaves.values()))) > LARGEST:
        node.fail(f"may add up to {size:.3g}, more than {LARGEST:.3g}: give its parts narrower bounds.")
    low, high = _range(made, known)
    least, most = made.bounds
    if low > most or high < least:
        node.fail(
            f"cannot hold: '{name}' is {total.expected()}, but its parts sum up to "
            f"{_shown(total, low)}..{_shown(total, high)}. Correct the bounds."
        )
    bounded = bool(low < least or high > most)
    if bounded and (common := sorted(set(leaves) & set(ordered))):
        node.fail(
            f"bounds the ordered column '{common[0]}' a second time: the range of '{name}' must be that of the sum of "
            f"its parts, min: {_shown(total, low)} and max: {_shown(total, high)}."
        )
    return Sum(total, parts, leaves, bounded)


def _check_alike(node: SchemaNode, total: Grid, part: Grid) -> None:
    if total.kind != part.kind:
        node.fail(f"adds '{part.name}' of type {part.kind} up to '{total.name}' of type {total.kind}: give them one.")
    if isinstance(total, Real) and isinstance(part, Real) and total.decimals != part.decimals:
        node.fail(
            f"adds '{part.name}' with {decimals_text(part)} up to '{total.name}' with {decimals_text(total)}: give "
            "them the same decimals."
        )


def _shown(total: Grid, units: Any) -> str:
    return total.written(units / total.units_of_one)


def _ends(column: Grid) -> tuple[float, float]:
    """Return the least and the greatest value of a column, in units."""
    first, last = column.points
    return first[0].item(), last[-1].item()


def _range(one: Sum, sums: Mapping[str, Sum]) -> Interval:
    """Return the least and the greatest sum of the parts, in units, whatever the total's own bounds are."""

    def leaf(name: str) -> Interval:
        return _ends(one.leaves[name])

    ends = [interval(sums[part], sums, leaf)[:2] if part in sums else leaf(part) for part in one.parts]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def interval(one: Sum, sums: Mapping[str, Sum], leaf: Callable[[str], Interval]) -> tuple[Any, Any, Any]:
    """Return the least and the greatest total of intervals of leaves, and whether there is any; arrays or numbers.

    Args:
        one: the sum.
        sums: all sums by name.
        leaf: the least and the greatest value of a leaf, in units.
    """
    least, most, possible = 0, 0, True
    for part in one.parts:
        low, high, there = interval(sums[part], sums, leaf) if part in sums else (*leaf(part), True)
        least, most, possible = least + low, most + high, possible & np.asarray(there)
    low, high = one.bounds
    possible = possible & (most >= low) & (least <= high)
    return np.maximum(least, low), np.minimum(most, high), possible


def sum_zeros(sums: Sequence[Sum], columns: Mapping[str, SchemaColumn]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield the leaves of each sum with narrower bounds, and a boolean table over their codes, True where impossible.

    Raises:
        SchemaError: if the table would have more than `MOST_CELLS` cells.
    """
    named = {one.name: one for one in sums}
    for one in sums:
        if one.measured:
            yield from _measured_zeros(one, columns)
        if one.measured or not one.bounded:
            continue
        clique = tuple(one.leaves)
        shape = tuple(columns[name].size for name in clique)
        if math.prod(shape) > MOST_CELLS:
            low, high = (_shown(one.total, end) for end in _range(one, named))
            SchemaNode(None, one.total.place, None, f"column '{one.name}'").fail(
                f"is narrower than the sum of its parts, which have {count_text(math.prod(shape))} combinations, too "
                f"many to exclude some: give it min: {low} and max: {high}, or wider bins to its parts."
            )
        ends = {name: Ends.of(one.leaves[name].points, 0, columns[name].size) for name in clique}
        axes = dict(zip(clique, np.indices(shape, sparse=True), strict=True))
        _, _, possible = interval(one, named, lambda name: _at(ends, name, axes[name]))  # noqa: B023  used at once
        there = np.ones(shape, dtype=bool)
        for name in clique:
            there &= ends[name].there[axes[name]]
        mask = ~possible & there
        if mask.any():
            yield clique, mask


def _measured_zeros(one: Sum, columns: Mapping[str, SchemaColumn]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield the parts and their total, and True where they cannot add up, or one is missing and the other is not."""
    clique = (*one.parts, one.name)
    shape = tuple(columns[name].size for name in clique)
    *axes, codes = np.indices(shape, sparse=True)
    total = Ends.of(one.total.points, 0, shape[-1])
    least, most, there = 0, 0, np.ones(shape[:-1], dtype=bool)[..., None]
    for name, axis in zip(one.parts, axes, strict=True):
        ends = Ends.of(one.leaves[name].points, 0, columns[name].size)
        least, most, there = least + ends.first[axis], most + ends.last[axis], there & ends.there[axis]
    apart = (least > total.last[codes]) | (most < total.first[codes])
    mask = np.where(there & total.there[codes], apart, there != total.there[codes])
    if mask.any():
        yield clique, mask


def _at(ends: Mapping[str, Ends], name: str, codes: np.ndarray) -> Interval:
    return ends[name].first[codes], ends[name].last[codes]


# -- values-----------------------------------------------------------------------------------------------------------


def draw_parts(
    one: Sum,
    sums: Mapping[str, Sum],
    ends: Mapping[str, Interval],
    missing: Mapping[str, np.ndarray],
    generator: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Draw the leaves of a total from intervals so that each total is within its bounds, if there are such values.

    Args:
        one: the total.
        sums: all sums by name.
        ends: the first and the last value of each leaf, in units, each of shape (records,).
        missing: for each leaf the records without a value, in which the total has none either; shape (records,).
        generator: of the draws.
    """
    gaps = np.logical_or.reduce([missing[name] for name in one.leaves])
    if not gaps.any():
        return _complete(one, sums, ends, generator)
    drawn = {name: ends[name][0].copy() for name in one.leaves}
    whole, rest = np.flatnonzero(~gaps), np.flatnonzero(gaps)
    for name, values in _complete(one.rows(whole), sums, _rows(ends, one.leaves, whole), generator).items():
        drawn[name][whole] = values
    for part in one.parts:
        if part in sums:
            some = {name: missing[name][rest] for name in sums[part].leaves}
            found = draw_parts(sums[part], sums, _rows(ends, some, rest), some, generator)
        else:
            found = {part: uniform(*(end[rest] for end in ends[part]), generator)}
        for name, values in found.items():
            drawn[name][rest] = values
    return drawn


def _rows(ends: Mapping[str, Interval], names: Iterable[str], rows: np.ndarray) -> dict[str, Interval]:
    return {name: (ends[name][0][rows], ends[name][1][rows]) for name in names}


def _complete(
    one: Sum, sums: Mapping[str, Sum], ends: Mapping[str, Interval], generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return leaves of records without missing ones: drawn independently until the totals fit, at last part by part."""
    values = {name: uniform(*ends[name], generator) for name in one.leaves}
    bad = np.flatnonzero(~_within(one, sums, values))
    for _ in range(TRIES):
        if not len(bad):
            return values
        again = {name: uniform(*end, generator) for name, end in _rows(ends, one.leaves, bad).items()}
        good = _within(one.rows(bad), sums, again)
        for name, column in again.items():
            values[name][bad[good]] = column[good]
        bad = bad[~good]
    left = _rows(ends, one.leaves, bad)
    low, high, _ = interval(one.rows(bad), sums, left.__getitem__)
    for name, column in _split(one, sums, left, uniform(low, np.maximum(low, high), generator), generator):
        values[name][bad] = column
    return values


def _within(one: Sum, sums: Mapping[str, Sum], values: Mapping[str, np.ndarray]) -> np.ndarray:
    return interval(one, sums, lambda name: (values[name], values[name]))[2]


def _split(
    one: Sum, sums: Mapping[str, Sum], ends: Mapping[str, Interval], total: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield values of the leaves that sum up to a total within its interval, part by part."""
    spans = [interval(sums[part], sums, ends.__getitem__)[:2] if part in sums else ends[part] for part in one.parts]
    for place, part in enumerate(one.parts):
        rest_low, rest_high = (sum(span[end] for span in spans[place + 1 :]) for end in (0, 1))
        low, high = spans[place]
        low, high = np.maximum(low, total - rest_high), np.minimum(high, total - rest_low)
        low = np.minimum(np.maximum(low, spans[place][0]), spans[place][1])  # where no values meet the bounds
        value = uniform(low, np.maximum(low, high), generator)
        total = total - value
        if part in sums:
            yield from _split(sums[part], sums, ends, value, generator)
        else:
            yield part, value


def totals(sums: Sequence[Sum], leaves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the totals of leaves in units, each a sum from left to right."""
    known = dict(leaves)
    for one in sums:
        first, *rest = one.parts
        total = known[first]
        for part in rest:
            total = total + known[part]
        known[one.name] = total
    return {one.name: known[one.name] for one in sums}
