"""PropagationPlan: a junction tree and its measured cliques, compiled once into flat arrays and run many times.

Compiling assigns attributes, axis orders and positions in one arena to nodes, in Python and NumPy; it generates no
code. The kernels (kernels.py) run the plan, and so does the NumPy reference of the tests. The nodes are the cliques of
the junction tree, and below them one *slot* node for each measured clique that is smaller than the clique that holds
it. A slot inside another slot is a child of that slot, so that small marginals are computed from small tables. Some
slots have no measured clique: they hold the table of the slot below them, transposed to the axis order of a much larger
clique above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.plan_nodes import PlacedNodes, PlanNode
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique

MapAxes = tuple[tuple[int, int], ...]
"""The axes of an index map: the size of each, and its stride in the other table."""

STREAM_CELLS = 1 << 22
"""The fewest cells of a table that is streamed (32 MB, a whole cache) instead of stored."""

STREAM_RATIO = 8
"""The least ratio of the cells of a table to those of its inputs for which it is streamed instead of stored."""

ROW_CELLS = 8192
"""The most cells of a row, so that a few rows fit into the first-level cache together."""

BUFFERS = 3
"""The number of row buffers: two for the rows of kernels, and one for sums shared by several children."""


@dataclass(frozen=True)
class PropagationPlan:
    """A junction tree compiled for one layout of potentials.

    Attributes:
        layout: the measured cliques, in the order of the flat potentials and marginals.
        tree: the junction tree that holds them.
        axes: the attributes of the table of each node, in axis order.
        clique_nodes: the node of each clique of the tree.
        nodes: shape (n_nodes, N_FIELDS), parents before children (plan_columns.py names the columns).
        children: the children of all nodes, one list after the other.
        map_axes: the (size, stride) of the axes of each index map.
        arena_cells: the length of the float64 arena of a run.
        messages, marginals: the cells of these two sections of the arena, which has two copies of each.
        scratch: the start of the row buffers.
        row: the length of a row buffer.
    """

    layout: Layout
    tree: JunctionTree
    axes: tuple[Clique, ...]
    clique_nodes: tuple[int, ...]
    nodes: np.ndarray
    children: np.ndarray
    map_axes: tuple[MapAxes, ...]
    arena_cells: int
    messages: int
    marginals: int
    scratch: int
    row: int

    @cached_property
    def maps(self) -> np.ndarray:
        """The index maps of all links, one after the other; computed at first use, since contraction needs none."""
        maps = np.concatenate([index_map(axes) for axes in self.map_axes] or [np.zeros(1, dtype=np.int32)])
        maps.flags.writeable = False
        return maps

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree | None = None) -> PropagationPlan:
        """Return the plan of `layout` on `tree` (by default a tree built for its cliques).

        Raises:
            ModelTooLarge: this machine cannot hold the tables.
        """
        tree = JunctionTree.from_cliques(layout.domain, layout.cliques) if tree is None else tree
        check_room("the junction tree", tree.total_cells)
        return _Compiler(layout, tree).compile()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle or a copy with read-only arrays: the kernels would be compiled again for others."""
        vars(self).update(state)
        for array in (value for value in state.values() if isinstance(value, np.ndarray)):
            array.flags.writeable = False

    def __repr__(self) -> str:
        arena = f"{self.arena_cells * 8 / 1e6:.3g} MB"
        return f"PropagationPlan({len(self.nodes)} nodes, {self.tree.total_cells:,} cells, arena {arena})"


def index_map(axes: MapAxes) -> np.ndarray:
    """Return the offsets of the cells over axes of these sizes, row-major, in a table with these strides."""
    offsets = np.zeros(1, dtype=np.int32)
    for size, stride in axes:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int32) * np.int32(stride)).reshape(-1)
    return offsets


class _Compiler:
    """Compiles a plan of placed nodes in steps, each of which fills in more of their fields."""

    def __init__(self, layout: Layout, tree: JunctionTree):
        self.layout = layout
        self.tree = tree
        self.sizes = dict(layout.domain.items())
        placed = PlacedNodes(layout, tree)
        self.nodes: list[PlanNode] = placed.nodes
        self.clique_nodes: list[int] = placed.clique_nodes
        self.maps_length = 0
        self.map_starts: dict[MapAxes, int] = {}

    def compile(self) -> PropagationPlan:
        for node in self.nodes:
            self.choose_rows(node)
        return self.assemble()

    def cells(self, attributes: Sequence[str]) -> int:
        return math.prod([self.sizes[name] for name in attributes])

    # -- the rows of each table -------------------------------------------------------------------------------------

    def choose_rows(self, node: PlanNode) -> None:
        """Choose the number of last axes that form a row so that the cost is least: long rows, few look-ups."""
        cells = self.cells(node.axes)
        if node.slot or node.separator_first:
            limit = len(node.axes) if node.slot else len(node.axes) - len(node.separator)
        else:
            limit = len(node.separator)
        best, node.inner, node.rows = math.inf, 0, (cells, 1)
        for inner in range(1, limit + 1):
            n_in = self.cells(node.axes[len(node.axes) - inner :])
            if n_in > ROW_CELLS and inner > 1:
                break
            links = [self.link_kind(node, inner, self.nodes[c].separator) for c in node.children]
            looked_up = sum(kind == f.GENERAL for kind, _ in links)
            cost = (2.0 + len(links)) * 8.0 / n_in + 0.15 * len(set(links)) + looked_up
            if cost < best:
                best, node.inner, node.rows = cost, inner, (cells // n_in, n_in)
        inputs = sum(self.cells(self.nodes[c].separator) for c in node.children)
        node.streamed = not node.slot and node.base < 0 and cells >= max(STREAM_CELLS, STREAM_RATIO * inputs)

    def link_kind(self, parent: PlanNode, inner: int, separator: Clique) -> tuple[int, int]:
        """Return the arrangement of a child's separator along a row of the last `inner` axes, and its block length."""
        row = [name for name in parent.axes[len(parent.axes) - inner :] if self.sizes[name] > 1]
        shared = [name for name in row if name in separator]
        if not shared:
            return f.CONSTANT, 0
        if shared != [name for name in separator if self.sizes[name] > 1][-len(shared) :]:
            return f.GENERAL, 0
        if shared == row:
            return f.CONTIGUOUS, 0
        if shared == row[: len(shared)]:
            return f.REPEATED, self.cells(row[len(shared) :])
        if shared == row[-len(shared) :]:
            return f.TILED, self.cells(shared)
        return f.GENERAL, 0

    # -- the positions in the arena ---------------------------------------------------------------------------------

    def assemble(self) -> PropagationPlan:
        """Assign a position in the arena to every table and message, and return the plan."""
        table = np.full((len(self.nodes), f.N_FIELDS), -1, dtype=np.int64)
        rows = [self.node_row(node) for node in self.nodes]
        messages = marginals = 0
        for node, row in zip(self.nodes, rows, strict=True):
            if node.slot and not node.children:
                row[f.MESSAGE], row[f.MESSAGE_IN_THETA] = row[f.BASE], 1
            else:
                row[f.MESSAGE] = messages
                messages += row[f.SEPARATOR]
        arena = 2 * messages
        for node, row in zip(self.nodes, rows, strict=True):
            if node.parent < 0:
                row[f.MARGINAL] = arena + marginals
                marginals += row[f.SEPARATOR]
        children: list[int] = []
        for node, row in zip(self.nodes, rows, strict=True):
            row[f.CHILDREN], row[f.SPREAD] = len(children), arena + marginals
            for child in self.grouped(node):
                children.append(child)
                rows[child][f.MARGINAL] = arena + marginals
                marginals += rows[child][f.SEPARATOR]
                self.link(node, self.nodes[child], rows[child])
            row[f.CHILDREN_END], row[f.SPREAD_SIZE] = len(children), arena + marginals - row[f.SPREAD]
        arena += 2 * marginals
        for node, row in zip(self.nodes, rows, strict=True):
            if node.slot:
                continue
            row[f.PEAK], row[f.WEIGHT] = row[f.MARGINAL], arena
            arena += row[f.SEPARATOR]
            if node.streamed:  # its rows are recomputed in the downward sweep, when its marginal is already stored
                row[f.PEAK] = arena
                arena += row[f.SEPARATOR]
            if not node.streamed and node.base < 0:
                row[f.TABLE] = arena
                arena += row[f.CELLS]
        longest = max(row[f.N_IN] for row in rows)
        for row in rows:
            row[f.ROW] = longest
        table[:] = rows
        listed = np.array(children or [0], dtype=np.int64)
        for array in (table, listed):
            array.flags.writeable = False
        return PropagationPlan(
            layout=self.layout,
            tree=self.tree,
            axes=tuple(node.axes for node in self.nodes),
            clique_nodes=tuple(self.clique_nodes),
            nodes=table,
            children=listed,
            map_axes=tuple(self.map_starts),
            arena_cells=arena + BUFFERS * longest,
            messages=messages,
            marginals=marginals,
            scratch=arena,
            row=longest,
        )

    def grouped(self, node: PlanNode) -> list[int]:
        """Return the children of a node, sorted by the arrangement of their entries along its rows."""
        return sorted(node.children, key=lambda c: self.link_kind(node, node.inner, self.nodes[c].separator))

    def node_row(self, node: PlanNode) -> list[int]:
        row = [-1] * f.N_FIELDS
        n_out, n_in = node.rows
        separator = n_out * n_in if node.slot else self.cells(node.separator)
        row[f.PARENT], row[f.SLOT], row[f.N_OUT], row[f.N_IN] = node.parent, int(node.slot), n_out, n_in
        row[f.CELLS], row[f.SEPARATOR], row[f.RESIDUAL] = n_out * n_in, separator, n_out * n_in // separator
        row[f.FIRST], row[f.MESSAGE_IN_THETA] = int(node.separator_first), 0
        row[f.BASE] = int(self.layout.offsets[node.base]) if node.base >= 0 else -1
        return row

    def link(self, parent: PlanNode, child: PlanNode, row: list[int]) -> None:
        """Set the index maps from the rows and columns of the parent to the separator entries of the child."""
        kind, block = self.link_kind(parent, parent.inner, child.separator)
        strides = dict.fromkeys(parent.axes, 0)
        stride = 1
        for name in reversed(child.separator):
            strides[name] = stride
            stride *= self.sizes[name]
        split = len(parent.axes) - parent.inner
        row[f.UP_KIND], row[f.UP_BLOCK] = kind, block
        row[f.UP_OUTER] = self.index_map(parent.axes[:split], strides)
        row[f.UP_INNER] = self.index_map(parent.axes[split:], strides)

    def index_map(self, axes: Clique, strides: dict[str, int]) -> int:
        """Return the start of the map from cells over `axes`, row-major, to offsets; equal maps are stored once."""
        key = tuple((self.sizes[name], strides[name]) for name in axes)
        start = self.map_starts.get(key)
        if start is None:
            start = self.map_starts[key] = self.maps_length
            self.maps_length += self.cells(axes)
        return start
