"""Guesses about how texts write numbers, for drafts: what is around them, thousands, and decimals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pgmest.schema.numerals import GROUP_MARKS as MARKS
from pgmest.schema.numerals import around
from pgmest.schema.tally import Tally

ENOUGH_NUMBERS = 0.95
"""The share of texts that must be numbers for the others to be odd ones."""
UNSIGNED = re.compile(r"([^\d+-]*)(\d(?:.*\d)?)([^\d+-]*)", re.DOTALL)
"""The text of a number without a sign: what is before it, the number, and what is behind it."""
FORMS = 10_000
"""At most this many distinct texts are looked at for what is around the numbers."""


def written_form(tally: Tally, ignore: Sequence[str], decimal: str) -> str:
    """Return how nearly all texts write numbers, as in a schema: what is around them, thousands, and decimals."""
    parts = [(UNSIGNED.fullmatch(text), count) for text, count in zip(tally.values[:FORMS], tally.counts, strict=False)]
    ends: Counter[tuple[str, str]] = Counter()
    grouped: Counter[str] = Counter()
    places: Counter[int] = Counter()
    filled = False
    for found, count in parts:
        if found:
            ends[found[1], found[3]] += int(count)
            whole, _, rest = found[2].partition(decimal)
            places[len(rest) if rest.isdecimal() else 0] += int(count)
            filled |= len(rest) > 1 and rest.endswith("0")
            if sum(map(str.isdecimal, whole)) > 3:
                grouped[next((mark for mark in MARKS if mark in whole and mark in ignore), "")] += int(count)
    (before, behind), mark = _commonest(ends) or ("", ""), _commonest(grouped) or ""
    zeros = f"0{decimal}{'0' * _commonest(places)}" if filled and _commonest(places) else ""
    form = f"{before}{{{mark}{zeros}}}{behind}"
    return form if not around(form, ignore) else f"{{{mark}{zeros}}}"


def _commonest(counted: Counter[Any]) -> Any:
    """Return what nearly all have; None without such."""
    most = counted.most_common(1)
    return most[0][0] if most and most[0][1] >= ENOUGH_NUMBERS * counted.total() else None
