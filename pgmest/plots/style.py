"""The style of all pictures, and the layout of panels; pictures are legible in gray.

True counts are a light area, estimates a dark line; heat maps go from light to dark.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.widths import short_names
from pgmest.errors import OptionalDependencyError

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

INK, TRUTH, NEW = "#10233f", "#a9cbe4", "#b3401f"
COLORS = "YlGnBu"

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
"""Fonts for scripts that matplotlib's default font lacks; those that are installed are used."""

MOST_LABELS = 12
"""The most labels of values that an axis shows."""

LONGEST_LABEL = 14
"""The most characters of a label of a value; longer labels are cut."""

LONGEST_NAME = 28
"""The most characters of the name of an attribute; longer names are cut in the middle."""

MOST_NAMED = 60
"""The most attributes of a matrix whose names are drawn; more would not be legible."""

ACROSS = 28
"""The most characters of labels that fit side by side under a panel."""


def pyplot_for(feature: str) -> Any:
    """Return matplotlib.pyplot; raise OptionalDependencyError with the feature's name if it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OptionalDependencyError.of("matplotlib", feature) from None
    pyplot.draw_if_interactive()  # chooses the backend; inside rc_context, notebooks would no longer show figures
    return pyplot


@cache
def fonts() -> tuple[str, ...]:
    """Return matplotlib's default font and the installed fallbacks; a character is drawn with the first that has it."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACK_FONTS if name in installed))


@cache
def _drawable() -> frozenset[int]:
    """Return the characters that these fonts have."""
    from matplotlib import font_manager

    paths = (font_manager.findfont(name, fallback_to_default=False) for name in fonts())
    return frozenset(code for path in paths for code in font_manager.get_font(path).get_charmap())


_BY_READER: ContextVar[bool] = ContextVar("by_reader", default=False)


@contextlib.contextmanager
def text_drawn_by_reader() -> Iterator[None]:
    """Keep texts unchanged in this context, because the reader's program draws them (`as_image`)."""
    token = _BY_READER.set(True)
    try:
        yield
    finally:
        _BY_READER.reset(token)


def as_image(figure: Figure) -> bytes:
    """Return a figure as SVG, whose texts the reader's program draws with its fonts."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pgmest"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def shown(text: str) -> str:
    """Return a text that can be drawn: a character that no font has becomes its number, not an empty box."""
    if text.isascii() and text.isprintable():
        return text
    if _BY_READER.get():
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    have = _drawable()
    return "".join(c if c.isprintable() and ord(c) in have else ascii(c)[1:-1] for c in text)


def style() -> dict[str, Any]:
    """Return the settings for matplotlib's `rc_context`."""
    return {**PICTURE_STYLE, "font.family": list(fonts())}


def named(names: Iterable[str]) -> list[str]:
    """Return short texts for names that can be drawn, different ones for different names."""
    return [shown(text) for text in short_names(names, LONGEST_NAME).values()]


def draw_matrix(
    pyplot: Any,
    matrix: np.ndarray,
    names: Sequence[str],
    title: str,
    label: str,
    largest: float,
    marked: Iterable[Iterable[str]] | None = None,
) -> Figure:
    """Draw a symmetric matrix over attributes, with a color bar from 0 to `largest`; dark is large.

    Args:
        pyplot: matplotlib.pyplot.
        matrix: shape (names, names).
        names: the attributes.
        title: a heading.
        label: the label of the color bar.
        largest: the darkest value.
        marked: pairs of attributes whose cells get a dot.
    """
    side = 2.0 + 0.3 * min(len(names), MOST_NAMED)
    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(side + 0.8, side), layout="constrained")
        image = axes.imshow(matrix, cmap=COLORS, vmin=0.0, vmax=largest)
        if len(names) <= MOST_NAMED:
            axes.set_xticks(range(len(names)), named(names), rotation=90)
            axes.set_yticks(range(len(names)), named(names))
        places = {name: place for place, name in enumerate(names)}
        dots = [[places[name] for name in pair] for pair in marked or ()]
        both = [*dots, *(dot[::-1] for dot in dots)]
        axes.scatter(*zip(*both, strict=True), s=9, c=NEW, linewidths=0) if both else None
        axes.set_title(title)
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, label=label)
    return figure


def mark_codes(axis: Axis, size: int, labels: Sequence[str] | None = None, positions: np.ndarray | None = None) -> None:
    """Set the ticks of an attribute's codes: whole numbers, or some of its labels, vertical if long.

    Args:
        axis: the axis.
        size: the number of codes.
        labels: the labels of the codes.
        positions: the positions of the codes; 0, 1, ... by default.
    """
    from matplotlib.ticker import MaxNLocator

    if labels is None:
        axis.set_major_locator(MaxNLocator("auto", integer=True))
        return
    marked = range(0, size, -(-size // MOST_LABELS))
    texts = [_shortened(shown(labels[code])) for code in marked]
    axis.set_ticks(list(marked) if positions is None else [float(positions[code]) for code in marked], texts)
    if axis is axis.axes.xaxis and sum(map(len, texts)) > ACROSS:
        axis.set_tick_params(labelrotation=90)


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def rows_of(panels: Sequence[object], per_row: int) -> int:
    """Return the number of rows of the panels."""
    return -(-len(panels) // per_row)


def panels_in(bands: Iterable[SubFigure], count: int, per_row: int) -> list[SubFigure]:
    """Return the first `count` panels of bands with `per_row` panels each, row by row."""
    return [panel for band in bands for panel in band.subfigures(1, per_row, squeeze=False).flat][:count]
