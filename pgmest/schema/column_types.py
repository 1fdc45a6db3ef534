"""The types of columns, and the column that a schema describes."""

from __future__ import annotations

from typing import Any

from pgmest.errors import listed
from pgmest.schema.categorical import Boolean, Categorical
from pgmest.schema.clock import Duration, Time
from pgmest.schema.column import SchemaColumn
from pgmest.schema.date import Date
from pgmest.schema.grid import Integer, Real
from pgmest.schema.notation import SchemaNode

TYPES: dict[str, Any] = {
    "categorical": Categorical,
    "boolean": Boolean,
    "integer": Integer,
    "real": Real,
    "date": Date,
    "time": Time,
    "duration": Duration,
}


def column_of(name: str, node: SchemaNode) -> SchemaColumn:
    """Return the column that a node of a schema describes, or fail with the line of what is wrong."""
    if not name:
        node.fail("needs a name.")
    fields = node.mapping("a mapping such as {type: integer, min: 0, max: 99}")
    if "type" not in fields:
        node.fail(f"needs 'type:', one of {listed(TYPES)}.")
    return TYPES[fields["type"].called(f"{node.name}: type").choice(tuple(TYPES))].from_node(name, node)
