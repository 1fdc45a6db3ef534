"""Guesses of what a column of times holds, for drafts: dates with times, times of day, durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dates import DAY
from pgmest.schema.guess import ENOUGH_DATES
from pgmest.schema.readings import CLOCK, length_of

Rounded = Callable[[int, int], tuple[int, int]]

MOST_HOURS = 1000
"""The largest number of hours of a range of dates that a draft has as bins."""
TIMED = 0.01
"""The share of dates with a time other than midnight from which on they are dates with times."""
UNITS = (("second", 1, 600), ("minute", 60, 36_000), ("hour", 3600, 20 * DAY), ("day", DAY, np.inf))
"""The units of durations, in seconds, each with the longest duration that a draft has it for."""


def date_lines(days: np.ndarray, timed: float) -> tuple[list[str], list[str]]:
    """Return the lines of a schema and the notes for dates.

    Args:
        days: as datetime64[D].
        timed: the share of them that have a time other than midnight.
    """
    first, last = days.min(), days.max()
    span = int((last - first).astype(int))
    hours = (span + 1) * 24
    if timed >= TIMED and hours <= MOST_HOURS:
        return ["type: date", f"min: {first}", f"max: {last}", "unit: hour"], []
    unit = "day" if span <= 100 else "month" if span <= 3660 else "year"
    bounds = [f"min: {first.astype('M8[Y]')}-01-01", f"max: {last.astype('M8[Y]')}-12-31"]
    lost = f"THE TIMES OF DAY ARE LOST: unit: hour WOULD KEEP THEM, IN {hours:,} BINS OR MORE."
    return ["type: date", *bounds, f"unit: {unit}"], [lost] if timed >= TIMED else []


def timed_share(text: Any) -> float:
    """Return the share of texts that have a time of day other than midnight."""
    some = text.str.contains(r"\d[T ]\d?\d:\d\d")
    midnight = text.str.contains(r"[T ](?:0?0|12):00(?::00(?:\.0*)?)?(?: ?[Aa][Mm])?(?:Z|[+-]\d\d:?\d\d)?$")
    noon = text.str.contains(r"[T ]12:00(?::00)?$")
    return float((some & (~midnight | noon)).mean())


@dataclass(frozen=True)
class Timed:
    """The lines of a schema for texts, and those texts that are not of that kind."""

    lines: list[str]
    odd: Any


def clocks_in(text: Any) -> Timed | None:
    """Return the times of day among texts; None where too few are."""
    if not text.str.contains(":", regex=False).mean() >= ENOUGH_DATES:
        return None
    read = text.str.fullmatch(CLOCK).astype(bool)
    if read.mean() < ENOUGH_DATES:
        return None
    half = text.str.fullmatch(r"\d?\d:\d\d [AaPp][Mm]").mean() >= ENOUGH_DATES
    return Timed(["type: time", "unit: hour", *(['format: "%I:%M %p"'] if half else [])], text[~read])


def durations_in(text: Any, rounded: Rounded) -> Timed | None:
    """Return the durations among texts; None where too few are.

    Texts such as 14:35 may be times of day: they are durations if one is longer than a day.

    Args:
        text: the texts.
        rounded: rounds a least and a greatest whole number outwards.
    """
    if not text.str.contains(r"\d:\d\d|\d days?").mean() >= ENOUGH_DATES:
        return None
    if not text.str.contains(r"\d day|^-?(?:2[4-9]|[3-9]\d|\d{3,}):").any():
        return None
    known = {item: length_of(item, 1) for item in text.unique() if re.search(r"\d:\d\d|\d day", item)}
    seconds = [known.get(item) for item in text]
    read = np.array([second is not None for second in seconds])
    if read.mean() < ENOUGH_DATES:
        return None
    return Timed(duration_lines(np.array([second for second in seconds if second is not None]), rounded), text[~read])


def duration_lines(seconds: np.ndarray, rounded: Rounded) -> list[str]:
    """Return the lines of a schema for durations in seconds; `rounded` is as for `durations_in`."""
    longest = int(np.abs(seconds).max())
    unit, step = next((unit, step) for unit, step, most in UNITS if longest <= most)
    low, high = rounded(int(seconds.min()) // step, int(seconds.max()) // step)
    bins = ["bins: 50"] if high - low >= 200 else []
    return ["type: duration", f"min: {low}", f"max: {high}", f"unit: {unit}", *bins]
