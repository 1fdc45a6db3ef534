"""Pictures of marginals: true and estimated ones, those of a release alone, and the errors of all pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.plots.style import (
    COLORS,
    INK,
    NEW,
    TRUTH,
    draw_matrix,
    mark_codes,
    named,
    panels_in,
    pyplot_for,
    rows_of,
    style,
)
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

BARS_A_ROW, MAPS_A_ROW = 4, 2
"""The numbers of panels in a row, for one-way and for two-way marginals."""

LABEL_INCHES = 0.6
"""The additional height of a row of panels, in inches, if values have labels."""

CATEGORY, THINNEST = 0.8, 0.2
"""The width of the bar of a category, and the least one of a bin, where the mean bin has width 1."""

Labels = Mapping[str, Sequence[str]]
"""The labels of the codes, by attribute."""


def compare_marginals(
    true: Projectable,
    estimated: Projectable,
    cliques: Iterable[Iterable[str]],
    measured: Iterable[Iterable[str]] | None = None,
    title: str = "",
    labels: Labels | None = None,
) -> Figure:
    """Draw true and estimated marginals: one-way marginals as an area and a line, two-way ones as heat maps.

    The two heat maps of a marginal have one scale. Each title has the marginal's total variation distance (a fraction
    of the records), and, if `measured` is given, whether the marginal was measured.

    Args:
        true: the data, anything whose `project(clique)` is a Factor of counts.
        estimated: the model, or records sampled from it.
        cliques: the marginals to draw, each over one or two attributes; one-way marginals come first.
        measured: the cliques that were measured.
        title: a heading for the whole figure.
        labels: attribute -> the labels of its codes; codes are shown for the other attributes.

    Returns:
        the figure; save it with `figure.savefig(path)`.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no clique, or a clique has more than two attributes.
    """
    chosen = [tuple(clique) for clique in cliques]
    if not chosen or any(len(clique) not in (1, 2) for clique in chosen):
        raise ArgumentError.of("cliques", chosen, "one or more cliques of one or two attributes each")
    pyplot = pyplot_for("comparing marginals in a picture")
    bars, maps = ([clique for clique in chosen if len(clique) == size] for size in (1, 2))
    more = LABEL_INCHES if labels else 0.0
    heights = [2.2 + more] * rows_of(bars, BARS_A_ROW) + [2.9 + more] * rows_of(maps, MAPS_A_ROW)
    notes = None if measured is None else {frozenset(clique) for clique in measured}
    short = _short_names(true, itertools.chain.from_iterable(chosen))

    with pyplot.rc_context(style()):
        figure = pyplot.figure(figsize=(12, sum(heights) + 0.5), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
        bands = list(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat)
        bar_panels = panels_in(bands[: rows_of(bars, BARS_A_ROW)], len(bars), BARS_A_ROW)
        map_panels = panels_in(bands[rows_of(bars, BARS_A_ROW) :], len(maps), MAPS_A_ROW)
        for draw, panels, group in ((_draw_bars, bar_panels, bars), (_draw_maps, map_panels, maps)):
            for panel, clique in zip(panels, group, strict=True):
                tables = true.project(clique), estimated.project(clique)
                draw(panel, *tables, labels or {}, [short[name] for name in clique])
                _label(panel, *tables, notes, [short[name] for name in clique])
        room = " " if bars else ""  # for the legend
        figure.suptitle(title or room, fontsize=13, fontweight="bold")
        if bars:
            figure.legend(*bar_panels[0].axes[0].get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False)
    return figure


def draw_marginals(
    source: Projectable,
    attributes: Iterable[str],
    title: str = "",
    labels: Labels | None = None,
    *,
    across: int = BARS_A_ROW,
    widths: Mapping[str, np.ndarray] | None = None,
    ends: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> Figure:
    """Draw the one-way marginals of one source as bars, `across` in a row.

    Args:
        source: anything whose `project(clique)` is a Factor of counts.
        attributes: the attributes to draw.
        title: a heading for the whole figure.
        labels: attribute -> the labels of its codes; codes are shown for the other attributes.
        across: the number of panels in a row.
        widths: attribute -> the widths of its bins, for the first codes; bins touch each other, categories do not.
        ends: attribute -> the ends of intervals of its counts, which are drawn as error bars.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no attribute.
    """
    names = list(attributes)
    if not names:
        raise ArgumentError.of("attributes", names, "at least one attribute")
    pyplot = pyplot_for("drawing marginals")
    with pyplot.rc_context(style()):
        rows = rows_of([(name,) for name in names], across)
        height = (1.9 + (LABEL_INCHES if labels else 0.0)) * rows + (0.4 if title or across > 1 else 0.0)
        size = (3 * across, height)
        figure, grid = pyplot.subplots(rows, across, figsize=size, squeeze=False, layout="constrained")
        for axes in grid.flat[len(names) :]:
            axes.axis("off")
        titles = _short_names(source, names)
        for axes, name in zip(grid.flat, names, strict=False):
            values = source.project((name,)).values
            lefts, width = _bars(values.size, (widths or {}).get(name))
            axes.bar(lefts, values, width, align="edge", color=TRUTH, linewidth=0.4, edgecolor="white")
            if ends and name in ends:
                low, high = (np.asarray(end).ravel() for end in ends[name])
                middle = lefts + width / 2
                axes.vlines(middle, low, high, color=INK, linewidth=0.9)
            axes.set(title=titles[name], ylabel="records", xlim=(lefts[0], lefts[-1] + width[-1]))
            mark_codes(axes.xaxis, values.size, (labels or {}).get(name), lefts + width / 2)
            axes.set_ylim(bottom=0)
        figure.suptitle(title, fontsize=13, fontweight="bold")
    return figure


def _bars(size: int, widths: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the left ends and the widths of the bars of `size` codes: those of bins have a mean width of 1."""
    drawn = np.full(size, CATEGORY)
    lefts = np.arange(size) - CATEGORY / 2
    if widths is not None and len(widths):
        bins = np.maximum(widths / widths.mean(), THINNEST)
        drawn[: len(bins)] = bins * len(bins) / bins.sum()
        lefts[: len(bins)] = np.cumsum(drawn[: len(bins)]) - drawn[: len(bins)] - 0.5
    return lefts, drawn


def draw_pair_errors(
    errors: Mapping[Clique, float], title: str = "", measured: Iterable[Iterable[str]] | None = None
) -> Figure:
    """Draw the errors of two-way marginals as a matrix with a row and a column for each attribute; dark is bad.

    Args:
        errors: clique of two attributes -> its total variation distance, as `evaluation.marginal_errors` returns them.
        title: a heading.
        measured: the pairs that were measured, which are marked by dots.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no pair, or a clique has another size.
    """
    if not errors or any(len(clique) != 2 for clique in errors):
        raise ArgumentError.of("errors", list(errors), "the errors of one or more pairs of attributes")
    pyplot = pyplot_for("drawing the errors of pairs")
    names = sorted({name for clique in errors for name in clique})
    matrix = np.full((len(names), len(names)), np.nan)
    for (row, column), error in errors.items():
        places = names.index(row), names.index(column)
        matrix[places] = matrix[places[::-1]] = error
    return draw_matrix(pyplot, matrix, names, title, "total variation error", max(errors.values()) or 1.0, measured)


def _short_names(source: Projectable, names: Iterable[str]) -> dict[str, str]:
    """Return texts that can be drawn for these names and for all other attributes of a source, which differ."""
    every = list(dict.fromkeys([*getattr(source, "domain", ()), *names]))
    return dict(zip(every, named(every), strict=True))


def _label(
    panel: SubFigure, true: Factor, estimated: Factor, measured: set[frozenset[str]] | None, names: Sequence[str]
) -> None:
    """Write the attributes above a panel, and below whether the marginal was measured, and its error."""
    known = measured is None or any(frozenset(true.domain) <= clique for clique in measured)
    status = "" if measured is None else ("measured, " if known else "never measured, ")
    panel.suptitle(" × ".join(names), fontsize=10, fontweight="bold", color=INK if known else NEW)
    panel.supxlabel(f"{status}total variation error {total_variation(true, estimated):.4f}", fontsize=8.5)


def _draw_bars(panel: SubFigure, true: Factor, estimated: Factor, labels: Labels, names: Sequence[str]) -> None:
    axes = panel.subplots()
    edges = np.arange(true.values.size + 1) - 0.5
    axes.stairs(true.values, edges, fill=True, color=TRUTH, label="true")
    axes.stairs(estimated.values, edges, color=INK, linewidth=1.1, label="estimated")
    axes.set(xlim=(edges[0], edges[-1]), ylabel="records")
    mark_codes(axes.xaxis, true.values.size, labels.get(true.domain.attributes[0]))
    axes.set_ylim(bottom=0)


def _draw_maps(panel: SubFigure, true: Factor, estimated: Factor, labels: Labels, names: Sequence[str]) -> None:
    from matplotlib.colors import PowerNorm

    norm = PowerNorm(0.4, vmin=0, vmax=max(true.values.max(), estimated.values.max(), 1.0))
    across, up = true.domain.attributes
    both = panel.subplots(1, 2, sharey=True)
    for axes, table, name in zip(both, (true, estimated), ("true", "estimated"), strict=True):
        image = axes.imshow(table.values.T, norm=norm, cmap=COLORS, aspect="auto", origin="lower", interpolation="none")
        axes.set(title=name, xlabel=names[0])
        mark_codes(axes.xaxis, true.domain[across], labels.get(across))
        mark_codes(axes.yaxis, true.domain[up], labels.get(up))
    both[0].set_ylabel(names[1])
    panel.colorbar(image, ax=both, fraction=0.04, pad=0.01, aspect=30, label="records")
