"""The readings of a column that an engine holds (DuckDB, polars, ...), as expressions that it computes.

They give what `readings.py` gives, value for value, and never fail: what an engine cannot read for itself in the same
way (texts such as 1e400, dates in formats with names of months, decimal numbers as categories) is fetched, each
distinct value once, read here, and sent back as a table of codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pgmest.data.dates import DAY, PER_DAY
from pgmest.data.frames import collected
from pgmest.data.plain_objects import Unread
from pgmest.data.values import time_text
from pgmest.schema.engine_expressions import (
    FIELDS,
    calendar,
    cast_valid,
    days_of,
    fixed_fields,
    look_up,
    number_text,
    plain_numerals,
    whole_below,
    written_floats,
    zero_or_one,
)
from pgmest.schema.readings import (
    BLANKS,
    LIMIT,
    clock_of,
    code_of,
    could_be_written,
    day_of,
    length_of,
    real_of,
    step_of,
    text_of,
    whole_of,
)

if TYPE_CHECKING:
    import narwhals as nw

DIGITS = r"^[+-]?[0-9]{1,18}$"
PLAIN = r"^[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?$"
"""Numbers that every engine reads alike, to the nearest float."""

ANY = (
    r"^(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
    r"|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$"
)
"""Numbers that `readings.real_of` reads."""

DECIMALS = r"^-?[0-9]+(\.[0-9]*|\.?[0-9]*[eE]\+?[0-9]+)$"
PLAIN_LABELS = ("false", "true", "f", "t", "no", "yes", "n", "y", "0", "1")
"""Labels whose small letters are the same in every engine."""

ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[T ])"

NONE = 2 * LIMIT
"""The number for what is no date."""


class EngineFound(NamedTuple):
    """The fields of `column.Found` as expressions; they mean nothing where the value is missing."""

    codes: Any
    outside: Any


class Reading(NamedTuple):
    """The readings of a column as expressions: a number for each value, any if it is unreadable, or a label's code."""

    number: Any
    unreadable: Any
    fractional: Any


@dataclass(frozen=True, eq=False)
class EngineColumn:
    """A column of a lazy frame.

    Attributes:
        frame: the lazy frame.
        name: of the column.
        kind: its type in the engine.
        ignore, decimal: how texts write numbers, as `numerals.Writing`.
    """

    frame: nw.LazyFrame[Any]
    name: str
    kind: nw.dtypes.DType
    ignore: tuple[str, ...] = ()
    decimal: str = "."

    def samples(self, condition: Any, rows: int) -> list[Any]:
        """Return the values of the first rows for which a condition holds, to be shown in messages."""
        import narwhals as nw

        shown = {"date": self.text, "time": self.text, "unread": nw.col(self.name).is_null()}
        found = self.frame.filter(condition).select(shown.get(self.form, nw.col(self.name)).alias(self.name))
        values = collected(found.head(rows))[self.name].to_list()
        if self.form == "unread":
            return [Unread(str(self.kind)) for _ in values]
        return [self._parsed(value) for value in values] if self.form in ("date", "time") else values

    @property
    def value(self) -> Any:
        """The column, with 64 bits if it is of floats; not a number is null."""
        import narwhals as nw

        if not self.kind.is_float():
            return nw.col(self.name)
        number = nw.col(self.name).cast(nw.Float64)
        return nw.when(~number.is_nan()).then(number)

    @cached_property
    def form(self) -> str:
        """The form of the column's type: integer, real, boolean, date, text, decimal, time or unread."""
        import narwhals as nw

        kind = self.kind
        if kind.is_integer():
            return "integer"
        if kind.is_float():
            return "real"
        if kind == nw.Boolean:
            return "boolean"
        if kind == nw.Date or kind == nw.Datetime:
            return "date"
        if kind == nw.String or kind == nw.Categorical or kind == nw.Enum:
            return "text"
        return "decimal" if kind == nw.Decimal else "time" if kind == nw.Time else "unread"

    @property
    def text(self) -> Any:
        """The text of a column of text, without surrounding blanks; of other types as the engine writes them."""
        import narwhals as nw

        column = nw.col(self.name)
        if self.form == "time" and self.frame.implementation.is_polars():  # whose text of it has no fractions
            column = column.cast(nw.Int64)
        if self.kind == nw.Datetime:  # as the clock of its zone says it
            column = column.dt.replace_time_zone(None)
        if self.kind != nw.String:
            column = column.cast(nw.String)
        if self.form != "text":
            return column
        return plain_numerals(column.str.strip_chars(BLANKS), self.ignore, self.decimal)

    @property
    def written(self) -> Any:
        """The text of any column as `readings.text_of` has it, for telling persons apart; null for none."""
        import narwhals as nw

        if self.form == "boolean":
            return nw.when(self.value).then(nw.lit("true")).when(~self.value).then(nw.lit("false"))
        if self.form == "real":
            whole = number_text(self.value)
            return nw.when(whole.is_null()).then(self.value.cast(nw.String)).otherwise(whole)
        return self.text

    @property
    def null(self) -> Any:
        """An expression of where the value is null or NaN."""
        return self.value.is_null()

    def marked(self, markers: frozenset[str]) -> Any:
        """Return an expression of where the value is written as one of the markers."""
        import narwhals as nw

        if self.form != "text":  # else all values would be fetched for nothing
            markers = frozenset(filter(could_be_written, markers))
        if not markers:
            return nw.lit(False)
        numbers = {marker: 1 for marker in sorted(markers) if marker[:1] in "-0123456789" and marker}
        return self.lookup(dict.fromkeys(sorted(markers), 1), {}, numbers) == 1

    # -- readings -----------------------------------------------------------------------------------------------------

    def lookup(
        self, known: Mapping[str, int], folded: Mapping[str, int], numbers: Mapping[str, int] | None = None
    ) -> Any:
        """Return the code of each value by its text (`readings.text_of`), -1 for none; as `readings.code_of`."""
        import narwhals as nw

        if self.form == "text" and (numbers or not set(folded) <= set(PLAIN_LABELS)):
            return self._looked_up(known, folded, numbers)
        if self.form in ("text", "integer"):
            codes = look_up(self.text, known, -1, nw.Int64)
            again = look_up(self.text.str.to_lowercase(), folded, -1, nw.Int64)
            return nw.when(codes >= 0).then(codes).otherwise(again) if folded else codes
        if self.form == "boolean":
            codes = [code_of("true", known, folded), code_of("false", known, folded)]
            return nw.when(self.value).then(nw.lit(codes[0])).otherwise(nw.lit(codes[1]))
        if self.form == "real":
            return look_up(self.value, written_floats({**folded, **known}), -1, nw.Int64)
        if self.form == "unread":
            return nw.lit(-1)
        return self._by_value(lambda value: code_of(text_of(value), known, folded), -1, nw.Int64)

    def _looked_up(self, known: Mapping[str, int], folded: Mapping[str, int], numbers: Mapping[str, int] | None) -> Any:
        """Return the codes of texts; those that are not known as they stand are looked up here."""
        import narwhals as nw

        codes = look_up(self.text, known, -1, nw.Int64)
        maybe = codes < 0 if folded else (codes < 0) & self.text.str.contains(DECIMALS)
        again = self._others(maybe, lambda text: code_of(text, known, folded, numbers), nw.Int64, -1)
        return nw.when(codes >= 0).then(codes).otherwise(again)

    def whole(self) -> Reading:
        """Return the values as whole numbers, as `readings.whole_of` reads them."""
        import narwhals as nw

        if self.form in ("text", "decimal"):
            return self._whole_of_text()
        if self.form == "boolean":
            return Reading(zero_or_one(self.value), nw.lit(False), nw.lit(False))
        if self.form == "real":
            return Reading(whole_below(self.value), nw.lit(False), self.value.floor() != self.value)
        if self.form == "integer":
            return Reading(self._limited(), nw.lit(False), nw.lit(False))
        return Reading(nw.lit(0), nw.lit(True), nw.lit(False))

    def real(self) -> Reading:
        """Return the values as real numbers, as `readings.real_of` reads them."""
        import narwhals as nw

        if self.form in ("text", "decimal"):
            plain = self.text.str.contains(PLAIN)
            rest = self._others(~plain & self.text.str.contains(ANY), real_of, nw.Float64)
            number = cast_valid(self.text, plain, nw.Float64)
            return Reading(nw.when(plain).then(number).otherwise(rest), ~self.text.str.contains(ANY), nw.lit(False))
        if self.form in ("date", "time", "unread"):
            return Reading(nw.lit(0.0), nw.lit(True), nw.lit(False))
        number = zero_or_one(self.value) if self.form == "boolean" else self.value
        return Reading(number.cast(nw.Float64), nw.lit(False), nw.lit(False))

    def steps(self, form: str | None, seconds: int) -> Reading:
        """Return the values as steps of dates, as `readings.step_of` reads them."""
        import narwhals as nw

        if self.form == "date":
            return Reading(self._dated(seconds), nw.col(self.name).dt.year().is_null(), nw.lit(False))
        if self.form == "text" and seconds == DAY:
            return self._day_of_text(form)
        if self.form == "unread" or (form is None and self.form != "text"):
            return Reading(nw.lit(0), nw.lit(True), nw.lit(False))
        return self.read_here(lambda value: step_of(value, form, seconds))

    def clock(self, form: str | None, seconds: int) -> Reading:
        """Return the values as steps since midnight, as `readings.clock_of` reads them."""
        import narwhals as nw

        if self.form == "date":
            number = self._clock() // seconds
            return Reading(number, number.is_null(), nw.lit(False))
        if self.form in ("text", "time"):
            return self.read_here(lambda value: _floored(clock_of(value, form), seconds))
        return Reading(nw.lit(0), nw.lit(True), nw.lit(False))

    def length(self, seconds: int) -> Reading:
        """Return the values as steps of a duration, as `readings.length_of` reads them."""
        import narwhals as nw

        if self.kind == nw.Duration and self.frame.implementation.is_polars():
            divisor = PER_DAY[self.kind.time_unit] // DAY * seconds  # type: ignore[attr-defined]
            number = nw.col(self.name).cast(nw.Int64) // divisor
            return Reading(number, number.is_null(), nw.lit(False))
        if self.form in ("unread", "date"):
            return Reading(nw.lit(0), nw.lit(True), nw.lit(False))
        return self.read_here(lambda value: length_of(value, seconds))

    def read_here(self, read: Callable[[Any], int | None]) -> Reading:
        """Return the whole numbers that a reader of one value gives, or None, for each distinct value once."""
        import narwhals as nw

        numbers = self._by_value(lambda value: _or_none(read(value)), NONE, nw.Int64)
        return Reading(numbers, numbers == NONE, nw.lit(False))

    def _dated(self, seconds: int) -> Any:
        """Return the steps of a column of dates since 1970-01-01."""
        import narwhals as nw

        date = nw.col(self.name).dt
        days = days_of(date.year(), date.ordinal_day())
        if seconds == DAY or self.kind != nw.Datetime:
            return days * (DAY // seconds)
        return days * (DAY // seconds) + self._clock() // seconds

    def _clock(self) -> Any:
        """Return the seconds since midnight of a column of dates."""
        import narwhals as nw

        if self.kind != nw.Datetime:
            return nw.col(self.name).dt.ordinal_day().cast(nw.Int64) * 0
        time = nw.col(self.name).dt
        parts = [part.cast(nw.Int64) for part in (time.hour(), time.minute(), time.second())]
        return parts[0] * 3600 + parts[1] * 60 + parts[2]

    # -- how ----------------------------------------------------------------------------------------------------------

    def _limited(self) -> Any:
        """Whole numbers of any width as ones of 64 bits, at most `LIMIT` in size."""
        import narwhals as nw

        if self.kind not in (nw.UInt64, nw.Int128, nw.UInt128):
            return self.value
        high, low = self.value >= nw.lit(LIMIT), nw.lit(False)
        if self.kind == nw.Int128:
            low = self.value <= nw.lit(-LIMIT)
        inside = nw.when(~high & ~low).then(self.value).cast(nw.Int64)
        return nw.when(high).then(nw.lit(LIMIT)).when(low).then(nw.lit(-LIMIT)).otherwise(inside)

    def _whole_of_text(self) -> Reading:
        import narwhals as nw

        text, short = self.text, self.text.str.replace_all(r"\.0*$", "")
        digits, plain = short.str.contains(DIGITS), text.str.contains(PLAIN) & ~short.str.contains(r"^[+-]?[0-9]+$")
        number = cast_valid(text, plain, nw.Float64)
        rest = self._others(text.str.contains(ANY) & ~digits & ~plain, lambda value: _first(whole_of(value)), nw.Int64)
        whole = cast_valid(short, digits, nw.Int64)
        found = nw.when(digits).then(whole).otherwise(nw.when(plain).then(whole_below(number)).otherwise(rest))
        fractional = nw.when(plain).then(number.floor() != number).otherwise(nw.lit(False))
        return Reading(found, ~text.str.contains(ANY), fractional)

    def _day_of_text(self, form: str | None) -> Reading:
        import narwhals as nw

        pattern, starts = (ISO_DAY, {"Y": 0, "m": 5, "d": 8}) if form is None else fixed_fields(form)
        if starts:
            plain = self.text.str.contains(pattern)
            year, month, day = (
                cast_valid(self.text.str.slice(starts[field], FIELDS[field][1]), plain, nw.Int64) for field in "Ymd"
            )
            number, valid = calendar(year, month, day)
            plain = plain & valid
        else:
            plain, number = self.text.is_null(), nw.lit(NONE)  # none is read by the engine
        if form is None:
            return Reading(number, ~plain, nw.lit(False))
        rest = self._others(~plain, lambda value: _or_none(day_of(value, form)), nw.Int64, NONE)
        days = nw.when(plain).then(number).otherwise(rest)
        return Reading(days, days == NONE, nw.lit(False))

    def _others(self, condition: Any, read: Callable[[str], Any], kind: Any, default: Any = 0) -> Any:
        """Return the readings of the texts for which the condition holds, made here."""
        return look_up(self.text, {text: read(text) for text in self._distinct(condition)}, default, kind)

    def _by_value(self, read: Callable[[Any], Any], default: Any, kind: Any) -> Any:
        """Return the readings of all values, made here once for each distinct value."""
        import narwhals as nw

        column = number_text(self.value) if self.form == "real" else self.text
        texts = self._distinct(~nw.col(self.name).is_null(), column)
        return look_up(column, {text: read(self._parsed(text)) for text in texts}, default, kind)

    def _parsed(self, text: str) -> Any:
        """Return what the engine wrote as a value of Python; as bytes, which are never read, where that fails."""
        read: Callable[[str], Any] = {"decimal": Decimal, "date": np.datetime64, "time": _time, "integer": int}.get(
            self.form, str
        )
        try:
            return read(text)
        except (ValueError, ArithmeticError):
            return text.encode()

    def _distinct(self, condition: Any, column: Any = None) -> list[str]:
        column = self.text if column is None else column
        found = collected(self.frame.filter(condition).select(column.alias(self.name)).unique())
        return [text for text in found[self.name].to_list() if text is not None]


def _first(found: tuple[int, bool] | None) -> int | None:
    return None if found is None else found[0]


def _floored(number: int | None, step: int) -> int | None:
    return None if number is None else number // step


def _or_none(day: int | None) -> int:
    return NONE if day is None else day


def _time(text: str) -> str:
    """Return a time of day, which polars gives as nanoseconds, and others as text, with or without zeros at the end."""
    if text.isdigit():
        return time_text(int(text))
    return text.rstrip("0").rstrip(".") if "." in text else text
