"""Formats of dates: those of `strftime`, `%q` for a quarter, and ISO weeks (`%G-W%V`) without a day."""

from __future__ import annotations

import datetime
import re
from functools import cache

QUARTER = "%q"
"""The directive for the quarter of a year, 1 to 4, which `strftime` does not have."""
WEEK = "%V"
WEEKDAYS = ("%u", "%a", "%A", "%w")
"""The directives that say the day of a week; without one of them, a week is read as its Monday."""
MONTHS_OF_QUARTER = 3
YEAR = r"(?P<year>\d{4})"
QUARTERS, WEEKS = {"%Y": YEAR, QUARTER: "(?P<number>[1-4])"}, {"%G": YEAR, WEEK: r"(?P<number>\d\d?)"}
"""The directives of formats of quarters and of weeks, with the pattern of each."""


def is_period(form: str | None) -> bool:
    """Return whether a format writes quarters, or weeks without a day."""
    if form is None or QUARTER in form:
        return form is not None
    return WEEK in form and not any(day in form for day in WEEKDAYS)


def moment_of(text: str, form: str) -> datetime.datetime:
    """Return the time that a text says in a format; of a quarter or a week the first day.

    >>> moment_of("2024Q2", "%YQ%q").date(), moment_of("2020-W01", "%G-W%V").date()
    (datetime.date(2024, 4, 1), datetime.date(2019, 12, 30))

    Raises:
        ValueError: the text is not in that format, or that is not a valid format.
    """
    if not is_period(form):
        return datetime.datetime.strptime(text, form)
    found = _pattern(form).fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not in the format {form!r}")
    year, number = int(found["year"]), int(found["number"])
    if QUARTER in form:
        return datetime.datetime(year, MONTHS_OF_QUARTER * (number - 1) + 1, 1)
    return datetime.datetime.fromisocalendar(year, number, 1)


def date_text(date: datetime.date, form: str) -> str:
    """Return a date in a format; years get four digits, which some systems leave to the caller.

    >>> date_text(datetime.date(912, 5, 1), "Q%q/%Y")
    'Q2/0912'
    """
    quarter = (date.month - 1) // MONTHS_OF_QUARTER + 1
    form = form.replace(QUARTER, str(quarter)).replace("%Y", f"{date.year:04}")
    return date.strftime(form.replace("%G", f"{date.isocalendar().year:04}"))


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of the texts that a format of quarters or weeks writes.

    Raises:
        ValueError: the format has no year, or other directives.
    """
    fields, parts = QUARTERS if QUARTER in form else WEEKS, re.split("(%.?)", form)
    if sorted(parts[1::2]) != sorted(fields):
        year, number = fields
        raise ValueError(f"{number} goes with {year} alone")
    return re.compile("".join(fields.get(part) or re.escape(part) for part in parts), re.IGNORECASE | re.ASCII)
