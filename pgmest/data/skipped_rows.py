"""Rows of a file that are no records: totals and notes below a table, which the first value of the row tells.

The rule looks at one row at a time, and is stated in the schema: no record decides what becomes of another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pgmest.errors import ArgumentError

ANY_END = "*"
"""The sign at the end of a text that matches any other end."""


def checked_skip_rows(texts: Any) -> tuple[str, ...] | None:
    """Return `skip_rows` as a tuple of texts without blanks around them, or None.

    Raises:
        ArgumentError: it is no list of texts, or one of them matches every row.
    """
    found = list(texts) if isinstance(texts, Sequence) and not isinstance(texts, str | bytes) else []
    right = found and all(isinstance(text, str) and text.strip() != ANY_END for text in found)
    if texts is None or right:
        return None if texts is None else tuple(dict.fromkeys(text.strip() for text in found))
    allowed = "a list of texts with which rows begin that are no records, such as [Total, 'Source:*']"
    raise ArgumentError.of("skip_rows", texts, allowed)


def first_value(fields: Iterable[str | None]) -> str:
    """Return the first field of a row that is not blank, without blanks around it; "" for none."""
    return next((field.strip() for field in fields if field and field.strip()), "")


def skipping(texts: Sequence[str], first: str) -> str | None:
    """Return the text for which a row with this first value is left out; None for a record.

    >>> [skipping(["Total", "Source:*", ""], first) for first in ("Total", "Totals", "Source: 7", "")]
    ['Total', None, 'Source:*', '']
    """
    if first in texts:
        return first
    return next((text for text in texts if text.endswith(ANY_END) and first.startswith(text[:-1])), None)


def without_skipped(frame: Any, texts: Sequence[str], left_out: Counter[str] | None = None) -> Any:
    """Return a pandas frame of texts without the rows that are left out, which are counted by the text for which."""
    first = frame.iloc[:, 0].fillna("").str.strip()
    for place in range(1, frame.shape[1]):
        blank = (first == "").to_numpy(dtype=bool)
        if not blank.any():
            break
        first = first.mask(blank, frame.iloc[:, place].fillna("").str.strip())
    reasons = first.map({value: skipping(texts, value) for value in first.unique()})
    if left_out is not None:
        left_out.update(reasons.dropna())
    return frame[reasons.isna().to_numpy(dtype=bool)]
