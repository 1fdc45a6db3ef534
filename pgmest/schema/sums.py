"""Sums of columns: `sum: {total: [a, b]}` in the constraints of a schema.

In each record the total is the sum of its parts; if a part is missing, so is the total. A total has no attribute: it is
computed from its parts. Where their sum is beyond its bounds, or would read as a missing value, the parts are moved
within theirs.

Totals may be parts of other totals. No column is a part of two, so that totals form trees.
"""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.notation import SchemaNode
from pgmest.schema.orders import decimals_text, known_number, type_name
from pgmest.schema.writing import off_markers

LARGEST = 4e18
"""The largest sum in units, below 2^62."""
ROUNDING = 1e-12
"""The distance that totals of floats keep from their bounds, relative to the largest sizes of their parts."""


@dataclass(frozen=True)
class Sum:
    """A total and its parts.

    Attributes:
        total: the column of the total.
        parts: the names of its parts, some of them perhaps totals.
        leaves: the columns that sum up to it and are no totals.
        low, high: the least and the greatest total within its bounds and those of its parts, in units.
    """

    total: Grid
    parts: tuple[str, ...]
    leaves: Mapping[str, Grid]
    low: Any
    high: Any

    @property
    def name(self) -> str:
        return self.total.name

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
    return list(made.values())


def _parts(
    node: SchemaNode, total: str, others: Mapping[str, Sequence[str]], columns: Mapping[str, SchemaColumn]
) -> tuple[str, ...]:
    names = [item.text() for item in node.items()]
    if len(names) < 2:
        node.fail(f"needs two parts or more, such as [a, b], not {len(names)}.")
    for name in (total, *names):
        column = known_number(node, name, columns)
        if not column.numeric:
            node.fail(f"names '{name}' of type {type_name(column)}, but only numbers have a sum.")
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
    if (size := float(sum(max(abs(end) for end in _ends(column)) for column in leaves.values()))) > LARGEST:
        node.fail(f"may add up to {size:.3g}, more than {LARGEST:.3g}: give its parts narrower bounds.")
    ends = [(known[part].low, known[part].high) if part in known else _ends(leaves[part]) for part in parts]
    (low, high), (least, most) = map(sum, zip(*ends, strict=True)), _ends(total)
    if low > most or high < least:
        node.fail(
            f"cannot hold: '{name}' is {total.expected()}, but its parts sum up to "
            f"{_shown(total, low)}..{_shown(total, high)}. Correct the bounds."
        )
    if (low < least or high > most) and (common := sorted(set(leaves) & set(ordered))):
        node.fail(
            f"bounds the ordered column '{common[0]}' a second time: the range of '{name}' must be that of the sum of "
            f"its parts, min: {_shown(total, low)} and max: {_shown(total, high)}."
        )
    least, most = max(low, least), min(high, most)
    if total.decimals is None:
        least, most = least + ROUNDING * size, most - ROUNDING * size
    return Sum(total, parts, leaves, least, most)


def _check_alike(node: SchemaNode, total: Grid, part: Grid) -> None:
    if total.kind != part.kind:
        node.fail(f"adds '{part.name}' of type {part.kind} up to '{total.name}' of type {total.kind}: give them one.")
    if total.decimals != part.decimals:
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


# -- values -----------------------------------------------------------------------------------------------------------


def add_up(
    sums: Sequence[Sum],
    units: dict[str, np.ndarray],
    missing: Mapping[str, np.ndarray],
    known: Mapping[str, np.ndarray],
) -> None:
    """Add totals to the units of their parts, of which those that are not known are moved until totals are in bounds.

    They are moved, too, where a total would read as a missing value.

    Args:
        sums: all sums, those of parts before those of their totals.
        units: for each column a value of each record, in units.
        missing: for each column the records without a value.
        known: the values that must stay, in units; NaN where there is none.
    """
    named = {one.name: one for one in sums}
    for one in sums:
        total = units[one.name] = _added(one, units)
        gaps = np.logical_or.reduce([missing[name] for name in one.leaves])
        inside = np.clip(total, one.low, one.high)
        wanted = off_markers(one.total, np.full_like(total, one.low), np.full_like(total, one.high), inside)
        room = np.where(wanted < total, wanted - one.low, one.high - wanted)
        _move(one, named, units, np.where(gaps, 0, wanted - total), room, known)


def _added(one: Sum, units: Mapping[str, np.ndarray]) -> np.ndarray:
    return reduce(add, (units[part] for part in one.parts))


def _move(
    one: Sum,
    sums: Mapping[str, Sum],
    units: dict[str, np.ndarray],
    step: np.ndarray,
    room: np.ndarray,
    known: Mapping[str, np.ndarray],
) -> None:
    """Move the parts of a total within their bounds, one after the other, until the total has changed by a step.

    A part that would read as a missing value goes on, if the total has room beyond the step.
    """
    if not step.any():
        return
    for part in one.parts:
        low, high = (sums[part].low, sums[part].high) if part in sums else _ends(one.leaves[part])
        before, down = units[part], step < 0
        moved = np.clip(step, np.minimum(low - before, 0), np.maximum(high - before, 0))
        moved = np.where(np.isnan(known[part]), moved, 0) if part in known else moved
        end = np.where(down, np.maximum(low, before + step - room), np.minimum(high, before + step + room))
        column, after = sums[part].total if part in sums else one.leaves[part], before + moved
        after = off_markers(column, np.minimum(after, end), np.maximum(after, end), after)
        after = np.where(moved == 0, before, after)
        if part in sums:
            _move(sums[part], sums, units, after - before, np.abs(end - after), known)
        else:
            units[part] = after
        step = step - (units[part] - before)
        step = np.where(down == (step < 0), step, 0)
    units[one.name] = _added(one, units)
