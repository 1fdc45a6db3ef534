"""Grids: columns of numbers or times between bounds, cut into bins with a code each, as a scale in a notation.

A kind of such columns is a row of `kinds.KINDS`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.bins import uniform
from pgmest.schema.column import COMMON_KEYS, Found, SchemaColumn, gap_keys, outside_key
from pgmest.schema.notation import SchemaNode
from pgmest.schema.scales import Scale, Whole, bins_of

RANGE_KEYS = ("min", "max", "bins", "width", "edges", "points")


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

    @classmethod
    def all_read(cls, numbers: np.ndarray) -> Numbers:
        """Return numbers of values that are all readable and whole."""
        none = np.zeros(len(numbers), dtype=bool)
        return cls(numbers, none, none)

    @classmethod
    def none_read(cls, rows: int) -> Numbers:
        """Return the numbers of values of which none is readable."""
        return cls(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool))

    @classmethod
    def of_each(cls, values: Values, read: Callable[[object], tuple[int, bool] | None]) -> Numbers:
        """Return values as numbers by a reader of one value: a number and whether it is exact, or None."""
        positions, distinct = values.distinct()
        found = [read(value) for value in distinct]
        numbers = np.array([(0, True) if one is None else one for one in found], dtype=np.int64).reshape(-1, 2)
        unreadable = np.array([one is None for one in found], dtype=bool)
        return cls(numbers[positions, 0], unreadable[positions], numbers[positions, 1] == 0)


class Notation(abc.ABC):
    """How the values of a kind are read and written: as numbers of a scale, as arrays, and as texts."""

    named: ClassVar[str]
    """The values in words, for errors: "whole numbers"."""
    numeric: ClassVar[bool] = False
    """Whether the values are numbers, which have sums."""
    format: str | None = None
    """How texts write values, where the schema says it by directives such as %H."""

    @property
    def template(self) -> str:
        """The public text that is a part of all texts of values."""
        return self.format or ""

    @classmethod
    @abc.abstractmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Self:
        """Return the notation that a description says."""

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The type of the values, as `SchemaColumn.kind`."""

    @abc.abstractmethod
    def number_of(self, node: SchemaNode, last: bool = False) -> Any:
        """Return the number that a node of the schema states; of a day in a column of hours its first or `last` one."""

    @abc.abstractmethod
    def written(self, number: float) -> str:
        """Return a number of the scale as people write it."""

    @abc.abstractmethod
    def read(self, values: Values) -> Numbers:
        """Return values without gaps, of any type, as numbers."""

    @abc.abstractmethod
    def values(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers as values, the inverse of `read`."""

    def bounds(self, node: SchemaNode) -> Mapping[str, SchemaNode]:
        """Return the bounds of columns that state none."""
        return {}

    def period_of(self, number: Any) -> Any:
        """Return the unit of bins, such as a month, that holds a number, such as a day."""
        return number

    def start_of(self, period: Any) -> Any:
        """Return the first number of a unit of bins."""
        return period

    def label(self, first: float, last: float) -> str:
        """Return the label of a bin of whole numbers."""
        return self.written(first) if first == last else f"{self.written(first)}..{self.written(last)}"

    def texts(self, values: np.ndarray) -> np.ndarray:
        """Return values as text files have them; values whose usual text is that stay as they are."""
        return values

    def in_form(self, values: np.ndarray, form: str) -> np.ndarray:
        """Return values as what a type of the form holds of them (`casting.as_form`), if they change for it."""
        return values

    def tried(self, numbers: np.ndarray, form: str) -> list[Any] | None:
        """Return numbers as values that a type of the form has (`type_check`); None if those that their texts say."""
        return None


@dataclass(frozen=True)
class Grid(SchemaColumn):
    """A column of numbers between bounds: bin i goes from starts[i] to where bin i + 1 starts, the last to `high`.

    Each of the `points`, numbers such as 0 that many records have, has a bin that holds nothing else.

    Attributes:
        scale: the numbers.
        notation: how values are read and written as these numbers.
        starts: the least number of each bin, ascending.
        high: the greatest number, in the last bin.
    """

    beyond = "clipped"
    scale: Scale
    notation: Notation
    starts: tuple[float, ...]
    high: float

    @classmethod
    def from_node(cls, name: str, node: SchemaNode, kind: GridKind) -> Grid:
        """Return the column that a node of a schema describes."""
        fields = node.fields((*COMMON_KEYS, *RANGE_KEYS, *kind.keys), kind.required)
        missing, markers = gap_keys(fields)
        notation, scale = kind.notation.of_fields(fields), kind.scale.of_fields(fields)
        starts, high = scale.bins(node, fields, notation)
        outside = outside_key(fields, ("clip",), missing)
        return cls(name, missing, markers, outside, node.place, scale, notation, starts, high)

    @property
    def kind(self) -> str:
        return self.notation.kind

    @property
    def numeric(self) -> bool:
        return self.notation.numeric

    @property
    def decimals(self) -> int | None:
        return self.scale.decimals if self.numeric else None

    @property
    def regular(self) -> int:
        return len(self.starts)

    @property
    def low(self) -> float:
        return self.starts[0]

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last drawn value of each bin, in units: whole numbers, days, decimal places or floats."""
        return self.scale.points(self.starts, self.high)

    @property
    def units_of_one(self) -> float:
        """The number of units in 1, or in a step of time."""
        return self.scale.units_of_one

    def from_units(self, units: np.ndarray) -> np.ndarray:
        """Return numbers on the scale of `points` as values of the column."""
        return self.notation.values(self.scale.from_units(units))

    def to_units(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers on the scale of `starts` on that of `points`, each among the points of its bin."""
        first, last = (ends[self.bins_of(numbers)] for ends in self.points)
        return self.scale.to_units(numbers, first, last)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        first, last = self.points
        return self.from_units(uniform(first[codes], last[codes], generator))

    def extremes(self) -> np.ndarray:
        first, last = self.points
        ends = (first[:1], last[-1:]) if self.scale == Whole() else (first, last)
        return self.from_units(np.concatenate(ends))

    def texts(self, values: np.ndarray) -> np.ndarray:
        return self.notation.texts(values)

    def raw_numbers(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each value, also beyond the bounds, and which values are numbers; shapes (rows,)."""
        positions, condensed = values.where(~values.gaps).condensed()
        found = self.notation.read(condensed)
        known = ~values.gaps
        numbers, read = np.zeros(len(values), dtype=found.numbers.dtype), known.copy()
        numbers[known] = found.numbers[positions]
        read[known] = ~(found.unreadable | self.marked(condensed))[positions]
        return numbers, read

    def bins_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the bin of each number, of the nearest bound where it is outside."""
        return bins_of(self.starts, numbers)

    def find(self, values: Values) -> Found:
        numbers, unreadable, fractional = self.notation.read(values)
        outside = (numbers < self.low) | (numbers > self.high) | (fractional & (self.outside == "error"))
        return Found(self.bins_of(numbers), outside & ~unreadable, unreadable)

    def labels(self) -> list[str]:
        return self.scale.labels(self.starts, self.high, self.notation)

    def written(self, number: float) -> str:
        """Return a number of the scale as people write it."""
        return self.notation.written(number)

    def codes_within(self, node: SchemaNode) -> list[int]:
        """Return a value's bin; or, for `{min: a, max: b}` and a day in a column of times, the bins in that range."""
        if not isinstance(node.value, dict):
            number, last = self.notation.number_of(node), self.notation.number_of(node, last=True)
            if number == last:
                if not self.low <= number <= self.high:
                    node.fail(f"must be {self.expected()}, the range of column '{self.name}', not {node.shown}.")
                return self.bins_of(np.array([number])).tolist()
            node = replace(node, value={"min": node, "max": node})
        fields = node.fields(("min", "max"))
        least = self.notation.number_of(fields["min"]) if "min" in fields else -math.inf
        most = self.notation.number_of(fields["max"], last=True) if "max" in fields else math.inf
        inside = (least <= np.array(self.starts)) & (self.scale.lasts(self.starts, self.high) <= most)
        if not inside.any():
            node.fail(f"holds no whole bin of column '{self.name}' ({self.place}); take bounds where bins end.")
        return np.flatnonzero(inside).tolist()

    def expected(self) -> str:
        form = "" if self.notation.format is None else f" written as {self.notation.format}"
        return f"{self.notation.named}{form} within {self.written(self.low)}..{self.written(self.high)}"


class GridKind(NamedTuple):
    """A kind of columns of numbers or times.

    Attributes:
        scale: of its numbers.
        notation: of its values.
        keys: the keys of its description, besides those of all grids.
        required: the keys that it must have.
    """

    scale: type[Scale]
    notation: type[Notation]
    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
