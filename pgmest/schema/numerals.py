"""Numerals: the notations of whole and of real numbers, and the numbers that arrays of values write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.grid import Notation, Numbers
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


@dataclass(frozen=True)
class RealNumbers(Notation):
    """The notation of real numbers.

    Attributes:
        writing: how texts write numbers.
    """

    named = "numbers"
    numeric = True
    writing: Writing = PLAIN_WRITING

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Self:
        return cls(Writing.from_fields(fields))

    @property
    def kind(self) -> str:
        return "real"

    @property
    def template(self) -> str:
        return self.writing.written

    def number_of(self, node: SchemaNode, last: bool = False) -> float:
        return float(node.number())

    def written(self, number: float) -> str:
        return f"{number:.12g}"

    def read(self, values: Values) -> Numbers:
        return real_numbers(self.writing.read(values))

    def values(self, numbers: np.ndarray) -> np.ndarray:
        return numbers

    def texts(self, values: np.ndarray) -> np.ndarray:
        if self.writing == PLAIN_WRITING:
            return values
        return np.array([*(number_text(value, self.writing) for value in values.tolist()), None], dtype=object)[:-1]


class WholeNumbers(RealNumbers):
    """The notation of whole numbers; others count as the whole one below."""

    named = "whole numbers"

    @property
    def kind(self) -> str:
        return "integer"

    def number_of(self, node: SchemaNode, last: bool = False) -> int:
        return whole_bound(node)

    def written(self, number: float) -> str:
        return f"{number:.0f}"

    def read(self, values: Values) -> Numbers:
        return whole_numbers(self.writing.read(values))


def whole_bound(node: SchemaNode) -> int:
    """Return the whole number of a node; it must have at most 18 digits."""
    number = node.integer()
    if not -LIMIT < number < LIMIT:
        node.fail(f"must have at most 18 digits, not {node.shown}.")
    return number


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


def whole_numbers(values: Values) -> Numbers:
    """Return values without gaps as whole numbers, those below others: as `readings.whole_of`, for whole arrays."""
    array = values.array
    if array.dtype.kind == "u":
        return Numbers.all_read(np.minimum(array, np.uint64(LIMIT)).astype(np.int64))
    if array.dtype.kind in "bi":
        return Numbers.all_read(np.clip(array.astype(np.int64), -LIMIT, LIMIT))
    if array.dtype.kind == "f":
        below = np.floor(np.clip(array, -LIMIT, LIMIT)).astype(np.int64)
        return Numbers.all_read(below)._replace(fractional=np.floor(array) != array)
    if array.dtype.kind in "Mm":
        return Numbers.none_read(len(array))
    return Numbers.of_each(values, whole_of)


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
    return Numbers.all_read(numbers)._replace(unreadable=np.isnan(numbers))


def numbers_or_nan(values: Values, known: np.ndarray | None = None) -> np.ndarray:
    """Return values as floats: NaN for gaps, for what is no number, and for rows that are not `known`."""
    known = ~values.gaps if known is None else known & ~values.gaps
    numbers = np.full(len(values), np.nan)
    numbers[known] = real_numbers(values.where(known)).numbers
    return numbers


def complete_numbers(array: np.ndarray) -> np.ndarray | None:
    """Return the numbers of a column as floats, NaN for what is no number; None if it has gaps."""
    values = Values.of(array)
    return None if values.gaps.any() else numbers_or_nan(values)
