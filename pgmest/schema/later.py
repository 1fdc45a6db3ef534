"""Later columns: numbers and dates that are at least those of earlier columns of the same row (`ordered: [...]`).

A later column has the bins of its description, or, where that says more about the table, the bins of its difference
from one earlier column, the reference: of a discharge, the days since the admission. Where the reference is missing,
the code is again the bin of the value itself. The value of a reference that is itself later than other columns is the
one that it is coded by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.column import shown_value
from pgmest.schema.date import Date
from pgmest.schema.grid import Grid, Integer
from pgmest.schema.related import RelatedColumn

if TYPE_CHECKING:
    pass

QUARTERS, FINE_WIDTHS = 4, 4
"""Differences up to `FINE_WIDTHS` bins of the column are in bins a `QUARTERS`th as wide: most durations are short."""
WIDER_REFERENCE = 2
"""The largest ratio of the reference's bins to the column's: a coarse reference would blur the later column."""
LONGER_SPAN = 2
"""The largest ratio of the range of differences to the column's range, as one bin more for each width is needed."""


@dataclass(frozen=True)
class Later(RelatedColumn):
    """A column of numbers or dates that are at least those of `earlier` columns in the same row.

    The code depends on the row and the schema alone. A value below an earlier one counts as outside of what the schema
    foresees: it becomes the greatest earlier value (`outside: clip`), missing, or an error.

    Attributes:
        earlier: all columns that come before it in the order, as they are described.
        reference: the earlier column, as it is coded, whose difference is coded; None if the column has its own bins.
        steps: the least difference of each bin, ascending from 0; empty without a reference.
        span: the greatest difference.
    """

    earlier: tuple[Grid, ...]
    reference: Grid | Later | None = None
    steps: tuple[int, ...] = ()
    span: int = 0

    @classmethod
    def of(cls, own: Grid, earlier: tuple[Grid, ...], reference: Grid | Later | None) -> Later:
        """Return the column, with differences from the reference if there is one."""
        plain = (own.name, own.missing, own.markers, own.outside, own.place, own, earlier)
        if reference is None:
            return cls(*plain)
        span = int(own.high - (reference.own if isinstance(reference, Later) else reference).low)
        return cls(*plain, reference, difference_steps(widest(own), span), span)

    @property
    def regular(self) -> int:
        without = self.own.regular if self.reference is not None and self.reference.missing else 0
        return self.differences + without if self.reference is not None else self.own.regular

    @property
    def differences(self) -> int:
        """The number of codes that are bins of differences; they come first, then bins of the column itself."""
        return len(self.steps)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name, *(column.name for column in self.earlier))

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.name,) if self.reference is None else (self.name, self.reference.name)

    def encode_rows(self, table: Mapping[str, Values], first_row: int = 0) -> np.ndarray:
        values = table[self.name]
        numbers, there, early = self._ascending(table, self.own.encode(values, first_row))
        if self.outside == "error" and early.any():
            row = int(early.argmax())
            self._refuse_early(values.array[row], first_row + row)
        codes = self.own.bins_of(numbers)
        if self.reference is not None:
            before, present = self._reference_numbers(table)
            codes = np.where(present, self._steps_of(numbers - before), self.differences + codes)
        return np.where(there, codes, self.gap_code).astype(code_type(self.size))

    def _ascending(self, table: Mapping[str, Values], codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the number that each row is coded by, which rows have one, and which were below an earlier one."""
        own, there = self.own.coded_numbers(table[self.name], codes)
        numbers = own
        for column in self.earlier:
            before, present = _judged_numbers(column, table)
            numbers = np.where(present, np.maximum(numbers, before), numbers)
        early = there & (numbers > own)
        return np.minimum(numbers, self.own.high), there & ~early if self.outside == "missing" else there, early

    def _reference_numbers(self, table: Mapping[str, Values]) -> tuple[np.ndarray, np.ndarray]:
        """Return the number that the reference is coded by in each row, and which rows have one."""
        if isinstance(self.reference, Later):
            codes, _ = self.reference.own.judged(table[self.reference.name])
            return self.reference._ascending(table, codes)[:2]
        assert self.reference is not None
        return _judged_numbers(self.reference, table)

    def _steps_of(self, differences: np.ndarray) -> np.ndarray:
        return np.maximum(np.searchsorted(self.steps, differences, side="right") - 1, 0)

    def _refuse_early(self, value: Any, row: int | None) -> NoReturn:
        names = ", ".join(f"'{column.name}'" for column in self.earlier)
        at = "" if row is None else f", row {row}"
        raise DataError(
            f"column '{self.name}'{at} has the value {shown_value(value)}, less than an earlier column in the order "
            f"({names}; {self.place}). Correct the table, or let the schema say what becomes of such values (outside:)."
        )

    @property
    def difference_points(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last difference of each bin of differences, in units."""
        return np.array(self.steps, dtype=np.int64), np.array([*self.steps[1:], self.span + 1], dtype=np.int64) - 1

    def labels(self) -> list[str]:
        if self.reference is None:
            return self.own.labels()
        unit = f" {self.own.step_name}s" if isinstance(self.own, Date) else ""
        spans = zip(*(ends.tolist() for ends in self.difference_points), strict=True)
        texts = [f"{self.reference.name} + {a}" if a == b else f"{self.reference.name} + {a}..{b}" for a, b in spans]
        own = self.own.labels() if self.reference.missing else []
        return [*(text + unit for text in texts), *(f"{label}, {self.reference.name} missing" for label in own)]


def _judged_numbers(column: Grid, table: Mapping[str, Values]) -> tuple[np.ndarray, np.ndarray]:
    codes, _ = column.judged(table[column.name])
    return column.coded_numbers(table[column.name], codes)


def can_be_difference(own: Grid, reference: Grid) -> bool:
    """Return whether differences from the reference are likely to say more than the column's own bins.

    This looks at the schema alone: the values must be whole numbers or dates, on about the same range, and in bins of
    about the same width, as those of an admission and a discharge are, but not those of a birth and an admission.
    """
    whole = all(isinstance(column, Integer | Date) for column in (own, reference))
    span = own.high - reference.low
    narrow = widest(reference) <= WIDER_REFERENCE * widest(own)
    return whole and narrow and 0 <= span <= LONGER_SPAN * (own.high - own.low + 1)


def widest(column: Grid) -> int:
    """Return the largest number of whole values in a bin."""
    first, last = column.points
    return int((last - first).max()) + 1


def difference_steps(width: int, span: int) -> tuple[int, ...]:
    """Return where bins of differences start: ever wider ones, then quarters of `width`, then ones of `width`.

    >>> difference_steps(28, 200)
    (0, 1, 3, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84, 91, 98, 105, 112, 140, 168, 196)
    """
    quarter, fine = max(width // QUARTERS, 1), min(FINE_WIDTHS * width, span + 1)
    short = [2**power - 1 for power in range(quarter.bit_length()) if 2**power - 1 < quarter]
    steps = {0, *short, *range(quarter, fine, quarter), *range(FINE_WIDTHS * width, span + 1, width)}
    return tuple(sorted(step for step in steps if step <= span))
