"""The width of a text on a terminal: Chinese, Japanese and Korean characters take two columns, combining marks none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping


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


LONGEST_NAME = 32
"""The most columns that the name of an attribute takes in a printed table or a picture."""

ELLIPSIS = "…"


def shortened(text: str, columns: int = LONGEST_NAME) -> str:
    """Return a text of at most some columns: of a longer one its beginning and its end, around an ellipsis.

    >>> shortened("How satisfied are you with the food in the canteen?", 24)
    'How satisfied a…canteen?'
    """
    if width(text) <= columns:
        return text
    end = _cut(text[::-1], columns // 3)[::-1]
    return _cut(text, columns - 1 - width(end)) + ELLIPSIS + end


def short_names(names: Iterable[str], columns: int = LONGEST_NAME) -> dict[str, str]:
    """Return a short text for each name, different ones for different names; names that are short stay as they are.

    >>> list(short_names(["age", "Do you like the food?", "Do you like the free food?"], 16).values())
    ['age', 'Do you lik…food?', 'Do you …ood? (2)']
    """
    distinct = list(dict.fromkeys(names))
    taken = {name for name in distinct if width(name) <= columns}
    found = {}
    for name in distinct:
        short, number = shortened(name, columns), 1
        while short in taken and short != name:
            number += 1
            mark = f" ({number})"
            short = shortened(name, columns - len(mark)) + mark
        taken.add(short)
        found[name] = short
    return found


def key_of_names(short: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the short texts that differ from their names, with these names."""
    return [(text, name) for name, text in short.items() if text != name]


def _cut(text: str, columns: int) -> str:
    """Return the beginning of a text, at most this many columns wide."""
    while width(text) > columns:
        text = text[: min(len(text) - 1, columns)]
    return text
