"""The beginning of a table in a file, guessed from its first rows: titles, no header, a header of several rows.

Only drafts and checks guess, and they say what they found. Everything else reads a file as its `TableFile` or the
schema says, since a guess would depend on the records. A guess is made on strong evidence only: where the first row may
be the header, it is.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from pgmest.data.chunked_reader import column_names
from pgmest.data.csv_header import first_rows, joined_names, with_stated_delimiter
from pgmest.data.frames import reading
from pgmest.data.table_file import DELIMITERS, TableFile, table_file
from pgmest.data.workbook import first_sheet_rows
from pgmest.errors import PgmestError, plural

LOOKED_AT, BYTES = 400, 1 << 20
"""At most this many rows, and of a text at most this many bytes, are looked at."""
MOST_TITLES = 30
"""The largest number of title rows."""
TITLE_SHARE = 0.34
"""The largest share of the columns that have a value in a title row."""
FEWEST_RECORDS = 5
"""The least number of records from which a missing or a second header is guessed."""
MANY_RECORDS = 20
"""The least number of records from which a table of texts only is said to have a record as its header."""
TYPED = 0.95
"""The share of the values of a column that must be numbers, or dates, for it to be one of numbers or dates."""

SPACED = 0.9
"""The least share of rows with the same number of fields for a blank to be the delimiter."""

NUMBER = re.compile(r"[^\w\s.,+-]?\s?[+-]?(?:\d[\d.,']*|[.,]\d+)(?:[eE][+-]?\d+)?\s?[%€$£]?")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ].*)?|\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AaPp][Mm])?")
NOTHING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "null", "none", "missing"})
IMPORT_ID = re.compile(r"\{\W*ImportId\W")
"""The row by which Qualtrics names its columns a second time."""
SURVEY_WORDS = frozenset({"response", "open-ended response"})
"""The texts that SurveyMonkey has under each question without options."""


@dataclass(frozen=True)
class Beginning:
    """The file as it seems to be meant, and what was decided or is in doubt, in words.

    Attributes:
        file: with what was decided.
        decided: sentences about what was decided.
        doubts: sentences about what may be wrong, and was not changed.
    """

    file: TableFile
    decided: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """All that is to be said, each with the name of the file."""
        return tuple(f"{self.file}: {text}" for text in (*self.decided, *self.doubts))


def beginning_of(file: TableFile) -> Beginning:
    """Return a file with the delimiter, `skip` and `header` that its first rows suggest, where they are not set.

    A file that cannot be read is returned as it is: reading it raises the error.
    """
    if file.format == ".parquet":
        return Beginning(file)
    decided: list[str] = []
    with suppress(PgmestError), reading(file):
        file = _with_stated_delimiter(file)
        meant, rows = _read(file)
        if meant != file and file.spaced:
            shown = {"\t": "tab", " ": "space"}.get(meant.separator, meant.separator)
            decided.append(f"the delimiter is taken to be {shown}")
            file = meant
        if file.skip is None:
            file, rows = _without_titles(file, rows, decided)
        else:
            rows = [(number, row) for number, row in rows if number >= (file.skip or 0)]
        found = Beginning(file, tuple(decided))
        if file.header is None and len(rows) > FEWEST_RECORDS:
            found = _with_header(file, [row for _, row in rows], decided)
        return replace(found, doubts=(*found.doubts, *_nameless(found.file, [row for _, row in rows])))
    return Beginning(file, tuple(decided))


def _nameless(file: TableFile, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a sentence about columns of a sheet that are left out, as their names are missing."""
    if file.format != ".xlsx" or not file.header_rows or not rows:
        return []
    names = joined_names(rows[: file.header_rows])
    below = rows[file.header_rows :]
    lost = [place for place, name in enumerate(names) if not name and any(row[place] for row in below)]
    if not lost:
        return []
    return [f"left out, as the header has no name for it: {plural(len(lost), 'column')}; give each a name to keep it"]


def placed_file(file: TableFile, options: Mapping[str, Any], names: Sequence[str]) -> TableFile:
    """Return a file with the options of a schema, which say how the private table is read.

    Where they say that it has titles or no header, a file with the names of the columns in its first row is a synthetic
    table, which has no titles, and a header.

    Args:
        file: the file; what it says itself stays.
        options: those of `TableFile`.
        names: the names of the schema's columns.
    """
    said = table_file(file, **options)
    stated = file.skip is not None or file.header is not None or file.format == ".parquet"
    if stated or not names or not (said.header_rows == 0 or (said.skip and len(names) > 1)):
        return said
    plain = replace(said, skip=0, header=max(said.header_rows, 1))
    with suppress(PgmestError):
        if set(names) <= set(column_names(plain)):
            return plain
    return said


Rows = list[tuple[int, list[str]]]


def _with_stated_delimiter(file: TableFile) -> TableFile:
    """Return a file with the delimiter that its first line states; readers leave that line out."""
    if not file.is_text:
        return file
    with file.opened() as handle:
        return replace(file, delimiter=with_stated_delimiter(file, handle.read(BYTES)).delimiter)


def _read(file: TableFile) -> tuple[TableFile, Rows]:
    """Return the first rows that are not blank, with their numbers, and the file with the delimiter that fits best."""
    if file.format == ".xlsx":
        return file, first_sheet_rows(file, LOOKED_AT)
    with file.opened() as handle:
        content = handle.read(BYTES)
    stated = with_stated_delimiter(file, content) != file
    rows = [(number, row) for number, row in first_rows(file, content, LOOKED_AT) if number or not stated]
    if len(content) == BYTES:
        rows = rows[:-1]  # the last one may be cut off
    if file.delimiter is not None or _fit(rows) == 1:
        return file, rows
    others = [replace(file, delimiter=other) for other in (*DELIMITERS, *([" "] if file.spaced else []))]
    tried = [(file, rows), *((other, first_rows(other, content, LOOKED_AT)) for other in others)]
    tried = [one for one in tried if one[0].separator != " " or _fit(one[1]) >= SPACED]  # prose has blanks, too
    return max(tried, key=lambda found: _fit(found[1]))


def _fit(rows: Rows) -> float:
    """Return the share of the rows with the commonest number of fields; 0 if that is one field."""
    width, count = _width([row for _, row in rows])
    return count / len(rows) if width > 1 else 0.0


def _width(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return the commonest number of fields, and how many rows have it."""
    counted = Counter(map(len, rows))
    return max(counted.items(), key=lambda item: (item[1], item[0]), default=(0, 0))


def _without_titles(file: TableFile, rows: Rows, decided: list[str]) -> tuple[TableFile, Rows]:
    """Return the file and its rows without the titles above the header."""
    width, _ = _width([row for _, row in rows])  # a row may end in delimiters without values
    rows = [(number, row) for number, row in rows if _filled(row)]  # others have delimiters only
    last = rows[len(rows) // 2 :]
    used = [place for place in range(width) if sum(map(bool, _column(last, place))) * 2 > len(last)]
    titles = 0
    while titles < min(len(rows) - 2, MOST_TITLES) and _is_title(rows[titles][1], used):
        titles += 1
    named = set(_filled(rows[titles][1])) if titles else set()
    titled = {place for _, row in rows[:titles] for place in _filled(row)} & set(used)
    if len(named) * 2 <= len(used) or not titled <= named:
        return file, rows  # where the names of some columns are in the first row, the header has two
    if len(used) == 2 and len(rows[0][1]) == width and not _names_others(rows[titles:], used):
        return file, rows
    skip = rows[titles][0]
    decided.append(f"title rows skipped: {skip}; the columns are named by row {skip + 1}")
    return replace(file, skip=skip), rows[titles:]


def _names_others(rows: Rows, used: Sequence[int]) -> bool:
    """Return whether the first row has a text above numbers or dates, as a header has and a record has not."""
    fields = [[field.strip() for field in row] for _, row in rows]
    columns = [_below(fields, place, 1) for place in used]
    return any(column.kind in ("number", "date") and column.is_record(column.name) is False for column in columns)


def _column(rows: Rows, place: int) -> Iterator[str]:
    return (row[place].strip() if place < len(row) else "" for _, row in rows)


def _filled(row: Sequence[str]) -> list[int]:
    return [place for place, field in enumerate(row) if field.strip()]


def _is_title(row: Sequence[str], used: Sequence[int]) -> bool:
    """Return whether a row has far fewer fields than the table; a header may lack one name, as pandas writes it."""
    if used and len(row) <= used[-1]:
        return True
    filled = _filled(row)
    if len(used) == 2:
        return filled == used[:1]
    return len(used) >= 3 and 0 < len(filled) <= max(TITLE_SHARE * len(used), 1)


# -- header ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
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


def _with_header(file: TableFile, rows: list[list[str]], decided: list[str]) -> Beginning:
    width = len(rows[0])
    fields = [[field.strip() for field in row[:width]] + [""] * (width - len(row)) for row in rows]
    for number, row in enumerate(fields[1:4], 1):
        if any(map(IMPORT_ID.search, row)):
            decided.append(f"the header has {number + 1} rows, as survey tools write it")
            return Beginning(replace(file, header=number + 1), tuple(decided))
    columns = [_below(fields, place, 1) for place in range(width)]
    records = [column.is_record(column.name) for column in columns]
    if _has_second_row(fields):
        decided.append("the header has 2 rows: the second has texts where all rows below have numbers or dates")
        return Beginning(replace(file, header=2), tuple(decided))
    seen = "the first row reads like a record, not like the names of the columns"
    if _is_a_record(columns, records):
        decided.append(
            f"there is no header row, it seems: {seen}; the columns are named 'column 1', 'column 2' and so on"
        )
        return Beginning(replace(file, header=0), tuple(decided))
    doubts = [f"{seen}; if so, say header: false (--no-header)"] if _may_be_a_record(columns, records) else []
    return Beginning(file, tuple(decided), tuple(doubts))


def _below(rows: list[list[str]], place: int, first: int) -> Column:
    values = tuple(row[place] for row in rows[first:] if row[place].lower() not in NOTHING)
    return Column(rows[first - 1][place], values)


def _is_a_record(columns: Sequence[Column], records: Sequence[bool | None]) -> bool:
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


def _may_be_a_record(columns: Sequence[Column], records: Sequence[bool | None]) -> bool:
    """Return whether the first row has a value of each column, or of nearly all in a table of texts."""
    enough = len(columns[0].values) >= MANY_RECORDS and len(columns) > 1
    names = [column.name for column in columns if kind_of(column.name) == "number"]
    likely = False not in records and sum(map(bool, records)) >= 0.75 * len(records)
    return enough and likely and not _is_a_sequence(names)


def _has_second_row(rows: list[list[str]]) -> bool:
    """Return whether the second row is certainly none of records.

    No column with numbers or dates below may have one in it. And either it names columns that the first row leaves
    without a name, or at least two of these columns have different texts in it that are no values.
    """
    if len(rows) < FEWEST_RECORDS + 2:
        return False
    columns = [_below(rows, place, 2) for place in range(len(rows[0]))]
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


def _is_value(column: Column) -> bool:
    return column.is_record(column.name) is True
