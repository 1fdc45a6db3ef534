"""The width of a text on a terminal: Chinese, Japanese and Korean characters take two columns, combining marks none."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """Return the number of columns that a text takes.

    >>> width("age"), width("性別"), width("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Return the text filled with blanks to a number of columns; `right` puts the blanks on its left."""
    blanks = " " * max(columns - width(text), 0)
    return blanks + text if right else text + blanks
