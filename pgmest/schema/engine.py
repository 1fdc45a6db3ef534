"""The readings of a column that an engine holds (DuckDB, polars, ...), as expressions that it computes.

They give what `readings.py` gives, value for value, and never fail: what an engine cannot read for itself in the same
way (texts such as 1e400, dates in formats with names of months, decimal numbers as categories) is fetched, each
distinct value once, read here, and sent back as a table of codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pgmest.data.dates import DAY, PER_DAY, limits
from pgmest.data.frames import collected
from pgmest.data.values import Unread, time_text
from pgmest.schema.readings import (
    BLANKS,
    EPOCHS,
    LIMIT,
    clock_of,
    code_of,
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

DECIMALS = r"^-?[0-9]+\.[0-9]*$"
PLAIN_LABELS = ("false", "true", "f", "t", "no", "yes", "n", "y", "0", "1")
"""Labels whose small letters are the same in every engine."""

ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[T ])"
FIELDS = {
    "Y": ("[0-9]{4}", 4),
    "m": ("[0-9]{2}", 2),
    "d": ("[0-9]{2}", 2),
    "H": ("(?:[01][0-9]|2[0-3])", 2),
    "M": ("[0-5][0-9]", 2),
    "S": ("[0-5][0-9]", 2),
}
"""The fields of date formats that an engine reads if they have all their digits: pattern and width."""
FEW = 8
"""The most keys that are compared one after another: DuckDB plans a look-up as a join, and takes 0.1 s for each."""


DUCKDB_LIMITS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), ("0001-01-01 (BC)", "10000-01-01")),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-01 (BC) 00:00:00+00", "10000-01-01 00:00:00+00"),
    "TIMESTAMP_NS": ("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806"),
    **dict.fromkeys(("TIME", "TIME_NS"), ("00:00:00", "24:00:00")),
}
"""The least and the greatest value of each of DuckDB's types of dates and times that its functions can take."""


def within_limits(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame whose dates and times are clipped as `pgmest.data.dates` clips them.

    Beyond, polars panics, and DuckDB stops with an error, or has no year for a date.
    """
    import narwhals as nw

    if frame.implementation.is_polars():
        clipped = [
            _clipped(name, kind) for name, kind in frame.collect_schema().items() if kind in (nw.Date, nw.Datetime)
        ]
        return frame.with_columns(*clipped) if clipped else frame
    if not frame.implementation.is_duckdb():
        return frame
    relation: Any = frame.to_native()
    columns = []
    for name, kind in zip(relation.columns, map(str, relation.types), strict=True):
        quoted = quoted_name(name)
        if kind == "TIMESTAMPTZ_NS":  # narwhals does not know this type, and microseconds hold all of its days
            columns.append(f"{quoted}::timestamptz as {quoted}")
            continue
        least, most = (f"'{limit}'::{kind}" for limit in DUCKDB_LIMITS.get(kind, ("", "")))
        clipped = f"case when {quoted} is not null then least(greatest({quoted}, {least}), {most}) end"
        exact = f"({clipped})::timestamp" if kind in ("TIMESTAMP_S", "TIMESTAMP_MS") else clipped
        columns.append(f"{exact} as {quoted}" if kind in DUCKDB_LIMITS else quoted)
    return nw.from_native(relation.select(", ".join(columns)))


def kept_apart(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame whose columns DuckDB computes once, however often what follows refers to them.

    Its optimizer would put the expression of a column wherever the column stands, and again in what refers to that; a
    limit, here of more rows than there can be, stops it.
    """
    return frame.head(2**62) if frame.implementation.is_duckdb() else frame


def _clipped(name: str, kind: Any) -> Any:
    """Return a column of dates or times of polars, clipped."""
    import narwhals as nw

    zoned = getattr(kind, "time_zone", None) is not None  # then the clock of the zone must not overflow either
    low, high = limits("D" if kind == nw.Date else kind.time_unit, spare=PER_DAY["ns"] if zoned else 1)
    return nw.col(name).cast(nw.Int64).clip(low, high).cast(kind)


def quoted_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


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
        ignore, decimal: how texts write numbers, as `grid.Writing`.
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
        return self._plain(column.str.strip_chars(BLANKS)) if self.form == "text" else column

    def _plain(self, text: Any) -> Any:
        """Texts without what is ignored, with a point as the decimal mark."""
        if not self.ignore and self.decimal == ".":
            return text
        for ignored in self.ignore:
            text = text.str.replace_all(ignored, "", literal=True)
        if self.decimal != ".":
            text = text.str.replace_all(".", "?", literal=True).str.replace_all(self.decimal, ".", literal=True)
        return text.str.strip_chars(BLANKS)

    @property
    def written(self) -> Any:
        """The text of any column as `readings.text_of` has it, for telling persons apart; null for none."""
        import narwhals as nw

        if self.form == "boolean":
            return nw.when(self.value).then(nw.lit("true")).when(~self.value).then(nw.lit("false"))
        if self.form == "real":
            whole = _written(self.value)
            return nw.when(whole.is_null()).then(self.value.cast(nw.String)).otherwise(whole)
        return self.text

    @property
    def null(self) -> Any:
        """An expression of where the value is null or NaN."""
        return self.value.is_null()

    def marked(self, markers: frozenset[str]) -> Any:
        """Return an expression of where the value is written as one of the markers."""
        numbers = {marker: 1 for marker in sorted(markers) if marker[:1] in "-0123456789" and marker}
        return self.lookup(dict.fromkeys(sorted(markers), 1), {}, numbers) == 1

    # -- readings -----------------------------------------------------------------------------------------------------

    def lookup(
        self, known: Mapping[str, int], folded: Mapping[str, int], numbers: Mapping[str, int] | None = None
    ) -> Any:
        """The code of each value by how it is written (`readings.text_of`), -1 for none; as `readings.code_of`."""
        import narwhals as nw

        if self.form == "text" and (numbers or not set(folded) <= set(PLAIN_LABELS)):
            return self._looked_up(known, folded, numbers)
        if self.form in ("text", "integer"):
            codes = _mapped(self.text, known, -1, nw.Int64)
            again = _mapped(self.text.str.to_lowercase(), folded, -1, nw.Int64)
            return nw.when(codes >= 0).then(codes).otherwise(again) if folded else codes
        if self.form == "boolean":
            codes = [code_of("true", known, folded), code_of("false", known, folded)]
            return nw.when(self.value).then(nw.lit(codes[0])).otherwise(nw.lit(codes[1]))
        if self.form == "real":
            return _mapped(self.value, _written_floats({**folded, **known}), -1, nw.Int64)
        if self.form == "unread":
            return nw.lit(-1)
        return self._by_value(lambda value: code_of(text_of(value), known, folded), -1, nw.Int64)

    def _looked_up(self, known: Mapping[str, int], folded: Mapping[str, int], numbers: Mapping[str, int] | None) -> Any:
        """The codes of texts, of which those not known as they stand are looked up here."""
        import narwhals as nw

        codes = _mapped(self.text, known, -1, nw.Int64)
        maybe = codes < 0 if folded else (codes < 0) & self.text.str.contains(DECIMALS)
        again = self._others(maybe, lambda text: code_of(text, known, folded, numbers), nw.Int64, -1)
        return nw.when(codes >= 0).then(codes).otherwise(again)

    def whole(self) -> Reading:
        """Return the values as whole numbers, as `readings.whole_of` reads them."""
        import narwhals as nw

        if self.form in ("text", "decimal"):
            return self._whole_of_text()
        if self.form == "boolean":
            return Reading(_zero_or_one(self.value), nw.lit(False), nw.lit(False))
        if self.form == "real":
            return Reading(_floor(self.value), nw.lit(False), self.value.floor() != self.value)
        if self.form == "integer":
            return Reading(self._limited(), nw.lit(False), nw.lit(False))
        return Reading(nw.lit(0), nw.lit(True), nw.lit(False))

    def real(self) -> Reading:
        """Return the values as real numbers, as `readings.real_of` reads them."""
        import narwhals as nw

        if self.form in ("text", "decimal"):
            plain = self.text.str.contains(PLAIN)
            rest = self._others(~plain & self.text.str.contains(ANY), real_of, nw.Float64)
            number = _cast(self.text, plain, nw.Float64)
            return Reading(nw.when(plain).then(number).otherwise(rest), ~self.text.str.contains(ANY), nw.lit(False))
        if self.form in ("date", "time", "unread"):
            return Reading(nw.lit(0.0), nw.lit(True), nw.lit(False))
        number = _zero_or_one(self.value) if self.form == "boolean" else self.value
        return Reading(number.cast(nw.Float64), nw.lit(False), nw.lit(False))

    def steps(self, form: str | None, seconds: int) -> Reading:
        """Return the values as steps of dates, as `readings.step_of` reads them."""
        import narwhals as nw

        if self.form == "date":
            number = self._dated(seconds)
            return Reading(number, number.is_null(), nw.lit(False))
        if self.form == "text" and seconds == DAY and form not in EPOCHS:
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
        """The steps of a column of dates since 1970-01-01."""
        import narwhals as nw

        date = nw.col(self.name).dt
        days = _days(date.year(), date.ordinal_day())
        if seconds == DAY or self.kind != nw.Datetime:
            return days * (DAY // seconds)
        return days * (DAY // seconds) + self._clock() // seconds

    def _clock(self) -> Any:
        """The seconds since midnight of a column of dates."""
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
        number = _cast(text, plain, nw.Float64)
        rest = self._others(text.str.contains(ANY) & ~digits & ~plain, lambda value: _first(whole_of(value)), nw.Int64)
        whole = _cast(short, digits, nw.Int64)
        found = nw.when(digits).then(whole).otherwise(nw.when(plain).then(_floor(number)).otherwise(rest))
        fractional = nw.when(plain).then(number.floor() != number).otherwise(nw.lit(False))
        return Reading(found, ~text.str.contains(ANY), fractional)

    def _day_of_text(self, form: str | None) -> Reading:
        import narwhals as nw

        pattern, starts = (ISO_DAY, {"Y": 0, "m": 5, "d": 8}) if form is None else fixed_fields(form)
        if starts:
            plain = self.text.str.contains(pattern)
            year, month, day = (
                _cast(self.text.str.slice(starts[field], FIELDS[field][1]), plain, nw.Int64) for field in "Ymd"
            )
            number, valid = _calendar(year, month, day)
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
        return _mapped(self.text, {text: read(text) for text in self._distinct(condition)}, default, kind)

    def _by_value(self, read: Callable[[Any], Any], default: Any, kind: Any) -> Any:
        """Return the readings of all values, made here once for each distinct value."""
        import narwhals as nw

        column = _written(self.value) if self.form == "real" else self.text
        texts = self._distinct(~nw.col(self.name).is_null(), column)
        return _mapped(column, {text: read(self._parsed(text)) for text in texts}, default, kind)

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


NONE = 2 * LIMIT
"""The number for what is no date."""


def fixed_fields(form: str) -> tuple[str, dict[str, int]]:
    """The pattern of a date format whose fields have fixed places, and where year, month and day start; {} for others.

    >>> fixed_fields("%d.%m.%Y")[1], fixed_fields("%d %b %Y")[1]
    ({'d': 0, 'm': 3, 'Y': 6}, {})
    """
    pattern, starts, place = "^", dict[str, int](), 0
    for percent, field, literal in re.findall(r"(%)(.)|([^%])", form, re.DOTALL):
        if percent and (field not in FIELDS or field in starts):
            return "", {}
        if percent:
            starts[field] = place
        pattern += FIELDS[field][0] if percent else re.escape(literal)
        place += FIELDS[field][1] if percent else 1
    return (f"{pattern}$", starts) if {"Y", "m", "d"} <= set(starts) and form.isascii() else ("", {})


def _mapped(column: Any, known: Mapping[Any, Any], default: Any, kind: Any) -> Any:
    """Return an expression of the number of each value, and the default for values not known and for null."""
    import narwhals as nw

    known = {value: number for value, number in known.items() if number is not None and number != default}
    if len(known) > FEW:
        return column.replace_strict(list(known), list(known.values()), default=default, return_dtype=kind)
    mapped = nw.lit(default)
    for value, number in known.items():
        mapped = nw.when(column == value).then(nw.lit(number)).otherwise(mapped)
    return mapped.cast(kind)


def _cast(text: Any, valid: Any, kind: Any) -> Any:
    """Texts as numbers; 0 for those that are not valid, as some engines stop at texts that are no numbers."""
    import narwhals as nw

    return nw.when(valid).then(text).otherwise(nw.lit("0")).cast(kind)


def _floor(number: Any) -> Any:
    """The whole number below a float, at most `LIMIT` in size."""
    import narwhals as nw

    high, low = number >= float(LIMIT), number <= -float(LIMIT)
    inside = nw.when(~high & ~low).then(number).floor().cast(nw.Int64)
    return nw.when(high).then(nw.lit(LIMIT)).otherwise(nw.when(low).then(nw.lit(-LIMIT)).otherwise(inside))


def _zero_or_one(value: Any) -> Any:
    import narwhals as nw

    return nw.when(value).then(nw.lit(1)).otherwise(nw.lit(0))


def _calendar(year: Any, month: Any, day: Any) -> tuple[Any, Any]:
    """Return the days since 1970-01-01, and whether there is such a day."""
    leap = _zero_or_one((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))
    second, later = _zero_or_one(month == 2), _zero_or_one(month > 2)
    last = 30 + (month + month // 8) % 2 - second * (2 - leap)
    before = (month * 367 - 362) // 12 - later * (2 - leap)
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)
    return _days(year, before + day), valid


def _days(year: Any, ordinal: Any) -> Any:
    """Days since 1970-01-01 by the calendar's rule: engines have no common function for it."""
    import narwhals as nw

    years = year.cast(nw.Int64) - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + ordinal.cast(nw.Int64) - 719_163


def _written(number: Any) -> Any:
    """Floats as texts, whole ones as whole numbers; null for those that no date is written as."""
    import narwhals as nw

    whole = (number.floor() == number) & (number > -1e15) & (number < 1e15)
    return nw.when(whole).then(number).cast(nw.Int64).cast(nw.String)


def _written_floats(known: Mapping[str, int]) -> dict[float, int]:
    """The floats that are written as one of the texts."""
    return {float(text): code for text, code in known.items() if text_of(real_of(text)) == text}


def _first(found: tuple[int, bool] | None) -> int | None:
    return None if found is None else found[0]


def _floored(number: int | None, step: int) -> int | None:
    return None if number is None else number // step


def _or_none(day: int | None) -> int:
    return NONE if day is None else day


def _time(text: str) -> str:
    """A time of day, which polars gives as nanoseconds, and others as text, with or without zeros behind the point."""
    if text.isdigit():
        return time_text(int(text))
    return text.rstrip("0").rstrip(".") if "." in text else text
