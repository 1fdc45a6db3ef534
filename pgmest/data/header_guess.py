"""The header of a table in a file, guessed from its first rows: none, one of several rows, names that span columns."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pgmest.data.csv_header import joined_names
from pgmest.data.table_file import MOST_HEADER_ROWS
from pgmest.errors import listed

FEWEST_RECORDS = 5
"""The least number of records from which a missing or a second header is guessed."""
MANY_RECORDS = 20
"""The least number of records from which a table of texts only is said to have a record as its header."""
TYPED = 0.95
"""The share of the values of a column that must be numbers, or dates, for it to be one of numbers or dates."""
NAMED = 12
"""The number of columns that a sentence about a header names."""
NUMBER = re.compile(r"[^\w\s.,+-]?\s?[+-]?(?:\d[\d.,']*|[.,]\d+)(?:[eE][+-]?\d+)?\s?[%€$£]?")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ].*)?|\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AaPp][Mm])?")
NOTHING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "null", "none", "missing"})
IMPORT_ID = re.compile(r"\{\W*ImportId\W")
"""The row by which Qualtrics names its columns a second time."""
SURVEY_WORDS = frozenset({"response", "open-ended response"})
"""The texts that SurveyMonkey has under each question without options."""


@dataclass(frozen=True)
class LeadingColumn:
    """The values of a column below its first row.

    Attributes:
        name: the first field.
        values: all others that are there.
    """

    name: str
    values: tuple[str, ...]

    @cached_property
    def kind(self) -> str:
        """The kind of nearly all its values: "number", "date", "text", or "" for too few values."""
        if len(self.values) < FEWEST_RECORDS:
            return ""
        kind, count = Counter(map(kind_of, self.values)).most_common(1)[0]
        return kind if count >= TYPED * len(self.values) else "text"

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self.values)

    def is_record(self, field: str) -> bool | None:
        """Return whether a field is a value of the column rather than a name of it; None if it may be both."""
        if not self.kind or field.lower() in NOTHING:
            return None
        if self.kind == "text":
            few = len(self.counts)
            if field in self.counts:
                return True if 2 * few <= len(self.values) else None
            return False if 5 * few <= len(self.values) else None
        if kind_of(field) != self.kind:
            return False
        return self._in_range(field) if self.kind == "number" else True

    def _in_range(self, field: str) -> bool | None:
        """Return whether a number is like those of the column, in size and decimals; None if it is not."""
        pointed = ["." in value for value in self.values]
        if sum(pointed) >= TYPED * len(pointed) and "." not in field:
            return None
        numbers = [number for number in map(_number, self.values) if number is not None]
        number = _number(field)
        return True if numbers and number is not None and min(numbers) <= number <= max(numbers) else None


@lru_cache(1 << 14)
def kind_of(field: str) -> str:
    """Return the kind of a field: "number", "date" or "text".

    >>> [kind_of(text) for text in ("-2.5", "1,000", "$3", "5/10/18 4:01", "14:35", "a1")]
    ['number', 'number', 'number', 'date', 'date', 'text']
    """
    return "number" if NUMBER.fullmatch(field) else "date" if DATE.fullmatch(field) else "text"


def _number(field: str) -> float | None:
    try:
        return float(re.sub(r"[^\d.eE+-]", "", field))
    except ValueError:
        return None


@dataclass(frozen=True)
class HeaderGuess:
    """A guess about the header of a table.

    Attributes:
        rows: the number of its rows; None where it is the one that is usual.
        decided: sentences about what was decided.
        doubts: sentences about what may be wrong.
    """

    rows: int | None = None
    decided: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def guess_header(rows: Sequence[Sequence[str]]) -> HeaderGuess:
    """Return a guess about the header, from the first rows of a table."""
    width = len(rows[0])
    fields = [[field.strip() for field in row[:width]] + [""] * (width - len(row)) for row in rows]
    for number, row in enumerate(fields[1:4], 1):
        if any(map(IMPORT_ID.search, row)):
            return HeaderGuess(number + 1, (f"the header has {number + 1} rows, as survey tools write it",))
    columns = [column_below(fields, place, 1) for place in range(width)]
    records = [column.is_record(column.name) for column in columns]
    second, merged = _has_second_row(fields), _merged_rows(fields)
    if second and merged <= 2:
        return HeaderGuess(
            2, ("the header has 2 rows: the second has texts where all rows below have numbers or dates",)
        )
    if merged > 1:
        named = listed(joined_names(fields[:merged]), NAMED)
        spans = f"the header has {merged} rows, in the first of which names span columns; they are named {named}"
        return HeaderGuess(merged, (spans,))
    seen = "the first row reads like a record, not like the names of the columns"
    if _is_a_record(columns, records):
        none = f"there is no header row, it seems: {seen}; the columns are named 'column 1', 'column 2' and so on"
        return HeaderGuess(0, (none,))
    doubts = (f"{seen}; if so, say header: false (--no-header)",) if _may_be_a_record(columns, records) else ()
    return HeaderGuess(doubts=doubts)


def column_below(rows: Sequence[Sequence[str]], place: int, first: int, number: int | None = None) -> LeadingColumn:
    """Return a column of the first rows, of which number `first` is the first record.

    Its name is in row `number`, by default the row above the first record.
    """
    values = tuple(row[place] for row in rows[first:] if row[place].lower() not in NOTHING)
    return LeadingColumn(rows[first - 1 if number is None else number][place], values)


def _is_a_record(columns: Sequence[LeadingColumn], records: Sequence[bool | None]) -> bool:
    """Return whether the first row is certainly a record: numbers among numbers, and more that no header would have.

    Columns can have whole numbers as names, such as years or those of pandas. So the row must have a decimal number, a
    date, a number twice, or a repeated text beside numbers.
    """
    if False in records or 2 * sum(map(bool, records)) <= len(records):
        return False
    typed = [column for column, record in zip(columns, records, strict=True) if record and column.kind != "text"]
    texts = sum(map(bool, records)) - len(typed)
    names = [column.name for column in typed]
    if len(set(names)) < len(names) or any(column.kind == "date" for column in typed):
        return True
    decimal = any("." in name for name in names) and not _is_a_sequence(names)
    return bool(typed) and (texts > 0 or decimal)


def _is_a_sequence(names: Sequence[str]) -> bool:
    """Return whether names ascend or descend, as years, quantiles and numbers of columns do."""
    numbers = [_number(name) for name in names]
    if len(numbers) < 2 or None in numbers or any(kind_of(name) == "date" for name in names):
        return False
    steps = [b - a for a, b in itertools.pairwise(numbers)]  # type: ignore[operator]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def _may_be_a_record(columns: Sequence[LeadingColumn], records: Sequence[bool | None]) -> bool:
    """Return whether the first row has a value of each column, or of nearly all in a table of texts."""
    enough = len(columns[0].values) >= MANY_RECORDS and len(columns) > 1
    names = [column.name for column in columns if kind_of(column.name) == "number"]
    likely = False not in records and sum(map(bool, records)) >= 0.75 * len(records)
    return enough and likely and not _is_a_sequence(names)


def _has_second_row(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the second row is certainly none of records.

    No column with numbers or dates below may have one in it. And either it names columns that the first row leaves
    without a name, or at least two of these columns have different texts in it that are no values.
    """
    if len(rows) < FEWEST_RECORDS + 2:
        return False
    columns = [column_below(rows, place, 2) for place in range(len(rows[0]))]
    typed = [column for column in columns if column.kind in ("number", "date")]
    texts = [column.name for column in typed if column.name.lower() not in NOTHING]
    above = [rows[0][place] for place, column in enumerate(columns) if column in typed]
    if not typed or any(kind_of(text) != "text" for text in (*texts, *above)):
        return False
    if any(column.name in column.counts for column in typed):
        return False
    if any(not first and second for first, second in zip(rows[0][1:], rows[1][1:], strict=True)):
        return True  # the first column may be an index of pandas, which has no name
    labels = [column for column in columns if column.kind == "text"]
    different = len(set(texts)) >= 2 or (len(texts) >= 2 and set(map(str.lower, texts)) <= SURVEY_WORDS)
    return different and 2 * len(texts) >= len(typed) and not any(map(_is_value, labels))


def _merged_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows of a header in which names span several columns, as merged cells do; 1 without such.

    Such a name has empty fields, or itself, to its right. The rows below it tell these columns apart, and each has at
    least two fields that a record would not have.
    """
    spans = any(above and name in ("", above) for above, name in itertools.pairwise(rows[0]))
    for count in range(2, min(MOST_HEADER_ROWS, len(rows) - FEWEST_RECORDS)) if spans else ():
        if not all(_unlike_records(rows, number, count, blanks=True) for number in range(1, count)):
            return 1
        names = joined_names(rows[:count])
        if all(names[1:]) and len(set(names)) == len(names):
            while count < MOST_HEADER_ROWS and _unlike_records(rows, count, count + 1, blanks=False):
                count += 1  # such as a row of units
            return count
    return 1


def _unlike_records(rows: Sequence[Sequence[str]], number: int, first: int, blanks: bool) -> bool:
    """Return whether a row has no value of a column of texts, and at least two fields that no record would have.

    Args:
        rows: the first rows.
        number: the number of the row, from 0.
        first: the number of the first record.
        blanks: whether an empty field counts where nearly all records have a value.
    """
    columns = [column_below(rows, place, first, number) for place in range(len(rows[0]))]
    found = [column.is_record(column.name) for column in columns]
    if any(one is True and column.kind == "text" for one, column in zip(found, columns, strict=True)):
        return False
    full = max(TYPED * (len(rows) - first), FEWEST_RECORDS)
    empty = sum(not column.name and len(column.values) >= full for column in columns) if blanks else 0
    return found.count(False) + empty >= 2


def _is_value(column: LeadingColumn) -> bool:
    return column.is_record(column.name) is True
