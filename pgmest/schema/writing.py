"""Values of a synthetic table as the texts that its schema reads: the notation of numbers, dates, booleans and gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.table_file import TableFile
from pgmest.data.values import Values
from pgmest.errors import ArgumentError, excerpt
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.readings import could_be_written, text_of

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema


def as_written(
    column: SchemaColumn, gap: str, values: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return values as they are written in a text file, and which records have no value then.

    Values whose usual text is already in the notation of the schema stay as they are.

    Args:
        column: the description of the column.
        gap: the text of a missing value (`gap_text`); "" leaves the field empty.
        values: the values, shape (records,).
        missing: the records without a value, shape (records,).
    """
    values = column.texts(values)
    if not gap or not column.missing:
        return values, missing
    texts = values if values.dtype.kind == "O" else _objects(_usual_text(value) for value in values)
    return np.where(missing, gap, texts).astype(object), np.zeros_like(missing)


def gap_text(schema: Schema, column: SchemaColumn) -> str:
    """Return the text of a missing value in files: the first that the schema lists (`missing: ["?"]`), else none."""
    described = schema.description.get("columns", {}).get(column.name, {})
    listed = described.get("missing")
    texts = [text_of(marker) or "" for marker in listed if marker is not None] if isinstance(listed, list) else []
    return next((text for text in texts if text in column.markers), "")


def off_markers(column: Grid, first: np.ndarray, last: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return units of which none reads as a missing value, where the interval has another value.

    With `missing: [99]` a record in the bin 90..99 never has the value 99.

    Args:
        column: the column.
        first, last: the interval of each record, such as its bin.
        units: a value of each record in its interval.
    """
    bad = marked(column, units)
    if not bad.any():
        return units
    units = units.copy()
    for step in range(1, len(column.markers) + 1):
        for sign in (1, -1):
            rows = np.flatnonzero(bad)
            moved = _moved(units[rows], sign * step)
            inside = (moved >= first[rows]) & (moved <= last[rows])
            good = inside & ~marked(column, np.where(inside, moved, units[rows]))
            units[rows[good]] = moved[good]
            bad[rows[good]] = False
    return units


def marked(column: Grid, units: np.ndarray) -> np.ndarray:
    """Return which units are the value of a marker, as values or in the notation of text files."""
    if not any(map(could_be_written, column.markers)):
        return np.zeros(len(units), dtype=bool)
    distinct, positions = np.unique(units, return_inverse=True)
    values = column.from_units(distinct)
    found = column.marked(Values.of(values))
    texts, _ = as_written(column, "", values, np.zeros(len(values), dtype=bool))
    if texts.dtype.kind == "O":
        found |= column.marked(Values.of_items(texts.tolist()))
    return found[positions.reshape(-1)]


def _moved(units: np.ndarray, steps: int) -> np.ndarray:
    if units.dtype.kind == "i":
        return units + steps
    for _ in range(abs(steps)):
        units = np.nextafter(units, np.inf if steps > 0 else -np.inf)
    return units


def check_writable(schema: Schema, file: TableFile) -> None:
    """Raise ArgumentError if the public texts of a schema do not fit the encoding of a file.

    Raises:
        ArgumentError: the encoding lacks a character of a name, a label, or a marker of missing values.
    """
    if not file.is_text or file.encoding is None:
        return
    for where, text in _texts(schema):
        try:
            text.encode(file.encoding)
        except UnicodeError:
            raise ArgumentError(
                f"the encoding {file.encoding} of {file} cannot hold {where} {excerpt(text)}: write a .parquet file, "
                "or state the encoding utf-8."
            ) from None


def _texts(schema: Schema) -> Iterator[tuple[str, str]]:
    yield from (("the name", name) for name in (*(column.name for column in schema.described), *schema.bought))
    for column in schema.described:
        if isinstance(column, Categorical):
            yield from ((f"the value of '{column.name}'", label) for label in column.labels())
        if isinstance(column, Grid):
            yield f"the format of '{column.name}'", column.notation.template
        yield f"the missing value of '{column.name}'", gap_text(schema, column)


def _usual_text(value: Any) -> str:
    """Return the text that pandas would write."""
    if isinstance(value, np.bool_):
        return str(bool(value))
    return repr(value.item()) if isinstance(value, np.number) else str(value)


def _objects(items: Iterable[str]) -> np.ndarray:
    return np.array([*items, None], dtype=object)[:-1]
