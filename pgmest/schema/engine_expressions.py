"""Expressions that all engines compute alike: numbers of values, casts that never fail, days of the calendar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgmest.schema.readings import BLANKS, LIMIT, real_of, text_of

FEW = 8
"""The most keys that are compared one after another: DuckDB plans a look-up as a join, and takes 0.1 s for each."""

FIELDS = {
    "Y": ("[0-9]{4}", 4),
    "m": ("[0-9]{2}", 2),
    "d": ("[0-9]{2}", 2),
    "H": ("(?:[01][0-9]|2[0-3])", 2),
    "M": ("[0-5][0-9]", 2),
    "S": ("[0-5][0-9]", 2),
}
"""The fields of date formats that an engine reads if they have all their digits: pattern and width."""


def fixed_fields(form: str) -> tuple[str, dict[str, int]]:
    """Return the pattern of a date format whose fields have fixed places, and where year, month and day start.

    The places are {} for other formats.

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


def plain_numerals(text: Any, ignore: Sequence[str], decimal: str) -> Any:
    """Return texts of numbers in a notation as plain ones, as `numerals.Writing.plain`."""
    if not ignore and decimal == ".":
        return text
    for ignored in ignore:
        text = text.str.replace_all(ignored, "", literal=True)
    if decimal != ".":
        text = text.str.replace_all(".", "?", literal=True).str.replace_all(decimal, ".", literal=True)
    return text.str.strip_chars(BLANKS)


def look_up(column: Any, known: Mapping[Any, Any], default: Any, kind: Any) -> Any:
    """Return an expression of the number of each value, and the default for values not known and for null."""
    import narwhals as nw

    known = {value: number for value, number in known.items() if number is not None and number != default}
    if len(known) > FEW:
        return column.replace_strict(list(known), list(known.values()), default=default, return_dtype=kind)
    mapped = nw.lit(default)
    for value, number in known.items():
        mapped = nw.when(column == value).then(nw.lit(number)).otherwise(mapped)
    return mapped.cast(kind)


def cast_valid(text: Any, valid: Any, kind: Any) -> Any:
    """Return texts as numbers, 0 for those that are not valid, as some engines stop at texts that are no numbers."""
    import narwhals as nw

    return nw.when(valid).then(text).otherwise(nw.lit("0")).cast(kind)


def whole_below(number: Any) -> Any:
    """Return the whole number below a float, at most `LIMIT` in size."""
    import narwhals as nw

    most = float(LIMIT)  # exactly
    above = nw.when(number > most).then(nw.lit(most))
    return above.when(number < -most).then(nw.lit(-most)).otherwise(number).floor().cast(nw.Int64)


def zero_or_one(value: Any) -> Any:
    """Return 1 where a value is true, and 0 elsewhere."""
    import narwhals as nw

    return nw.when(value).then(nw.lit(1)).otherwise(nw.lit(0))


def calendar(year: Any, month: Any, day: Any) -> tuple[Any, Any]:
    """Return the days since 1970-01-01, and whether there is such a day."""
    leap = zero_or_one((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))
    second, later = zero_or_one(month == 2), zero_or_one(month > 2)
    last = 30 + (month + month // 8) % 2 - second * (2 - leap)
    before = (month * 367 - 362) // 12 - later * (2 - leap)
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)
    return days_of(year, before + day), valid


def days_of(year: Any, ordinal: Any) -> Any:
    """Return the days since 1970-01-01 by the calendar's rule: engines have no common function for it."""
    import narwhals as nw

    years = year.cast(nw.Int64) - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + ordinal.cast(nw.Int64) - 719_163


def number_text(number: Any) -> Any:
    """Return floats as texts, whole ones as whole numbers, and null for those that no date is written as."""
    import narwhals as nw

    whole = (number.floor() == number) & (number > -1e15) & (number < 1e15)
    return nw.when(whole).then(number).cast(nw.Int64).cast(nw.String)


def written_floats(known: Mapping[str, int]) -> dict[float, int]:
    """Return the floats that are written as one of the texts."""
    return {float(text): code for text, code in known.items() if text_of(real_of(text)) == text}
