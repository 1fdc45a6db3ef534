"""The nodes of a propagation plan: which node holds which measured clique, and the order of the axes of each.

The cliques of the junction tree become nodes, parents first, and measured cliques inside them become slots. Where a
table lies as its message needs it, and as it was measured, nothing is looked up; so root and axes are chosen for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

TRANSPOSE_RATIO = 4
"""The least ratio of the cells of a clique to those of a measured clique inside it for which the latter is transposed
first."""

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


class PlacedNodes:
    """The nodes of a plan, without their rows and positions.

    Args:
        layout: the measured cliques.
        tree: the junction tree that holds them.

    Attributes:
        nodes: the nodes, parents first.
        clique_nodes: the node of each clique of the tree.

    Raises:
        ArgumentError: no clique of the tree holds a measured clique.
    """

    def __init__(self, layout: Layout, tree: JunctionTree):
        self.layout = layout
        self.tree = tree
        self.domain: Domain = layout.domain
        self.sizes: dict[str, int] = dict(layout.domain.items())
        self.nodes: list[PlanNode] = []
        self.clique_nodes: list[int] = [-1] * len(tree.cliques)
        self._place()

    def cells(self, attributes: Sequence[str]) -> int:
        return math.prod([self.sizes[name] for name in attributes])

    def _place(self) -> None:
        """Add the clique nodes in the order of the tree, each followed by its slots, so that parents come first."""
        hosted = self.hosted_cliques()
        upper_node = [-1] * len(self.tree.cliques)  # the node that receives the message of each clique
        for index, under in self.rooted(hosted):
            clique = self.tree.cliques[index]
            parent = upper_node[index]
            above = self.nodes[parent].axes if parent >= 0 else ()
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
            if n_r >= wanted and set(clique[: len(separator)]) == separator:
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
        s = sorted(separator, key=lambda name: (self.sizes[name], name))
        n_r, n_s = self.cells(r), self.cells(s)
        last = n_s >= 2 * VECTOR_CELLS or (n_s >= n_r and n_s > 1)
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
