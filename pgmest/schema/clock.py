"""Columns of times of day, such as 14:35, and of durations."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.dates import DAY, steps_in, steps_of
from pgmest.data.values import Values
from pgmest.schema.bins import whole_bins, with_points
from pgmest.schema.column import COMMON_KEYS, gap_keys, outside_key
from pgmest.schema.date import LONGEST_FORMAT, read_each
from pgmest.schema.engine import EngineColumn, Reading
from pgmest.schema.grid import WholeGrid, whole_bound
from pgmest.schema.notation import SchemaNode
from pgmest.schema.numerals import Numbers
from pgmest.schema.readings import clock_of, length_of

if TYPE_CHECKING:
    pass

KEYS = (*COMMON_KEYS, "min", "max", "bins", "width", "edges", "points", "unit")
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": DAY}
"""The units of bins and durations, in seconds."""
LENGTHS = ("%H:%M", "%-H:%M", "%H:%M:%S", "%-H:%M:%S")
"""The formats of durations: 26:30 and 02:30, or 2:30 with "-", and the same with seconds."""
CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")
"""Times of day in a schema."""


@dataclass(frozen=True)
class Steps(WholeGrid):
    """A column whose numbers are whole steps of time.

    Attributes:
        step: the number of seconds of a step.
    """

    step: int

    def labels(self) -> list[str]:
        spans = [(start, self._last(code)) for code, start in enumerate(self.starts)]
        return [self.written(a) if a == b else f"{self.written(a)}..{self.written(b)}" for a, b in spans]


@dataclass(frozen=True)
class Time(Steps):
    """Times of day from `min` to `max` (by default all), in bins of `width` units (`unit`: second, minute or hour).

    Numbers are minutes since midnight, with the unit second seconds. Of a date with a time, the time is read. A drawn
    value is a text such as 14:35, of a whole step that is uniform within its bin.

    Attributes:
        format: how text writes times, such as "%I:%M %p"; None for 14:35, 14:35:00 and 2:35 PM.
    """

    format: str | None

    @property
    def kind(self) -> str:
        return f"time in {'minutes' if self.step == 60 else 'seconds'}"

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Time:
        fields = node.fields((*KEYS, "format"))
        missing, markers = gap_keys(fields)
        unit = UNITS[fields["unit"].choice(("second", "minute", "hour"))] if "unit" in fields else 60
        step = min(unit, 60)
        whole = {"min": SchemaNode("00:00", node.source), "max": SchemaNode("23:59:59", node.source)}
        bounds = fields if "edges" in fields else {**whole, **fields}
        high, units = whole_bins(node, bounds, lambda bound: _clock(bound, 1) // unit)
        starts, last = [start * unit // step for start in units], (high + 1) * unit // step - 1
        if "min" in bounds:
            starts[0], last = _clock(bounds["min"], step), _clock(bounds["max"], step)
            if last < starts[0]:
                fields["max"].fail(f"must be at least min, not {fields['max'].shown}.")
        outside = outside_key(fields, ("clip",), missing)
        form = _format(fields["format"]) if "format" in fields else None
        pointed = with_points(fields, starts, last, lambda item: _clock(item, step), lambda number: number + 1)
        return cls(name, missing, markers, outside, node.place, pointed, last, step, form)

    def numbers(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "M":
            none = np.zeros(len(values), dtype=bool)
            return Numbers(steps_of(values.array, self.step) % (DAY // self.step), none, none)
        return read_each(values, self._read)

    def _read(self, value: object) -> int | None:
        seconds = clock_of(value, self.format)
        return None if seconds is None else seconds // self.step

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return column.clock(self.format, self.step)

    def from_units(self, units: np.ndarray) -> np.ndarray:
        distinct, positions = np.unique(units, return_inverse=True)
        texts = [self._text(int(number)) for number in distinct]
        return np.array([*texts, None], dtype=object)[:-1][positions.reshape(-1)]

    def _text(self, number: int) -> str:
        if self.format is None:
            return self.written(number)
        midnight = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
        return (midnight + datetime.timedelta(seconds=number * self.step)).strftime(self.format)

    def written(self, number: float) -> str:
        minutes, seconds = divmod(int(number) * self.step, 60)
        text = f"{minutes // 60:02}:{minutes % 60:02}"
        return text if self.step == 60 else f"{text}:{seconds:02}"

    def number_of(self, node: SchemaNode) -> float:
        return _clock(node, self.step)

    def expected(self) -> str:
        form = "" if self.format is None else f" written as {self.format}"
        return f"times of day{form} {super().expected()}"


@dataclass(frozen=True)
class Duration(Steps):
    """Durations from `min` to `max`, whole numbers of `unit`s (second, minute, hour or day), in bins as of integers.

    A part of a unit is dropped. Texts are read as 2:30 (hours and minutes), 26:00:00, or 1 days 02:00:00; numbers are
    numbers of units. A drawn value is a whole number of units, uniform within its bin.

    Attributes:
        format: how durations are written to text files, one of `LENGTHS`; None for 1 days 02:00:00.
    """

    format: str | None = None

    @property
    def kind(self) -> str:
        return f"duration in {self.unit}s"

    @property
    def unit(self) -> str:
        """The unit in a word."""
        return next(name for name, seconds in UNITS.items() if seconds == self.step)

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Duration:
        fields = node.fields((*KEYS, "format"), ("unit",))
        missing, markers = gap_keys(fields)
        high, starts = whole_bins(node, fields, whole_bound)
        outside = outside_key(fields, ("clip",), missing)
        step = UNITS[fields["unit"].choice(tuple(UNITS))]
        if max(abs(starts[0]), abs(high)) * step > LONGEST:
            node.fail("has bounds of more than 100,000 years.")
        pointed = with_points(fields, starts, high, whole_bound, lambda number: number + 1)
        form = fields["format"].choice(LENGTHS) if "format" in fields else None
        return cls(name, missing, markers, outside, node.place, pointed, high, step, form)

    def numbers(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "m":
            none = np.zeros(len(values), dtype=bool)
            return Numbers(steps_in(values.array, self.step), none, none)
        if values.array.dtype.kind == "M":
            return Numbers(
                np.zeros(len(values), dtype=np.int64), np.ones(len(values), bool), np.zeros(len(values), bool)
            )
        return read_each(values, lambda value: length_of(value, self.step))

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return column.length(self.step)

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return (units * (self.step * 1000)).astype("m8[ms]")

    def written(self, number: float) -> str:
        return f"{number:.0f} {self.unit}{'' if number == 1 else 's'}"

    def number_of(self, node: SchemaNode) -> float:
        return node.integer()

    def labels(self) -> list[str]:
        spans = [(start, self._last(code)) for code, start in enumerate(self.starts)]
        return [self.written(a) if a == b else f"{a:.0f}..{b:.0f} {self.unit}s" for a, b in spans]

    def expected(self) -> str:
        return f"durations {super().expected()}"


LONGEST = 100_000 * 366 * DAY
"""The longest duration in seconds, so that thousandths of a second fit 64 bits."""


def _clock(node: SchemaNode, step: int) -> int:
    text = node.text().strip()
    seconds = clock_of(text, None) if CLOCK.fullmatch(text) else None
    if seconds is None:
        node.fail(f'must be a time of day such as "08:00", in quotes, not {node.shown}.')
    return seconds // step


def _format(node: SchemaNode) -> str:
    """Return a format of times after checking that times can be written and read in it."""
    form, time = node.text(), datetime.datetime(1900, 1, 1, 15, 42, tzinfo=datetime.UTC)
    if len(form) > LONGEST_FORMAT:
        node.fail(f"must be a format of times such as %I:%M %p, of at most {LONGEST_FORMAT} characters.")
    try:
        read = datetime.datetime.strptime(time.strftime(form), form)
    except (ValueError, re.error) as error:  # re.error: a directive that occurs twice
        node.fail(f"must be a format of times such as %I:%M %p, not {node.shown} ({error}).")
    if (read.hour, read.minute) != (time.hour, time.minute):
        node.fail(f"must be a format of times such as %I:%M %p; {node.shown} does not say hour and minute.")
    return form
