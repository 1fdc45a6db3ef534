"""Text from files, made safe to print on a terminal."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
HIDDEN = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""The characters that reorder the text around them."""


def printable(text: str) -> str:
    """Return a text with escapes such as \\x1b instead of control characters, which a terminal would obey.

    >>> print(printable("name\\x1b[2J"))
    name\\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(one if one in KEPT or not is_control(one) else ascii(one)[1:-1] for one in text)


def on_one_line(text: str) -> str:
    """Return a text as `printable` has it, in which nothing ends the line.

    >>> print(on_one_line("first\\nsecond"))
    first\\nsecond
    """
    return text if text.isprintable() else printable(text).replace("\n", "\\n").replace("\t", "\\t")


def is_control(character: str) -> bool:
    """Return whether a character is a control character, half of a surrogate pair, or reorders text."""
    return unicodedata.category(character) in ("Cc", "Cs") or character in HIDDEN
