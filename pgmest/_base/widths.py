"""How many columns of a terminal a text takes: Chinese, Japanese and Korean signs take two, marks on letters none."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """The columns that a text takes.

    >>> width("age"), width("性別"), width("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text with blanks up to so many columns, on its left where it is to stand to the right."""
    blanks = " " * max(columns - width(text), 0)
    return blanks + text if right else text + blanks
