"""The check that a schema can describe columns of the types that a table has, before anything is paid.

A column of whole numbers whose schema lists texts would become `other` in every row, and the budget for it would be
lost. The type of a column alone shows this: it is public, and no record is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import SchemaError
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import ColumnType, form_of, types_of
from pgmest.schema.grid import Grid
from pgmest.schema.readings import day_of, real_of, text_of

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

UNREAD = ("list", "large_list", "struct", "array", "binary", "large_binary", "map")
"""The beginnings of the names of types that are never read."""

SHOWN = {
    "integer": "whole numbers",
    "real": "numbers",
    "boolean": "booleans",
    "day": "dates",
    "duration": "durations",
    "unread": "lists or bytes",
}
"""The names of the forms of values in messages."""

MOST_TRIED = 1000
"""The most labels of a column that are tried as values of its type."""


def check_types(schema: Schema, table: Any) -> None:
    """Raise SchemaError if no value of the type of some column can be one that the schema foresees.

    Args:
        schema: the schema.
        table: a dataframe or a file.

    Raises:
        SchemaError: if all values of a column would be lost.
        FileFormatError, ArgumentError: if the table cannot be read.
    """
    _, types = types_of(table, schema)
    for column in schema.described:
        kind = types.get(column.name)
        form = None if kind is None else held(kind)
        if form is not None and not can_be(column, form):
            raise SchemaError(
                f"column '{column.name}' of the table holds {SHOWN[form]} (its type is {_shown(kind)}), but values are "
                f"{column.expected()} ({column.place}): none of them can be one, so all would be lost and the budget "
                "spent on them. Convert the column, or describe it as the table has it."
            )


def can_be(column: SchemaColumn, form: str) -> bool:
    """Return whether any value of a form is one that the column foresees."""
    tried = _tried(column, form)
    if not tried:
        return False
    found = column.find(Values.of_items(tried))
    return bool((~found.outside & ~found.unreadable).any())


def held(kind: ColumnType) -> str | None:
    """Return what values of a type are, a key of `SHOWN`, or None if it varies."""
    name = (kind.of or "text" if kind.name in ("category", "Enum", "Categorical") else kind.name).lower()
    name = name.removeprefix("arrow[").removeprefix("dictionary<values=").partition(",")[0].removesuffix("]")
    if name.startswith(UNREAD):
        return "unread"
    form = form_of(name)
    if form == "int":  # libraries choose between whole and other numbers of 64 bits by the values
        return "real" if name.endswith(("64", "128")) else "integer"
    return {"bool": "boolean", "day": "day", "duration": "duration", "text": None, "clock": None}.get(form, "real")


def _tried(column: SchemaColumn, form: str) -> list[Any]:
    """Return values of a form among which is one that the column foresees, if there is any."""
    if form in ("unread", "boolean"):
        return [True, False] if form == "boolean" else []
    if isinstance(column, Grid):
        tried = column.notation.tried(np.array(column.starts[:MOST_TRIED]), form)
        if tried is not None:
            return tried
    if form == "duration":
        return []
    values = column.extremes()[:MOST_TRIED]
    if form == "day" and values.dtype.kind == "M":
        return list(values)
    texts = _texts(column, values)
    if form == "day":
        days = [day_of(text, None) for text in texts]
        return [np.datetime64(day, "D") for day in days if day is not None]
    numbers = [real_of(text) for text in texts]
    wholes = [int(number) for number in numbers if np.isfinite(number) and number == int(number)]
    return wholes if form == "integer" else [number for number in numbers if np.isfinite(number)]


def _texts(column: SchemaColumn, values: np.ndarray) -> list[str]:
    """Return the texts of values as the schema reads them, those of whole numbers within real bounds included."""
    if isinstance(column, Categorical):
        return [*column.known_texts][:MOST_TRIED]
    if values.dtype.kind in "MO":
        return [text_of(text) or "" for text in column.texts(values)]
    return [text_of(number) or "" for value in values.tolist() for number in (value, float(np.floor(value)))]


def _shown(kind: ColumnType | None) -> str:
    assert kind is not None
    return f"{kind.name} of {kind.of}" if kind.of else kind.name
