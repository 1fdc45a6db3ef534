"""Formats of dates: those of `strftime`, and ISO weeks without a day."""

from __future__ import annotations

import datetime
import re
from functools import cache

WEEK = "%V"
WEEKDAYS = ("%u", "%a", "%A", "%w")
"""The directives that say the day of a week; without one of them, a week is read as its Monday."""
FIELDS = {"%G": r"(?P<year>\d{4})", WEEK: r"(?P<week>\d\d?)"}
"""The directives of formats of weeks, with the pattern of each."""


def writes_weeks(form: str | None) -> bool:
    """Return whether a format writes weeks without a day.

    >>> writes_weeks("%G-W%V"), writes_weeks("%G-W%V-%u"), writes_weeks(None)
    (True, False, False)
    """
    return form is not None and WEEK in form and not any(day in form for day in WEEKDAYS)


def moment_of(text: str, form: str) -> datetime.datetime:
    """Return the time that a text says in a format; of a week its Monday.

    >>> moment_of("2020-W01", "%G-W%V").date()
    datetime.date(2019, 12, 30)

    Raises:
        ValueError: the text is not in that format, or that is not a valid format.
    """
    if not writes_weeks(form):
        return datetime.datetime.strptime(text, form)
    week = _pattern(form).fullmatch(text)
    if week is None:
        raise ValueError(f"{text!r} is not in the format {form!r}")
    return datetime.datetime.fromisocalendar(int(week["year"]), int(week["week"]), 1)


def date_text(date: datetime.date, form: str) -> str:
    """Return a date in a format; years get four digits, which some systems leave to the caller.

    >>> date_text(datetime.date(912, 5, 1), "%d.%m.%Y")
    '01.05.0912'
    """
    return date.strftime(form.replace("%Y", f"{date.year:04}").replace("%G", f"{date.isocalendar().year:04}"))


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of the texts that a format of weeks writes.

    Raises:
        ValueError: the format has no year, or other directives.
    """
    parts = re.split("(%.?)", form)
    if sorted(parts[1::2]) != sorted(FIELDS):
        raise ValueError("%V goes with %G alone")
    return re.compile("".join(FIELDS.get(part) or re.escape(part) for part in parts), re.IGNORECASE | re.ASCII)
