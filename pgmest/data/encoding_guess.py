"""The encoding of a text file, guessed from its bytes, where only one is possible.

Only drafts and checks guess, and they say what they found; runs look at the mark and at the header alone. UTF-16 and
UTF-32 show in a mark or in zero bytes. A file that is no UTF-8 has one of dozens of encodings with a byte a character;
it is taken to be in that of Western Windows only where the encodings of Western, Central and Southern Europe all give
the same text.
"""

from __future__ import annotations

import codecs
import itertools
import re

from pgmest.data.table_file import TableFile

PIECE = 1 << 20
"""The bytes that are read at a time."""
MOST_BYTES = 1 << 26
"""At most this many bytes of a file that is no UTF-8 are looked at."""
WIDE_BYTES = 1 << 16
"""The bytes in which zero bytes are counted."""
FEWEST_ZEROS = 0.05
"""The least share of the characters of UTF-16 without a mark that have a zero byte: digits, delimiters, line ends."""
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The marks at the beginning of a file, the longer ones first: that of UTF-16 begins like one of UTF-32."""

KINDS = {
    b"PK\x03\x04": "a workbook or a zip archive: its name must end in .xlsx or .zip",
    b"\xd0\xcf\x11\xe0": "an old workbook: save it as .xlsx",
    b"\x1f\x8b": "compressed: its name must end in .gz",
    b"PAR1": "a Parquet file: its name must end in .parquet",
    b"%PDF": "a PDF document: export the table from where it comes",
    b"{\\rtf": "a text document: export the table from where it comes",
    b"<html": "a web page: open it in a spreadsheet, and save the table as .csv",
    b"<!doctype html": "a web page: open it in a spreadsheet, and save the table as .csv",
    b"<table": "a web page: open it in a spreadsheet, and save the table as .csv",
}
"""The bytes, in small letters, with which files begin that are no delimited text, and what they are."""

WESTERN = "cp1252"
ALIKE = ("cp1250", "cp1254", "iso8859-1", "iso8859-2", "iso8859-9", "iso8859-15")
"""Other encodings of Europe with Latin letters, in which the text must be the same."""
AGREED = frozenset(
    byte
    for byte in range(0xA0, 0x100)  # those below are letters under DOS and on old Macs
    if len({bytes([byte]).decode(codec, "replace") for codec in (WESTERN, *ALIKE)}) == 1
)
FOREIGN = re.compile(rb"([A-Za-z]?)([\x80-\xff]+)([A-Za-z]?)")
"""Bytes beyond ASCII, and the letters at their sides."""
LONGEST_RUN = 2
"""The most letters beyond ASCII in a row, as in Größe."""


def guess_encoding(file: TableFile) -> str | None:
    """Return the encoding of a text file that its bytes show; "" where several are possible, and None for UTF-8."""
    with file.opened() as handle:
        start = handle.read(WIDE_BYTES)
    if other_kind(start):
        return None
    found = wide_encoding(start)
    if found is not None or is_utf8(file):
        return found
    return WESTERN if _reads_as_western(file) else ""


def other_kind(start: bytes) -> str:
    """Return what a file is that is no text, by its first bytes; "" for a text."""
    begun = start.lstrip(b"\xef\xbb\xbf \r\n")[:16]
    return next((kind for mark, kind in KINDS.items() if begun.startswith(mark) or begun.lower().startswith(mark)), "")


def wide_encoding(start: bytes) -> str | None:
    r"""Return the kind of UTF-16 or UTF-32 that the first bytes of a file show; None for any other text.

    >>> [wide_encoding("age;sex\n30;f\n".encode(codec)) for codec in ("utf-8", "utf-16", "utf-16-be")]
    [None, 'utf-16', 'utf-16-be']
    """
    start = start[:WIDE_BYTES]
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), None) or _unmarked_wide(start)


def is_utf8(file: TableFile) -> bool:
    """Return whether all bytes of a file are UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with file.opened() as handle:
        try:
            while piece := handle.read(PIECE):
                decoder.decode(piece)
            decoder.decode(b"", True)
        except UnicodeDecodeError:
            return False
    return True


def _unmarked_wide(start: bytes) -> str | None:
    """Return the kind of UTF-16 that text without a mark is: every other byte of its digits and line ends is zero."""
    pairs = len(start) // 2
    for codec, zero, other in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        zeros, others = (start[place : 2 * pairs : 2].count(0) for place in (zero, other))
        if zeros < max(FEWEST_ZEROS * pairs, 2) or others * 10 > zeros:
            continue
        text = start[: 2 * pairs].decode(codec, "replace")
        if "\n" in text or "\r" in text:
            odd = sum(character < " " and character not in "\t\r\n" for character in text) + text[:-1].count("\ufffd")
            return codec if not odd else None
    return None


def _reads_as_western(file: TableFile) -> bool:
    """Return whether the letters beyond ASCII are the same in Europe's encodings, and are single ones within words."""
    runs = single = beside = size = 0
    with file.opened() as handle:
        for piece in itertools.takewhile(bool, iter(lambda: handle.read(PIECE), b"")):
            for before, foreign, behind in FOREIGN.findall(piece):
                if not AGREED.issuperset(foreign) or len(foreign) > LONGEST_RUN:
                    return False
                runs, single = runs + 1, single + (len(foreign) == 1)
                beside += bool(before or behind)
            size += len(piece)
            if size >= MOST_BYTES:
                break
    return 0 < runs <= 2 * min(single, beside)
