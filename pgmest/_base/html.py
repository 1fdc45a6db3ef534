"""Tables and texts as pieces of HTML, for notebooks; everything is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(heading: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> str:
    """A table, with a line of text below it where there is one."""

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = [line(heading, "th"), *(line(row, "td") for row in rows)]
    return f"<table>{''.join(lines)}</table>" + (f"<p>{html.escape(more)}</p>" if more else "")


def html_text(text: object) -> str:
    """Text whose columns line up."""
    return f"<pre>{html.escape(str(text))}</pre>"
