"""The one style of all pictures, and how many are in a row; readable in gray.

The truth is a light area, an estimate a dark line; counts go from white to black. Lines that are compared differ in
their dashes and markers, too.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from pgmest._base.errors import OptionalDependencyError

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

INK, TRUTH, NEW = "#10233f", "#a9cbe4", "#b3401f"
COLORS = "YlGnBu"
LINES: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "linestyle": dashes, "marker": marker, "markersize": 4.5, "linewidth": 1.2}
    for color, dashes, marker in (
        (INK, "-", "o"),
        (NEW, "--", "s"),
        ("#3c7fb1", "-", "^"),
        ("#8a8a8a", ":", "D"),
        ("#c98a2b", "-.", "v"),
        ("#5d8c4a", "--", "P"),
        ("#7b4f8f", "-", "X"),
        ("#b07a94", ":", "<"),
        ("#2f6f6a", "-.", ">"),
        ("#444444", "--", "*"),
    )
)
"""How the first, second, ... of the lines that are compared looks; after the last from the start again."""
PICTURE_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.parse_math": False,  # attributes may be named "$"
}


FALLBACK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
)
"""Fonts for scripts that matplotlib's own does not have, where they are installed."""

DOTS_PER_INCH = 110
"""Of pictures in pages."""

LONGEST_LABEL = 14
"""Longer labels of values are cut."""

ACROSS = 28
"""At most this many characters of labels fit side by side under a panel."""


def pyplot_for(feature: str) -> Any:
    """matplotlib.pyplot, or an error that says which feature needs it and how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OptionalDependencyError.of("matplotlib", feature) from None
    pyplot.draw_if_interactive()  # chooses the backend: done inside rc_context, notebooks forget that they show figures
    return pyplot


@cache
def fonts() -> tuple[str, ...]:
    """matplotlib's own font, and those installed that have what it lacks; text is drawn with the first that can."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACK_FONTS if name in installed))


@cache
def _drawable() -> frozenset[int]:
    """The characters that these fonts have."""
    from matplotlib import font_manager

    paths = (font_manager.findfont(name, fallback_to_default=False) for name in fonts())
    return frozenset(code for path in paths for code in font_manager.get_font(path).get_charmap())


_BY_READER: ContextVar[bool] = ContextVar("by_reader", default=False)


@contextlib.contextmanager
def text_drawn_by_reader() -> Iterator[None]:
    """Within, texts stay as they are, because whoever shows the picture draws them (`as_image`)."""
    token = _BY_READER.set(True)
    try:
        yield
    finally:
        _BY_READER.reset(token)


def as_image(figure: Figure) -> tuple[str, bytes]:
    """The figure as a file: its media type and content.

    PNG; or SVG where texts have characters that no font here has: they are drawn with the fonts of whoever reads it.
    """
    from matplotlib import rc_context, text

    have, buffer = _drawable(), io.BytesIO()
    texts = "".join(one.get_text() for one in figure.findobj(text.Text))
    if all(char.isascii() or ord(char) in have for char in texts):
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        return "image/png", buffer.getvalue()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pgmest"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format="svg", dpi=DOTS_PER_INCH, metadata={"Date": None})
    return "image/svg+xml", buffer.getvalue()


def shown(text: str) -> str:
    """The text as it can be drawn: a character that no font has becomes its number, not an empty box."""
    if text.isascii() and text.isprintable():
        return text
    if _BY_READER.get():
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    have = _drawable()
    return "".join(c if c.isprintable() and ord(c) in have else ascii(c)[1:-1] for c in text)


def style() -> dict[str, Any]:
    """What matplotlib's `rc_context` is to be given."""
    return {**PICTURE_STYLE, "font.family": list(fonts())}


def mark_codes(axis: Axis, size: int, labels: Sequence[str] | None = None, most: int = 12) -> None:
    """Ticks at an attribute's codes: whole numbers, or at most `most` of the labels, upright where they are long."""
    from matplotlib.ticker import MaxNLocator

    if labels is None:
        axis.set_major_locator(MaxNLocator("auto", integer=True))
        return
    marked = range(0, size, -(-size // most))
    texts = [_shortened(shown(labels[code])) for code in marked]
    axis.set_ticks(marked, texts)
    if axis is axis.axes.xaxis and sum(map(len, texts)) > ACROSS:
        axis.set_tick_params(labelrotation=90)


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def rows_of(panels: Sequence[object], per_row: int) -> int:
    """How many rows the panels take."""
    return -(-len(panels) // per_row)


def panels_in(bands: Iterable[SubFigure], count: int, per_row: int) -> list[SubFigure]:
    """The first `count` panels of bands that hold `per_row` each, row by row."""
    return [panel for band in bands for panel in band.subfigures(1, per_row, squeeze=False).flat][:count]
