"""Define one style for all figures of the experiments, made for a slide.

Colors are Okabe and Ito's, which stay apart for color-blind readers, and every series has a marker of its own as well.
A point is the median over seeds and its bar the whole range of the seeds (or a 95 % interval of the mean); the numbers
of a paper are open diamonds; legends lie outside the axes. Figures are made without pyplot, so that drawing one leaves
no state behind.

    figure, axes = panels(2, width=4.0, height=3.0, share_y=True)
    lines(axes[0], table, x="epsilon", y="error", by="method", log="xy")
    paper_marks(axes[0], [1.0], [0.066])
    titles(axes[0], "HDMM on Adult", x="epsilon", y="workload error")
    legend(figure, axes)
    save(figure, RESULTS / "figure.png")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from scipy import stats

from pgmest._base.files import atomic_path

DPI = 170
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C6D31")
"""Okabe and Ito's palette without its yellow, which is lost on white, and with a brown."""
MARKERS = ("o", "s", "^", "v", "P", "X", "<", ">")
PAPER_COLOR = "#333333"
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

Spread = Literal["range", "interval", "none"]


def panels(
    count: int,
    *,
    columns: int | None = None,
    width: float = 3.6,
    height: float = 3.0,
    share_x: bool = False,
    share_y: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` axes in rows of at most `columns` (default: at most four); sizes in inches, of one panel."""
    across = min(count, columns or 4)
    rows = -(-count // across)
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(width * across, height * rows), layout="constrained")
        grid = figure.subplots(rows, across, sharex=share_x, sharey=share_y, squeeze=False)
    axes = list(grid.reshape(-1))
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def summary(values: Iterable[float], spread: Spread = "range") -> tuple[float, float, float]:
    """Center, lower and upper end: the median and the range, or the mean and its 95 % interval (Student's t)."""
    found = np.asarray([value for value in values if value is not None and np.isfinite(value)], dtype=float)
    if not found.size:
        return (np.nan, np.nan, np.nan)
    if spread == "interval" and found.size > 1:
        half = stats.t.ppf(0.975, found.size - 1) * found.std(ddof=1) / np.sqrt(found.size)
        return (float(found.mean()), float(found.mean() - half), float(found.mean() + half))
    center = float(np.median(found))
    return (center, float(found.min()), float(found.max())) if spread == "range" else (center, center, center)


def lines(
    axes: Axes,
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    order: Sequence[Any] | None = None,
    labels: Mapping[Any, str] | None = None,
    colors: Mapping[Any, str] | None = None,
    spread: Spread = "range",
    log: str = "",
    markers: bool = True,
) -> None:
    """A line for each value of the column `by` through the medians over the rows that agree in `x`, and their spread.

    The spread is a band, or a bar where a series has a single point.

    Args:
        axes: where to draw.
        frame: a row for each seed; rows without a number in `y` are left out.
        x, y, by: its columns.
        order: the values of `by` to draw, in the order of the legend; default: as they come.
        labels: what the legend says instead of a value.
        colors: fixed colors of some values, so that a method looks the same in every panel.
        spread: of the band: "range" of the seeds, 95 % "interval" of the mean, "none".
        log: "x", "y" or "xy" for logarithmic axes.
        markers: whether each point has one; leave them out where lines have hundreds of points.
    """
    present = list(dict.fromkeys(frame[by]))
    for index, which in enumerate(order if order is not None else present):
        if which not in present:
            continue
        grouped = frame[frame[by] == which].groupby(x)[y]
        places = np.asarray(sorted(grouped.groups), dtype=float)
        found = np.asarray([summary(grouped.get_group(place), spread) for place in sorted(grouped.groups)])
        color = _color(which, index, colors)
        style = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4.5} if markers else {}
        axes.plot(places, found[:, 0], color=color, linewidth=1.6, label=_label(which, labels), **style)
        if len(places) == 1 and spread != "none":
            axes.vlines(places, found[:, 1], found[:, 2], color=color, linewidth=1.4)
        elif spread != "none":
            axes.fill_between(places, found[:, 1], found[:, 2], color=color, alpha=0.18, linewidth=0)
    log_axes(axes, log)


def dots(
    axes: Axes,
    frame: pd.DataFrame,
    across: str,
    y: str,
    by: str,
    *,
    order: Sequence[Any] | None = None,
    places: Sequence[Any] | None = None,
    labels: Mapping[Any, str] | None = None,
    colors: Mapping[Any, str] | None = None,
    markers: Mapping[Any, str] | None = None,
    spread: Spread = "range",
    log: bool = False,
) -> None:
    """A dot and its spread for each category of the column `across` and each value of `by`, side by side.

    Bars would have to start at zero, which a logarithmic axis does not have; hence dots. Arguments as in `lines`;
    `places` are the categories in the order of the axis, `markers` those of some series.
    """
    order = list(order if order is not None else dict.fromkeys(frame[by]))
    places = list(places if places is not None else dict.fromkeys(frame[across]))
    for index, which in enumerate(order):
        rows = frame[frame[by] == which]
        found = np.asarray([summary(rows.loc[rows[across] == place, y], spread) for place in places])
        at = np.arange(len(places)) + offset(index, len(order))
        color = _color(which, index, colors)
        reach = [found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]]
        axes.errorbar(
            at,
            found[:, 0],
            yerr=np.maximum(reach, 0.0),
            fmt=(markers or {}).get(which, MARKERS[index % len(MARKERS)]),
            color=color,
            markersize=5.5,
            elinewidth=1.4,
            capsize=2.5,
            label=_label(which, labels),
        )
    axes.set_xticks(range(len(places)), [_label(place, labels) for place in places])
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(visible=False, axis="x")
    log_axes(axes, "y" if log else "")


def offset(index: int, count: int) -> float:
    """Return the offset of the `index`-th of `count` series from the middle of its category in `dots`."""
    return (index - (count - 1) / 2) * min(0.22, 0.7 / max(count, 1))


def paper_marks(axes: Axes, x: Sequence[float], y: Sequence[float], label: str = "paper") -> None:
    """Draw the paper's numbers as open diamonds; NaN where it has no number."""
    axes.plot(
        x, y, "D", markersize=7.5, markerfacecolor="none", markeredgecolor=PAPER_COLOR, markeredgewidth=1.3, label=label
    )


def reference(axes: Axes, y: float, label: str) -> None:
    """A dashed level to compare with, named in the legend and not across the plot."""
    axes.axhline(y, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), label=label, zorder=1)


def titles(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Title and axis labels, those that are given."""
    with matplotlib.rc_context(dict(STYLE)):
        if title:
            axes.set_title(title)
        if x:
            axes.set_xlabel(x)
        if y:
            axes.set_ylabel(y)


def legend(figure: Figure, axes: Axes | Sequence[Axes], title: str = "", where: str = "right") -> None:
    """One legend for all the axes, outside of them: on the "right", or "below" in one row where there is room."""
    handles: dict[str, Any] = {}
    for one in [axes] if isinstance(axes, Axes) else axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    with matplotlib.rc_context(dict(STYLE)):
        below = where == "below"
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center" if below else "outside right upper",
            ncols=len(handles) if below else 1,
            title=title or None,
        )


def save(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Write it as a PNG, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format="png", facecolor="white")


def _color(which: Any, index: int, colors: Mapping[Any, str] | None) -> str:
    return (colors or {}).get(which, COLORS[index % len(COLORS)])


def _label(which: Any, labels: Mapping[Any, str] | None) -> str:
    return (labels or {}).get(which, str(which))


def log_axes(axes: Axes, log: str) -> None:
    """Make "x", "y" or both ("xy") logarithmic, labeled with plain numbers."""
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if letter in log:
            axes.set(**{f"{letter}scale": "log"})
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
