"""A first schema, guessed from a table: what it takes from the records it marks in capital letters, to be replaced."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.errors import DataError
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.schema.schema import DRAFT_MARK
from pgmest.data.values import Values, read_values

ROWS_READ = 1_000_000
"""The first so many rows are looked at."""

MOST_LISTED = 50
"""Values of a categorical column; the most frequent ones are listed."""

MARKERS = ("", "?", "-", ".", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "none", "missing")
"""Texts that are taken for missing values."""

PRIVATE_MARK = f"# {DRAFT_MARK}"

HEADER = f"""\
# A DRAFT, GUESSED FROM THE RECORDS. IT IS NOT SAFE TO PUBLISH, AND NEITHER IS ANYTHING MADE WITH IT.
# REPLACE EVERY LINE MARKED '{PRIVATE_MARK.removeprefix("# ")}' BY PUBLIC KNOWLEDGE: A CODE BOOK, A LAW, COMMON SENSE.
# THAT IS ALL OF IT: THE TYPES AND BINS, TOO, WERE CHOSEN BY THE VALUES. DELETE EACH MARK WHEN ITS LINE IS PUBLIC,
# THEN THESE LINES AND THE NEXT ONE: AS LONG AS ONE MARK IS LEFT, THE SCHEMA IS REFUSED.
drafted_from_private_data: true
columns:
"""

FOOTER = """\
# If a person can have several rows, say which column tells persons apart, and how many rows of each are counted:
# unit: {column: patient_id, at_most: 8}
# What cannot occur together makes the synthetic table better. Examples:
# constraints:
#   - impossible: {age: {max: 14}, marital-status: [married, widowed]}
#   - determines: {from: education, to: years-of-school, table: {high school: 12, college: [14, 16]}}
"""


def draft(table: Any) -> str:
    """A schema in YAML for a raw table, to edit: **its bounds and values are those of the records**, and it says so.

    Bounds are rounded outwards; of text the most frequent values are listed; columns that look like identifiers are
    left out, with a comment.

    >>> import pandas as pd
    >>> text = draft(pd.DataFrame({"age": [23, 58, 41], "sex": ["F", "M", "F"]}))
    >>> print(text[text.index("columns:") : text.index("# If")])
    columns:
      age:
        type: integer  # READ FROM THE PRIVATE DATA
        min: 0  # READ FROM THE PRIVATE DATA
        max: 59  # READ FROM THE PRIVATE DATA
      sex:
        type: categorical  # READ FROM THE PRIVATE DATA
        values: [F, M]  # READ FROM THE PRIVATE DATA
        other: other  # READ FROM THE PRIVATE DATA
    <BLANKLINE>

    Args:
        table: as for `Schema.encode`; of a file or a lazy frame the first 1,000,000 rows are read.

    Raises:
        DataError: the table has no rows or no columns.
        FileFormatError, ArgumentError: as for `Schema.encode`.
    """
    columns = _columns(table)
    if not columns or not len(next(iter(columns.values()))):
        raise DataError("the table has no rows, so there is nothing to guess from. Check its source.")
    lines = itertools.chain.from_iterable(_entry(name, values) for name, values in columns.items())
    return HEADER + "\n".join(lines) + "\n" + FOOTER


def _columns(table: Any) -> dict[str, np.ndarray]:
    if not isinstance(table, str | Path):
        return {name: values.with_nulls() for name, values in read_values(table, rows=ROWS_READ).items()}
    pieces: list[dict[str, Values]] = []
    for piece in read_pieces(table):
        pieces.append(piece)
        if sum(len(next(iter(piece.values()), ())) for piece in pieces) >= ROWS_READ:
            break
    names = pieces[0] if pieces else ()
    return {name: np.concatenate([piece[name].with_nulls() for piece in pieces]) for name in names}


def _entry(name: str, values: np.ndarray) -> Iterator[str]:
    """The lines that describe one column."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values), dtype=bool)
    markers: list[str] = []
    if values.dtype.kind in "OUT":
        text = as_text(values)
        words = _words_among_numbers(text[~gaps & ~text.isin(MARKERS).to_numpy()])
        marked = text.isin([*MARKERS, *words]).to_numpy() & ~gaps
        markers = sorted(set(text[marked]) - {""})
        gaps = gaps | marked
    known = values[~gaps]
    described = _described(known) if len(known) else None
    if described is None:
        reason = "HOLDS NO VALUES" if not len(known) else "LOOKS LIKE AN IDENTIFIER OR FREE TEXT"
        yield f"  # {_quoted(name)} IS LEFT OUT: IT {reason}. {PRIVATE_MARK.removeprefix('# ')}."
        return
    yield f"  {_quoted(name)}:"
    if markers:
        described = [*described, f"missing: [{', '.join(map(_quoted, markers))}]"]
    elif gaps.any():
        described = [*described, "missing: true"]
    yield from (f"    {line}  {PRIVATE_MARK}" for line in described)


def _described(values: np.ndarray) -> list[str] | None:
    """The lines of a column without missing values; None for identifiers."""
    import pandas as pd

    if values.dtype.kind == "M":
        return _date(values.astype("M8[D]"))
    text = as_text(values)
    if values.dtype.kind == "b" or set(text.str.lower().unique()) == {"true", "false"}:
        return ["type: boolean"]
    if text.str.fullmatch(r"\d{4}-\d\d-\d\d(?:[T ].*)?").all():
        days = pd.to_datetime(text.str.slice(0, 10), format="%Y-%m-%d", errors="coerce").dropna()
        if len(days):  # not only 2020-02-30
            return _date(days.to_numpy().astype("M8[D]"))
    if _all_numbers(values, text):
        return _number(text)
    counts = text.value_counts()
    if len(counts) > max(MOST_LISTED, len(values) // 2):
        return None
    listed = sorted(counts.index[:MOST_LISTED])
    other = next(label for label in ("other", "any other", "not listed") if label not in counts.index[:MOST_LISTED])
    return [
        "type: categorical",
        f"values: [{', '.join(map(_quoted, listed))}]",
        f"other: {other}",
    ]


def _all_numbers(values: np.ndarray, text: Any) -> bool:
    if values.dtype.kind in "iuf":
        return bool(np.isfinite(values.astype(np.float64)).all())
    return bool(_plain_numbers(text).all() and np.isfinite(text.astype(float)).all())  # 1e400 is none


def _plain_numbers(text: Any) -> Any:
    """Which texts are numbers: 7 and -2.5 are, 007 is a label."""
    form = r"(?=.*\d)[-+]?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][-+]?\d+)?"
    return text.str.fullmatch(form)


def _words_among_numbers(text: Any) -> list[str]:
    """The texts in a column of numbers, such as "unknown", where there are few; they stand for missing values."""
    words = text[~_plain_numbers(text).astype(bool)]
    few = len(words) <= len(text) // 20 and words.nunique() <= 5
    return sorted(words.unique()) if few else []


def _number(text: Any) -> list[str]:
    numbers = text.astype(float)
    low, high = float(numbers.min()), float(numbers.max())
    if max(abs(low), abs(high)) < 2**53 and (numbers == np.floor(numbers)).all():
        least, most = _whole_bounds(int(low), int(high))
        bins = ["bins: 50"] if most - least >= 200 else []
        return ["type: integer", f"min: {least}", f"max: {most}", *bins]
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high) * 1e-6, 1e-300)))
    least = 0.0 if 0 <= low <= high / 2 else math.floor(low / step) * step
    least -= step if least > low else 0.0  # a number too small to be divided by the step
    most = (math.floor(high / step) + 1) * step
    places = max((len(part) for part in text.str.extract(r"\.(\d+)$")[0].dropna().unique()), default=99)
    exact = max(abs(least), abs(most)) * 10.0**places < 2**53
    decimals = [f"decimals: {places}"] if places <= 4 and exact and 10.0 ** (1 - places) <= step <= 1e9 else []
    bounds = [f"min: {max(least, -1e300):.12g}", f"max: {min(most, 1e300):.12g}"]
    return ["type: real", *bounds, "bins: 20", *decimals]


def _whole_bounds(low: int, high: int) -> tuple[int, int]:
    """Rounded outwards, to what people would choose: 17..58 to 0..59."""
    step = 10 ** max(len(str(max(high - low, 1))) - 1, 0)
    least = 0 if 0 <= low <= high / 2 else low // step * step
    return least, high if step == 1 else high // step * step + step - 1


def _date(days: np.ndarray) -> list[str]:
    first, last = days.min().astype("M8[Y]"), days.max().astype("M8[Y]")
    span = int((days.max() - days.min()).astype(int))
    unit = "day" if span <= 100 else "month" if span <= 3660 else "year"
    bounds = [f"min: {first}-01-01", f"max: {last}-12-31"]
    return ["type: date", *bounds, f"unit: {unit}"]


def as_text(values: np.ndarray) -> Any:
    """Values of any type as a pandas Series of text without surrounding blanks."""
    import pandas as pd

    return pd.Series([value if isinstance(value, str) else str(value) for value in values], dtype=object).str.strip()


def _quoted(text: str) -> str:
    """The text as YAML, in quotes where it would be read as something else."""
    plain = re.fullmatch(r"[A-Za-z](?:[\w./+-]| (?! ))*[\w.+]|[A-Za-z]", text, re.ASCII)
    reserved = text.lower() in {"true", "false", "null"}
    if plain and not reserved:
        return text
    safe = (char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text)
    return f'"{"".join(safe)}"'
