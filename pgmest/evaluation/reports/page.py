"""A self-contained page of HTML: no script, no external resource, every text escaped, pictures embedded."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PAGE_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #10233f; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h3 { font-size: 1rem; margin-bottom: 0; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #a9cbe4; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .2rem .9rem .2rem 0; text-align: left; }
td.number { white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
th { border-bottom: 1px solid #10233f; }
table.facts th { border: 0; vertical-align: top; white-space: nowrap; }
img { max-width: 100%; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1rem; }
.pictures img { width: 100%; }
pre { overflow-x: auto; background: #f3f7fa; padding: .8rem; font-size: .85rem; }
.notice { border: 2px solid #10233f; padding: .6rem 1rem; font-weight: 600; }
@media (max-width: 36rem) { table.facts th, table.facts td { display: block; }
  table.facts th { white-space: normal; } table.facts td { padding-bottom: .5rem; }
  .picture { overflow-x: auto; } .picture img { max-width: max(100%, 55rem); }
  .wide table { font-size: .85rem; } td, th { padding-right: .5rem; }
  td:last-child, th:last-child { padding-right: 0; } }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } pre { white-space: pre-wrap; }
  .wide { overflow: visible; } table { font-size: 9pt; } .pictures { grid-template-columns: repeat(3, 1fr); }
  img, tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""


DOTS = "A dot marks the pairs that were measured, at least in groups; the others are only modeled."
"""The legend of pictures of pairs."""


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def notice(text: str) -> str:
    """Return a paragraph in a frame, for warnings."""
    return f'<p class="notice">{html.escape(text)}</p>'


def bullets(texts: Iterable[str]) -> str:
    """Return a list of plain texts."""
    return "\n".join(["<ul>", *(f"<li>{html.escape(text)}</li>" for text in texts), "</ul>"])


def section(heading: str, *parts: str) -> str:
    """Return a section with its heading; `parts` are HTML."""
    return f"<section><h2>{html.escape(heading)}</h2>\n" + "\n".join(parts) + "\n</section>"


def subsection(heading: str, *parts: str) -> str:
    """Return a part of a section with its heading; `parts` are HTML."""
    return f"<h3>{html.escape(heading)}</h3>\n" + "\n".join(parts)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[str] = ()) -> str:
    """Return a table of texts: the first column and those named in `texts` are aligned left, numbers right."""
    left = [place == 0 or name in texts for place, name in enumerate(columns)]

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = ["" if plain else ' class="number"' for plain in left]
        filled = (f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(filled)}</tr>"

    lines = [line(columns, "th"), *(line(row, "td") for row in rows)]
    return "\n".join(['<div class="wide"><table>', *lines, "</table></div>"])


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names with a text for each."""
    lines = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
    return "\n".join(['<table class="facts">', *lines, "</table>"])


def picture(figure: Figure, description: str) -> str:
    """Return a figure as an embedded image (`plots.style.as_image`), and close it."""
    return f'<p class="picture">{_image(figure, description)}</p>'


def pictures(figures: Iterable[tuple[Figure, str]]) -> str:
    """Return figures of one size with their descriptions, side by side up to the width of the page."""
    return "\n".join(['<div class="pictures">', *(_image(figure, text) for figure, text in figures), "</div>"])


def _image(figure: Figure, description: str) -> str:
    from matplotlib import pyplot

    from pgmest.plots.style import as_image

    data = base64.b64encode(as_image(figure)).decode("ascii")
    pyplot.close(figure)
    return f'<img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{data}">'


def page(title: str, *parts: str) -> str:
    """Return the whole document."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title><style>{PAGE_STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1>",
            *parts,
            "</body></html>\n",
        ]
    )
