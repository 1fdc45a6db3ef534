"""Guesses of what a column holds, for drafts: numbers with currency signs, dates day first, few odd values."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

ENOUGH_NUMBERS, ENOUGH_DATES = 0.95, 0.8
"""The share of texts that must be readable for the others to be odd ones: a text is no date by accident."""

MOST_MARKERS = 5
MANY_NUMBERS = 20
LOW_SENTINELS = (-9, -99, -999, -9999, -99999)
HIGH_SENTINELS = (999, 9999, 99999, 999999)

SIGNS = ("$", "€", "£", "¥", "₹", "%", "EUR", "USD", "GBP", "CHF", "JPY")

DATE_FORMATS = (
    None,  # 2020-12-31
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
"""Day first where both are possible."""

TIME_FORMATS = {
    r".*\d \d?\d:\d\d:\d\d [AP]M": " %I:%M:%S %p",
    r".*\d \d?\d:\d\d [AP]M": " %I:%M %p",
    r".*\d \d?\d:\d\d:\d\d": " %H:%M:%S",
    r".*\d \d?\d:\d\d": " %H:%M",
}
"""The formats of times behind a date, by the texts that have them."""

BOOLEANS = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))

LISTED_WORDS, LISTED_LENGTH, LONGEST_LABEL = 4, 40, 200
FEW_TEXTS = 20


@dataclass(frozen=True)
class Numeric:
    """Texts that are numbers, but for odd ones.

    Attributes:
        numbers: the texts that are, written plainly.
        odd: the others.
        ignore, decimal: how they are written, as in a schema.
    """

    numbers: Any
    odd: Any
    ignore: tuple[str, ...] = ()
    decimal: str = "."


@dataclass(frozen=True)
class Dates:
    """Texts that are dates, but for odd ones.

    Attributes:
        days: shape (dates,), as datetime64[D].
        odd: the other texts.
        form: how they are written; None for 2020-12-31.
        doubtful: another form that reads as many of them, or None.
    """

    days: np.ndarray
    odd: Any
    form: str | None
    doubtful: str | None


def plain_numbers(text: Any) -> Any:
    """Return which texts are numbers: 7 and -2.5 are, 007 is a label."""
    form = r"(?=.*\d)[-+]?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][-+]?\d+)?"
    plain = text.str.fullmatch(form).astype(bool)
    finite = np.isfinite(text.where(plain, "0").astype(float))  # 1e400 is infinite
    return plain & finite


def numbers_in(text: Any) -> Numeric | None:
    """The numbers among texts, however they are written; None where too few are."""
    for ignore, decimal in _writings(text):
        short = text
        for sign in ignore:
            short = short.str.replace(sign, "", regex=False)
        if decimal == ",":
            short = short.str.replace(".", "?", regex=False).str.replace(",", ".", regex=False)
        short = short.str.strip()
        read = plain_numbers(short) & _grouped(text, ignore, decimal)
        if _enough_numbers(short[read], text[~read], len(text)):
            return Numeric(short[read], text[~read], ignore, decimal)
    return None


def _writings(text: Any) -> Iterable[tuple[tuple[str, ...], str]]:
    """Ways in which the numbers may be written, the plainest first."""
    yield (), "."
    joined = set("".join(text.unique()))
    signs = tuple(sign for sign in SIGNS if set(sign) <= joined and text.str.contains(sign, regex=False).any())
    if signs:
        yield signs, "."
    if "," in joined:
        yield (*signs, ","), "."
        yield (*signs, *([] if "." not in joined else ["."])), ","


def _grouped(text: Any, ignore: tuple[str, ...], decimal: str) -> Any:
    """Return which texts have ignored separators of thousands between groups of three digits only."""
    separator = {".": ",", ",": "."}[decimal]
    if separator not in ignore:
        return np.ones(len(text), dtype=bool)
    mark = re.escape(separator)
    form = rf"[^\d]*(?:\d+|\d{{1,3}}(?:{mark}\d{{3}})+)(?:{re.escape(decimal)}\d*)?[^\d]*"
    return text.str.fullmatch(form).astype(bool)


def _enough_numbers(numbers: Any, odd: Any, count: int) -> bool:
    if not len(odd):
        return True
    if len(odd) <= (1 - ENOUGH_NUMBERS) * count:
        return True
    words = not odd.str.contains(r"\d").any() and odd.nunique() <= MOST_MARKERS
    return words and 2 * len(odd) <= count and numbers.nunique() >= MANY_NUMBERS


def dates_in(text: Any) -> Dates | None:
    """The dates among texts; None where too few are."""
    import pandas as pd

    if not text.str.contains(r"\d").mean() >= ENOUGH_DATES:
        return None
    best: list[tuple[int, str | None, Any]] = []
    iso = text.str.fullmatch(r"\d{4}-\d\d-\d\d(?:[T ].*)?").astype(bool)
    for form in _date_formats(text):
        days = _iso_days(text, iso) if form is None else pd.to_datetime(text, format=form, errors="coerce")
        alike = iso if form is None and days.notna().any() else days.notna()  # 2020-02-30 is meant as a day, too
        best.append((int(alike.sum()), form, days))
    most, form, days = max(best, key=lambda found: found[0])
    if not most or most < ENOUGH_DATES * len(text):
        return None
    as_good = [other for count, other, _ in best if count == most and other != form]
    found = days.notna()
    odd = ~iso if form is None else ~found
    return Dates(days[found].to_numpy().astype("M8[D]"), text[odd], form, as_good[0] if as_good else None)


def _date_formats(text: Any) -> list[str | None]:
    """Return the formats of dates that are tried, with the times that most of the texts have."""
    time = time_format(text)
    return [form if form is None else form + time for form in DATE_FORMATS]


def time_format(text: Any) -> str:
    """Return the format of the times behind the dates in texts; "" if most have none."""
    few = text.drop_duplicates()[:1000]
    for pattern, form in TIME_FORMATS.items():
        if few.str.fullmatch(pattern, flags=re.IGNORECASE).mean() >= ENOUGH_DATES:
            return form
    return ""


def _iso_days(text: Any, iso: Any) -> Any:
    """The days at the start of those texts; `pandas.to_datetime` before pandas 3 knows none after 2262."""
    import pandas as pd

    known: dict[str, Any] = {"": np.datetime64("NaT")}
    for day in text[iso].str.slice(0, 10).unique():
        try:
            known[day] = np.datetime64(datetime.date.fromisoformat(day), "s")
        except ValueError:  # 2020-02-30
            known[day] = known[""]
    days = [known[day] for day in text.str.slice(0, 10).where(iso, "")]
    return pd.Series(np.array(days, dtype="M8[s]"), index=text.index)


def sentinels(numbers: Any) -> list[int]:
    """Return numbers that mean missing values: -99 where all else is positive, 999 far beyond all else."""
    found: list[int] = []
    rest = numbers
    for low in sorted(LOW_SENTINELS):
        others = rest[rest != low]
        if (rest == low).sum() >= 2 and len(others) and others[~others.isin(LOW_SENTINELS)].min() >= 0:
            found, rest = [*found, low], others
    high = int(rest.max()) if len(rest) and rest.max() in HIGH_SENTINELS else None
    if high is not None and (rest == high).sum() >= 2:
        others = rest[rest != high]
        if len(others) and 0 <= others.max() < high / 5:
            found.append(high)
    return found


def booleans(counts: Any) -> list[str] | None:
    """The commonest ways to write false and true, where these are all the values; [] for false and true themselves."""
    folded = {text.lower() for text in counts.index}
    for pair in BOOLEANS:
        if folded == set(pair):
            labels = [next(text for text in counts.index if text.lower() == word) for word in pair]
            return [] if pair == ("false", "true") else labels
    return None


def free_text(text: Any, counts: Any) -> bool:
    """Return whether texts are sentences rather than labels."""
    lengths, words = text.str.len(), text.str.split().str.len()
    if lengths.max() > LONGEST_LABEL:
        return True
    return len(counts) > FEW_TEXTS and bool(words.mean() >= LISTED_WORDS or lengths.mean() >= LISTED_LENGTH)
