"""KINDS: the table of kinds of columns, and the column that a schema describes.

A kind of numbers or times is a row: the scale of its numbers, the notation of its values, and the keys of its
description. Reading, drawing, labels, texts of files, types and their check follow from the row.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgmest.errors import listed
from pgmest.schema.categorical import Boolean, Categorical
from pgmest.schema.clock import Durations, Times
from pgmest.schema.column import SchemaColumn
from pgmest.schema.date import Dates
from pgmest.schema.grid import Grid, GridKind
from pgmest.schema.notation import SchemaNode
from pgmest.schema.numerals import WRITING_KEYS, RealNumbers, WholeNumbers
from pgmest.schema.scales import Decimal, Whole

KINDS: dict[str, GridKind] = {
    "integer": GridKind(Whole, WholeNumbers, WRITING_KEYS),
    "real": GridKind(Decimal, RealNumbers, (*WRITING_KEYS, "decimals")),
    "date": GridKind(Whole, Dates, ("unit", "format")),
    "time": GridKind(Whole, Times, ("unit", "format")),
    "duration": GridKind(Whole, Durations, ("unit", "format"), required=("unit",)),
}

LISTS = {"categorical": Categorical, "boolean": Boolean}
"""The kinds of columns whose values are listed."""


def column_of(name: str, node: SchemaNode) -> SchemaColumn:
    """Return the column that a node of a schema describes, or fail with the line of what is wrong."""
    if not name:
        node.fail("needs a name.")
    fields = node.mapping("a mapping such as {type: integer, min: 0, max: 99}")
    known = (*LISTS, *KINDS)
    if "type" not in fields:
        node.fail(f"needs 'type:', one of {listed(known)}.")
    kind = fields["type"].called(f"{node.name}: type").choice(known)
    return Grid.from_node(name, node, KINDS[kind]) if kind in KINDS else LISTS[kind].from_node(name, node)


def whole_column(name: str, starts: Iterable[int], high: int, place: str = "") -> Grid:
    """Return a column of whole numbers, such as counts, that no schema describes."""
    return Grid(name, False, frozenset({""}), "clip", place, Whole(), WholeNumbers(), tuple(starts), high)
