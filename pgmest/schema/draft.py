"""A first schema, guessed from a table: what it takes from the records it marks in capital letters, to be replaced."""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.beginning import beginning_of
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.dates import steps_in
from pgmest.data.frames import ReadingWarning
from pgmest.data.names import index_note
from pgmest.data.table_file import TableFile, is_file, table_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid, Integer, Real
from pgmest.schema.guess import MOST_MARKERS, Dates, Numeric, booleans, dates_in, free_text, numbers_in, sentinels
from pgmest.schema.guess_times import clocks_in, date_lines, duration_lines, durations_in, timed_share
from pgmest.schema.proposals import orders_in, sums_in
from pgmest.schema.schema import DRAFT_MARK, Schema

ROWS_READ = 1_000_000
"""At most this many rows are looked at, the first ones."""

MOST_LISTED = 50
"""Values of a categorical column; the most frequent ones are listed."""

MANY_ROWS, RARE = 100, 3
"""With this many rows or more, values of fewer than this many of them are not listed."""

FEWEST_ROWS, LONG = 20, 6
"""With this many rows or more, a column with another text of about that length in each of them is an identifier."""

MARKERS = ("", "?", "-", ".", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "none", "missing")
"""Texts that are taken for missing values."""

SURROGATES = re.compile("[\ud800-\udfff]")
"""The lone surrogates, which no file can hold: drafts show U+FFFD instead, as schemas are files."""

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


PROPOSED = """\
# These hold in all rows. Uncomment (with the line constraints:) what must hold by its meaning; delete the others:
"""


def draft(table: Any, *, bought: bool = False) -> str:
    """A schema in YAML for a raw table, to edit: **its bounds and values are those of the records**, and it says so.

    Bounds are rounded outwards; of text the most frequent values are listed, rare ones never; columns that look like
    identifiers or free text are left out, with a comment. Currency signs, thousands separators, formats of dates (day
    first where both are possible), capital and small letters, and numbers that mean missing values, such as -99,
    are proposed; a few odd values do not change what a column is. Orders and sums that hold in all rows stand at the
    end, as comments. Of a file, titles above the header, a second row of the header, a missing header and the delimiter
    of a `.txt` file are guessed on strong evidence; a warning says so, and `file:` in the draft has the result.

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
        bought: whether bounds and values are to be bought when the schema is used (`pgmest.synthesizer.purchase`)
            instead of being read here. Types, formats and markers of missing values are read nevertheless, and marked.

    Raises:
        DataError: the table has no rows or no columns.
        FileFormatError, ArgumentError: as for `Schema.encode`.
    """
    table, notes = _located(table)
    columns = _columns(table)
    if not columns or not len(next(iter(columns.values()))):
        named = table if is_file(table) else "the table"
        raise DataError(
            f"{named} has no rows below its header, so there is nothing to guess from. Is it the right file?"
        )
    lines = itertools.chain.from_iterable(_entry(name, values, bought) for name, values in columns.items())
    text = HEADER.replace("columns:\n", _file_lines(table, notes) + "columns:\n") + "\n".join(lines) + "\n" + FOOTER
    proposed = [] if bought else [f"#   - {line}  {PRIVATE_MARK}" for line in _proposed(text, columns)]
    return text + (PROPOSED + "\n".join(proposed) + "\n" if proposed else "")


def _proposed(text: str, columns: dict[str, np.ndarray]) -> Iterator[str]:
    """The orders and sums that hold among the numbers and dates of a drafted schema, as constraints."""
    others: dict[str, dict[str, np.ndarray]] = {}  # dates, times and durations
    numbers: dict[str, np.ndarray] = {}
    for column in _columns_of(text):
        if isinstance(column, Grid):
            found, read = column.raw_numbers(Values.of(columns[column.name]))
            kind = numbers if isinstance(column, Integer | Real) else others.setdefault(column.kind, {})
            kind[column.name] = np.where(read, found.astype(np.float64), np.nan)
    sums = dict(sums_in(numbers))
    rest = {name: values for name, values in numbers.items() if name not in sums}
    chains = [chain for dates in others.values() for chain in orders_in(dates, shared=0.0)]
    for chain in (*chains, *orders_in(rest)):
        yield f"ordered: [{', '.join(map(_quoted, chain))}]"
    for total, parts in sums.items():
        yield f"sum: {{{_quoted(total)}: [{', '.join(map(_quoted, parts))}]}}"


def _columns_of(text: str) -> Sequence[SchemaColumn]:
    """The columns of a draft; none if all were left out."""
    return Schema.parse(text).described if re.search(r"^  [^ #]", text, re.MULTILINE) else ()


def _located(table: Any) -> tuple[Any, Sequence[str]]:
    """Return a file with the place where its table begins, and what was decided about it, which is also a warning."""
    found = beginning_of(table_file(table)) if is_file(table) else None
    note = index_note(table) if found is None else ""
    notes = (*([note] if note else []), *(found.notes if found else ()))
    for text in notes:
        warnings.warn(text, ReadingWarning, stacklevel=3)
    return (found.file, (*found.decided, *found.doubts)) if found else (table, notes)


def _file_lines(table: Any, notes: Sequence[str]) -> str:
    """Return the lines that say how the file is read, if the caller said so or it was guessed."""
    said = table.said if isinstance(table, TableFile) else {}
    options = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in said.items())
    told = "".join(f"# THE TABLE: {note}.\n" for note in notes)
    return told + (f"file: {{{options}}}\n" if options else "")


def _columns(table: Any) -> dict[str, np.ndarray]:
    if not is_file(table):
        return {name: values.with_nulls() for name, values in read_values(table, rows=ROWS_READ).items()}
    pieces: list[dict[str, Values]] = []
    for piece in read_pieces(table):
        pieces.append(piece)
        if sum(len(next(iter(piece.values()), ())) for piece in pieces) >= ROWS_READ:
            break
    names = pieces[0] if pieces else ()
    return {name: np.concatenate([piece[name].with_nulls() for piece in pieces]) for name in names}


def _entry(name: str, values: np.ndarray, bought: bool = False) -> Iterator[str]:
    """The lines that describe one column."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values), dtype=bool)
    markers: list[str] = []
    if values.dtype.kind in "OUT":
        marked = as_text(values).isin(MARKERS).to_numpy() & ~gaps
        markers = sorted(set(as_text(values[marked])) - {""})
        gaps = gaps | marked
    known = values[~gaps]
    guess = _guess(known) if len(known) else None
    if guess is None or not guess.lines:
        reason = "HOLDS NO VALUES" if guess is None else guess.left_out
        yield f"  # {_quoted(name)} IS LEFT OUT: IT {reason}. {PRIVATE_MARK.removeprefix('# ')}."
        return
    yield f"  {_quoted(name)}:"
    markers = [*markers, *guess.markers]
    lines = [*guess.lines]
    if markers:
        lines.append(f"missing: [{', '.join(map(_marker, markers))}]")
    elif gaps.any() or guess.odd:
        lines.append("missing: true")
    if bought:
        yield from _to_be_bought(lines)
        return
    yield from (f"    {line}  {PRIVATE_MARK}" for line in lines)
    yield from (f"    # {note} {PRIVATE_MARK.removeprefix('# ')}." for note in guess.notes)


def _to_be_bought(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a column whose bounds or values are to be bought; what else was read stays, and is marked."""
    replaced = {"min": "bounds: bought", "values": "values: bought", "other": "other: other"}
    if lines[0] in ("type: time", "type: duration"):  # of which nothing can be bought
        yield from (f"    {line}  {PRIVATE_MARK}" for line in lines)
        return
    for line in lines:
        key = line.partition(":")[0]
        if key in replaced:
            yield f"    {replaced[key]}"
        elif key not in ("max", "bins") and line != "unit: hour":
            yield f"    {line}  {PRIVATE_MARK}"


@dataclass(frozen=True)
class Guess:
    """The guess about a column: lines of a schema, markers of missing values and notes; or why it is left out."""

    lines: Sequence[str] = ()
    markers: Sequence[str] = ()
    odd: int = 0
    notes: Sequence[str] = ()
    left_out: str = "LOOKS LIKE AN IDENTIFIER OR FREE TEXT"


def _guess(values: np.ndarray) -> Guess:
    """Return the guess of a column without missing values."""
    if values.dtype.kind == "M":
        days = values.astype("M8[D]")
        lines, notes = date_lines(days, float((days != values).mean()))
        return Guess(lines, notes=notes)
    if values.dtype.kind == "m":
        return Guess(duration_lines(steps_in(values, 1), _whole_bounds))
    text = as_text(values)
    counts = text.value_counts()
    labels = [] if values.dtype.kind == "b" else booleans(counts)
    if labels is not None:
        return Guess(["type: boolean", *([f"labels: [{', '.join(map(_quoted, labels))}]"] if labels else [])])
    if values.dtype.kind in "iuf":
        return _numeric(Numeric(text, text[:0])) if np.isfinite(values.astype(np.float64)).all() else Guess()
    dates = dates_in(text)
    if dates is not None:
        return _dated(dates, timed_share(text))
    times = durations_in(text, _whole_bounds) or clocks_in(text)
    if times is not None:
        return _with_odd(times.lines, times.odd, [], "A TIME")
    numbers = numbers_in(text)
    if numbers is not None:
        return _numeric(numbers)
    return _listed(text, counts)


def _dated(dates: Dates, timed: float) -> Guess:
    lines, notes = date_lines(dates.days, timed)
    form = [] if dates.form is None else [f'format: "{dates.form}"']
    doubt = [f"IT COULD AS WELL BE WRITTEN {dates.doubtful}: ASK."] if dates.doubtful else []
    return _with_odd([*lines, *form], dates.odd, [*doubt, *notes], "A DATE")


def _numeric(found: Numeric) -> Guess:
    numbers = found.numbers.astype(float)
    markers = sentinels(numbers)
    kept = found.numbers[~numbers.isin(markers)]
    ignore = [f"ignore: [{', '.join(map(_quoted, found.ignore))}]"] if found.ignore else []
    decimal = [f'decimal: "{found.decimal}"'] if found.decimal != "." else []
    return _with_odd([*_number(kept), *ignore, *decimal], found.odd, [], "A NUMBER", [str(mark) for mark in markers])


def _with_odd(lines: list[str], odd: Any, notes: list[str], kind: str, markers: Sequence[str] = ()) -> Guess:
    """Return a guess in which few odd values, such as "unknown", are markers of missing values; many are not listed."""
    words = sorted(odd.unique())
    if len(words) <= MOST_MARKERS:
        return Guess(lines, [*markers, *words], len(odd), notes)
    note = f"{len(odd):,} VALUES ARE NOT {kind}, AND WILL BE MISSING."
    return Guess(lines, markers, len(odd), [*notes, note])


def _listed(text: Any, counts: Any) -> Guess:
    """The most frequent values, but for those that few rows have; one spelling of each."""
    unique = len(counts) == len(text) >= FEWEST_ROWS and text.str.len().mean() >= LONG
    if unique or len(counts) > max(MOST_LISTED, len(text) // 2):
        return Guess()
    if free_text(text, counts):
        return Guess(left_out="IS FREE TEXT")
    folded = counts.groupby(counts.index.str.lower()).agg("sum")
    spelled = counts.groupby(counts.index.str.lower()).agg("idxmax")
    commonest = folded.sort_values(ascending=False, kind="stable")
    rare = commonest < RARE if len(text) >= MANY_ROWS else commonest < 0
    listed = sorted(spelled[commonest[~rare].index[:MOST_LISTED]])
    if not listed:
        return Guess()
    taken = {label.lower() for label in listed}
    other = next(label for label in ("other", "any other", "not listed") if label not in taken)
    ignore_case = ["ignore_case: true"] if len(folded) < len(counts) else []
    left = [f"{rare.sum():,} RARE VALUES ARE NOT LISTED, AND WILL BE '{other}'."] if rare.any() else []
    undecoded = int(text.str.contains("\ufffd", regex=False).sum())
    left += [f"{undecoded:,} VALUES ARE NOT UTF-8: SAY THE FILE'S --encoding."] if undecoded else []
    values = f"values: [{', '.join(map(_quoted, listed))}]"
    return Guess(["type: categorical", values, f"other: {other}", *ignore_case], notes=left)


def _marker(text: str) -> str:
    return text if re.fullmatch(r"-?(?:0|[1-9]\d*)", text) else _quoted(text)


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


def as_text(values: np.ndarray) -> Any:
    """Return values of any type as a pandas Series of text without surrounding blanks or lone surrogates."""
    import pandas as pd

    texts = [SURROGATES.sub("\ufffd", value if isinstance(value, str) else str(value)) for value in values]
    return pd.Series(texts, dtype=object).str.strip()


def _quoted(text: str) -> str:
    """The text as YAML, in quotes where it would be read as something else."""
    plain = re.fullmatch(r"[A-Za-z](?:[\w./+-]| (?! ))*[\w.+]|[A-Za-z]", text, re.ASCII)
    reserved = text.lower() in {"true", "false", "null"}
    if plain and not reserved:
        return text
    safe = (char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text)
    return f'"{"".join(safe)}"'
