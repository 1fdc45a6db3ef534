"""Guesses of what a column of times holds, for drafts: dates with times, times of day, durations."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pgmest.data.dates import DAY
from pgmest.schema.guess_dates import ENOUGH_DATES
from pgmest.schema.guess_numbers import WHOLE_BINS, WIDE, whole_bounds
from pgmest.schema.periods import writes_weeks
from pgmest.schema.readings import CLOCK, length_of
from pgmest.schema.tally import Tally

MOST_HOURS = 1000
"""The largest number of hours of a range of dates that a draft has as bins."""
MOST_WEEKS = 120
"""The largest number of weeks that a draft has as bins."""
TIMED = 0.01
"""The share of dates with a time other than midnight from which on they are dates with times."""
MANY_TIMES = 20
"""The least number of distinct times, all in the first hour of a day, that are durations."""
NAMED_CLOCKS = (("h", ""), ("H", ""), (" h ", ""), ("h", "min"), (":", " Uhr"), (".", " Uhr"), (":", " h"))
"""The texts behind the hour and behind the minute of times such as 14h05 and 14.05 Uhr."""
MINUTES = "IT IS READ AS HOURS:MINUTES. IF IT IS MINUTES:SECONDS, WRITE 0:12:34 FOR 12:34 IN THE TABLE."
UNITS = (("second", 1, 600), ("minute", 60, 36_000), ("hour", 3600, 20 * DAY), ("day", DAY, np.inf))
"""The units of durations, in seconds, each with the longest duration that a draft has it for."""


def date_lines(days: np.ndarray, timed: float, form: str | None = None) -> tuple[list[str], list[str]]:
    """Return the lines of a schema and the notes for dates.

    Args:
        days: as datetime64[D].
        timed: the share of them that have a time other than midnight.
        form: their format, which may be one of weeks.
    """
    first, last = days.min(), days.max()
    span = int((last - first).astype(int))
    if writes_weeks(form) and span <= MOST_WEEKS * 7:
        return ["type: date", f"min: {first}", f"max: {last + 6}", "unit: day", "width: 7"], []
    hours = (span + 1) * 24
    if timed >= TIMED and hours <= MOST_HOURS:
        return ["type: date", f"min: {first}", f"max: {last}", "unit: hour"], []
    unit = "day" if span <= 100 else "month" if span <= 3660 else "year"
    bounds = [f"min: {first.astype('M8[Y]')}-01-01", f"max: {last.astype('M8[Y]')}-12-31"]
    lost = f"THE TIMES OF DAY ARE LOST: unit: hour WOULD KEEP THEM, IN {hours:,} BINS OR MORE."
    return ["type: date", *bounds, f"unit: {unit}"], [lost] if timed >= TIMED else []


def timed_share(tally: Tally) -> float:
    """Return the share of texts that have a time of day other than midnight."""
    text = tally.texts
    some = text.str.contains(r"\d(?:T|,? |,? \w\w? )\d?\d[:h]\d\d")
    zone = r"(?: ?(?:Z|UTC|GMT)?(?:[+-]\d{1,2}(?::?\d\d)?)?)$"
    midnight = text.str.contains(
        rf"[T ](?:(?:0?0|12):00(?::00)? ?[Aa][Mm]|0?0:00(?::00(?:\.0*)?)?(?: Uhr)?|0?0h00){zone}"
    )
    return tally.share((some & ~midnight).to_numpy(dtype=bool))


@dataclass(frozen=True)
class Timed:
    """The lines of a schema for texts, those texts that are not of that kind, and notes of a draft."""

    lines: list[str]
    odd: Tally
    notes: tuple[str, ...] = ()


def clocks_in(tally: Tally) -> Timed | None:
    """Return the times of day among texts; None where too few are."""
    text = tally.texts
    for hour, minute in NAMED_CLOCKS:
        named = text.str.fullmatch(rf"(?:[01]?\d|2[0-3]){hour}[0-5]\d{minute}".replace(".", "[.]")).to_numpy(dtype=bool)
        if tally.share(named) >= ENOUGH_DATES:
            return Timed(["type: time", "unit: hour", f'format: "%H{hour}%M{minute}"'], tally.where(~named))
    if not tally.share(text.str.contains(":", regex=False).to_numpy(dtype=bool)) >= ENOUGH_DATES:
        return None
    read = text.str.fullmatch(CLOCK).to_numpy(dtype=bool)
    if tally.share(read) < ENOUGH_DATES:
        return None
    half = tally.share(text.str.fullmatch(r"\d?\d:\d\d [AaPp][Mm]").to_numpy(dtype=bool)) >= ENOUGH_DATES
    seconds = text[read].str.extract(r"^\d?\d:\d\d:(\d\d)$")[0]
    if seconds.notna().all() and (seconds != "00").any():
        return Timed(["type: time", "unit: second", "width: 3600"], tally.where(~read))
    form = "%I:%M %p" if half else "%H:%M:%S" if seconds.notna().all() else None
    return Timed(["type: time", "unit: hour", *([f'format: "{form}"'] if form else [])], tally.where(~read))


def durations_in(tally: Tally) -> Timed | None:
    """Return the durations among texts; None where too few are.

    Texts such as 14:35 may be times of day: they are durations if one is longer than a day, or all hours are zero.
    """
    text = tally.texts
    if not tally.share(text.str.contains(r"\d:\d\d|\d days?").to_numpy(dtype=bool)) >= ENOUGH_DATES:
        return None
    seconds = [length_of(item, 1) if re.search(r"\d:\d\d|\d day", item) else None for item in text]
    read = np.array([second is not None for second in seconds])
    if tally.share(read) < ENOUGH_DATES:
        return None
    text = text[read]
    no_hours = text.str.contains(r"^0?0:\d\d:\d\d").all() and tally.distinct >= MANY_TIMES
    if not no_hours and not text.str.contains(r"\d day|^-?(?:2[4-9]|[3-9]\d|\d{3,}):").any():
        return None
    lines = duration_lines(np.array([second for second in seconds if second is not None]))
    short = text.str.fullmatch(r"-?\d+:\d\d").all()
    if short or text.str.fullmatch(r"-?\d+:\d\d:\d\d").all():
        hours = "%-H" if text.str.match(r"-?(?:\d|0\d\d+):").any() else "%H"
        lines.append(f'format: "{hours}:%M"' if short else f'format: "{hours}:%M:%S"')
    return Timed(lines, tally.where(~read), (MINUTES,) if short else ())


def duration_lines(seconds: np.ndarray) -> list[str]:
    """Return the lines of a schema for durations in seconds, whose bins are of a unit that suits the longest one.

    Where many have a part of that unit, the next smaller unit keeps it.
    """
    longest = int(np.abs(seconds).max())
    place = next(place for place, (_, _, most) in enumerate(UNITS) if longest <= most)
    unit, step, _ = UNITS[place]
    low, high = whole_bounds(int(seconds.min()) // step, int(seconds.max()) // step)
    bins = [f"bins: {WHOLE_BINS}"] if high - low >= WIDE else []
    if np.mean(seconds % step != 0) >= TIMED:
        unit, small, _ = UNITS[place - 1]
        width = step // small
        low, high, bins = low * width, high * width + width - 1, bins or [f"width: {width}"]
    return ["type: duration", f"min: {low}", f"max: {high}", f"unit: {unit}", *bins]
