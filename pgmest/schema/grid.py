"""Integer and Real columns: a range cut into bins, a code per bin."""

from __future__ import annotations

import abc
import itertools
import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.bins import bin_expression, real_edges, uniform, whole_bin_expression, whole_bins, with_points
from pgmest.schema.column import COMMON_KEYS, Found, SchemaColumn, gap_keys, outside_key
from pgmest.schema.engine import EngineColumn, EngineFound, Reading
from pgmest.schema.notation import SchemaNode
from pgmest.schema.numerals import (
    PLAIN_WRITING,
    WRITING_KEYS,
    Numbers,
    Writing,
    real_numbers,
    whole_numbers,
)
from pgmest.schema.readings import LIMIT

if TYPE_CHECKING:
    import narwhals as nw

RANGE_KEYS = ("min", "max", "bins", "width", "edges", "points")


@dataclass(frozen=True)
class Grid(SchemaColumn):
    """A column of numbers between bounds: bin i goes from starts[i] to where bin i + 1 starts, the last to `high`.

    Attributes:
        starts: the least number of each bin, ascending.
        high: the greatest number, in the last bin.
    """

    starts: tuple[float, ...]
    high: float

    @abc.abstractmethod
    def numbers(self, values: Values) -> Numbers:
        """Return values without gaps, of any type, as numbers on the scale of `starts`."""

    @abc.abstractmethod
    def written(self, number: float) -> str:
        """Return a number of the scale as people write it."""

    @abc.abstractmethod
    def number_of(self, node: SchemaNode) -> float:
        """Return the number on the scale that a node of the schema states."""

    def last_number_of(self, node: SchemaNode) -> float:
        """Return the last number of what a node of the schema says: of a day in a column of hours, its last minute."""
        return self.number_of(node)

    @abc.abstractmethod
    def from_units(self, units: np.ndarray) -> np.ndarray:
        """Return numbers on the scale of `points` as values of the column."""

    def to_units(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers on the scale of `starts` on that of `points`, each among the points of its bin."""
        return numbers

    @property
    @abc.abstractmethod
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last drawn value of each bin, in units: whole numbers, days, decimal places or floats."""

    @property
    def units_of_one(self) -> float:
        """The number of units in 1, or in a day."""
        return 1.0

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        first, last = self.points
        return self.from_units(uniform(first[codes], last[codes], generator))

    def raw_numbers(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each value, also beyond the bounds, and which values are numbers; shapes (rows,)."""
        positions, condensed = values.where(~values.gaps).condensed()
        found = self.numbers(condensed)
        known = ~values.gaps
        numbers, read = np.zeros(len(values), dtype=found.numbers.dtype), known.copy()
        numbers[known] = found.numbers[positions]
        read[known] = ~(found.unreadable | self.marked(condensed))[positions]
        return numbers, read

    @property
    def regular(self) -> int:
        return len(self.starts)

    @property
    def low(self) -> float:
        return self.starts[0]

    def bins_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the bin of each number, of the nearest bound where it is outside."""
        return np.clip(np.searchsorted(self.starts, numbers, side="right") - 1, 0, self.regular - 1)

    def find(self, values: Values) -> Found:
        numbers, unreadable, fractional = self.numbers(values)
        outside = (numbers < self.low) | (numbers > self.high) | (fractional & (self.outside == "error"))
        return Found(self.bins_of(numbers), outside & ~unreadable, unreadable)

    def place_in_engine(self, reading: Reading) -> EngineFound:
        outside = (reading.number < self.low) | (reading.number > self.high)
        if self.outside == "error":
            outside = outside | reading.fractional
        return EngineFound(self.bins_in_engine(reading.number), outside)

    def bins_in_engine(self, number: nw.Expr) -> nw.Expr:
        """Return `bins_of` as an expression."""
        return bin_expression(number, self.starts)

    def codes_within(self, node: SchemaNode) -> list[int]:
        """Return a value's bin; or, for `{min: a, max: b}`, the bins that lie in that range."""
        if not isinstance(node.value, dict):
            return [int(self.bins_of(np.array([self._within(node)]))[0])]
        fields = node.fields(("min", "max"))
        least = self.number_of(fields["min"]) if "min" in fields else -math.inf
        most = self.last_number_of(fields["max"]) if "max" in fields else math.inf
        inside = [code for code in range(self.regular) if least <= self.starts[code] and self._last(code) <= most]
        if not inside:
            node.fail(f"holds no whole bin of column '{self.name}' ({self.place}); take bounds where bins end.")
        return inside

    def expected(self) -> str:
        return f"within {self.written(self.low)}..{self.written(self.high)}"

    def _last(self, code: int) -> float:
        """Return the greatest number of a bin; for real numbers, its upper end."""
        return self.high if code == self.regular - 1 else self.starts[code + 1]

    def _within(self, node: SchemaNode) -> float:
        number = self.number_of(node)
        if not self.low <= number <= self.high:
            node.fail(f"must be {self.expected()}, the range of column '{self.name}', not {node.shown}.")
        return number


@dataclass(frozen=True)
class WholeGrid(Grid):
    """A grid of whole numbers: of records, of decimal places, or of steps of time."""

    def bins_in_engine(self, number: nw.Expr) -> nw.Expr:
        return whole_bin_expression(number, self.starts)

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.starts, dtype=np.int64), np.array([*self.starts[1:], self.high + 1], dtype=np.int64) - 1

    def _last(self, code: int) -> float:
        return self.high if code == self.regular - 1 else self.starts[code + 1] - 1


@dataclass(frozen=True)
class Integer(WholeGrid):
    """Whole numbers from `min` to `max`, one a bin, or `width` a bin, or in `bins` bins of nearly equal width.

    Each of the `points`, numbers such as 0 that many records have, has a bin that holds nothing else. Other numbers
    than whole ones count as the whole one below.

    Attributes:
        writing: how texts write numbers.
    """

    writing: Writing = PLAIN_WRITING

    @property
    def kind(self) -> str:
        return "integer"

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Integer:
        fields = node.fields((*COMMON_KEYS, *RANGE_KEYS, *WRITING_KEYS))
        missing, markers = gap_keys(fields)
        high, starts = whole_bins(node, fields, whole_bound)
        starts = with_points(fields, starts, high, whole_bound, lambda number: number + 1)
        outside = outside_key(fields, ("clip",), missing)
        writing = Writing.from_fields(fields)
        return cls(name, missing, markers, outside, node.place, starts, high, writing)

    def numbers(self, values: Values) -> Numbers:
        return whole_numbers(self.writing.read(values))

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return self.writing.in_engine(column).whole()

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units

    def labels(self) -> list[str]:
        lasts = [self._last(code) for code in range(self.regular)]
        return [f"{a:.0f}" if a == b else f"{a:.0f}..{b:.0f}" for a, b in zip(self.starts, lasts, strict=True)]

    def written(self, number: float) -> str:
        return f"{number:.0f}"

    def number_of(self, node: SchemaNode) -> float:
        return node.integer()

    def expected(self) -> str:
        return f"whole numbers {super().expected()}"


@dataclass(frozen=True)
class Real(Grid):
    """Numbers from `min` to `max` in `bins` bins of equal width, in bins of `width`, or between `edges`.

    Each of the `points`, numbers such as 0 that many records have, has a bin that holds nothing else, or with
    `decimals` only what is cut down to it.

    Attributes:
        decimals: drawn values have at most that many decimal places; None for all.
        writing: how texts write numbers.
    """

    decimals: int | None
    writing: Writing = PLAIN_WRITING

    @property
    def kind(self) -> str:
        return "real"

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Real:
        fields = node.fields((*COMMON_KEYS, *RANGE_KEYS, *WRITING_KEYS, "decimals"))
        missing, markers = gap_keys(fields)
        edges = real_edges(node, fields)
        outside = outside_key(fields, ("clip",), missing)
        decimals = min(fields["decimals"].integer(0), 300) if "decimals" in fields else None
        writing = Writing.from_fields(fields)
        if decimals is not None and not max(abs(edges[0]), abs(edges[-1])) * 10.0**decimals < 2**53:
            fields["decimals"].fail(f"of {decimals} are more than numbers of that size have.")
        read = partial(_multiple, decimals=decimals)
        starts = with_points(fields, edges[:-1], edges[-1], read, lambda point: float(following(point, decimals)))
        column = cls(name, missing, markers, outside, node.place, starts, edges[-1], decimals, writing)
        if "points" in fields and decimals is not None:  # rounding can leave nothing between an edge and a point
            kept = column.points[0] <= column.points[1]
            kept[0] = True
            column = replace(column, starts=tuple(itertools.compress(starts, kept)))
        if decimals is not None and (column.points[0] > column.points[1]).any():
            fields["decimals"].fail(
                f"of {decimals} leaves some bins without a value; take more decimals or wider bins."
            )
        return column

    def numbers(self, values: Values) -> Numbers:
        return real_numbers(self.writing.read(values))

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return self.writing.in_engine(column).real()

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units if self.decimals is None else units / self.units_of_one

    def to_units(self, numbers: np.ndarray) -> np.ndarray:
        if self.decimals is None:
            return numbers
        first, last = (ends[self.bins_of(numbers)] for ends in self.points)
        return np.clip(np.floor(numbers * self.units_of_one + 0.5), first, last)

    @property
    def units_of_one(self) -> float:
        return 10.0 ** (self.decimals or 0)

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        starts, scale = np.array([*self.starts, self.high]), self.units_of_one
        if self.decimals is None:
            last = np.array([*np.nextafter(starts[1:-1], -np.inf), self.high])
            return starts[:-1], np.where(self._alone, starts[:-1], last)
        bins = np.arange(self.regular)
        first, last = np.ceil(starts[:-1] * scale) - 1, np.floor(starts[1:] * scale) + 1
        for _ in range(2):  # rounding can put a multiple on the wrong side of an edge
            first += (first / scale < self.low) | (self.bins_of(first / scale) < bins)
            last -= (last / scale > self.high) | (self.bins_of(last / scale) > bins)
        return first.astype(np.int64), last.astype(np.int64)

    def labels(self) -> list[str]:
        edges, texts, alone = [f"{edge:.6g}" for edge in (*self.starts, self.high)], [], self._alone
        for code, (first, last) in enumerate(itertools.pairwise(edges)):
            after = self.decimals is None and code > 0 and alone[code - 1]
            opening = f"({edges[code - 1]}" if after else f"[{first}"
            closing = "]" if code == self.regular - 1 else ")"
            texts.append(first if alone[code] else f"{opening}, {last}{closing}")
        return texts

    @cached_property
    def _alone(self) -> np.ndarray:
        """The bins that hold one number, as booleans of shape (codes,)."""
        after = following(np.array(self.starts), self.decimals)
        return np.append(after[:-1] == self.starts[1:], self.high < after[-1])

    def _last(self, code: int) -> float:
        return self.starts[code] if self._alone[code] else super()._last(code)

    def written(self, number: float) -> str:
        return f"{number:.12g}"

    def number_of(self, node: SchemaNode) -> float:
        return float(node.number())

    def expected(self) -> str:
        return f"numbers {super().expected()}"


def following(numbers: Any, decimals: int | None) -> Any:
    """Return the least number above each of that many decimal places; above 0 the least that no machine takes for 0.

    >>> float(following(0.07, 2)), bool(following(12.0, None) > 12.0)
    (0.08, True)
    """
    if decimals is None:
        return np.maximum(np.nextafter(numbers, math.inf), numbers + sys.float_info.min)
    return (np.round(numbers * 10.0**decimals) + 1) / 10.0**decimals


def _multiple(node: SchemaNode, decimals: int | None) -> float:
    """Return the number that a node says, which must have no more decimal places than the column."""
    number = float(node.number())
    if decimals is not None and round(number * 10.0**decimals) / 10.0**decimals != number:
        node.fail(f"must have at most {decimals} decimal places, as the column, not {node.shown}.")
    return number


def whole_bound(node: SchemaNode) -> int:
    """Return the whole number of a node; it must have at most 18 digits."""
    number = node.integer()
    if not -LIMIT < number < LIMIT:
        node.fail(f"must have at most 18 digits, not {node.shown}.")
    return number
