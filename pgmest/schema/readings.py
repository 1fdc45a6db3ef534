"""Readings: what one value of a raw table says as text, as a number and as a day; None (or NaN) where it says none.

The code of a value is that of its reading, which depends on the value alone: not on the type of its column, and not on
the values beside it. A value reads as it is written: 5, 5.0 and "5" alike, True as true and, among numbers, as 1. The
readers of whole arrays (in the kinds of columns) agree with the readers here.
No reader raises, whatever the object.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from pgmest.data.dates import DAY as DAY_SECONDS
from pgmest.data.dates import clipped, moved, steps_in, steps_of
from pgmest.schema.periods import moment_of

BLANKS = " \t\n\r\v\f"
"""Stripped from text; the same few everywhere, since libraries do not agree on what else is blank."""

LIMIT = 10**18
"""Whole numbers are read up to this size, and larger ones as this: the bounds of a schema are below it."""

WHOLE = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?")
DECIMALS = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]*")
EXPONENT = re.compile(r"-?(?:[1-9]\.?[0-9]*)[eE]\+?[0-9]{1,2}")
"""Numbers that a listed number may be written as: with more decimals than it needs, or an exponent, as R does."""

DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?=$|[T ])")
CLOCK = re.compile(
    r"(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?:[.,][0-9]*)?)?"
    r"(?: ?(?P<half>[aApP])[mM])?(?: ?(?:Z|UTC|GMT)?(?:[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?"
)
"""Times of day, of which the offset of a zone is left out: the clock is that of the place of the value."""
LENGTH = re.compile(
    r"(?P<sign>-?)(?:(?P<days>[0-9]{1,9}) days?,?)?(?(days)(?: (?P<plus>[+-]?)|$)|)"
    r"(?:(?P<hours>[0-9]{1,9}):(?P<minutes>[0-5][0-9])(?::(?P<seconds>[0-5][0-9])(?:[.,][0-9]*)?)?)?"
)
"""Durations as 2:30 (hours and minutes), 26:00:00, and as pandas and Python write them: -1 days +02:30:00."""
MOST_INTEGER_BITS = 13_000  # of integers that Python writes out, which has a limit of 4,300 digits


def encoded_text(text: str) -> bytes:
    r"""Return the bytes of a text; different texts have different bytes, also where they hold half a surrogate pair.

    >>> encoded_text("\ud800"), encoded_text("?")
    (b'\xed\xa0\x80', b'?')
    """
    return text.encode("utf-8", "surrogatepass")


def text_of(value: object) -> str | None:
    """Return the text of a value: 1 and 1.0 have the same, True has true; None for types without a text, such as bytes.

    >>> [text_of(value) for value in (1, 1.0, True, " a ", 2.5, b"a")]
    ['1', '1', 'true', 'a', '2.5', None]
    """
    try:
        return _text(_plain(value))
    except Exception:  # a foreign object may raise any
        return None


def code_of(
    text: str | None, known: Mapping[str, int], folded: Mapping[str, int], numbers: Mapping[str, int] | None = None
) -> int:
    """Return the code of a text among those known, of its small letters among those folded, or of the number it writes.

    >>> code_of("22.0", {"22": 1}, {}, {"22": 1}), code_of("22.0", {"22": 1}, {})
    (1, -1)
    """
    if text is None:
        return -1
    code = known.get(text, folded.get(text.lower(), -1))
    return numbers.get(trimmed(text), -1) if numbers and code < 0 else code


def could_be_written(marker: str) -> bool:
    """Return whether a number, a date or a boolean may be written as a marker."""
    return any(map(str.isdigit, marker)) or marker.lstrip("+-") in ("true", "false", "inf")


def trimmed(text: str) -> str:
    """Return a number without an exponent and zeros at the end of its decimals, as `text_of` does; other texts as such.

    >>> trimmed("22.0"), trimmed("17.50"), trimmed("1e+05"), trimmed("007.0"), trimmed("v1.0")
    ('22', '17.5', '100000', '007.0', 'v1.0')
    """
    if EXPONENT.fullmatch(text):
        return text_of(float(text)) or text
    if not DECIMALS.fullmatch(text):
        return text
    short = text.rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def whole_of(value: object) -> tuple[int, bool] | None:
    """Return the whole number at or below a value, at most `LIMIT` in size, and whether the value is that number.

    Whole numbers are exact, others first rounded to the nearest float.

    >>> whole_of("12"), whole_of(-0.5), whole_of(True), whole_of("x")
    ((12, True), (-1, False), (1, True), None)
    """
    try:
        return _whole(_plain(value))
    except Exception:  # a foreign object may raise any
        return None


def real_of(value: object) -> float:
    """Return the float nearest to a value.

    >>> real_of("2.50"), real_of(False), real_of("1e400"), real_of("x")
    (2.5, 0.0, inf, nan)
    """
    try:
        return _real(_plain(value))
    except OverflowError:  # of an integer
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # a foreign object may raise any
        return math.nan


def day_of(value: object, form: str | None) -> int | None:
    """Return the days since 1970-01-01 of a date, a time on its own clock, or text such as 2020-12-31 or in a format.

    >>> day_of("1970-01-02T23:59:59", None), day_of("3.1.1970", "%d.%m.%Y"), day_of("1970-02-30", None)
    (1, 2, None)
    """
    return step_of(value, form, DAY_SECONDS)


def step_of(value: object, form: str | None, seconds: int) -> int | None:
    """Return the number of whole steps since 1970-01-01, each of `seconds`, of a value that `day_of` reads.

    >>> step_of("1970-01-01 00:59:59", None, 60), step_of("1/1/70 1:30 PM", "%m/%d/%y %I:%M %p", 3600)
    (59, 13)
    """
    try:
        return _step(_plain(value), form, seconds)
    except Exception:  # a foreign object may raise any
        return None


def clock_of(value: object, form: str | None) -> int | None:
    """Return the seconds since midnight of a time of day, of a date with one, or of text such as 14:35 or 2:35 PM.

    >>> clock_of("00:01:30", None), clock_of("2020-01-01 02:00", None), clock_of("14.35", "%H.%M"), clock_of("25", None)
    (90, 7200, 52500, None)
    """
    try:
        return _clock(_plain(value), form)
    except Exception:  # a foreign object may raise any
        return None


def length_of(value: object, seconds: int) -> int | None:
    """Return the number of whole steps at or below a duration, each of `seconds`; a plain number is one of steps.

    >>> [length_of(text, 60) for text in ("1:30", "1 days 00:00:59.5", "-1 days +23:59:00", "25", "x")]
    [90, 1440, -1, 25, None]
    """
    try:
        return _length(_plain(value), seconds)
    except Exception:  # a foreign object may raise any
        return None


def _plain(value: object) -> Any:
    """Return a scalar of NumPy as one of Python, dates as numpy.datetime64 on their own clock, texts stripped."""
    if isinstance(value, np.datetime64):
        return value if np.isnat(value) else clipped(value)
    if isinstance(value, np.timedelta64):
        return value
    if isinstance(value, np.generic):
        value = float(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, str):
        return str.__str__(value).strip(BLANKS)
    if isinstance(value, datetime.datetime):
        return clipped(np.datetime64(_timestamp(value)))
    if isinstance(value, datetime.date):
        return np.datetime64(value, "D")
    if isinstance(value, datetime.timedelta):
        return getattr(value, "to_timedelta64", lambda: np.timedelta64(value))()
    return value


def _timestamp(value: Any) -> Any:
    if hasattr(value, "to_datetime64"):  # pandas' own, which may lie outside what datetime holds
        instant, offset = value.to_datetime64(), value.utcoffset()
        offset = np.timedelta64(offset or 0).astype(instant.dtype.str.replace("M", "m")).astype(np.int64)
        return moved(instant.astype(np.int64), offset).astype(instant.dtype)
    return value.replace(tzinfo=None)


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__str__(value) if value.bit_length() <= MOST_INTEGER_BITS else None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else float.__repr__(value)
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, str):
        return value
    if isinstance(value, np.datetime64):
        return _date_text(value)
    if isinstance(value, datetime.time):
        return _without_zeros(value.replace(tzinfo=None).isoformat())
    return str(value) if isinstance(value, uuid.UUID) else None


def _decimal_text(value: Decimal) -> str | None:
    if not value.is_finite():
        return None if value.is_nan() else str(float(value))
    if abs(value.adjusted()) > 4000:
        return None
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _date_text(value: np.datetime64) -> str:
    """Return a day without a time at midnight, else with its time."""
    day, _, time = str(value).partition("T")
    time = _without_zeros(time if time.count(":") == 2 or not time else f"{time}:00")
    return day if time in ("", "00:00:00") else f"{day} {time}"


def _without_zeros(time: str) -> str:
    return time.rstrip("0").rstrip(".") if "." in time else time


def _whole(value: Any) -> tuple[int, bool] | None:
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return int(value.lower() == "true"), True
        if WHOLE.fullmatch(value):
            return _whole_digits(value), True
    elif isinstance(value, int):
        return max(-LIMIT, min(int(value), LIMIT)), True
    elif (
        isinstance(value, Decimal)
        and value.is_finite()
        and value.adjusted() < 18
        and value == value.to_integral_value()
    ):
        return int(value), True
    number = _real(value)
    if math.isnan(number):
        return None
    below = math.floor(max(-LIMIT, min(number, LIMIT)))
    return below, below == number or not -LIMIT < number < LIMIT


def _whole_digits(text: str) -> int:
    digits = text.lstrip("+-").partition(".")[0].lstrip("0")
    number = int(digits or "0") if len(digits) <= 18 else LIMIT
    return -number if text.startswith("-") else number


def _real(value: Any) -> float:
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return float(value.lower() == "true")
        return float(value) if NUMBER.fullmatch(value) else math.nan
    return float(value) if isinstance(value, int | float | Decimal) else math.nan


def _step(value: Any, form: str | None, seconds: int) -> int | None:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else int(steps_of(np.asarray(value), seconds))
    text = _text(value)
    if text is None:
        return None
    if form is not None:
        moment = moment_of(text, form)
        return _steps(moment.date(), moment.hour * 3600 + moment.minute * 60 + moment.second, seconds)
    found = DAY.match(text)
    if found is None:
        return None
    rest = text[found.end() + 1 :]
    clock = 0 if seconds == DAY_SECONDS or not rest else _clock_text(rest)
    return None if clock is None else _steps(datetime.date.fromisoformat(found.group()), clock, seconds)


def _steps(day: datetime.date, clock: int, seconds: int) -> int:
    return ((day.toordinal() - datetime.date(1970, 1, 1).toordinal()) * DAY_SECONDS + clock) // seconds


def _clock(value: Any, form: str | None) -> int | None:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else int(steps_of(np.asarray(value), 1)) % DAY_SECONDS
    text = _text(value)
    if text is None:
        return None
    if form is not None:
        moment = datetime.datetime.strptime(text, form)
        return moment.hour * 3600 + moment.minute * 60 + moment.second
    found = DAY.match(text)
    return _clock_text(text if found is None else text[found.end() + 1 :])


def _clock_text(text: str) -> int | None:
    found = CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, half = int(found["hour"]), found["half"]
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half in "pP" else 0)
    return hour * 3600 + int(found["minute"]) * 60 + int(found["second"] or 0)


def _length(value: Any, seconds: int) -> int | None:
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else int(steps_in(np.asarray(value), seconds))
    if isinstance(value, datetime.time):
        return (value.hour * 3600 + value.minute * 60 + value.second) // seconds
    found = LENGTH.fullmatch(value) if isinstance(value, str) and value else None
    if found is None or (found["days"] is None and found["hours"] is None):
        number = None if isinstance(value, bool) else _whole(value)
        return None if number is None else number[0]
    parts = [int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds")]
    days, clock = parts[0] * DAY_SECONDS, parts[1] * 3600 + parts[2] * 60 + parts[3]
    if found["days"] is None:
        return (-clock if found["sign"] else clock) // seconds
    return ((-days if found["sign"] else days) + (-clock if found["plus"] == "-" else clock)) // seconds
