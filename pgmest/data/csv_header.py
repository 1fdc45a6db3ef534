"""The first rows of a text file: which of them name the columns, and whether all others have as many fields."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pgmest.data.encoding_guess import other_kind, wide_encoding
from pgmest.data.skipped_rows import first_value, skipping
from pgmest.data.table_file import DELIMITERS, TableFile
from pgmest.errors import ArgumentError, FileFormatError, listed, plural

OTHER_ENCODING = (
    "Save it as UTF-8, or say its encoding (--encoding cp1252, or encoding: cp1252 in a schema); a compressed file "
    "must end in .gz."
)
STATED_DELIMITER = re.compile(r'"?sep=(.)\1*"?[\r\n]', re.IGNORECASE)
"""The first line by which Excel reads and some programs write the delimiter, such as sep=;"""
SEARCHED = 30
"""The number of rows among which the names of the columns are looked for, to be named in an error."""


class Opening(NamedTuple):
    """The beginning of a text file.

    Attributes:
        names: the names of the columns.
        skipped: the numbers, from 0, of the rows that are neither records nor the row that pandas reads the names from.
        in_file: whether pandas reads the names from the first row that is left.
    """

    names: list[str]
    skipped: list[int]
    in_file: bool

    @property
    def for_pandas(self) -> dict[str, Any]:
        """The options of `pandas.read_csv`."""
        named = {} if self.in_file else {"header": None, "names": self.names}
        return {"skiprows": self.skipped or None, **named}


def with_stated_delimiter(file: TableFile, content: bytes) -> TableFile:
    """Return a file without its first line, and with the delimiter of it, if that line is no more, such as `sep=;`.

    Without a header and titles the first line is a record, which states nothing.
    """
    if not _has_public_line(file):
        return file
    codec = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else file.codec
    found = STATED_DELIMITER.match(content[:64].decode(codec, "ignore"))
    if found is None:
        return file
    with contextlib.suppress(ArgumentError):
        return replace(file, delimiter=file.delimiter or found[1], skip=max(file.skip or 0, 1))
    return file


def checked_opening(file: TableFile, content: bytes, wanted: list[str] | None, raw: bool = False) -> Opening:
    """Return the beginning of a file; `raw` is as for `check_widths`.

    Raises:
        FileFormatError: the header is invalid, or lacks a wanted column for a reason that can be seen.
    """
    header = _first_line(content) if _has_public_line(file) else b""
    if kind := other_kind(header):
        raise FileFormatError(f"{file}: not delimited text, but {kind}.")
    if file.encoding is None and (wide := wide_encoding(header or content[:4])):
        remedy = f"It seems to be {wide}: say --encoding {wide}, or encoding: {wide} in a schema."
        raise FileFormatError.of(file, "not UTF-8 text.", remedy)
    found = _opening(file, content, raw)
    if found is None:
        raise not_a_table(file, "it is empty")
    if any("\ufffd" in name for name in found.names):
        raise FileFormatError.of(file, f"not {file.encoding or 'UTF-8'} text.", OTHER_ENCODING)
    _check_delimiter(file, content, wanted, found.names)
    check_unique(file, found.names, wanted)
    if wanted is not None and not set(wanted) <= set(found.names):
        _check_place(file, content, wanted, found.names)
    return found


def check_widths(file: TableFile, content: bytes, raw: bool = False) -> Counter[str]:
    """Raise for the first row whose number of fields is not the header's.

    A trailing comma is let pass, and so are rows that the file's `skip_rows` leaves out. Of these, those with too many
    fields are counted, by the text for which; readers of tables cannot read them.

    `raw` is for the tables of a schema: no field causes an error there, not even bytes that cannot be decoded.

    Raises:
        FileFormatError: there is such a row.
    """
    long: Counter[str] = Counter()
    with _fields_of_any_length():
        rows = _filled(numbered_rows(file, content, raw), file.skip or 0)
        width = len(next(rows)[2])
        if file.header_rows == 0:
            width = len(file.names_without_header(width))
        for _, line, fields in islice(rows, max(file.header_rows - 1, 0), None):
            if len(fields) >= width and not any(fields[width:]):
                continue
            first = first_value(fields)
            reason = skipping(file.skip_rows or (), first)
            if reason is None:
                problem = f"line {line} has {plural(len(fields), 'field')} where the header has {width}."
                remedy = "Repair the line; quote fields that hold delimiters or line ends."
                noted = (
                    "" if _is_number(first) else " If it is a note or a total, leave it out: --skip-rows 'Source:*'."
                )
                raise FileFormatError.of(file, problem, remedy + noted)
            if len(fields) > width:
                long[reason] += 1
    return long


def first_rows(file: TableFile, content: bytes, rows: int) -> list[tuple[int, list[str]]]:
    """Return the numbers, from 0, and the fields of the first rows that are not blank; the text may be cut off."""
    with _fields_of_any_length():
        return [(number, fields) for number, _, fields in islice(_filled(numbered_rows(file, content, True), 0), rows)]


def numbered_rows(file: TableFile, content: bytes, raw: bool) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of each row, from 0, its last line, from 1, and its fields; blank lines are rows, too."""
    errors = "replace" if raw else "strict"
    text = io.TextIOWrapper(io.BytesIO(content), encoding=file.codec, errors=errors, newline="")
    reader = csv.reader(text, delimiter=file.separator, skipinitialspace=raw)  # both as pandas is set to read
    return ((number, reader.line_num, fields) for number, fields in enumerate(reader))


def joined_names(header: Sequence[Sequence[str]]) -> list[str]:
    """Return the names in a header of several rows.

    They are those of the first row, where these are all there and differ. Else a name that occurs twice, or has empty
    ones to its right, has the name of the second row behind it, and so do those empty ones; that of the third row
    follows where names are still empty or not different, and so on.

    >>> joined_names([["id", "pets", ""], ["", "cat", "dog"]])
    ['id', 'pets cat', 'pets dog']
    >>> joined_names([["id", "pets", "", ""], ["", "cat", "", "dog"], ["", "old", "young", "old"]])
    ['id', 'pets cat old', 'pets cat young', 'pets dog']
    """
    names = list(header[0])
    for number, row in enumerate(header[1:], 2):
        stripped = [name.strip() for name in names]
        if all(stripped) and len(set(stripped)) == len(stripped):
            return names
        names = _joined(stripped, row, number == len(header))
    return names


def _joined(names: Sequence[str], row: Sequence[str], last: bool) -> list[str]:
    """Return names with those of the row below; one that stays empty gets that to its left in the last row only."""
    joined, above = [], ""
    for place, name in enumerate(names):
        above = name or above
        below = row[place].strip() if place < len(row) else ""
        shared = not name or names.count(name) > 1 or names[place + 1 : place + 2] == [""]
        spanned = not name and not below and not last
        joined.append("" if spanned else f"{above} {below}".strip() if shared else name)
    return joined


def check_unique(path: str | Path | TableFile, names: list[str], wanted: list[str] | None) -> None:
    """Raise FileFormatError if several columns have one name, of those wanted."""
    repeated = {name for name in set(names if wanted is None else wanted) if names.count(name) > 1}
    if repeated:
        problem = f"several columns are named {listed(sorted(repeated))}."
        raise FileFormatError.of(path, problem, "Give each column its own name.")


def not_a_table(path: str | Path | TableFile, reason: str) -> FileFormatError:
    """Return the error of a text that is no table."""
    if unclosed := re.search(r"EOF inside string starting at row (\d+)", reason):
        problem = f"the quote that opens a field of line {int(unclosed[1]) + 1} is never closed."
        return FileFormatError.of(path, problem, "Close it; double a quote within a field.")
    remedy = "A table is comma-separated text whose first line names the columns; say --delimiter where it has another."
    return FileFormatError.of(path, f"not a CSV table ({reason}).", remedy)


def _opening(file: TableFile, content: bytes, raw: bool) -> Opening | None:
    with _fields_of_any_length():
        rows = _filled(numbered_rows(file, content, raw), file.skip or 0)
        header = list(islice(rows, max(file.header_rows, 1)))
    if not header:
        return None
    if file.header_rows == 0:
        return Opening(file.names_without_header(len(header[0][2])), list(range(header[0][0])), False)
    names = joined_names([fields for _, _, fields in header])
    named = [name or f"Unnamed: {place}" for place, name in enumerate(names)]  # as pandas does it
    if file.header_rows == 1:
        return Opening(named, list(range(header[0][0])), True)
    return Opening(named, list(range(header[-1][0] + 1)), False)


def _has_public_line(file: TableFile) -> bool:
    """Return whether the first line of a file is a title or names columns, so that it may tell how the file is read."""
    return bool(file.header_rows or file.skip)


def _first_line(content: bytes) -> bytes:
    """Return the first line that is not blank, with its end, which has two bytes in UTF-16."""
    line = re.match(rb"(?:\xef\xbb\xbf)?[\r\n\0 ]*[^\r\n]*[\r\n]?.?", content, re.DOTALL)
    return line[0] if line else b""


def _filled(rows: Iterator[tuple[int, int, list[str]]], skip: int) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the rows from a number on; blank lines are left out, as by pandas."""
    return ((n, line, row) for n, line, row in rows if n >= skip and (len(row) > 1 or "".join(row).strip()))


def _check_delimiter(file: TableFile, content: bytes, wanted: list[str] | None, header: list[str]) -> None:
    """Raise where another delimiter would give the columns that are wanted, or more than a single one."""
    if set(wanted) <= set(header) if wanted is not None else len(header) > 1 or file.delimiter is not None:
        return
    for other in (*DELIMITERS, *([" "] if file.spaced else [])):
        found = _opening(replace(file, delimiter=other, header=file.header_rows), content, True)
        names = found.names if found else []
        if set(wanted) <= set(names) if wanted is not None else len(names) > 1:
            shown = {"\t": "tab", " ": "space"}.get(other, f"'{other}'")
            problem = f"its first line does not fit the delimiter {file.separator!r}; {shown} seems to be meant."
            remedy = f"Say so: --delimiter {shown}, delimiter: {shown} in a schema, or TableFile(path, delimiter=...)."
            raise FileFormatError.of(file, problem, remedy)


def _check_place(file: TableFile, content: bytes, wanted: list[str], header: list[str]) -> None:
    """Raise if the wanted names are in another row, or the first row holds numbers."""
    for number, fields in first_rows(file, content, SEARCHED):
        if set(wanted) <= set(fields):
            problem = f"the names of the columns are in row {number + 1} of the file."
            remedy = f"Say so: --skip {number}, or file: {{skip: {number}}} in a schema."
            raise FileFormatError.of(file, problem, remedy)
    if file.header_rows and all(re.fullmatch(r"column \d+", name) for name in wanted):
        problem = (
            "its first row does not have the names 'column 1', 'column 2', ..., which a table without a header gets."
        )
        raise FileFormatError.of(file, problem, "Say so: --no-header, or file: {header: false} in a schema.")
    if file.header_rows and all(map(_is_number, header)):
        problem = "the first line holds numbers, not the names of the columns."
        remedy = f"Add a header line, such as {','.join(wanted[:4])}, or say header: [{', '.join(wanted[:4])}]."
        raise FileFormatError.of(file, problem, remedy)


@contextlib.contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Allow fields of more than 131,072 characters, which pandas reads and the csv module refuses."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
