"""The notations of times of day, such as 14:35, and of durations."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pgmest.data.dates import DAY, steps_in, steps_of
from pgmest.data.values import Values
from pgmest.schema.date import checked_format, each_text, exact
from pgmest.schema.grid import Notation, Numbers
from pgmest.schema.notation import SchemaNode
from pgmest.schema.numerals import whole_bound
from pgmest.schema.readings import clock_of, length_of

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": DAY}
"""The units of bins and durations, in seconds."""
LENGTHS = ("%H:%M", "%-H:%M", "%H:%M:%S", "%-H:%M:%S")
"""The formats of durations: 26:30 and 02:30, or 2:30 with "-", and the same with seconds."""
CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")
"""Times of day in a schema."""


LONGEST = 100_000 * 366 * DAY
"""The longest duration in seconds, so that thousandths of a second fit 64 bits."""


@dataclass(frozen=True)
class Times(Notation):
    """Times of day, as minutes since midnight, with the unit second as seconds. Of a date with a time, it is the time.

    Values are texts such as 14:35.

    Attributes:
        format: how text writes times, such as "%I:%M %p"; None for 14:35, 14:35:00 and 2:35 PM.
        unit: the number of seconds of the unit of bins.
    """

    named = "times of day"
    format: str | None = None
    unit: int = 60

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Self:
        unit = UNITS[fields["unit"].choice(("second", "minute", "hour"))] if "unit" in fields else 60
        return cls(_format(fields["format"]) if "format" in fields else None, unit)

    @property
    def step(self) -> int:
        """The number of seconds of a step."""
        return min(self.unit, 60)

    @property
    def kind(self) -> str:
        return f"time in {'minutes' if self.step == 60 else 'seconds'}"

    def bounds(self, node: SchemaNode) -> dict[str, SchemaNode]:
        return {"min": replace(node, value="00:00"), "max": replace(node, value="23:59:59")}

    def number_of(self, node: SchemaNode, last: bool = False) -> int:
        text = node.text().strip()
        seconds = clock_of(text, None) if CLOCK.fullmatch(text) else None
        if seconds is None:
            node.fail(f'must be a time of day such as "08:00", in quotes, not {node.shown}.')
        return seconds // self.step

    def period_of(self, number: int) -> int:
        return number * self.step // self.unit

    def start_of(self, period: int) -> int:
        return period * self.unit // self.step

    def read(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "M":
            return Numbers.all_read(steps_of(values.array, self.step) % (DAY // self.step))
        return Numbers.of_each(values, exact(self._read))

    def _read(self, value: object) -> int | None:
        seconds = clock_of(value, self.format)
        return None if seconds is None else seconds // self.step

    def values(self, numbers: np.ndarray) -> np.ndarray:
        return each_text(numbers, self._text)

    def _text(self, number: int) -> str:
        if self.format is None:
            return self.written(number)
        midnight = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
        return (midnight + datetime.timedelta(seconds=int(number) * self.step)).strftime(self.format)

    def written(self, number: float) -> str:
        minutes, seconds = divmod(int(number) * self.step, 60)
        text = f"{minutes // 60:02}:{minutes % 60:02}"
        return text if self.step == 60 else f"{text}:{seconds:02}"

    def in_form(self, values: np.ndarray, form: str) -> np.ndarray:
        return self.read(Values.of(values)).numbers * self.step if form == "clock" else values

    def tried(self, numbers: np.ndarray, form: str) -> list[Any]:
        return [np.datetime64(number * self.step, "s") for number in numbers.tolist()] if form == "day" else []


@dataclass(frozen=True)
class Durations(Notation):
    """Durations, as whole numbers of a unit (second, minute, hour or day); a part of a unit is dropped.

    Texts are read as 2:30 (hours and minutes), 26:00:00, or 1 days 02:00:00; numbers are numbers of units.

    Attributes:
        unit: the unit in a word.
        form: how durations are written to text files, one of `LENGTHS`; None for 1 days 02:00:00.
    """

    named = "durations"
    unit: str
    form: str | None = None

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Self:
        form = fields["format"].choice(LENGTHS) if "format" in fields else None
        return cls(fields["unit"].choice(tuple(UNITS)), form)

    @property
    def step(self) -> int:
        """The number of seconds of a unit."""
        return UNITS[self.unit]

    @property
    def kind(self) -> str:
        return f"duration in {self.unit}s"

    def number_of(self, node: SchemaNode, last: bool = False) -> int:
        number = whole_bound(node)
        if abs(number) * self.step > LONGEST:
            node.fail(f"must not be more than 100,000 years, as {node.shown} {self.unit}s are.")
        return number

    def read(self, values: Values) -> Numbers:
        kind = values.array.dtype.kind
        if kind == "m":
            return Numbers.all_read(steps_in(values.array, self.step))
        if kind == "M":
            return Numbers.none_read(len(values))
        return Numbers.of_each(values, exact(lambda value: length_of(value, self.step)))

    def values(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers * (self.step * 1000)).astype("m8[ms]")

    def written(self, number: float) -> str:
        return f"{number:.0f} {self.unit}{'' if number == 1 else 's'}"

    def label(self, first: float, last: float) -> str:
        return self.written(first) if first == last else f"{first:.0f}..{last:.0f} {self.unit}s"

    def texts(self, values: np.ndarray) -> np.ndarray:
        return duration_texts(values, self.form)

    def in_form(self, values: np.ndarray, form: str) -> np.ndarray:
        return values if form == "duration" else self.read(Values.of(values)).numbers

    def tried(self, numbers: np.ndarray, form: str) -> list[Any]:
        if form == "duration":
            return [np.timedelta64(number * self.step, "s") for number in numbers.tolist()]
        return numbers.tolist() if form in ("integer", "real") else []


def duration_texts(lengths: np.ndarray, form: str | None = None) -> np.ndarray:
    """Return durations in a format; by default as texts that all libraries read, with days and the time of the last.

    >>> duration_texts(np.array([93_600, -3600], dtype="m8[s]")).tolist()
    ['1 days 02:00:00', '-1 days +23:00:00']
    >>> duration_texts(np.array([93_600, -3600], dtype="m8[s]"), "%-H:%M").tolist()
    ['26:00', '-1:00']
    """
    return each_text(lengths.astype("m8[s]").astype(np.int64), lambda seconds: _length_text(int(seconds), form))


def _length_text(seconds: int, form: str | None) -> str:
    if form is None:
        days, seconds = divmod(seconds, DAY)
        lead = f"{days} days {'+' if days < 0 else ''}"
    else:
        lead, seconds = "-" if seconds < 0 else "", abs(seconds)
    hours = str(seconds // 3600) if form and "%-H" in form else f"{seconds // 3600:02}"
    rest = f":{seconds % 60:02}" if form is None or "%S" in form else ""
    return f"{lead}{hours}:{seconds // 60 % 60:02}{rest}"


def _format(node: SchemaNode) -> str:
    return checked_format(
        node,
        "times such as %I:%M %p",
        "hour and minute",
        lambda time, form: datetime.datetime.strptime(time.strftime(form), form),
    )
