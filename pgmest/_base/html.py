"""Tables and texts as HTML, for notebooks; every cell and text is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(heading: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> str:
    """Return a table, followed by a paragraph of text if `more` is not empty."""

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = [line(heading, "th"), *(line(row, "td") for row in rows)]
    return f"<table>{''.join(lines)}</table>" + (f"<p>{html.escape(more)}</p>" if more else "")


def html_text(text: object) -> str:
    """Return a text in a font of fixed width, in which columns are aligned."""
    return f"<pre>{html.escape(str(text))}</pre>"
