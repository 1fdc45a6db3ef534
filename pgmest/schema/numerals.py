"""Numerals: the notation of numbers in a column, and the numbers that arrays of values write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.engine import EngineColumn
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import BLANKS, LIMIT, real_of, whole_of

WRITING_KEYS = ("ignore", "decimal", "written")
GROUP_MARKS = (".", ",", " ", "\u00a0", "\u202f", "'", "\u2019")
"""The separators of thousands."""
PLACE = re.compile(rf"\{{([{''.join(GROUP_MARKS)}]?)(?:0([.,])(0+))?\}}")
"""The place of a number in `written`: a separator of thousands, the decimal mark and the least decimals, if any."""


@dataclass(frozen=True)
class Writing:
    """The notation of numbers: $9,934.79 with `ignore: ["$", ","]`, 9.934,79 with `ignore: ["."]` and `decimal: ","`.

    Attributes:
        ignore: what is left out wherever it stands, such as currency signs and separators of thousands.
        decimal: the decimal mark.
        written: how numbers are written to text files: "{} kg" with a unit, "${,}" with separators of thousands, too,
            and "{0.00}" with at least two decimals.
    """

    ignore: tuple[str, ...] = ()
    decimal: str = "."
    written: str = "{}"

    @classmethod
    def from_fields(cls, fields: dict[str, SchemaNode]) -> Writing:
        ignore = [_ignored(item) for item in fields["ignore"].items()] if "ignore" in fields else []
        decimal = fields["decimal"].choice((".", ",")) if "decimal" in fields else "."
        if decimal in ignore:
            fields["ignore"].fail(f"must not hold {decimal!r}, which is the decimal mark; say decimal: if it is not.")
        written = _written(fields["written"], ignore, decimal) if "written" in fields else "{}"
        return cls(tuple(ignore), decimal, written)

    def plain(self, value: object) -> object:
        """Return a text as one that is read as a number; any other value as it is."""
        if not isinstance(value, str):
            return value
        for text in self.ignore:
            value = value.replace(text, "")
        return (value if self.decimal == "." else value.replace(".", "?").replace(",", ".")).strip(BLANKS)

    def text(self, number: str) -> str:
        """Return the text of a number such as -1234.5 in this notation."""
        sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
        whole, point, rest = digits.partition(".")
        place = PLACE.search(self.written)
        if place and place[1] and whole.isdecimal():
            whole = f"{int(whole):,}".replace(",", place[1])
        if place and place[3] and whole[:1].isdecimal():
            point, rest = ".", rest.ljust(len(place[3]), "0")
        text = f"{sign}{whole}{self.decimal if point else ''}{rest}"
        return PLACE.sub(lambda _: text, self.written, count=1)

    def read(self, values: Values) -> Values:
        """Return values without gaps, the texts among them as they are read."""
        if self == PLAIN_WRITING or values.array.dtype.kind != "O":
            return values
        return Values.of_items([self.plain(value) for value in values.array])

    def in_engine(self, column: EngineColumn) -> EngineColumn:
        """Return a column that an engine holds, its texts as they are read."""
        return replace(column, ignore=self.ignore, decimal=self.decimal)


PLAIN_WRITING = Writing()
"""The notation of numbers in Python."""


def _ignored(node: SchemaNode) -> str:
    text = node.text()
    if not text or any(char.isdigit() or char in "-\N{MINUS SIGN}" for char in text):
        node.fail(f"must be signs that are no part of a number, such as $ or a comma, not {node.shown}.")
    return text


def around(written: str, ignore: Sequence[str]) -> str:
    """Return what is around the number of `written`, but for what is ignored and blanks."""
    rest = PLACE.sub("", written, count=1)
    for sign in sorted(ignore, key=len, reverse=True):
        rest = rest.replace(sign, "")
    return rest.strip(BLANKS)


def _written(node: SchemaNode, ignore: list[str], decimal: str) -> str:
    text = node.text()
    place = PLACE.search(text)
    if not place or around(text, ignore):
        node.fail(f"must have {{}} for the number, and nothing around it but what ignore: lists, not {node.shown}.")
    if place[1] and place[1] not in ignore:
        node.fail(f"has the separator of thousands {place[1]!r}, which ignore: must list so that it is read.")
    if place[2] not in (None, decimal):
        node.fail(f"has the decimal mark {place[2]!r}, but decimal: says {decimal!r}.")
    return text


class Numbers(NamedTuple):
    """Values as numbers on the scale of a column's bins.

    Attributes:
        numbers: of shape (rows,), any number where unreadable.
        unreadable: which values are no numbers.
        fractional: which are not whole, where the column is of whole numbers.
    """

    numbers: np.ndarray
    unreadable: np.ndarray
    fractional: np.ndarray


def whole_numbers(values: Values) -> Numbers:
    """Return values without gaps as whole numbers, those below others: as `readings.whole_of`, for whole arrays."""
    array = values.array
    none = np.zeros(len(values), dtype=bool)
    if array.dtype.kind == "u":
        return Numbers(np.minimum(array, np.uint64(LIMIT)).astype(np.int64), none, none)
    if array.dtype.kind in "bi":
        return Numbers(np.clip(array.astype(np.int64), -LIMIT, LIMIT), none, none)
    if array.dtype.kind == "f":
        below = np.floor(np.clip(array, -LIMIT, LIMIT)).astype(np.int64)
        return Numbers(below, none, (np.floor(array) != array))
    if array.dtype.kind in "Mm":
        return Numbers(np.zeros(len(values), dtype=np.int64), ~none, none)
    positions, distinct = values.distinct()
    read = [whole_of(value) for value in distinct]
    numbers = np.array([0 if found is None else found[0] for found in read], dtype=np.int64)
    unreadable = np.array([found is None for found in read], dtype=bool)
    fractional = np.array([found is not None and not found[1] for found in read], dtype=bool)
    return Numbers(numbers[positions], unreadable[positions], fractional[positions])


def real_numbers(values: Values) -> Numbers:
    """Return values without gaps as floats: as `readings.real_of`, for whole arrays."""
    array = values.array
    if array.dtype.kind in "Mm":
        numbers = np.full(len(values), np.nan)
    elif array.dtype.kind == "O":
        positions, distinct = values.distinct()
        numbers = np.array([real_of(value) for value in distinct], dtype=np.float64)[positions]
    else:
        numbers = array.astype(np.float64)
    return Numbers(numbers, np.isnan(numbers), np.zeros(len(values), dtype=bool))
