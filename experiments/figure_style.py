"""The style of the pictures of the experiments.

Colors are Okabe and Ito's, which stay apart for color-blind readers; legends lie outside the axes. Figures are made
without pyplot, so that drawing one leaves no state behind.

    figure, axes = panels(2, width=4.0, height=3.0)
    titles(axes[0], "Adult", x="epsilon", y="error")
    legend(figure, axes)
    save(figure, RESULTS / "figure.png")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from pgmest._base.files import atomic_path

DPI = 170
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C6D31")
"""Okabe and Ito's palette without its yellow, which is lost on white, and with a brown."""
MUTED = "#767676"
STYLE: Mapping[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def panels(
    count: int,
    *,
    columns: int | None = None,
    width: float = 3.6,
    height: float = 3.0,
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` axes in rows of at most `columns` (default: at most four); sizes in inches, of one panel."""
    across = min(count, columns or 4)
    rows = -(-count // across)
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(width * across, height * rows), layout="constrained")
        grid = figure.subplots(rows, across, squeeze=False)
    axes = list(grid.reshape(-1))
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def titles(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Title and axis labels, those that are given."""
    with matplotlib.rc_context(dict(STYLE)):
        if title:
            axes.set_title(title)
        if x:
            axes.set_xlabel(x)
        if y:
            axes.set_ylabel(y)


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all the axes, to the right of them."""
    handles: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    with matplotlib.rc_context(dict(STYLE)):
        figure.legend(list(handles.values()), list(handles), loc="outside right upper")


def save(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Write it as a PNG, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format="png", facecolor="white")


def log_axes(axes: Axes, log: str) -> None:
    """Make "x", "y" or both ("xy") logarithmic, labeled with plain numbers."""
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if letter in log:
            axes.set(**{f"{letter}scale": "log"})
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
