"""Guesses of what a column holds, for drafts, from the tally of its values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.data.dates import steps_in
from pgmest.errors import percent_text
from pgmest.schema.gap_words import GAP_TEXTS, may_be_gap, may_be_gaps
from pgmest.schema.guess_dates import Dates, compact_dates, dates_in, unknown_days
from pgmest.schema.guess_numbers import (
    MORE_ROWS_EACH,
    MOST_MARKERS,
    Numbers,
    are_few,
    are_whole,
    number_text,
    numbers_in,
    range_lines,
)
from pgmest.schema.guess_times import clocks_in, date_lines, duration_lines, durations_in, timed_share
from pgmest.schema.identifiers import (
    MOST_LISTED,
    Identifier,
    are_codes,
    identifier_in_numbers,
    identifier_in_texts,
    uncovered,
)
from pgmest.schema.notation import quoted
from pgmest.schema.sentinels import doubtful_sentinel, sentinels
from pgmest.schema.tally import Tally

MANY_ROWS, RARE = 100, 3
"""With this many rows or more, values of fewer than this many of them are not listed."""

BOOLEANS = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))

LISTED_WORDS, LISTED_LENGTH, LONGEST_LABEL = 4, 40, 200
FEW_TEXTS = 20


@dataclass(frozen=True)
class Guess:
    """The guess about a column: the lines of a schema, or why it is left out.

    Attributes:
        lines: the lines of the schema, without those about missing values.
        markers: the values that mean missing ones.
        gaps: whether any value is missing, or becomes missing.
        notes: the decisions to take, in capital letters.
        otherwise: the line about unlisted values, if no value can be missing.
        left_out: the reason why the column is left out; None if it is not.
        identifier: the finding that its values identify something.
        codes: whether it lists numbers, which may be amounts as well.
    """

    lines: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    gaps: bool = False
    notes: tuple[str, ...] = ()
    otherwise: str | None = None
    left_out: str | None = None
    identifier: Identifier | None = None
    codes: bool = False

    @classmethod
    def out(cls, found: Identifier) -> Guess:
        """Return the guess that a column identifies something."""
        return cls(left_out=found.reason, identifier=found)

    def described(self) -> list[str]:
        """Return the lines of a schema for the column, those about missing values included."""
        if self.markers:
            return [*self.lines, f"missing: [{', '.join(map(_marker, self.markers))}]"]
        if self.gaps:
            return [*self.lines, "missing: true"]
        return [*self.lines, *([self.otherwise] if self.otherwise else [])]


def guess(name: str, tally: Tally, amounts: bool = False) -> Guess:
    """Return the guess about a column.

    Args:
        name: of the column.
        tally: its values.
        amounts: whether numbers are amounts however few there are.
    """
    if tally.unread is not None:
        return Guess(left_out=f"ITS VALUES CANNOT BE READ: THEY ARE OF TYPE {tally.unread}")
    if tally.values.dtype.kind != "O":
        return _typed(name, tally, amounts) if tally.distinct else Guess(left_out="IT HOLDS NO VALUES")
    marked = np.isin(tally.values, GAP_TEXTS)
    markers = sorted(set(tally.values[marked]) - {""})
    known = tally.where(~marked)
    maybe = may_be_gaps(known.values)
    if not known.distinct:
        return Guess(left_out="IT HOLDS NO VALUES")
    gaps = bool(tally.gaps or marked.any())
    if maybe.any() and not maybe.all():
        found = _in_texts(name, known.where(~maybe), True, amounts)
        if found is not None and not any(line.startswith("labels:") for line in found.lines):
            more = sorted(known.values[maybe])
            return replace(found, markers=tuple(dict.fromkeys([*markers, *more, *found.markers])), gaps=True)
    found = _in_texts(name, known, gaps, amounts) or _labels(name, known, gaps)
    return replace(found, markers=(*markers, *found.markers), gaps=found.gaps or gaps)


def _typed(name: str, tally: Tally, amounts: bool) -> Guess:
    """Return the guess about values that have a type."""
    gaps = tally.gaps > 0
    if tally.values.dtype.kind == "b":
        return Guess(("type: boolean",), gaps=gaps)
    if tally.values.dtype.kind == "M":
        timed = tally.share(tally.values.astype("M8[D]") != tally.values)
        days = replace(tally, values=tally.values.astype("M8[D]")).merged()
        unknown = unknown_days(days)
        known = days.values[~np.isin(days.values, np.array(unknown, dtype="M8[D]"))]
        lines, notes = date_lines(known, timed)
        return Guess(tuple(lines), tuple(unknown), gaps, tuple(notes))
    if tally.values.dtype.kind == "m":
        return Guess(tuple(duration_lines(steps_in(tally.values, 1))), gaps=gaps)
    finite = np.isfinite(tally.values.astype(np.float64))
    if not finite.any():
        return Guess(left_out="IT HOLDS NO FINITE NUMBERS")
    numbers = Numbers(tally.where(finite), tally.where(finite & ~finite), measured=tally.values.dtype.kind == "f")
    found = _numeric(name, numbers, gaps, amounts)
    if finite.all():
        return found
    return replace(found, notes=(*found.notes, f"{tally.counts[~finite].sum():,} VALUES ARE INFINITE."))


def _in_texts(name: str, tally: Tally, gaps: bool, amounts: bool) -> Guess | None:
    """Return the guess about texts that are booleans, dates or numbers; None if they are anything else."""
    labels = booleans(tally)
    if labels is not None:
        return Guess(("type: boolean", *([f"labels: [{', '.join(map(quoted, labels))}]"] if labels else [])), gaps=gaps)
    dates = dates_in(tally)
    if dates is not None:
        return _dated(dates, gaps, timed_share(tally))
    times = durations_in(tally) or clocks_in(tally)
    if times is not None:
        return _with_odd(Guess(tuple(times.lines), gaps=gaps, notes=times.notes), times.odd, "A TIME")
    numbers = numbers_in(tally)
    if numbers is None or (not amounts and numbers.top is None and _are_labels(numbers)):
        return None
    if numbers.alike and not amounts and are_few(numbers.tally):
        said = f"{_listed_texts(numbers.alike)} ARE LISTED AS TWO VALUES: IF THEY ARE ONE NUMBER, WRITE THEM ALIKE."
        found = _labels(name, tally, gaps)
        return replace(found, notes=(*found.notes, said))
    return _numeric(name, numbers, gaps, amounts)


def _are_labels(found: Numbers) -> bool:
    """Return whether few numbers such as 1,5 and 20 % are to be listed, as texts: lists of numbers have no notation."""
    many = found.tally.rows >= MORE_ROWS_EACH * found.tally.distinct
    return bool(not found.plain and not found.odd.distinct and many and are_few(found.tally))


# -- dates and numbers ------------------------------------------------------------------------------------------------


def _dated(dates: Dates, gaps: bool, timed: float = 0.0) -> Guess:
    lines, notes = date_lines(dates.days.values, timed, dates.form)
    form = [] if dates.form is None else [f'format: "{dates.form}"']
    doubt = [f"IT COULD AS WELL BE WRITTEN {dates.doubtful}: ASK."] if dates.doubtful else []
    if dates.other is not None:
        written, rows = dates.other
        doubt.append(f"{rows:,} OTHER VALUES ARE WRITTEN {written}: WRITE ALL DATES IN ONE FORMAT.")
    found = Guess((*lines, *form), dates.unknown, gaps, (*doubt, *notes))
    return _with_odd(found, dates.odd, "A DATE")


def _numeric(name: str, found: Numbers, gaps: bool, amounts: bool) -> Guess:
    whole = are_whole(found.tally)
    if whole and found.plain:
        dates = compact_dates(found.tally)
        if dates is not None:
            return _with_odd(_dated(dates, gaps), found.odd, "A DATE")
    marks = sentinels(found.tally)
    tally = found.tally.where(~np.isin(found.tally.values, marks))
    gaps = gaps or bool(marks) or found.odd.distinct > 0
    plain = found.plain
    identifier = identifier_in_numbers(name, tally, gaps or found.measured) if whole and plain else None
    if identifier is not None:
        return Guess.out(identifier)
    codes = plain and found.top is None and not amounts
    if codes and are_few(tally):
        guessed = _codes(tally, gaps, "outside: clip")
    elif codes and whole and tally.distinct > MOST_LISTED and are_codes(name, tally):
        too_many = uncovered(tally)
        if too_many is not None:
            return Guess.out(too_many)
        guessed = _codes(tally, gaps, "other: other")
    else:
        guessed = Guess(tuple(range_lines(tally, found.top)), gaps=gaps)
        doubt = doubtful_sentinel(tally)
        guessed = replace(guessed, notes=(*(_all_differ(tally) if whole else ()), *([doubt] if doubt else [])))
    lines, notes = (*guessed.lines, *([] if guessed.codes else found.writing)), (*guessed.notes, *found.notes)
    spelled = found.spelled if found.writing else {}  # of plain numbers, all texts of one number are markers
    found_marks = tuple(itertools.chain.from_iterable(spelled.get(mark, (str(mark),)) for mark in marks))
    return _with_odd(replace(guessed, lines=lines, markers=found_marks, notes=notes), found.odd, "A NUMBER")


def _all_differ(tally: Tally) -> tuple[str, ...]:
    if tally.distinct < tally.rows or tally.rows < 2 * FEW_TEXTS:
        return ()
    return (f"ALL {tally.rows:,} VALUES DIFFER: IF THEY TELL PERSONS APART, DELETE THE COLUMN.",)


def _codes(tally: Tally, gaps: bool, otherwise: str) -> Guess:
    """Return the guess that numbers are codes: the most frequent ones are listed, but for rare ones.

    Args:
        tally: the numbers.
        gaps: whether any value is missing.
        otherwise: the line about numbers that are not listed.
    """
    kept = _listed(tally.counts)
    values = sorted(float(value) for value in tally.values[kept])
    rest, lines = tally.where(~kept), ["type: categorical", f"values: [{', '.join(map(number_text, values))}]"]
    if rest.distinct and otherwise.startswith("other"):
        lines.append(otherwise)
        becomes = "BECOME 'other'"
    else:
        becomes = "BECOME MISSING" if gaps else "COUNT AS THE NEAREST LISTED NUMBER"
    notes = _not_listed(rest, tally, becomes) if rest.distinct else []
    clip = "outside: clip" if "other" not in lines[-1] else None
    return Guess(tuple(lines), gaps=gaps, notes=tuple(notes), otherwise=clip, codes=True)


def _with_odd(found: Guess, odd: Tally, kind: str) -> Guess:
    """Return a guess in which few odd values, such as "unknown", are markers of missing values; many are not listed."""
    if not odd.distinct:
        return found
    if odd.distinct <= MOST_MARKERS:
        words = sorted(odd.values)
        notes = [
            f"{quoted(word)} ({rows:,} {'ROW' if rows == 1 else 'ROWS'}) IS NOT {kind}, AND BECOMES MISSING."
            for word, rows in zip(odd.values, odd.counts, strict=True)
            if re.search(r"\d", word)
        ]
        return replace(found, markers=(*found.markers, *words), gaps=True, notes=(*found.notes, *notes))
    note = f"{odd.rows:,} VALUES ARE NOT {kind}, AND WILL BE MISSING."
    return replace(found, gaps=True, notes=(*found.notes, note, *_undecoded(odd)))


def _undecoded(tally: Tally) -> list[str]:
    """Return the note that texts have signs that the encoding of the file does not have."""
    rows = int(tally.counts[tally.texts.str.contains("\ufffd", regex=False).to_numpy(dtype=bool)].sum())
    return [f"{rows:,} VALUES ARE NOT UTF-8: SAY THE FILE'S --encoding."] if rows else []


# -- labels -----------------------------------------------------------------------------------------------------------


def booleans(tally: Tally) -> list[str] | None:
    """Return the commonest texts of false and true if these are all the values; [] for those that Python writes."""
    if not 2 <= tally.distinct <= FEW_TEXTS:
        return None
    commonest = tally.values[np.argsort(-tally.counts, kind="stable")].tolist()
    folded = {text.lower() for text in commonest}
    for pair in BOOLEANS:
        if folded == set(pair):
            labels = [next(text for text in commonest if text.lower() == word) for word in pair]
            as_written = pair != ("false", "true") or labels in (["false", "true"], ["FALSE", "TRUE"])
            return labels if as_written else []
    return None


def _labels(name: str, tally: Tally, gaps: bool) -> Guess:
    """Return the guess that texts are labels: the most frequent are listed, but for rare ones; one spelling of each."""
    identifier = identifier_in_texts(name, tally)
    if identifier is None and free_text(tally):
        return Guess(left_out="IT IS FREE TEXT")
    identifier = identifier or uncovered(tally)
    if identifier is not None:
        return Guess.out(identifier)
    order = np.argsort(-tally.counts, kind="stable")
    commonest = Tally(tally.values[order], tally.counts[order])
    small = np.array([text.lower() for text in commonest.values], dtype=object)
    folded = Tally(small, commonest.counts).merged()
    spelled = dict(zip(small[::-1], commonest.values[::-1], strict=True))
    kept = _listed(folded.counts)
    listed = sorted((spelled[text] for text in folded.values[kept]), key=_natural)
    rest = folded.where(~kept)
    if not listed:
        return Guess(left_out=f"EACH OF ITS {tally.distinct:,} VALUES IS RARE")
    other = next(label for label in ("other", "any other", "not listed") if label not in folded.values[kept])
    complete = not rest.distinct
    lines = ["type: categorical", f"values: [{', '.join(map(quoted, listed))}]"]
    lines += [] if complete else [f"other: {other}"]
    lines += ["ignore_case: true"] if folded.distinct < tally.distinct else []
    notes = [] if complete else _not_listed(rest, folded, f"BECOME '{other}'")
    notes += _undecoded(tally)
    unsure = [text for text in listed if may_be_gap(text)]
    if len(unsure) == 1:
        notes.append(f"{quoted(unsure[0])} IS LISTED AS AN ANSWER: IS IT ONE, OR A MISSING VALUE?")
    elif unsure:
        notes.append(f"{_listed_texts(unsure)} ARE LISTED AS ANSWERS: ARE THEY ANSWERS, OR MISSING VALUES?")
    return Guess(tuple(lines), gaps=gaps, notes=tuple(notes), otherwise="outside: clip" if complete else None)


def _listed(counts: np.ndarray) -> np.ndarray:
    """Return which values are listed: the most frequent, but for those that few of many rows have."""
    kept = np.zeros(len(counts), dtype=bool)
    kept[np.argsort(-counts, kind="stable")[:MOST_LISTED]] = True
    return kept & (counts >= RARE) if counts.sum() >= MANY_ROWS else kept


def _not_listed(rest: Tally, all_values: Tally, becomes: str) -> list[str]:
    share = percent_text(rest.rows, all_values.rows)
    values = f"{rest.distinct:,} OF {all_values.distinct:,} VALUES {'IS' if rest.distinct == 1 else 'ARE'} NOT LISTED"
    return [f"{values}: {share} OF THE ROWS {becomes}."]


def _listed_texts(texts: Iterable[str]) -> str:
    """Return texts in quotes, as a note of a draft lists them."""
    return " AND ".join(map(quoted, texts))


def _natural(text: str) -> tuple[Any, ...]:
    """Return a key by which 9 comes before 10."""
    parts = re.split(r"(\d+)", text)
    return tuple((len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in parts)


def free_text(tally: Tally) -> bool:
    """Return whether texts are sentences rather than labels."""
    lengths, words = tally.texts.str.len(), tally.texts.str.split().str.len()
    if lengths.max() > LONGEST_LABEL:
        return True
    weights = tally.counts
    means = [np.average(lengths, weights=weights), np.average(words, weights=weights)]
    return tally.distinct > FEW_TEXTS and bool(means[1] >= LISTED_WORDS or means[0] >= LISTED_LENGTH)


def _marker(text: str) -> str:
    return text if re.fullmatch(r"-?(?:0|[1-9]\d*)", text) else quoted(text)
