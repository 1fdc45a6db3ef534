"""Values of a synthetic table as the texts that its schema reads: the notation of numbers, dates, booleans and gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.dates import DAY
from pgmest.data.table_file import TableFile
from pgmest.data.values import Values
from pgmest.errors import ArgumentError, excerpt
from pgmest.schema.categorical import Categorical
from pgmest.schema.clock import Duration
from pgmest.schema.column import SchemaColumn
from pgmest.schema.date import Date
from pgmest.schema.grid import Grid, Integer, Real
from pgmest.schema.numerals import Writing
from pgmest.schema.periods import date_text
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
    if isinstance(column, Date) and column.format is not None:
        values = date_texts(values, column.format)
    elif isinstance(column, Duration):
        values = duration_texts(values, column.format)
    elif isinstance(column, Integer | Real) and column.writing != Writing():
        values = _objects(number_text(value, column.writing) for value in values.tolist())
    elif values.dtype.kind == "b" and column.markers & {"True", "False"}:
        values = np.array(["false", "true"], dtype=object)[values.astype(np.int8)]
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


def number_text(number: float, writing: Writing) -> str:
    """Return a number in a notation; the text is read back as the same number.

    >>> number_text(908.94, Writing(("€", "."), ",")), number_text(1e-7, Writing(("e",)))
    ('908,94', '0.0000001')
    >>> number_text(-1234.5, Writing(("$", ","), written="${,}"))
    '$-1,234.5'
    """
    text = repr(number)
    if "e" in text and (writing.written != "{}" or any("e" in ignored.lower() for ignored in writing.ignore)):
        text = np.format_float_positional(number, trim="0")
    return writing.text(text)


def date_texts(dates: np.ndarray, form: str) -> np.ndarray:
    """Return dates as texts in a format (`periods.date_text`).

    >>> date_texts(np.array(["0912-02-01"], dtype="M8[D]"), "%d.%m.%Y").tolist()
    ['01.02.0912']
    """
    distinct, positions = np.unique(dates, return_inverse=True)
    return _objects(date_text(date, form) for date in distinct.astype(object))[positions.reshape(-1)]


def duration_texts(lengths: np.ndarray, form: str | None = None) -> np.ndarray:
    """Return durations in a format; by default as texts that all libraries read, with days and the time of the last.

    >>> duration_texts(np.array([93_600, -3600], dtype="m8[s]")).tolist()
    ['1 days 02:00:00', '-1 days +23:00:00']
    >>> duration_texts(np.array([93_600, -3600], dtype="m8[s]"), "%-H:%M").tolist()
    ['26:00', '-1:00']
    """
    distinct, positions = np.unique(lengths.astype("m8[s]").astype(np.int64), return_inverse=True)
    texts = []
    if form is not None:
        return _objects(_clock_text(seconds, form) for seconds in distinct.tolist())[positions.reshape(-1)]
    for days, seconds in zip(*(part.tolist() for part in np.divmod(distinct, DAY)), strict=True):
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        texts.append(f"{days} days {'+' if days < 0 else ''}{clock}")
    return _objects(texts)[positions.reshape(-1)]


def _clock_text(seconds: int, form: str) -> str:
    """Return a duration in one of `clock.LENGTHS`."""
    minutes, rest = divmod(abs(seconds), 60)
    hours = str(minutes // 60) if "%-H" in form else f"{minutes // 60:02}"
    return f"{'-' if seconds < 0 else ''}{hours}:{minutes % 60:02}{f':{rest:02}' if '%S' in form else ''}"


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
        if isinstance(column, Date) and column.format is not None:
            yield f"the format of '{column.name}'", column.format
        if isinstance(column, Integer | Real):
            yield f"how numbers of '{column.name}' are written,", column.writing.written
        yield f"the missing value of '{column.name}'", gap_text(schema, column)


def _usual_text(value: Any) -> str:
    """Return the text that pandas would write."""
    if isinstance(value, np.bool_):
        return str(bool(value))
    return repr(value.item()) if isinstance(value, np.number) else str(value)


def _objects(items: Iterable[str]) -> np.ndarray:
    return np.array([*items, None], dtype=object)[:-1]
