"""The width of a text on a terminal: Chinese, Japanese and Korean characters take two columns, combining marks none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pgmest._base.printable import on_one_line


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

    A name of several lines becomes one line. Names that would be cut to one text show where they differ, and as a last
    resort a number.

    >>> list(short_names(["age", "Do you like the old rooms?", "Do you like the new rooms?"], 16).values())
    ['age', 'Do yo…old rooms?', 'Do yo…new rooms?']
    """
    lines = {name: on_one_line(name) for name in names}
    taken = {name for name, line in lines.items() if name == line and width(name) <= columns}
    alike: dict[str, list[str]] = {}
    for line in dict.fromkeys(lines.values()):
        alike.setdefault(shortened(line, columns), []).append(line)
    texts = {line: text for group in alike.values() for line, text in _apart(group, columns).items()}
    found = {}
    for name, line in lines.items():
        short, number = texts[line], 1
        while short in taken and short != name:
            number += 1
            mark = f" ({number})"
            short = shortened(line, columns - len(mark)) + mark
        taken.add(short)
        found[name] = short
    return found


def key_of_names(short: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the short texts that differ from their names, with these names, each on one line."""
    lines = {name: on_one_line(name) for name in short}
    return [(text, lines[name]) for name, text in short.items() if text != lines[name]]


def _apart(names: Sequence[str], columns: int) -> dict[str, str]:
    """Return short texts of names that have one beginning and one end, of which they show the words in between."""
    if len(names) == 1:
        return {names[0]: shortened(names[0], columns)}
    start = _common_start(names)
    start = start[: start.rfind(" ") + 1]
    rest = [name[len(start) :] for name in names]
    end = _common_start([text[::-1] for text in rest])[::-1]
    end = end[end.find(" ") :] if " " in end else ""
    least, short = width(_cut(start, columns // 3)), {}
    for name, text in zip(names, rest, strict=True):
        middle = text[: len(text) - len(end)]
        room = columns - least - 1
        whole = middle + end if width(middle + end) <= room else shortened(middle, room - 1) + ELLIPSIS
        short[name] = _cut(start, columns - 1 - width(whole)) + ELLIPSIS + whole
    return short


def _common_start(texts: Sequence[str]) -> str:
    """Return the longest text with which all texts begin."""
    low, high = min(texts), max(texts)
    pairs = enumerate(zip(low, high, strict=False))
    return low[: next((place for place, (a, b) in pairs if a != b), min(len(low), len(high)))]


def _cut(text: str, columns: int) -> str:
    """Return the beginning of a text, at most this many columns wide."""
    while width(text) > columns:
        text = text[: min(len(text) - 1, columns)]
    return text


def joined(clique: Iterable[str], names: Iterable[str], times: str = " × ", columns: int = LONGEST_NAME) -> str:
    """Return the short names of some attributes, as `short_names` of all names has them, with a sign between them.

    >>> joined(("age", "sex"), ("sex", "age")), joined((), ("sex", "age"))
    ('age × sex', 'total')
    """
    short = _short_names(tuple(names), columns)
    return times.join(short.get(name, name) for name in clique) or "total"


@lru_cache(maxsize=32)
def _short_names(names: tuple[str, ...], columns: int) -> dict[str, str]:
    return short_names(names, columns)
