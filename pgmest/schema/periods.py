"""Formats of dates: those of `strftime`, `%q` for a quarter, `%h` for a half-year, and ISO weeks without a day."""

from __future__ import annotations

import datetime
import re
from functools import cache

QUARTER, HALF_YEAR = "%q", "%h"
"""The directives for the quarter of a year, 1 to 4, and for the half of one, which Python's formats do not have."""
MONTHS_OF = {QUARTER: 3, HALF_YEAR: 6}
"""The number of months of a period, by the directive of its number."""
WEEK = "%V"
WEEKDAYS = ("%u", "%a", "%A", "%w")
"""The directives that say the day of a week; without one of them, a week is read as its Monday."""
YEAR = r"(?P<year>\d{4})"
FIELDS = {
    QUARTER: {"%Y": YEAR, QUARTER: "(?P<number>[1-4])"},
    HALF_YEAR: {"%Y": YEAR, HALF_YEAR: "(?P<number>[12])"},
    WEEK: {"%G": YEAR, WEEK: r"(?P<number>\d\d?)"},
}
"""The directives of formats of each period, with the pattern of each."""


def period_of(form: str | None) -> str | None:
    """Return the directive of the periods that a format writes; None for days.

    >>> period_of("%YQ%q"), period_of("%G-W%V"), period_of("%G-W%V-%u"), period_of(None)
    ('%q', '%V', None, None)
    """
    if form is None or (WEEK in form and any(day in form for day in WEEKDAYS)):
        return None
    return next((directive for directive in FIELDS if directive in form), None)


def moment_of(text: str, form: str) -> datetime.datetime:
    """Return the time that a text says in a format; of a period the first day.

    >>> moment_of("2024Q2", "%YQ%q").date(), moment_of("H2 2024", "H%h %Y").date()
    (datetime.date(2024, 4, 1), datetime.date(2024, 7, 1))
    >>> moment_of("2020-W01", "%G-W%V").date()
    datetime.date(2019, 12, 30)

    Raises:
        ValueError: the text is not in that format, or that is not a valid format.
    """
    period = period_of(form)
    if period is None:
        return datetime.datetime.strptime(text, form)
    found = _pattern(form, period).fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not in the format {form!r}")
    year, number = int(found["year"]), int(found["number"])
    if period in MONTHS_OF:
        return datetime.datetime(year, MONTHS_OF[period] * (number - 1) + 1, 1)
    return datetime.datetime.fromisocalendar(year, number, 1)


def date_text(date: datetime.date, form: str) -> str:
    """Return a date in a format; years get four digits, which some systems leave to the caller.

    >>> date_text(datetime.date(912, 5, 1), "Q%q/%Y")
    'Q2/0912'
    """
    for directive, months in MONTHS_OF.items():
        form = form.replace(directive, str((date.month - 1) // months + 1))
    return date.strftime(form.replace("%Y", f"{date.year:04}").replace("%G", f"{date.isocalendar().year:04}"))


@cache
def _pattern(form: str, period: str) -> re.Pattern[str]:
    """Return the pattern of the texts that a format of periods writes.

    Raises:
        ValueError: the format has no year, or other directives.
    """
    fields, parts = FIELDS[period], re.split("(%.?)", form)
    if sorted(parts[1::2]) != sorted(fields):
        year, number = fields
        raise ValueError(f"{number} goes with {year} alone")
    return re.compile("".join(fields.get(part) or re.escape(part) for part in parts), re.IGNORECASE | re.ASCII)
