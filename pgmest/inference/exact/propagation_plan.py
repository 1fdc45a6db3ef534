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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import plan_columns as f
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

MapAxes = tuple[tuple[int, int], ...]
"""The axes of an index map: the size of each, and its stride in the other table."""

STREAM_CELLS = 1 << 22
"""The fewest cells of a table that is streamed (32 MB, a whole cache) instead of stored."""

STREAM_RATIO = 8
"""The least ratio of the cells of a table to those of its inputs for which it is streamed instead of stored."""

ROW_CELLS = 8192
"""The most cells of a row, so that a few rows fit into the first-level cache together."""

TRANSPOSE_RATIO = 4
"""The least ratio of the cells of a clique to those of a measured clique inside it for which the latter is transposed
first."""

BUFFERS = 3
"""The number of row buffers: two for the rows of kernels, and one for sums shared by several children."""

VECTOR_CELLS = 32
"""The least length of a row that keeps the vector units busy."""


@dataclass
class PlanNode:
    """One node under construction: its axes in table order, the separator axes first or last among them."""

    axes: Clique
    separator: Clique
    parent: int
    slot: bool = False
    base: int = -1  # position in the layout of the potential with exactly these axes
    separator_first: bool = True
    children: list[int] = field(default_factory=list)
    streamed: bool = False
    rows: tuple[int, int] = (1, 1)  # N_OUT, N_IN
    inner: int = 0  # the number of last axes that form a row


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
        messages, marginals: the cells of these two sections of the arena, which has three and two copies of them.
        scratch: the start of the row buffers.
        row: the length of a row buffer.
        batch: the number of parameter vectors of a run, which are the last axis of all tables.
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
    batch: int = 1

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

    def batched(self, count: int) -> PropagationPlan:
        """Return the plan that runs `count` parameter vectors at once.

        The kernels see the vectors as the values of one more attribute, which is in every clique and every separator,
        including those of roots, and is the last axis of every table. Potentials and marginals have shape
        (cells, count). So rows have at least `count` cells even for small cliques.

        Raises:
            ModelTooLarge: this machine cannot hold the tables.
        """
        name = "batch"
        while name in self.layout.domain:
            name += "_"
        domain = Domain({**self.layout.domain, name: count})
        tree = self.tree
        cliques = tuple((*clique, name) for clique in tree.cliques)
        measured = tuple((*clique, name) for clique in tree.measured)
        widened = JunctionTree(domain, measured, cliques, tree.parents, (*tree.elimination_order, name))
        check_room("the junction tree", widened.total_cells)
        layout = Layout(domain, tuple((*clique, name) for clique in self.layout.cliques))
        return _Compiler(layout, widened, name).compile()

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
    """Compiles a plan in steps, each of which fills in more fields of the nodes."""

    def __init__(self, layout: Layout, tree: JunctionTree, batch: str | None = None):
        self.layout = layout
        self.batch = batch  # the attribute whose values are the vectors of a batch
        self.tree = tree
        self.domain: Domain = layout.domain
        self.sizes = dict(layout.domain.items())
        self.nodes: list[PlanNode] = []
        self.clique_nodes: list[int] = []
        self.maps_length = 0
        self.map_starts: dict[MapAxes, int] = {}

    def compile(self) -> PropagationPlan:
        self.place_nodes()
        for node in self.nodes:
            self.choose_rows(node)
        return self.assemble()

    def cells(self, attributes: Sequence[str]) -> int:
        return math.prod([self.sizes[name] for name in attributes])

    # -- the nodes --------------------------------------------------------------------------------------------------

    def place_nodes(self) -> None:
        """Add the clique nodes in the order of the tree, each followed by its slots, so that parents come first."""
        hosted = self.hosted_cliques()
        upper_node = [-1] * len(self.tree.cliques)  # the node that receives the message of each clique
        self.clique_nodes = [-1] * len(self.tree.cliques)
        for index, under in self.rooted(hosted):
            clique = self.tree.cliques[index]
            parent = upper_node[index]
            above = self.nodes[parent].axes if parent >= 0 else (self.batch,)
            separator = tuple(name for name in clique if name in above)
            me = self.add(PlanNode(clique, separator, parent))
            self.clique_nodes[index] = me
            self.order_axes(self.nodes[me], hosted[index])
            slots = self.place_slots(me, [p for p in hosted[index] if p != self.nodes[me].base])
            for child in under:
                shared = set(clique) & set(self.tree.cliques[child])
                upper_node[child] = self.smallest_host(me, slots, shared)

    def rooted(self, hosted: list[list[int]]) -> Iterator[tuple[int, list[int]]]:
        """Yield the cliques, parents first, each with its children, from the roots with the most aligned cells.

        A table is aligned if its clique is measured with the separator axes first or last, as its message needs them.
        The separator depends on which neighbor is the parent, and so on the root. Moving the root along an edge changes
        the alignment of the two ends of this edge only, so one pass from the tree's root finds the best root.
        """
        parents, cliques = self.tree.parents, self.tree.cliques

        def aligned(clique: int, toward: int) -> int:
            separator = set(cliques[clique]) & set(cliques[toward])
            return self.cells(cliques[clique]) if self.alignment(cliques[clique], separator, hosted[clique]) else 0

        gain = [0] * len(cliques)  # the change in aligned cells if this clique replaces the root of its component
        best = list(range(len(cliques)))  # the best root of a component, stored at its present root
        component = list(range(len(cliques)))
        neighbors: list[list[int]] = [[] for _ in cliques]
        for child, parent in enumerate(parents):
            if parent >= 0:
                neighbors[parent].append(child)
                neighbors[child].append(parent)
                gain[child] = gain[parent] - aligned(child, parent) + aligned(parent, child)
                component[child] = component[parent]
                if gain[child] > gain[best[component[child]]]:
                    best[component[child]] = child
        for root in (best[i] for i, parent in enumerate(parents) if parent < 0):
            stack = [(root, -1)]
            while stack:
                clique, parent = stack.pop()
                under = [n for n in neighbors[clique] if n != parent]
                stack.extend((n, clique) for n in reversed(under))
                yield clique, under

    def add(self, node: PlanNode) -> int:
        position = len(self.nodes)
        self.nodes.append(node)
        if node.parent >= 0:
            self.nodes[node.parent].children.append(position)
        return position

    def hosted_cliques(self) -> list[list[int]]:
        """Return the measured cliques assigned to each clique of the tree: to the smallest clique that holds them.

        Raises:
            ArgumentError: no clique of the tree holds a measured clique.
        """
        hosted: list[list[int]] = [[] for _ in self.tree.cliques]
        holders: dict[str, list[int]] = {name: [] for name in self.domain}
        size = [self.cells(clique) for clique in self.tree.cliques]
        for index, clique in enumerate(self.tree.cliques):
            for name in clique:
                holders[name].append(index)
        for position, clique in enumerate(self.layout.cliques):
            if clique:
                rarest = min((holders[name] for name in clique), key=len)
                wanted = set(clique)
                options = [i for i in rarest if wanted.issubset(self.tree.cliques[i])]
            else:
                options = [0]
            if not options:
                raise ArgumentError(
                    f"the junction tree has no clique that holds {clique}; build it from all cliques of the layout."
                )
            hosted[min(options, key=size.__getitem__)].append(position)
        return hosted

    def alignment(self, axes: Clique, separator: set[str], hosted: list[int]) -> tuple[int, bool] | None:
        """Return a measured clique with exactly these axes, and whether the separator comes first in it.

        The result is None if there is no such clique, or if its rows would be too short.
        """
        n_s = self.cells([name for name in axes if name in separator])
        n_r = self.cells([name for name in axes if name not in separator])
        wanted = min(VECTOR_CELLS, max(n_r, n_s))
        for position in hosted:
            clique = self.layout.cliques[position]
            if len(clique) != len(axes):
                continue
            if n_s >= wanted and set(clique[len(clique) - len(separator) :]) == separator:
                return position, False
            if n_r >= wanted and set(clique[: len(separator)]) == separator and self.batch is None:
                return position, True
        return None

    def order_axes(self, node: PlanNode, hosted: list[int]) -> None:
        """Choose the axis order: that of a measured clique if its rows are long enough, else large axes last."""
        separator = set(node.separator)
        aligned = self.alignment(node.axes, separator, hosted)
        if aligned:
            node.base, node.separator_first = aligned
            node.axes = self.layout.cliques[node.base]
            node.separator = tuple(name for name in node.axes if name in separator)
            return
        r = sorted((name for name in node.axes if name not in separator), key=self.sizes.__getitem__)
        s = sorted(separator, key=lambda name: (name == self.batch, self.sizes[name], name))
        n_r, n_s = self.cells(r), self.cells(s)
        last = self.batch is not None or n_s >= 2 * VECTOR_CELLS or (n_s >= n_r and n_s > 1)
        node.separator_first = not last
        node.axes = tuple(s + r) if node.separator_first else tuple(r + s)
        node.separator = tuple(s)

    def place_slots(self, owner: int, hosted: list[int]) -> list[int]:
        """Add a slot for each measured clique, below the smallest slot that holds it, else below the owner.

        If the owner is much larger and has another axis order, a slot in the owner's order comes between. Then entries
        are looked up in the small table once and form blocks along the rows of the large table.
        """
        slots: list[int] = []
        axes = self.nodes[owner].axes
        for position in sorted(hosted, key=lambda p: -self.layout.sizes[p]):
            clique = self.layout.cliques[position]
            parent = self.smallest_host(owner, slots, set(clique))
            transposed = tuple(name for name in axes if name in clique)
            if parent == owner and transposed != clique and self.cells(axes) >= TRANSPOSE_RATIO * self.cells(clique):
                parent = self.add(PlanNode(transposed, transposed, parent, slot=True))
                slots.append(parent)
            slots.append(self.add(PlanNode(clique, clique, parent, slot=True, base=position)))
        return slots

    def smallest_host(self, owner: int, slots: list[int], attributes: set[str]) -> int:
        """Return the last slot that holds the attributes (slots are in order of decreasing size), else the owner."""
        for slot in reversed(slots):
            if attributes.issubset(self.nodes[slot].axes):
                return slot
        return owner

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
        arena = 3 * messages
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
            batch=1 if self.batch is None else self.sizes[self.batch],
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
