"""Date columns: a range of days cut into days, months or years, or of times cut into hours, minutes or seconds."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from pgmest.data.dates import DAY, steps_of
from pgmest.data.values import Values
from pgmest.schema.bins import whole_bins, with_points
from pgmest.schema.column import COMMON_KEYS, gap_keys, outside_key
from pgmest.schema.engine import EngineColumn, Reading
from pgmest.schema.grid import WholeGrid
from pgmest.schema.notation import SchemaNode
from pgmest.schema.numerals import Numbers
from pgmest.schema.periods import date_text, moment_of
from pgmest.schema.readings import step_of

if TYPE_CHECKING:
    pass

LONGEST_FORMAT = 100
"""The most characters of a format of dates or times."""
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:]+)?")
"""Dates in a schema, with or without a time."""
Unit = Literal["s", "m", "h", "D", "M", "Y"]
UNITS: dict[str, Unit] = {"second": "s", "minute": "m", "hour": "h", "day": "D", "month": "M", "year": "Y"}
STEPS = {"s": 1, "m": 60, "h": 60}
"""The seconds of the steps in which values are drawn, by the unit of the bins; of other units it is a day."""
STEP_UNITS: dict[int, Unit] = {1: "s", 60: "m", DAY: "D"}


@dataclass(frozen=True)
class Date(WholeGrid):
    """Dates from `min` to `max`, in bins of `width` units (`unit`: second to year), or in `bins` bins, or by `edges`.

    Each of the `points`, days such as 1900-01-01 that many records have, has a bin that holds nothing else.

    Numbers are whole steps since 1970-01-01: days, or with a unit of at most an hour minutes or seconds. What is less
    than a step is dropped. Days and times are those on the clock of the place that the value is from: 23:30 at -05:00
    is not yet tomorrow. A drawn value is a whole step, uniform within its bin.

    Attributes:
        format: how text writes dates, such as "%d.%m.%Y %H:%M", or "%G-W%V" for weeks; None for
            2020-12-31, with or without a time.
        step: the number of seconds of a step.
    """

    format: str | None
    step: int = DAY

    @property
    def kind(self) -> str:
        return "date" if self.step == DAY else f"date in {self.step_name}s"

    @property
    def step_name(self) -> str:
        """The step in a word: "day", "minute" or "second"."""
        return next(name for name, unit in UNITS.items() if unit == STEP_UNITS[self.step])

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Date:
        fields = node.fields((*COMMON_KEYS, "min", "max", "bins", "width", "edges", "points", "unit", "format"))
        missing, markers = gap_keys(fields)
        unit = UNITS[fields["unit"].choice(tuple(UNITS))] if "unit" in fields else "D"
        step = STEPS.get(unit, DAY)
        last_of = {id(fields["max"])} if "max" in fields else set()  # a day as the greatest value is all of that day

        def of(bound: SchemaNode) -> int:
            return _first_step(bound, step, last=id(bound) in last_of)

        high, units = whole_bins(node, fields, lambda bound: _converted(of(bound), STEP_UNITS[step], unit))
        starts = np.array(units).astype(f"M8[{unit}]").astype(f"M8[{STEP_UNITS[step]}]").astype(np.int64).tolist()
        last = _converted(high + 1, unit, STEP_UNITS[step]) - 1
        if "min" in fields:
            starts[0], last = of(fields["min"]), of(fields["max"])
            if last < starts[0]:
                fields["max"].fail(f"must be at least min ({fields['min'].shown}), not {fields['max'].shown}.")
        outside = outside_key(fields, ("clip",), missing)
        form = _format(fields["format"]) if "format" in fields else None
        pointed = with_points(fields, starts, last, of, lambda number: number + 1)
        return cls(name, missing, markers, outside, node.place, pointed, last, form, step)

    @property
    def compact(self) -> bool:
        """Return whether dates are written in digits alone, such as 20201231, so that numbers may hold them."""
        return re.fullmatch("(?:%[YmdHMS])+", self.format or "-") is not None

    def numbers(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "M":
            none = np.zeros(len(values), dtype=bool)
            return Numbers(steps_of(values.array, self.step), none, none)
        return read_each(values, lambda value: step_of(value, self.format, self.step))

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return column.steps(self.format, self.step)

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units.astype("M8[D]") if self.step == DAY else (units * (self.step * 1000)).astype("M8[ms]")

    def labels(self) -> list[str]:
        unit, label = STEP_UNITS[self.step], _span if self.step == DAY else _clock_span
        spans = [(int(a), int(self._last(code))) for code, a in enumerate(self.starts)]
        return [label(np.datetime64(first, unit), np.datetime64(last, unit)) for first, last in spans]

    def written(self, number: float) -> str:
        return _text(np.datetime64(int(number), STEP_UNITS[self.step]))

    def number_of(self, node: SchemaNode) -> float:
        return _first_step(node, self.step)

    def last_number_of(self, node: SchemaNode) -> float:
        return _first_step(node, self.step, last=True)

    def codes_within(self, node: SchemaNode) -> list[int]:
        """Return the codes of a range as `Grid` does; a day in a column of times is the range of its times."""
        day = self.step != DAY and isinstance(node.value, str) and len(node.value.strip()) == len("2020-12-31")
        return super().codes_within(replace(node, value={"min": node, "max": node}) if day else node)

    def expected(self) -> str:
        form = "" if self.format is None else f" written as {self.format}"
        return f"dates{form} {super().expected()}"

    def written_alike(self, first: int, last: int) -> bool:
        """Return whether texts in the format are the same for two days, as those of weeks are."""
        if self.format is None or self.step != DAY:
            return first == last
        days = np.array([first, last]).astype("M8[D]").astype(object)
        return len({date_text(day, self.format) for day in days}) == 1


def read_each(values: Values, read: Callable[[object], int | None]) -> Numbers:
    """Return values as numbers by a reader of one value, which returns None for those that it cannot read."""
    positions, distinct = values.distinct()
    found = [read(value) for value in distinct]
    numbers = np.array([0 if number is None else number for number in found], dtype=np.int64)
    unreadable = np.array([number is None for number in found], dtype=bool)
    return Numbers(numbers[positions], unreadable[positions], np.zeros(len(values), dtype=bool))


def _span(first: np.datetime64, last: np.datetime64) -> str:
    """Return a span of days as text: 2020..2024 for whole years, 2020-03 for a month, else 2020-03-05..2020-03-11."""
    for unit in ("Y", "M"):
        begins, ends = first.astype(f"M8[{unit}]"), last.astype(f"M8[{unit}]")
        if begins.astype("M8[D]") == first and (ends + 1).astype("M8[D]") - 1 == last:
            return str(begins) if begins == ends else f"{begins}..{ends}"
    return str(first) if first == last else f"{first}..{last}"


def _clock_span(first: np.datetime64, last: np.datetime64) -> str:
    """Return a span of times as text: 2020-03-05 08:00..08:59, with the second date where it is another."""
    start, end = _text(first), _text(last)
    if start == end:
        return start
    return f"{start}..{end[11:] if start[:10] == end[:10] else end}"


def _text(time: np.datetime64) -> str:
    return str(time).replace("T", " ")


def _format(node: SchemaNode) -> str:
    """Return a format of dates after checking that dates can be written and read in it."""
    form, day = node.text(), datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)
    if len(form) > LONGEST_FORMAT:
        node.fail(f"must be a format of dates such as %d.%m.%Y, of at most {LONGEST_FORMAT} characters.")
    try:
        read = moment_of(date_text(day, form), form)
    except (ValueError, re.error) as error:  # re.error: a directive that occurs twice
        node.fail(f"must be a format of dates such as %d.%m.%Y, not {node.shown} ({error}).")
    if read.year != day.year:
        node.fail(f"must be a format of dates such as %d.%m.%Y; {node.shown} does not say the year.")
    return form


def _first_step(node: SchemaNode, step: int, *, last: bool = False) -> int:
    """Return the step of a date of the schema, with or without a time; of a date alone the first, or the last one."""
    text = node.text().strip()
    number = step_of(text, None, step) if DATE.fullmatch(text) else None
    if number is None or (step == DAY and len(text) > len("2020-12-31")):
        wanted = "a date such as 2020-12-31" + ("" if step == DAY else ", or a time such as 2020-12-31 08:00")
        node.fail(f"must be {wanted}, not {node.shown}.")
    return number + DAY // step - 1 if last and len(text) == len("2020-12-31") else number


def _converted(number: int, unit: Unit, other: Unit) -> int:
    """Return a number of one unit since 1970 as one of another, the first of these in it, or the one it is in."""
    return int(np.datetime64(number, unit).astype(f"M8[{other}]").astype(np.int64))
