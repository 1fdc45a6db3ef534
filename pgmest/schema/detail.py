"""The detail that codes lose: values that bins swallow, times of day, decimals, leading zeros; and markers.

A value can be within its bounds, and the synthetic table say little about it all the same: 70 % zeros in a bin
[0, 500) come back as numbers between 0 and 500. This counts such values in the raw table, for its owner.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import MISSING, SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.readings import BLANKS, text_of

KEPT = 1024
"""The most distinct numbers whose counts are kept; the counts are too small by at most one row in this many."""

PADDED = r"^[+-]?0[0-9]+$"
"""Whole numbers with leading zeros, which numbers do not keep."""

TIMED = r"[T ](?:[0-9]?[1-9]|[12]0):[0-9]|[T ]0?0:[0-9:.]*[1-9]"
MIDNIGHT = r"[T ]12:00(?::00(?:\.0*)?)? ?[Aa][Mm]"
"""Texts with a time of day other than midnight: those of the first pattern that are not of the second."""


@dataclass
class Detail:
    """The counts of values of one column whose codes say less than the values.

    Attributes:
        column: its description.
        marked: the number of values that are written as a marker of missing values, empty ones aside.
        timed: the number of dates with a time of day other than midnight.
        fractional: the number of values with more decimals than the column keeps.
        padded: the number of whole numbers that are written with leading zeros.
        common: the counts of the most frequent numbers within the bounds.
        unlike_in_case: whether a value that is not listed differs from a listed one in capitals only.
    """

    column: SchemaColumn
    marked: int = 0
    timed: int = 0
    fractional: int = 0
    padded: int = 0
    common: dict[float, int] = field(default_factory=dict)
    unlike_in_case: bool = False

    def count(self, values: Values, fates: np.ndarray) -> None:
        """Add a piece of the column, with the fate of each value."""
        self.marked += _how_many(values.where(~values.gaps & (fates == MISSING)), lambda value: text_of(value) != "")
        if not isinstance(self.column, Grid):
            return
        there = values.where(fates != MISSING)
        positions, condensed = there.condensed()
        found = self.column.notation.read(condensed)
        numbers, readable = found.numbers[positions], ~found.unreadable[positions]
        inside = readable & (numbers >= self.column.low) & (numbers <= self.column.high)
        self._add(*np.unique(numbers[inside], return_counts=True))
        if self.column.kind == "integer":
            self.fractional += int((found.fractional[positions] & readable).sum())
            self.padded += _how_many(there, lambda value: isinstance(value, str) and _matches(PADDED, value))
        if self.column.kind == "real" and self.column.decimals is not None:
            self.fractional += int((inside & _beyond_decimals(numbers * self.column.units_of_one)).sum())
        if self.column.kind == "date":
            self.timed += _timed(there)

    def compare_case(self, unlisted: Iterable[Any]) -> None:
        """Look for values that are not listed in small letters, but listed in capital ones, or the other way round."""
        if isinstance(self.column, Categorical) and not self.column.ignore_case:
            known = {text.lower() for text in (*self.column.labels(), *dict(self.column.spellings))}
            self.unlike_in_case |= any((text_of(value) or "").lower() in known for value in unlisted)

    def _add(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        """Add counts of numbers, and keep the largest (Misra and Gries 1982, as Agarwal et al. 2012 merge them)."""
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.common[number] = self.common.get(number, 0) + count
        if len(self.common) > KEPT:
            least = sorted(self.common.values(), reverse=True)[KEPT]
            self.common = {number: count - least for number, count in self.common.items() if count > least}

    def merge(self, other: Detail) -> None:
        """Add the counts of other rows."""
        for name in ("marked", "timed", "fractional", "padded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unlike_in_case |= other.unlike_in_case
        self._add(np.array(list(other.common)), np.array(list(other.common.values()), dtype=np.int64))


def _how_many(values: Values, holds: Callable[[Any], bool]) -> int:
    """Return the number of values for which a condition holds."""
    if values.array.dtype.kind != "O" or not len(values):
        return len(values) if len(values) and holds(values.array[0]) else 0
    positions, items = values.distinct()
    return int(np.fromiter(map(holds, items), dtype=bool, count=len(items))[positions].sum())


def _beyond_decimals(units: np.ndarray) -> np.ndarray:
    """Return which numbers are not whole, up to rounding errors."""
    return np.abs(units - np.floor(units + 0.5)) > 1e-6


def _timed(values: Values) -> int:
    if values.array.dtype.kind == "M":
        return int((values.array != values.array.astype("M8[D]")).sum())
    return _how_many(values, lambda value: _is_timed(text_of(value) or ""))


def _is_timed(text: str) -> bool:
    return _matches(TIMED, text) and not _matches(MIDNIGHT, text)


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text.strip(BLANKS)) is not None


def unused_between(used: Iterable[int], codes: int) -> tuple[range, range] | None:
    """Return the codes on the sides of the widest stretch of unused codes, None if it is under a quarter of them.

    >>> unused_between([0, 1, 2, 3, 11], 12)
    (range(0, 4), range(11, 12))
    """
    found = sorted(used)
    gaps = [(after - before - 1, before, after) for before, after in itertools.pairwise(found)]
    width, before, after = max(gaps, default=(0, 0, 0))
    if width < max(3, codes / 4):
        return None
    return range(found[0], before + 1), range(after, found[-1] + 1)
