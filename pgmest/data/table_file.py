"""TableFile: a file of records, with its delimiter, its encoding and its sheet.

A `TableFile` can be given wherever the path of a table can. The ending of the name decides what is left out.
"""

from __future__ import annotations

import codecs
import gzip
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO, TypeGuard, cast

from pgmest.errors import ArgumentError, FileFormatError, listed

WRITTEN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""The endings of files that are written; those that are read are these and .xlsx."""
READ = (*WRITTEN, ".xlsx")

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
        path: of a `.csv`, `.tsv` (either may be gzipped, `.gz`), `.parquet` or `.xlsx` file.
        delimiter: what stands between fields, one ASCII character, or its name: tab, comma, semicolon, space, pipe. By
            default a tab in `.tsv` files, else a comma.
        encoding: of a text file, as Python names it: "cp1252", "utf-16", "gb18030", ...; by default UTF-8.
        sheet: of a workbook, by name, or by number from 1; by default the first.
        name: what errors call it; by default its path.

    Raises:
        ArgumentError: no such delimiter or encoding, or one given for a file that has none.
        FileFormatError: another ending.
    """

    path: str | Path
    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", checked_delimiter(self.delimiter))
        check_encoding(self.encoding)
        if isinstance(self.sheet, bool) or not isinstance(self.sheet, str | int | None) or self.sheet in ("", 0):
            raise ArgumentError.of("sheet", self.sheet, "the name of a sheet, or its number from 1")
        given = [name for name in ("delimiter", "encoding") if getattr(self, name) is not None]
        if given and not self.is_text:
            raise ArgumentError(f"{self.path} is no text, so it has no {' and no '.join(given)}: leave that out.")
        if self.sheet is not None and self.format != ".xlsx":
            raise ArgumentError(f"{self.path} is no workbook, so it has no sheets: leave sheet out.")

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def format(self) -> str:
        """The ending of the name, one of `READ`."""
        return file_format(self.path, READ)

    @property
    def said(self) -> dict[str, str | int]:
        """The delimiter, encoding and sheet that were given, in the form of a schema's `file:`."""
        found = {name: getattr(self, name) for name in ("delimiter", "encoding", "sheet")}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_text(self) -> bool:
        """Return whether the file is delimited text."""
        return self.format not in (".parquet", ".xlsx")

    @property
    def separator(self) -> str:
        """The character between fields."""
        return self.delimiter or ("\t" if self.format.startswith(".tsv") else ",")

    @property
    def codec(self) -> str:
        """The encoding; a byte order mark of UTF-8 is no part of the text."""
        name = codecs.lookup(self.encoding or "utf-8").name
        return "utf-8-sig" if name == "utf-8" else name

    def opened(self) -> IO[bytes]:
        """Open the file and return its bytes, unzipped."""
        zipped = self.format.endswith(".gz")
        return cast(IO[bytes], gzip.open(self.path, "rb")) if zipped else Path(self.path).open("rb")

    def text(self) -> TextIO:
        """Return the text of the file with its line ends; reading it raises UnicodeError where it cannot be decoded."""
        return io.TextIOWrapper(self.opened(), encoding=self.codec, newline="")


def is_file(table: Any) -> TypeGuard[str | Path | TableFile]:
    """Return whether a table is given as a file."""
    return isinstance(table, str | Path | TableFile)


def table_file(
    table: str | Path | TableFile,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
) -> TableFile:
    """Return the file of a table; the arguments fill in what the `TableFile` leaves out."""
    file = table if isinstance(table, TableFile) else TableFile(table)
    text = {"delimiter": delimiter, "encoding": encoding} if file.is_text else {}
    options = {**text, **({"sheet": sheet} if file.format == ".xlsx" else {})}
    return replace(file, **{name: value for name, value in options.items() if getattr(file, name) is None})


def file_format(path: str | Path | TableFile, formats: tuple[str, ...] = WRITTEN) -> str:
    """Return the format that the name of a file ends in, in capital or small letters.

    Raises:
        FileFormatError: if the name has another ending.
    """
    name = Path(path.path if isinstance(path, TableFile) else path).name.lower()
    for ending in formats:
        if name.endswith(ending):
            return ending
    remedy = f"The name must end in {listed(formats)}."
    if name.endswith((".xls", ".xlsm", ".ods", ".xlsb")):
        remedy += " Save the workbook as .xlsx."
    elif name.endswith(".xlsx"):
        remedy += " Workbooks are read, not written."
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
