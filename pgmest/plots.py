"""Pictures of marginals and of junction trees; they need matplotlib (`pip install 'pgmest[plot]'`).

Everything is drawn so that it can be read in grey: the truth is a light area, the estimate a dark line, counts go from
white to black.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pgmest.domain import Clique
from pgmest.errors import ArgumentError, OptionalDependencyError, plural
from pgmest.evaluation.metrics import total_variation
from pgmest.factor import Factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from pgmest.junction_tree import JunctionTree

INK, TRUTH, NEW = "#10233f", "#a9cbe4", "#b3401f"
COLORS = "YlGnBu"
_BOX: dict[str, Any] = {"ha": "center", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}
BARS_A_ROW, MAPS_A_ROW = 4, 2
STYLE = {
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


class Projectable(Protocol):
    """Whatever has marginals in counts: a Dataset, a Model, a mechanism's result."""

    def project(self, attributes: Clique, /) -> Factor: ...


def compare_marginals(
    true: Projectable,
    estimated: Projectable,
    cliques: Iterable[Iterable[str]],
    measured: Iterable[Iterable[str]] | None = None,
    title: str = "",
) -> Figure:
    """True against estimated marginals: one attribute as bars and a line, two as a pair of heat maps on one scale.

    Each title has the marginal's total variation distance (a fraction of the records), and, if `measured` is given,
    whether that marginal was measured.

    Args:
        true: the data, anything whose `project(clique)` is a Factor of counts.
        estimated: the model, or records sampled from it.
        cliques: the marginals to draw, each over one or two attributes; one-way marginals come first.
        measured: the cliques that were measured.
        title: a heading for the whole figure.

    Returns:
        the figure; save it with `figure.savefig(path)`.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no clique, or one with more than two attributes.
    """
    chosen = [tuple(clique) for clique in cliques]
    if not chosen or any(len(clique) not in (1, 2) for clique in chosen):
        raise ArgumentError.of("cliques", chosen, "one or more cliques of one or two attributes each")
    pyplot = _pyplot("comparing marginals in a picture")
    bars, maps = ([clique for clique in chosen if len(clique) == size] for size in (1, 2))
    heights = [2.2] * _rows(bars, BARS_A_ROW) + [2.9] * _rows(maps, MAPS_A_ROW)
    notes = None if measured is None else {frozenset(clique) for clique in measured}

    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(12, sum(heights) + 0.5), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
        bands = list(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat)
        bar_panels = _panels(bands[: _rows(bars, BARS_A_ROW)], len(bars), BARS_A_ROW)
        map_panels = _panels(bands[_rows(bars, BARS_A_ROW) :], len(maps), MAPS_A_ROW)
        for draw, panels, group in ((_draw_bars, bar_panels, bars), (_draw_maps, map_panels, maps)):
            for panel, clique in zip(panels, group, strict=True):
                tables = true.project(clique), estimated.project(clique)
                draw(panel, *tables)
                _label(panel, *tables, notes)
        figure.suptitle(title, fontsize=13, fontweight="bold")
        if bars:
            figure.legend(*bar_panels[0].axes[0].get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False)
    return figure


def draw_marginals(source: Projectable, attributes: Iterable[str], title: str = "") -> Figure:
    """The one-way marginals of one source as areas, four in a row: what a release says, compared with nothing.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no attribute.
    """
    names = list(attributes)
    if not names:
        raise ArgumentError.of("attributes", names, "at least one attribute")
    pyplot = _pyplot("drawing marginals")
    from matplotlib.ticker import MaxNLocator

    with pyplot.rc_context(STYLE):
        rows = _rows([(name,) for name in names], BARS_A_ROW)
        figure, grid = pyplot.subplots(
            rows, BARS_A_ROW, figsize=(12, 1.9 * rows + 0.4), squeeze=False, layout="constrained"
        )
        for axes in grid.flat[len(names) :]:
            axes.axis("off")
        for axes, name in zip(grid.flat, names, strict=False):
            values = source.project((name,)).values
            axes.stairs(values, np.arange(values.size + 1) - 0.5, fill=True, color=TRUTH)
            axes.set(title=name, ylabel="records", xlim=(-0.5, values.size - 0.5))
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
            axes.set_ylim(bottom=0)
        figure.suptitle(title, fontsize=13, fontweight="bold")
    return figure


def draw_pair_errors(errors: Mapping[Clique, float], title: str = "") -> Figure:
    """The errors of two-way marginals as a matrix with a row and a column for each attribute; dark is bad.

    Args:
        errors: clique of two attributes -> its total variation distance, such as `evaluation.marginal_errors` gives.
        title: a heading.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no pair, or a clique of another size.
    """
    if not errors or any(len(clique) != 2 for clique in errors):
        raise ArgumentError.of("errors", list(errors), "the errors of one or more pairs of attributes")
    pyplot = _pyplot("drawing the errors of pairs")
    names = sorted({name for clique in errors for name in clique})
    matrix = np.full((len(names), len(names)), np.nan)
    for (row, column), error in errors.items():
        places = names.index(row), names.index(column)
        matrix[places] = matrix[places[::-1]] = error
    side = 2.0 + 0.3 * len(names)
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(side + 0.8, side), layout="constrained")
        image = axes.imshow(matrix, cmap=COLORS, vmin=0.0, vmax=max(errors.values()) or 1.0)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(title)
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, label="total variation error")
    return figure


def compare_distances(train: np.ndarray, holdout: np.ndarray, title: str = "") -> Figure:
    """How near the nearest synthetic record is to members and to others: an area and a line, alike where all is well.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
    """
    pyplot = _pyplot("comparing distances")
    edges = np.linspace(0.0, max(train.max(), holdout.max(), 1e-9), 31)
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(6, 2.4), layout="constrained")
        axes.stairs(np.histogram(holdout, edges)[0], edges, fill=True, color=TRUTH, label="others")
        axes.stairs(np.histogram(train, edges)[0], edges, color=INK, linewidth=1.1, label="members")
        axes.set(xlabel="distance to the nearest synthetic record", ylabel="records", title=title)
        axes.legend(frameon=False)
    return figure


def draw_noise_choices(ks: Iterable[int], epsilon: float, delta: float) -> Figure:
    """The noise that six ways of sharing a budget among k marginals need (DPSyn, Figure 2); log scales.

    Args:
        ks: numbers of marginals.
        epsilon, delta: the whole budget.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: as for `privacy.noise_choices`.
    """
    from pgmest.privacy.composition import noise_choices

    pyplot = _pyplot("drawing noise choices")
    lines = {"basic": ":", "advanced": "--", "zcdp": "-"}
    rows = [noise_choices(k, epsilon, delta) for k in ks]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        for column in zip(*rows, strict=True):
            noise, composition = column[0].noise, column[0].composition
            color, name = INK if noise == "gaussian" else NEW, f"{noise}, {composition}"
            deviations = [choice.stddev for choice in column]
            axes.loglog([choice.k for choice in column], deviations, lines[composition], color=color, label=name)
        axes.set(xlabel="marginals", ylabel="standard deviation of a cell", title=f"({epsilon:g}, {delta:g})-DP")
        axes.legend(frameon=False)
    return figure


def draw_junction_tree(tree: JunctionTree, title: str = "") -> Figure:
    """A junction tree from left to right, from the centre on; for trees of up to about fifty cliques.

    A disc grows with the number of its clique's cells; an edge carries the attributes its cliques share.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
    """
    pyplot = _pyplot("drawing a junction tree")
    cells = np.array(tree.sizes, dtype=float)
    places = _left_to_right(tree.edges, len(cells))
    across, down = np.max(places, axis=0) + 1
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(2.7 * across + 0.3, 1.2 * down + 0.5), layout="constrained")
        for (left, right), separator in zip(tree.edges, tree.separators, strict=True):
            ends = np.array([places[left], places[right]])
            axes.plot(*ends.T, color=TRUTH, linewidth=1.5, zorder=1)
            axes.text(*ends.mean(axis=0), _wrapped(separator, 16), **_BOX, fontsize=7, va="center", style="italic")
        areas = 30 + 500 * np.sqrt(cells / cells.max())
        axes.scatter(*np.transpose(places), s=areas, color=INK, zorder=2)
        for place, clique, count, area in zip(places, tree.cliques, cells, areas, strict=True):
            text = f"{_wrapped(clique, 26)}\n{plural(int(count), 'cell')}"
            below = (0, -np.sqrt(area) / 2 - 4)
            axes.annotate(text, place, below, textcoords="offset points", va="top", **_BOX, fontsize=7.5)
        axes.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.3, -0.3), title=title)
        axes.axis("off")
    return figure


def _left_to_right(edges: Iterable[tuple[int, int]], cliques: int) -> list[tuple[float, float]]:
    """A place (depth, row) for each clique of a forest: a centre of each tree at the left, a row for each leaf."""
    import networkx as nx

    forest = nx.Graph(edges)
    forest.add_nodes_from(range(cliques))
    places: dict[int, tuple[float, float]] = {}
    rows = 0
    for component in nx.connected_components(forest):
        root = min(nx.center(forest.subgraph(component)))
        depth = nx.shortest_path_length(forest, root)
        children = nx.bfs_tree(forest, root)
        for clique in nx.dfs_postorder_nodes(children, root):
            below = [places[child][1] for child in children[clique]]
            places[clique] = (depth[clique], float(np.mean(below)) if below else float(rows))
            rows += not below
    return [places[clique] for clique in range(cliques)]


def _wrapped(attributes: Iterable[str], width: int) -> str:
    return textwrap.fill(", ".join(attributes), width, break_on_hyphens=False, break_long_words=False)


def _pyplot(feature: str) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OptionalDependencyError.of("matplotlib", feature, "plot") from None
    return pyplot


def _rows(cliques: Sequence[Clique], per_row: int) -> int:
    return -(-len(cliques) // per_row)


def _panels(bands: Iterable[SubFigure], count: int, per_row: int) -> list[SubFigure]:
    return [panel for band in bands for panel in band.subfigures(1, per_row, squeeze=False).flat][:count]


def _label(panel: SubFigure, true: Factor, estimated: Factor, measured: set[frozenset[str]] | None) -> None:
    """Above the attributes; below whether the marginal was measured, and the total variation distance."""
    known = measured is None or frozenset(true.domain) in measured
    status = "" if measured is None else ("measured, " if known else "never measured, ")
    panel.suptitle(" × ".join(true.domain), fontsize=10, fontweight="bold", color=INK if known else NEW)
    panel.supxlabel(f"{status}total variation error {total_variation(true, estimated):.4f}", fontsize=8.5)


def _draw_bars(panel: SubFigure, true: Factor, estimated: Factor) -> None:
    from matplotlib.ticker import MaxNLocator

    axes = panel.subplots()
    edges = np.arange(true.values.size + 1) - 0.5
    axes.stairs(true.values, edges, fill=True, color=TRUTH, label="true")
    axes.stairs(estimated.values, edges, color=INK, linewidth=1.1, label="estimated")
    axes.set(xlim=(edges[0], edges[-1]), ylabel="records")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_ylim(bottom=0)


def _draw_maps(panel: SubFigure, true: Factor, estimated: Factor) -> None:
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator

    norm = PowerNorm(0.4, vmin=0, vmax=max(true.values.max(), estimated.values.max(), 1.0))
    across, up = true.domain.attributes
    both = panel.subplots(1, 2, sharey=True)
    for axes, table, name in zip(both, (true, estimated), ("true", "estimated"), strict=True):
        image = axes.imshow(table.values.T, norm=norm, cmap=COLORS, aspect="auto", origin="lower", interpolation="none")
        axes.set(title=name, xlabel=across)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    both[0].set_ylabel(up)
    panel.colorbar(image, ax=both, fraction=0.04, pad=0.01, aspect=30, label="records")
