"""Pictures of junction trees: the cliques, their sizes, and the separators."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.errors import plural
from pgmest.plots.style import INK, TRUTH, named, pyplot_for, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pgmest.graph.junction_tree import JunctionTree

_BOX: dict[str, Any] = {"ha": "center", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}


def draw_junction_tree(tree: JunctionTree, title: str = "") -> Figure:
    """Draw a junction tree from its center at the left to its leaves at the right; it suits up to about fifty cliques.

    The area of a disc grows with the number of the clique's cells; an edge is labeled with its separator.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
    """
    pyplot = pyplot_for("drawing a junction tree")
    cells = np.array(tree.sizes, dtype=float)
    places = _left_to_right(tree.edges, len(cells))
    across, down = np.max(places, axis=0) + 1
    with pyplot.rc_context(style()):
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
    """Return a place (depth, row) for each clique of a forest; a center of each tree is at the left."""
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
    return textwrap.fill(", ".join(named(attributes)), width, break_on_hyphens=False, break_long_words=False)
