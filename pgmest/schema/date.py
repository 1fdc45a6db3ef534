"""The notation of dates: days, in bins of days, months or years, or times in bins of hours, minutes or seconds."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from pgmest.data.dates import DAY, steps_of
from pgmest.data.values import Values
from pgmest.schema.grid import Notation, Numbers
from pgmest.schema.notation import SchemaNode
from pgmest.schema.periods import date_text, moment_of
from pgmest.schema.readings import step_of

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
class Dates(Notation):
    """Dates and times, as whole steps since 1970-01-01: days, or with a unit of at most an hour minutes or seconds.

    What is less than a step is dropped. Days and times are those on the clock of the place that the value is from:
    23:30 at -05:00 is not yet tomorrow.

    Attributes:
        format: how text writes dates, such as "%d.%m.%Y %H:%M", or "%G-W%V" for weeks; None for
            2020-12-31, with or without a time.
        unit: of bins.
    """

    named = "dates"
    format: str | None = None
    unit: Unit = "D"

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Self:
        unit = UNITS[fields["unit"].choice(tuple(UNITS))] if "unit" in fields else "D"
        return cls(_format(fields["format"]) if "format" in fields else None, unit)

    @property
    def step(self) -> int:
        """The number of seconds of a step."""
        return STEPS.get(self.unit, DAY)

    @property
    def kind(self) -> str:
        name = next(name for name, unit in UNITS.items() if unit == STEP_UNITS[self.step])
        return "date" if name == "day" else f"date in {name}s"

    def number_of(self, node: SchemaNode, last: bool = False) -> int:
        text = node.text().strip()
        number = step_of(text, None, self.step) if DATE.fullmatch(text) else None
        if number is None or (self.step == DAY and len(text) > len("2020-12-31")):
            wanted = "a date such as 2020-12-31" + ("" if self.step == DAY else ", or a time such as 2020-12-31 08:00")
            node.fail(f"must be {wanted}, not {node.shown}.")
        return number + DAY // self.step - 1 if last and len(text) == len("2020-12-31") else number

    def period_of(self, number: int) -> int:
        return _converted(number, STEP_UNITS[self.step], self.unit)

    def start_of(self, period: int) -> int:
        return _converted(period, self.unit, STEP_UNITS[self.step])

    def read(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "M":
            return Numbers.all_read(steps_of(values.array, self.step))
        return Numbers.of_each(values, exact(lambda value: step_of(value, self.format, self.step)))

    def values(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.astype("M8[D]") if self.step == DAY else (numbers * (self.step * 1000)).astype("M8[ms]")

    def label(self, first: float, last: float) -> str:
        unit, label = STEP_UNITS[self.step], _span if self.step == DAY else _clock_span
        return label(np.datetime64(int(first), unit), np.datetime64(int(last), unit))

    def written(self, number: float) -> str:
        return _text(np.datetime64(int(number), STEP_UNITS[self.step]))

    def texts(self, values: np.ndarray) -> np.ndarray:
        return values if self.format is None else date_texts(values, self.format)

    def in_form(self, values: np.ndarray, form: str) -> np.ndarray:
        """Return dates that are written in digits alone, such as 20201231, as texts, which numbers may hold."""
        digits = re.fullmatch("(?:%[YmdHMS])+", self.format or "-")
        return self.texts(values) if digits and form != "day" else values


def exact(read: Callable[[object], int | None]) -> Callable[[object], tuple[int, bool] | None]:
    """Return a reader of numbers as one of numbers that are all exact."""
    return lambda value: None if (number := read(value)) is None else (number, True)


def date_texts(dates: np.ndarray, form: str) -> np.ndarray:
    """Return dates as texts in a format (`periods.date_text`).

    >>> date_texts(np.array(["0912-02-01"], dtype="M8[D]"), "%d.%m.%Y").tolist()
    ['01.02.0912']
    """
    return each_text(dates, lambda date: date_text(date.astype(object), form))


def each_text(values: np.ndarray, text: Callable[[Any], str]) -> np.ndarray:
    """Return the text of each value of an array, as objects."""
    distinct, positions = np.unique(values, return_inverse=True)
    return np.array([*map(text, distinct), None], dtype=object)[positions.reshape(-1)]


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


def checked_format(
    node: SchemaNode, what: str, lacking: str, read_again: Callable[[datetime.datetime, str], datetime.datetime]
) -> str:
    """Return a format after checking that a time can be written and read in it.

    Args:
        node: the format.
        what: what it is, in words, with an example.
        lacking: the fields of a time that the format must say, in words.
        read_again: writes a time in a format, and reads the text.
    """
    form, time = node.text(), datetime.datetime(2001, 2, 3, 15, 42, tzinfo=datetime.UTC)
    if len(form) > LONGEST_FORMAT:
        node.fail(f"must be a format of {what}, of at most {LONGEST_FORMAT} characters.")
    try:
        read = read_again(time, form)
    except (ValueError, re.error) as error:  # re.error: a directive that occurs twice
        node.fail(f"must be a format of {what}, not {node.shown} ({error}).")
    if any(getattr(read, field) != getattr(time, field) for field in lacking.removeprefix("the ").split(" and ")):
        node.fail(f"must be a format of {what}; {node.shown} does not say {lacking}.")
    return form


def _format(node: SchemaNode) -> str:
    return checked_format(
        node, "dates such as %d.%m.%Y", "the year", lambda time, form: moment_of(date_text(time, form), form)
    )


def _converted(number: int, unit: Unit, other: Unit) -> int:
    """Return a number of one unit since 1970 as one of another, the first of these in it, or the one it is in."""
    return int(np.datetime64(number, unit).astype(f"M8[{other}]").astype(np.int64))
