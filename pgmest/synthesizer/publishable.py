"""Labels that came from private records, made safe to publish: in a spreadsheet, on a terminal, in a UTF-8 file.

Whoever hands in a record may choose its text. A frequent text becomes a label of the schema, a cell of the synthetic
table, and a line on a terminal, so it must be no formula there, no escape sequence, and no invalid Unicode.
"""

from __future__ import annotations

import re

from pgmest._base.printable import is_control

FORMULA = "=+-@＝＋－＠"
"""The characters that make a spreadsheet take a cell for a formula (OWASP, CSV injection), and their wide forms."""
SEPARATORS = "\u2028\u2029"
"""The separators of lines and of paragraphs."""
NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]*)?([eE][+-]?[0-9]+)?%?")
"""A number, which a spreadsheet may take for one."""


def publishable(label: str) -> str | None:
    """Return a label as it may be published, or None if it may not be.

    A label that a spreadsheet would take for a formula gets an apostrophe in front, by which a spreadsheet knows that
    it is a text; numbers such as -5 and single characters such as + stay as they are.

    >>> publishable("=1+2"), publishable("-5"), publishable("café"), publishable("red\\x1b[0m")
    ("'=1+2", '-5', 'café', None)
    """
    if any(is_control(one) or one in SEPARATORS for one in label):
        return None
    start = label.lstrip()
    if len(start) > 1 and start[0] in FORMULA and not NUMBER.fullmatch(start):
        return f"'{label}"
    return label
