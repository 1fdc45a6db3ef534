"""Guesses about numbers, for drafts: how they are written, codes or amounts, bounds, bins and points."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgmest.schema.guess_written import ENOUGH_NUMBERS, written_form
from pgmest.schema.notation import quoted
from pgmest.schema.numerals import GROUP_MARKS as MARKS
from pgmest.schema.tally import Tally

MOST_MARKERS = 5
"""The largest number of odd values that are listed as markers of missing values."""
MANY_NUMBERS = 20

LOW_SENTINELS = (*range(-9, 0), -66, -77, -88, -97, -98, -99, -666, -777, -888, -997, -998, -999, -9999, -99999)
HIGH_SENTINELS = (99, 999, 9999, 99999, 999999)

MOST_CODES, ROWS_EACH = 31, 3
"""The largest number of distinct numbers that are listed as codes, and the least number of rows of each, on average."""
MORE_CODES, MORE_ROWS_EACH = 50, 20
"""These limits where there are gaps between the numbers."""
WIDE = 200
"""The number of whole values from which on they are put into bins."""
WHOLE_BINS, REAL_BINS = 50, 20
POINT_SHARE, MOST_POINTS = 0.05, 5
"""The share of the rows of a value that is a bin alone, where values are put into bins, and the most such values."""
CROWDED = 0.5
"""The share of the rows in one bin of equal ones from which on bins grow with the values."""
LADDERS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,))
MOST_EDGES = 50
HUGE = 1e300
"""The largest bound of a schema."""

SIGNS = ("$", "€", "£", "¥", "₹", "%", "EUR", "USD", "GBP", "CHF", "JPY")
GROUP_MARKS = MARKS[2:]
"""The separators of thousands besides the point and the comma."""
TOP_CODE = (
    r"[>≥]?\s*(\d+)\s*(?:\+|plus|(?:years? |yrs? )?(?:and|or|&) (?:over|older|more|above|greater|up))|[>≥]\s*(\d+)"
)
"""The texts of a top bin, such as 85+ and "85 and over"."""
BELOW = r"[<≤]=?\s*\d+(?:[.,]\d+)?"
"""The texts of values below what a device detects, such as <0.5."""


@dataclass(frozen=True)
class Numbers:
    """Numbers, and the other values of their column.

    Attributes:
        tally: the numbers, as floats or integers.
        odd: the other values, as texts.
        ignore, decimal: how texts write numbers, as in a schema.
        top: the number of the top bin, if a text such as 85+ names one.
        measured: whether the numbers are floats, or written with a decimal mark.
        notes: what a draft says about it.
        spelled: the texts of numbers that may mean missing values.
        written: what is around the numbers, their separator of thousands, and their decimals, as in a schema.
        alike: numbers of which two texts are codes, it seems, such as 1.1 and 1.10.
    """

    tally: Tally
    odd: Tally
    ignore: tuple[str, ...] = ()
    decimal: str = "."
    top: float | None = None
    measured: bool = False
    notes: tuple[str, ...] = ()
    spelled: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    written: str = "{}"
    alike: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Return whether Python reads the texts as they are."""
        return not self.ignore and self.decimal == "."

    @property
    def writing(self) -> list[str]:
        """The lines of a schema that say how texts write numbers."""
        ignore = [f"ignore: [{', '.join(map(quoted, self.ignore))}]"] if self.ignore else []
        decimal = [f'decimal: "{self.decimal}"'] if self.decimal != "." else []
        written = [f"written: {quoted(self.written)}"] if self.written != "{}" else []
        return [*ignore, *decimal, *written]


# -- numbers among texts ----------------------------------------------------------------------------------------------


def plain_numbers(text: Any) -> np.ndarray:
    """Return which texts are numbers: 7 and -2.5 are, 007 is a label."""
    form = r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    plain = text.str.fullmatch(form).to_numpy(dtype=bool)
    finite = np.isfinite(text.where(plain, "0").astype(float).to_numpy())  # 1e400 is infinite
    return plain & finite


def numbers_in(tally: Tally) -> Numbers | None:
    """Return the numbers among texts, however they are written; None where too few are."""
    text = tally.texts
    if tally.share(text.str.contains(r"\d").to_numpy(dtype=bool)) < 0.5:
        return None
    for ignore, decimal in _writings(text):
        short = text
        for sign in ignore:
            short = short.str.replace(sign, "", regex=False)
        if decimal == ",":
            short = short.str.replace(".", "?", regex=False).str.replace(",", ".", regex=False)
        short = short.str.strip()
        read = plain_numbers(short) & _grouped(text, ignore, decimal)
        odd = tally.where(~read)
        found = replace(tally.where(read), values=short[read].astype(float).to_numpy()).merged()
        if _enough(found, odd):
            measured = bool(short[read].str.contains(".", regex=False).any())
            spelled = _spelled(tally.values[read], short[read].astype(float).to_numpy())
            form = written_form(tally.where(read), ignore, decimal)
            alike = _alike(tally.values[read]) if not ignore and decimal == "." else ()
            return Numbers(found, odd, ignore, decimal, None, measured, (), spelled, form, alike)
        if decimal == "." and (top := _with_top(found, odd, ignore)) is not None:
            return top
    return None


def _alike(texts: np.ndarray) -> tuple[str, ...]:
    """Return the texts that differ in the zeros at their end only, behind other decimals: 1.1 and 1.10, not 1.0."""
    short: dict[str, list[str]] = {}
    for text in texts:
        if re.fullmatch(r"\d+\.\d*[1-9]0*", text):
            short.setdefault(text.rstrip("0"), []).append(text)
    return next((tuple(sorted(same)) for same in short.values() if len(same) > 1), ())


def _spelled(texts: np.ndarray, numbers: np.ndarray) -> dict[float, tuple[str, ...]]:
    """Return the texts of each number that may mean a missing value."""
    found: dict[float, tuple[str, ...]] = {}
    for place in np.flatnonzero(np.isin(numbers, (*LOW_SENTINELS, *HIGH_SENTINELS))):
        found[numbers[place]] = (*found.get(numbers[place], ()), texts[place])
    return found


def _writings(text: Any) -> Iterable[tuple[tuple[str, ...], str]]:
    """Ways in which the numbers may be written, the plainest first."""
    yield (), "."
    joined = set("".join(text))
    signs = tuple(sign for sign in SIGNS if set(sign) <= joined and text.str.contains(sign, regex=False).any())
    if signs:
        yield signs, "."
    if unit := _unit_of(text):
        signs = (*signs, unit)
        yield (unit,), "."
    if "," in joined:
        yield (*signs, ","), "."
        yield (*signs, *(["."] if text.str.contains(r"\d\.\d").any() else [])), ","
    for mark in GROUP_MARKS:
        if mark in joined and text.str.count(r"\d").nunique() > 1:  # else these are codes of one length
            yield (*signs, mark), "."
            if "," in joined:
                yield (*signs, mark), ","


def _unit_of(text: Any) -> str | None:
    """Return what stands behind the numbers in many texts, such as kg; None if that is not the same."""
    behind = (
        text.str.extract(rf"^-?\d(?:[\d.,{''.join(GROUP_MARKS)}]*\d)?\s*(°?[^\W\d_][^\d-]*)$")[0].dropna().str.strip()
    )
    same = len(text) > MOST_CODES and len(behind) >= ENOUGH_NUMBERS * len(text) and behind.nunique() == 1
    return str(behind.iloc[0]) if same else None


def _grouped(text: Any, ignore: tuple[str, ...], decimal: str) -> np.ndarray:
    """Return which texts have ignored separators of thousands between groups of three digits only."""
    separator = next((mark for mark in (".", ",", *GROUP_MARKS) if mark in ignore), None)
    if separator is None:
        return np.ones(len(text), dtype=bool)
    mark = re.escape(separator)
    form = rf"[^\d]*(?:\d+|\d{{1,3}}(?:{mark}\d{{3}})+)(?:{re.escape(decimal)}\d*)?[^\d]*"
    return text.str.fullmatch(form).to_numpy(dtype=bool)


def _enough(numbers: Tally, odd: Tally) -> bool:
    """Return whether the values beside numbers are few, or a few words."""
    if not odd.distinct:
        return True
    if (_tops(odd) >= numbers.values.max(initial=-np.inf)).any():
        return False
    rows = numbers.rows + odd.rows
    if odd.rows <= (1 - ENOUGH_NUMBERS) * rows:
        return True
    words = odd.texts.str.fullmatch(rf"\D*|{BELOW}").all() and odd.distinct <= MOST_MARKERS
    return words and 2 * odd.rows <= rows and numbers.distinct >= MANY_NUMBERS


def _tops(odd: Tally) -> np.ndarray:
    """Return the number of each text of a top bin, NaN for other texts."""
    found = odd.texts.str.extract(f"^(?:{TOP_CODE})$")
    return found[0].fillna(found[1]).astype(float).to_numpy()


def _with_top(numbers: Tally, odd: Tally, ignore: tuple[str, ...]) -> Numbers | None:
    """Return the numbers with a text such as 85+ read as the greatest of them; None without such a text."""
    tops = _tops(odd)
    is_top = ~np.isnan(tops)
    if numbers.distinct <= MOST_CODES or not is_top.any() or (tops[is_top] < numbers.values.max()).any():
        return None
    if len(set(tops[is_top])) > 1 or not _enough(numbers, odd.where(~is_top)):
        return None
    texts, top = odd.values[is_top].tolist(), float(tops[is_top][0])
    signs = dict.fromkeys(part for text in texts for part in re.split(r"\d+", text) if part.strip())
    values, counts = np.append(numbers.values, top), np.append(numbers.counts, odd.counts[is_top].sum())
    note = f"{' AND '.join(map(repr, texts))} COUNTS AS {top:.0f}, THE TOP BIN, AND IS WRITTEN {top:.0f}."
    ignored = (*ignore, *sorted((sign.strip() for sign in signs), key=len, reverse=True))
    tally = replace(numbers, values=values, counts=counts).merged()
    return Numbers(tally, odd.where(~is_top), ignored, ".", top, notes=(note,))


# -- codes and ranges -------------------------------------------------------------------------------------------------


def are_whole(tally: Tally) -> bool:
    """Return whether all numbers are whole, and small enough to be exact as floats."""
    numbers = tally.values.astype(np.float64)
    return bool((np.abs(numbers) < 2**53).all() and (numbers == np.floor(numbers)).all())


def are_few(tally: Tally) -> bool:
    """Return whether there are so few distinct numbers that each can be listed."""
    if tally.distinct == 1:
        return True
    if 2 * (tally.counts < ROWS_EACH).sum() > tally.distinct:  # most are rare, as amounts are
        return False
    if tally.distinct <= MOST_CODES:
        return tally.rows >= ROWS_EACH * tally.distinct
    places = _places(tally.values.astype(np.float64))
    gaps = places is None or np.ptp(tally.values) * 10.0**places >= 1.2 * tally.distinct
    return tally.distinct <= MORE_CODES and tally.rows >= MORE_ROWS_EACH * tally.distinct and gaps


def range_lines(tally: Tally, top: float | None = None) -> list[str]:
    """Return the lines of a schema for amounts: type, bounds rounded outwards, bins and points."""
    if are_whole(tally):
        return _whole_range(tally, top)
    return _real_range(tally)


def _whole_range(tally: Tally, top: float | None) -> list[str]:
    low, high = int(tally.values.min()), int(tally.values.max())
    least, most = (low, high) if are_few(tally) else whole_bounds(low, high)
    if top is not None:
        most = high
    if most - least < WIDE:
        return ["type: integer", f"min: {least}", f"max: {most}"]
    points = [*_points(tally), *([float(high)] if top is not None and high not in _points(tally) else [])]
    edges = _growing_edges(_without(tally, points), (least, high), WHOLE_BINS, 1.0)
    shown = [f"points: [{', '.join(map(number_text, points))}]"] if points else []
    if edges:
        return ["type: integer", f"edges: [{', '.join(f'{edge:.0f}' for edge in edges)}]", *shown]
    return ["type: integer", f"min: {least}", f"max: {most}", f"bins: {WHOLE_BINS}", *shown]


def _real_range(tally: Tally) -> list[str]:
    numbers = tally.values.astype(np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high) * 1e-6, 1e-300)))
    least = 0.0 if 0 <= low <= high / 2 else math.floor(low / step) * step
    least -= step if least > low else 0.0  # a number too small to be divided by the step
    most = (math.floor(high / step) + 1) * step
    most = high if high > least and math.floor(high / step) * step == high else most
    least, most = max(least, -HUGE), min(most, HUGE)
    if not least < most:  # all are huge
        least, most = min(least, 0.0), max(most, 0.0)
    decimals = _places(numbers)
    if decimals is not None:
        exact = max(abs(least), abs(most)) * 10.0**decimals < 2**53
        decimals = decimals if exact and 10.0 ** (1 - decimals) <= step <= 1e9 else None
    points = [point for point in _points(tally) if least <= point <= most]
    unit = 0.0 if decimals is None else 10.0**-decimals
    edges = _growing_edges(_without(tally, points), (least, high), REAL_BINS, unit) if most < 1e15 else []
    bins = REAL_BINS if unit == 0 else min(REAL_BINS, int((most - least) / (2 * unit)))  # of two numbers at least
    bounds = [f"min: {least:.12g}", f"max: {most:.12g}", f"bins: {bins}"]
    lines = [f"edges: [{', '.join(f'{edge:.12g}' for edge in edges)}]"] if edges else bounds
    lines += [f"points: [{', '.join(map(number_text, points))}]"] if points else []
    return ["type: real", *lines, *([f"decimals: {decimals}"] if decimals is not None else [])]


def number_text(number: float) -> str:
    """Return a number as a schema writes it, exactly; whole ones without decimals.

    >>> number_text(12.0), number_text(0.1)
    ('12', '0.1')
    """
    return f"{number + 0.0:.0f}" if abs(number) < 1e15 and number == math.floor(number) else repr(number)


def whole_bounds(low: int, high: int) -> tuple[int, int]:
    """Return bounds rounded outwards, to what people would choose: 17..58 to 0..59."""
    span = str(max(high - low, 1))
    step = 10 ** max(len(span) - (2 if span[0] == "1" else 1), 0)
    least = 0 if 0 <= low <= high / 2 else low // step * step
    return least, high if high % step == 0 else high // step * step + step - 1


def upper_bound(most: float) -> float:
    """Return a positive number rounded up to its first digit, as people choose bounds: 0.73 to 0.8.

    >>> upper_bound(417.2), upper_bound(0.73), upper_bound(3.0)
    (500.0, 0.8, 3.0)
    """
    digit, exponent = f"{most:e}"[0], math.floor(math.log10(most))
    first = int(digit) + (float(f"{digit}e{exponent}") < most)
    return float(f"{first}e{exponent}")


def _places(numbers: np.ndarray) -> int | None:
    """Return the least number of decimal places, up to 4, that all numbers have; None if they have more."""
    with np.errstate(all="ignore"):
        return next((places for places in range(5) if (np.round(numbers, places) == numbers).all()), None)


def _points(tally: Tally) -> list[float]:
    """Return the values that too many rows have to be spread over a bin, ascending."""
    common = (tally.counts >= POINT_SHARE * tally.rows) & (tally.counts >= ROWS_EACH)
    commonest = np.argsort(-tally.counts, kind="stable")[:MOST_POINTS]
    found: list[float] = []
    for point in (float(tally.values[place]) + 0.0 for place in commonest if common[place]):
        if all(abs(point - other) > sys.float_info.min for other in found):  # no closer numbers have bins of their own
            found.append(point)
    return sorted(found)


def _without(tally: Tally, points: Sequence[float]) -> Tally:
    return tally.where(~np.isin(tally.values, points))


def _growing_edges(tally: Tally, bounds: tuple[float, float], bins: int, unit: float) -> list[float]:
    """Return edges such as 0, 10, 20, 50, 100 where most amounts are small beside the greatest, else an empty list."""
    if not tally.distinct or bounds[0] < 0:
        return []
    numbers, weights, most = tally.values.astype(np.float64), tally.counts, bounds[1]
    crowd = _largest_share(numbers, weights, np.linspace(*bounds, bins + 1))
    order = np.argsort(numbers)
    small = float(numbers[order][np.searchsorted(np.cumsum(weights[order]), 0.05 * weights.sum())])
    if crowd < CROWDED or small <= 0:
        return []
    for ladder in LADDERS:
        powers = range(math.floor(math.log10(small)), math.floor(math.log10(most)) + 2)
        steps = [float(f"{rung}e{power}") for power in powers for rung in ladder]
        steps = [step for step in steps if step >= unit and not (unit == 1 and step % 1)]
        start = max([step for step in steps if step <= small], default=small if unit == 0 else unit)
        end = min(step for step in steps if step > most)
        edges = sorted({0.0, *(step for step in steps if start <= step <= end)})
        if len(edges) > MOST_EDGES or any(b - a < unit for a, b in itertools.pairwise(edges)):
            continue
        return edges if _largest_share(numbers, weights, np.array(edges)) <= 0.7 * crowd else []
    return []


def _largest_share(numbers: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> float:
    """Return the largest share of the rows in one bin."""
    bins = np.searchsorted(edges, numbers, side="right")
    return float(np.bincount(bins, weights=weights).max() / weights.sum())
