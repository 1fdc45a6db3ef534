"""TableFile: a file of records, with its delimiter, its encoding, its sheet, and where in it the table begins.

A `TableFile` can be given wherever the path of a table can. The ending of the name decides what is left out.
"""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO, TypeGuard, cast

from pgmest.data.skipped_rows import checked_skip_rows
from pgmest.data.zipped import member, opened_member
from pgmest.errors import ArgumentError, FileFormatError, listed

WRITTEN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""The endings of files that are written."""
TEXTS = (".txt", ".txt.gz", ".dat", ".dat.gz", ".data", ".data.gz", ".tab", ".tab.gz")
"""Endings of text files that do not say the delimiter, but for .tab."""
INSIDE = (*WRITTEN, *TEXTS, ".xlsx")
"""The endings of files that are read, also from a .zip file."""
READ = (*INSIDE, ".zip")
MOST_HEADER_ROWS = 9
OPTIONS = ("delimiter", "encoding", "sheet", "skip", "header", "skip_rows")
"""The properties of a file that its name does not show, as a schema's `file:` has them."""

CONVERTED = {
    (".dta",): "read_stata",
    (".sav", ".zsav", ".por"): "read_spss",
    (".sas7bdat", ".xpt"): "read_sas",
    (".feather", ".arrow"): "read_feather",
    (".json",): "read_json",
}
"""The endings of other tables, and the function of pandas that reads them."""

NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
DELIMITERS = (",", ";", "\t", "|")
"""The delimiters that are tried on the header of a file that lacks the wanted columns."""


UNDECODED = "pgmest-undecoded"
"""The name of the error handler that keeps each undecodable byte b as the lone surrogate U+DC00 + b.

Different fields of a file stay different texts, and no field raises an error. Python's own "surrogateescape" fails for
bytes below 128, which UTF-16 can have. pandas encodes what it has decoded as UTF-8, and decodes that again.
"""


def _undecoded(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end
    if isinstance(error, UnicodeEncodeError):
        return error.object[error.start : error.end].encode("utf-8", "surrogatepass"), error.end
    raise error


codecs.register_error(UNDECODED, _undecoded)


@dataclass(frozen=True)
class TableFile:
    r"""The path of a table, with the properties that its name does not show.

    >>> TableFile("people.csv", delimiter=";", encoding="cp1252").separator
    ';'
    >>> TableFile("people.TSV.gz").separator, TableFile("people.csv", delimiter="tab").separator
    ('\t', '\t')

    Args:
        path: of a `.csv`, `.tsv`, `.txt`, `.dat`, `.data` or `.tab` file (each may be gzipped, `.gz`), of a `.parquet`
            or `.xlsx` file, or of a `.zip` file that holds one of these.
        delimiter: the ASCII character between fields, or its name: tab, comma, semicolon, space, pipe. By
            default a tab in `.tsv` and `.tab` files, else a comma.
        encoding: of a text file, as Python names it: "cp1252", "utf-16", "gb18030", ...; by default UTF-8.
        sheet: of a workbook, by name, or by number from 1; by default the first.
        skip: the number of rows above the header, such as titles; rows without a value count.
        header: the number of rows of the header, of which the first one names the columns; by default one. 0 or False
            without a header: the columns are then "column 1", "column 2", ..., or a list of names is given here.
        name: what errors call it; by default its path.
        skip_rows: the first values of rows that are no records, such as totals and notes below the table; a `*` at the
            end of a text matches any other end, and an empty text rows without a value. All such rows are left out,
            wherever they are.

    Raises:
        ArgumentError: no such delimiter or encoding, or one given for a file that has none.
        FileFormatError: another ending.
    """

    path: str | Path
    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | int | None = None
    name: str | None = None
    skip: int | None = None
    header: int | Sequence[str] | None = None
    skip_rows: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", checked_delimiter(self.delimiter))
        check_encoding(self.encoding)
        if isinstance(self.sheet, bool) or not isinstance(self.sheet, str | int | None) or self.sheet in ("", 0):
            raise ArgumentError.of("sheet", self.sheet, "the name of a sheet, or its number from 1")
        object.__setattr__(self, "header", checked_header(self.header))
        object.__setattr__(self, "skip_rows", checked_skip_rows(self.skip_rows))
        if isinstance(self.skip, bool) or not isinstance(self.skip, int | None) or (self.skip or 0) < 0:
            raise ArgumentError.of("skip", self.skip, "the number of rows above the header, a whole number")
        if self.format == ".parquet" and (self.skip is not None or self.header is not None):
            raise ArgumentError(f"{self.path} has the names of its columns: leave skip and header out.")
        if self.format == ".parquet" and self.skip_rows is not None:
            raise ArgumentError(f"{self.path} has records only: leave skip_rows out.")
        given = [name for name in ("delimiter", "encoding") if getattr(self, name) is not None]
        if given and not self.is_text:
            raise ArgumentError(f"{self.path} is no text, so it has no {' and no '.join(given)}: leave that out.")
        if self.sheet is not None and self.format != ".xlsx":
            raise ArgumentError(f"{self.path} is no workbook, so it has no sheets: leave sheet out.")

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def format(self) -> str:
        """The ending of the name, one of `INSIDE`; of a .zip file that of the table in it."""
        found = file_format(self.path, READ)
        return file_format(member(self.path, INSIDE), INSIDE) if found == ".zip" else found

    @property
    def zipped(self) -> bool:
        """Return whether the table is in a .zip file."""
        return file_format(self.path, READ) == ".zip"

    @property
    def said(self) -> dict[str, Any]:
        """The options that were given, in the form of a schema's `file:`."""
        found = {name: getattr(self, name) for name in OPTIONS if getattr(self, name) is not None}
        shown = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return shown | ({"header": False} if self.header == 0 else {})

    @property
    def is_text(self) -> bool:
        """Return whether the file is delimited text."""
        return self.format not in (".parquet", ".xlsx")

    @property
    def spaced(self) -> bool:
        """Return whether the ending leaves the delimiter open, so that it may be a blank."""
        return self.delimiter is None and self.format.startswith(TEXTS[:-2])

    @property
    def separator(self) -> str:
        """The character between fields."""
        return self.delimiter or ("\t" if self.format.startswith((".tsv", ".tab")) else ",")

    @property
    def header_rows(self) -> int:
        """The number of rows that are the header, which may be 0."""
        return 1 if self.header is None else self.header if isinstance(self.header, int) else 0

    def names_without_header(self, columns: int) -> list[str]:
        """Return the names of the columns of a table without a header.

        Raises:
            FileFormatError: another number of names was given.
        """
        if not isinstance(self.header, tuple):
            return [f"column {place}" for place in range(1, columns + 1)]
        if len(self.header) != columns:
            problem = f"it has {columns} columns, but header lists {len(self.header)} names."
            raise FileFormatError.of(self, problem, "List one name for each column.")
        return list(self.header)

    @property
    def codec(self) -> str:
        """The encoding; a byte order mark of UTF-8 is no part of the text."""
        name = codecs.lookup(self.encoding or "utf-8").name
        return "utf-8-sig" if name == "utf-8" else name

    def opened(self) -> IO[bytes]:
        """Open the file and return its bytes, unzipped."""
        if self.zipped:
            found = opened_member(self.path, member(self.path, INSIDE))
            return cast(IO[bytes], gzip.open(found, "rb")) if self.format.endswith(".gz") else found
        zipped = self.format.endswith(".gz")
        return cast(IO[bytes], gzip.open(self.path, "rb")) if zipped else Path(self.path).open("rb")

    def seekable(self) -> IO[bytes]:
        """Open the file for reading here and there; a table in a .zip file is read into memory."""
        if not self.zipped:
            return Path(self.path).open("rb")
        with self.opened() as found:
            return io.BytesIO(found.read())

    def text(self) -> TextIO:
        """Return the text of the file with its line ends; reading it raises UnicodeError where it cannot be decoded."""
        return io.TextIOWrapper(self.opened(), encoding=self.codec, newline="")


def is_file(table: Any) -> TypeGuard[str | Path | TableFile]:
    """Return whether a table is given as a file."""
    return isinstance(table, str | Path | TableFile)


def table_file(table: str | Path | TableFile, **options: Any) -> TableFile:
    """Return the file of a table; the options, those of `TableFile`, fill in what it leaves out and can have."""
    file = table if isinstance(table, TableFile) else TableFile(table)
    if not options:
        return file
    text = ("delimiter", "encoding") if file.is_text else ()
    rows = ("skip", "header", "skip_rows") if file.format != ".parquet" else ()
    known = {*text, *rows, *(["sheet"] if file.format == ".xlsx" else [])}
    return replace(file, **{name: options[name] for name in known & set(options) if getattr(file, name) is None})


def file_format(path: str | Path | TableFile, formats: tuple[str, ...] = WRITTEN) -> str:
    """Return the format that the name of a file ends in, in capital or small letters.

    Raises:
        FileFormatError: if the name has another ending.
    """
    name = Path(path.path if isinstance(path, TableFile) else path).name.lower()
    for ending in formats:
        if name.endswith(ending):
            return ending
    remedy = f"The name must end in {listed(formats, len(READ))}."
    if name.endswith((".xls", ".xlsm", ".ods", ".xlsb")):
        remedy += " Save the workbook as .xlsx."
    elif name.endswith(".xlsx"):
        remedy += " Workbooks are read, not written."
    reader = next((one for endings, one in CONVERTED.items() if name.endswith(endings)), None)
    if reader is not None:
        remedy += f" Convert it in Python: pandas.{reader}({name!r}).to_parquet('table.parquet')."
    raise FileFormatError.of(path, "not a kind of table file known here.", remedy)


def checked_delimiter(delimiter: str | None) -> str | None:
    """Return a delimiter, given as a character or by name, as the character.

    Raises:
        ArgumentError: if the character cannot be a delimiter.
    """
    if delimiter is None:
        return None
    found = NAMED_DELIMITERS.get(delimiter.lower(), delimiter) if isinstance(delimiter, str) else ""
    if len(found) != 1 or not found.isascii() or found.isalnum() or found in "\"'\r\n\0.+-_":
        allowed = f"one character such as ; or |, or one of {listed(list(NAMED_DELIMITERS))}"
        raise ArgumentError.of("delimiter", delimiter, allowed)
    return found


def checked_header(header: Any) -> int | tuple[str, ...] | None:
    """Return `header` as a number of rows, as a tuple of names, or None.

    Raises:
        ArgumentError: it is another value.
    """
    if header is None or (isinstance(header, int) and 0 <= header <= MOST_HEADER_ROWS):
        return None if header is None else int(header)
    names = list(header) if isinstance(header, Sequence) and not isinstance(header, str | bytes) else []
    if names and all(isinstance(name, str) and name.strip() for name in names) and len(set(names)) == len(names):
        return tuple(names)
    allowed = f"the number of its rows (0 for no header, at most {MOST_HEADER_ROWS}), or a list of names, no two alike"
    raise ArgumentError.of("header", header, allowed)


def check_encoding(encoding: str | None) -> None:
    """Raise ArgumentError if Python has no text encoding of that name.

    Raises:
        ArgumentError: if Python does not.
    """
    try:
        if encoding is not None and not codecs.lookup(encoding)._is_text_encoding:
            raise LookupError
        if encoding is not None:
            codecs.getincrementaldecoder(encoding)("replace").decode(b"a", True)
    except (LookupError, TypeError, ValueError):
        allowed = "the name of an encoding, such as utf-8, cp1252 (Western Windows), utf-16, gb18030 or shift_jis"
        raise ArgumentError.of("encoding", encoding, allowed) from None
