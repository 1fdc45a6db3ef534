"""The way a table is in a file, guessed from its bytes and rows: encoding, delimiter, titles, header, rows below it.

Only drafts and checks guess, and they say what they found. Everything else reads a file as its `TableFile` or the
schema says, since a guess would depend on the records. A guess is made on strong evidence only: where the first row may
be the header, it is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pgmest.data.chunked_reader import column_names
from pgmest.data.csv_header import first_rows, joined_names, with_stated_delimiter
from pgmest.data.encoding_guess import WESTERN, guess_encoding
from pgmest.data.footer_guess import skip_rows_of
from pgmest.data.frames import reading
from pgmest.data.header_guess import FEWEST_RECORDS, NAMED, column_below, guess_header
from pgmest.data.table_file import DELIMITERS, TableFile, table_file
from pgmest.data.workbook import first_sheet_rows
from pgmest.errors import PgmestError, listed

LOOKED_AT, BYTES = 400, 1 << 20
"""At most this many rows, and of a text at most this many bytes, are looked at."""
MOST_TITLES = 30
"""The largest number of title rows."""
TITLE_SHARE = 0.34
"""The largest share of the columns that have a value in a title row."""

SPACED = 0.9
"""The least share of rows with the same number of fields for a blank to be the delimiter."""
DELIMITED = 0.9
"""The least share of rows from the header on with the same number of fields for an unusual delimiter of the ending."""
UNLIKE_HEADER = 0.5
"""The largest share of rows with as many fields as the header by the usual delimiter for another one to be meant."""
OTHER_TEXT = "it is not UTF-8, and may be in one of several encodings: say which (--encoding cp1252, for example)"


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
    """Return a file with the encoding, delimiter, `skip` and `header` that its bytes suggest, where they are not set.

    A file that cannot be read is returned as it is: reading it raises the error.
    """
    if file.format == ".parquet":
        return Beginning(file)
    decided: list[str] = []
    doubts: list[str] = []
    with suppress(PgmestError), reading(file):
        file = _with_encoding(file, decided, doubts)
        file = _with_stated_delimiter(file)
        meant, rows = _read(file)
        if meant != file:
            shown = {"\t": "a tab", " ": "a blank"}.get(meant.separator, f"'{meant.separator}'")
            decided.append(f"the delimiter is taken to be {shown}")
            file = meant
        if file.skip is None:
            file, rows = _without_titles(file, rows, decided)
        else:
            rows = [(number, row) for number, row in rows if number >= (file.skip or 0)]
        found = Beginning(file, tuple(decided), tuple(doubts))
        if file.header is None and len(rows) > FEWEST_RECORDS:
            header = guess_header([row for _, row in rows])
            if header.rows == 0 and file.skip is None and _states_delimiter(file):
                file = replace(file, skip=1)
            file = file if header.rows is None else replace(file, header=header.rows)
            found = Beginning(file, (*decided, *header.decided), (*doubts, *header.doubts))
        return replace(found, doubts=(*found.doubts, *_nameless(found.file, [row for _, row in rows])))
    return Beginning(file, tuple(decided), tuple(doubts))


def extent_of(file: TableFile) -> Beginning:
    """Return a file as `beginning_of` does, and with the `skip_rows` that its last rows suggest, if that is not set."""
    found = beginning_of(file)
    if file.format == ".parquet" or file.skip_rows is not None:
        return found
    with suppress(PgmestError), reading(file):
        rows = [row for number, row in _read(found.file)[1] if number >= (found.file.skip or 0)]
        texts, said = skip_rows_of(found.file, rows)
        if texts:
            return replace(found, file=replace(found.file, skip_rows=texts), decided=(*found.decided, said))
    return found


def _nameless(file: TableFile, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a sentence about columns without a name, other than the first."""
    if not file.header_rows or not rows:
        return []
    names, below = joined_names(rows[: file.header_rows]), rows[file.header_rows :]
    names += [""] * (max(map(len, rows)) - len(names))
    lost = [place for place, name in enumerate(names) if not name and place and any(_fields(below, place))]
    if not lost:
        return []
    which = f"{'column' if len(lost) == 1 else 'columns'} {listed([str(place + 1) for place in lost], NAMED)}"
    rows_of = "if names span several columns, say header: 2 (--header 2)"
    return [f"the header has no name for {which}, which gets one such as 'Unnamed: {lost[0]}'; {rows_of}"]


def _fields(rows: Sequence[Sequence[str]], place: int) -> Iterator[str]:
    return (row[place].strip() for row in rows if place < len(row))


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


def _with_encoding(file: TableFile, decided: list[str], doubts: list[str]) -> TableFile:
    """Return a file with the encoding that its bytes show."""
    found = guess_encoding(file) if file.is_text and file.encoding is None else None
    if not found:
        doubts += [] if found is None else [OTHER_TEXT]
        return file
    why = ": it is no UTF-8, and reads alike in this and other encodings of Europe" if found == WESTERN else ""
    decided.append(f"the encoding is taken to be {found}{why}")
    return replace(file, encoding=found)


def _states_delimiter(file: TableFile) -> bool:
    with file.opened() as handle:
        return bool(with_stated_delimiter(file, handle.read(BYTES)).skip)


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
    if file.delimiter is not None or (file.spaced and _fit(rows) == 1):
        return file, rows
    others = [replace(file, delimiter=other) for other in (*DELIMITERS, *([" "] if file.spaced else []))]
    tried = [(other, first_rows(other, content, LOOKED_AT)) for other in others if other.separator != file.separator]
    if not file.spaced:
        clear = [(other, found) for other, found in tried if _is_meant(file, rows, found)]
        return clear[0] if len(clear) == 1 else (file, rows)
    tried = [one for one in tried if one[0].separator != " " or _fit(one[1]) >= SPACED]  # prose has blanks, too
    return max([(file, rows), *tried], key=lambda found: _fit(found[1]))


def _is_meant(file: TableFile, rows: Rows, found: Rows) -> bool:
    """Return whether rows by another delimiter are a table, and rows by the usual one of the ending are not."""
    skip = file.skip or 0
    begun = itertools.dropwhile(lambda one: one[0] < skip or len(one[1]) == 1, found)
    table = [row for _, row in begun]
    if not table or _width(table)[1] < DELIMITED * len(table):
        return False
    usual = [row for _, row in rows][-len(table) :]
    as_header = sum(len(row) == len(usual[0]) for row in usual)
    return len(usual[0]) == 1 or as_header <= UNLIKE_HEADER * len(usual)


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
    columns = [column_below(fields, place, 1) for place in used]
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
