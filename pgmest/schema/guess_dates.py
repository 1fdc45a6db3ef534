"""Guesses about dates, for drafts: how texts and whole numbers write them, and which of them mean missing values."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.schema.guess_numbers import MOST_MARKERS
from pgmest.schema.identifiers import shape_of
from pgmest.schema.periods import writes_weeks
from pgmest.schema.readings import day_of
from pgmest.schema.tally import Tally

ENOUGH_DATES, HALF = 0.8, 0.5
"""The share of values that must be times or digits of dates, and the share that must be dates in one format."""
YEARS = (1800, 2100)
"""The years of dates that are written as whole numbers, such as 20201231."""

DAYS = (
    None,  # 2020-12-31
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y-%d-%m",
    "%Y-%m-%d",
    "%Y/%d/%m",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%y",
    "%m-%d-%y",
    "%y/%m/%d",
    "%y-%m-%d",
    "%d %m %Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d %b %y",
    "%d. %B %Y",
    "%Y. %B %d.",
    "%d. %b %Y",
    "%d.%b.%Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%B %d %Y",
    "%d-%b-%Y",
    "%d-%B-%Y",
    "%d-%b-%y",
    "%d%b%Y",
    "%d/%b/%Y",
    "%Y-%b-%d",
    "%a, %d %b %Y",
    "%A, %d %B %Y",
    "%a %d %b %Y",
    "%A, %B %d, %Y",
    "%a %b %d %Y",
)
TIMES = (
    *("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H:%M:%S.%f"),
    *(", %H:%M", ", %H:%M:%S", ", %I:%M %p", ", %I:%M:%S %p"),
    *(" %H:%M Uhr", ", %H:%M Uhr", " um %H:%M Uhr", " %Hh%M", ", %Hh%M", " à %Hh%M"),
)
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y %b")
WEEKS = (
    *("%G-W%V", "%GW%V", "%G W%V", "W%V %G", "W%V/%G", "W%V-%G", "%G-KW%V", "%G/KW%V", "%G KW%V"),
    *("KW%V %G", "KW %V %G", "KW%V/%G", "KW %V/%G"),
)
"""Formats of weeks, KW in German."""
COMPACT: dict[int, tuple[str, ...]] = {
    8: ("%Y%m%d", "%d%m%Y", "%m%d%Y"),
    6: ("%Y%m",),
    12: ("%Y%m%d%H%M",),
    14: ("%Y%m%d%H%M%S",),
}
"""Formats of digits alone, by their number."""
COMPACT_FORMS: frozenset[str] = frozenset(itertools.chain(*COMPACT.values()))
TRIED = 500
"""The number of distinct texts, evenly spaced, in which a format is tried before all are read in it."""
FIELD = {"b": "a", "B": "a", "p": "a", "a": "a", "A": "a"}
ISO = r"\d{4}-\d\d-\d\d(?:[T ].*)?"
ZONE = re.compile(r" ?(?:UTC|GMT|Z)(?:[+-]\d+)?$")
"""The time zone that some texts end in, which a format repeats as it stands."""
UNKNOWN_DAYS = ("0001-01-01", "1899-12-30", "1900-01-01", "1970-01-01", "2099-12-31", "2999-12-31", "9999-12-31")
"""Days that mean missing ones if all others are far from them."""


@dataclass(frozen=True)
class Dates:
    """Texts that are dates, but for odd ones.

    Attributes:
        days: as datetime64[D], with the numbers of rows.
        odd: the other texts.
        form: how they are written; None for 2020-12-31.
        doubtful: another form that reads as many of them, or None.
        unknown: texts of days that mean missing values.
        other: the format of the most rows with dates in another one, and their number; None without such rows.
    """

    days: Tally
    odd: Tally
    form: str | None
    doubtful: str | None
    unknown: tuple[str, ...] = ()
    other: tuple[str, int] | None = None


def _shape_of_format(form: str | None) -> str:
    """Return the shape of the dates that a format writes."""
    if form is None:
        return "9-9-9"
    fields = re.sub(r"%(.)|[^\W\d_]", lambda part: FIELD.get(part[1], "9") if part[1] else "a", form)
    return re.sub("a+", "a", re.sub("9+", "9", fields))


FORMATS: dict[str, list[str | None]] = {}
"""The formats that write dates of a shape, the commonest first."""
for _day, _time in itertools.product(DAYS, TIMES):
    if not (_day is None and _time):
        _form = None if _day is None else _day + _time
        FORMATS.setdefault(_shape_of_format(_form), []).append(_form)
for _form in (*MONTHS, *WEEKS):
    FORMATS.setdefault(_shape_of_format(_form), []).append(_form)


def dates_in(tally: Tally) -> Dates | None:
    """Return the dates among texts; None where too few are."""
    if tally.share(tally.texts.str.contains(r"\d").to_numpy(dtype=bool)) < HALF:
        return None
    texts = tally.texts
    iso = texts.str.fullmatch(ISO).to_numpy(dtype=bool)
    forms = _formats(tally, texts)
    if tally.share(iso) >= HALF and None not in forms:
        forms = [None, *forms]
    best = [(form, _days(texts, form, iso)) for form in _promising(texts, forms, iso)]
    shares = [tally.share(~np.isnat(days)) for _, days in best]
    if not shares or max(shares) < HALF:
        return None
    form, days = best[int(np.argmax(shares))]
    if form is not None:
        days = _completed(texts, days, form)
    read = ~np.isnat(days)
    odd = tally.where(~read)
    tied = [one for one, share in zip(best, shares, strict=True) if share == max(shares)]
    as_good = [
        other for other, others in tied if (others[read] != days[read]).any() and not np.isnat(others[read]).any()
    ]
    also, rows = _in_another_format(odd, texts[~read])
    found = Tally(days[read], tally.counts[read]).merged()
    unknown = unknown_days(found)
    kept = ~np.isin(found.values, np.array(unknown, dtype="M8[D]"))
    written = tuple(tally.texts[read & np.isin(days, np.array(unknown, dtype="M8[D]"))])
    other = (also or "%Y-%m-%d", rows) if rows else None
    return Dates(found.where(kept), odd, form, as_good[0] if as_good else None, written, other)


def _in_another_format(odd: Tally, texts: Any) -> tuple[str | None, int]:
    """Return the format of the most rows among values that are no dates in the chosen one, and their number.

    Args:
        odd: the values, with their rows.
        texts: their texts.
    """
    if odd.distinct <= MOST_MARKERS:
        return None, 0
    iso = texts.str.fullmatch(ISO).to_numpy(dtype=bool)
    rows = {form: int(odd.counts[~np.isnat(_days(texts, form, iso))].sum()) for form in (None, *_formats(odd, texts))}
    return max(rows.items(), key=lambda found: found[1])


def compact_dates(tally: Tally) -> Dates | None:
    """Return the dates among whole numbers such as 20201231, or None; -1 and 99999999 may be among them."""
    low, high = (int(year) for year in YEARS)
    for digits, scale in ((8, 10**4), (6, 10**2), (14, 10**10), (12, 10**8)):
        inside = (tally.values >= low * scale) & (tally.values < (high + 1) * scale)
        if digits == 8:
            inside |= (tally.values >= 10**6) & (tally.values < 10**8)
        if tally.share(inside) >= ENOUGH_DATES:
            texts = np.array([f"{value:.0f}" for value in tally.values], dtype=object)
            found = dates_in(Tally(texts, tally.counts, tally.gaps))
            if found is not None and found.form in COMPACT[digits] and found.days.distinct > 2:
                return found
    return None


def _formats(tally: Tally, texts: Any) -> Sequence[str | None]:
    """Return the formats that may write most of the texts."""
    step = max(len(texts) // TRIED, 1)
    weights: dict[str, int] = {}
    for text, count in zip(texts[::step], tally.counts[::step].tolist(), strict=True):
        weights[shape_of(text)] = weights.get(shape_of(text), 0) + count
    shape = max(weights, key=weights.__getitem__)
    if shape == "9":
        lengths = texts.str.len().to_numpy()
        digits = max(COMPACT, key=lambda length: tally.share(lengths == length))
        return COMPACT[digits] if tally.share(lengths == digits) >= HALF else ()
    zone = ZONE.search(next(text for text in texts[::step] if shape_of(text) == shape))
    if shape in FORMATS or zone is None:
        return FORMATS.get(shape, ())
    without = FORMATS.get(shape_of(zone.string[: zone.start()]), ())
    return [form + zone[0] for form in without if form is not None]


def _promising(texts: Any, forms: Sequence[str | None], iso: np.ndarray) -> list[str | None]:
    """Return the formats that read about as many of some texts as the best one does."""
    if len(forms) < 2:
        return list(forms)
    some = slice(None, None, max(len(texts) // TRIED, 1))
    read = [int((~np.isnat(_days(texts[some], form, iso[some]))).sum()) for form in forms]
    return [form for form, count in zip(forms, read, strict=True) if count and 4 * count >= max(read)]


def _like(texts: Any, form: str) -> np.ndarray:
    """Return which texts have the shape of a format, and as many digits of a year."""
    if "%Y" not in form or form in COMPACT_FORMS:
        return np.zeros(len(texts), dtype=bool)
    return (texts.map(shape_of) == _shape_of_format(form)).to_numpy() & texts.str.contains(r"\d{4}").to_numpy(bool)


def _days(texts: Any, form: str | None, iso: np.ndarray) -> np.ndarray:
    """Return the day of each text, NaT where it is not one in that format."""
    import pandas as pd

    if form is None:
        return _iso_days(texts, iso)
    if writes_weeks(form):
        found = [day_of(text, form) for text in texts]
        return np.array([np.datetime64("NaT") if day is None else day for day in found], dtype="M8[D]")
    days = pd.to_datetime(texts, format=form, errors="coerce").to_numpy().astype("M8[D]")
    digits = next((length for length, forms in COMPACT.items() if form in forms), None)
    if digits is not None:
        years = days.astype("M8[Y]").astype(int) + 1970
        plausible = (texts.str.len() == digits).to_numpy() & (years >= YEARS[0]) & (years <= YEARS[1])
        days[~plausible] = np.datetime64("NaT")
    return days


def _completed(texts: Any, days: np.ndarray, form: str) -> np.ndarray:
    """Return the days with those that pandas could not hold, read one by one."""
    days = days.copy()
    for place in np.flatnonzero(np.isnat(days) & _like(texts, form)):
        day = day_of(texts.iloc[place], form)
        days[place] = np.datetime64("NaT") if day is None else np.datetime64(day, "D")
    return days


def _iso_days(texts: Any, iso: np.ndarray) -> np.ndarray:
    """Return the days at the start of texts."""
    known: dict[str, Any] = {"": np.datetime64("NaT")}
    heads = texts.str.slice(0, 10).where(iso, "")
    for day in heads.unique():
        try:
            known[day] = np.datetime64(datetime.date.fromisoformat(day), "D")
        except ValueError:  # 2020-02-30
            known[day] = known[""]
    return np.array([known[day] for day in heads], dtype="M8[D]")


def unknown_days(days: Tally) -> list[str]:
    """Return days that mean missing values: they lie apart from all others, and several rows have them."""
    found: list[str] = []
    for text in UNKNOWN_DAYS:
        which = days.values == np.datetime64(text)
        others = days.values[~which & ~np.isin(days.values, np.array(found, dtype="M8[D]"))]
        if not which.any() or len(others) < 3 or days.counts[which][0] < 2:
            continue
        far = np.abs((others - np.datetime64(text)).astype(int)).min()
        if far > np.ptp(others.astype(int)):
            found.append(text)
    return found
