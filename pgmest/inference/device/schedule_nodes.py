"""The nodes of a schedule: those of the plan, and tables in between where many small tables meet in one large clique.

Such a table, a *group*, is over the axes of several of the small ones. Its message is the sum of their messages. Its
marginal is taken from the clique once, and their marginals from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgmest.errors import ModelTooLarge, count_text
from pgmest.inference.exact import plan_columns
from pgmest.inference.exact.propagation_plan import PropagationPlan

GROUP_RATIO = 64
"""The smallest ratio of a clique's cells to a group's cells. A group saves one pass over the clique and adds two over
the group's table.
"""

LARGEST_CLIQUE = 2**31
"""The largest number of cells in a clique: the kernels number cells by 32 bits."""


@dataclass
class Node:
    """A node of the plan, without the axes of size 1, or a group."""

    axes: tuple[str, ...]
    separator: tuple[str, ...]
    parent: int
    slot: bool
    base: int = -1  # start of its potentials and marginals in the flat arrays
    children: list[int] = field(default_factory=list)
    message: int = -1  # start in the workspace, or in the potentials (as `base`) if message_in_theta
    peak: int = -1
    inverse: int = -1
    weight: int = -1  # of a clique
    marginal: int = -1  # of a slot that is not measured

    @property
    def message_in_theta(self) -> bool:
        """True if the node's message is its unchanged potential."""
        return self.slot and not self.children


def nodes_of(plan: PropagationPlan) -> list[Node]:
    """Return the nodes of a plan in its order, and then the groups.

    Raises:
        ModelTooLarge: a clique has more than 2^31 cells.
    """
    found = _Nodes(plan)
    for index in range(len(found.nodes)):
        found.check_size(found.nodes[index])
        found.group(index)
    return found.nodes


def parents_first(nodes: list[Node]) -> list[int]:
    """Return the positions of the nodes, each after its parent."""
    order = [index for index, node in enumerate(nodes) if node.parent < 0]
    for index in order:  # the list grows during the loop
        order.extend(nodes[index].children)
    return order


class _Nodes:
    """The nodes so far, and the sizes of their axes."""

    def __init__(self, plan: PropagationPlan):
        self.sizes: dict[str, int] = dict(plan.layout.domain.items())
        self.nodes: list[Node] = []
        axes = [tuple(name for name in names if self.sizes[name] > 1) for names in plan.axes]
        for own, row in zip(axes, plan.nodes, strict=True):
            slot, parent = bool(row[plan_columns.SLOT]), int(row[plan_columns.PARENT])
            above = axes[parent] if parent >= 0 else ()
            separator = own if slot else tuple(name for name in own if name in above)
            self.nodes.append(Node(own, separator, parent, slot, int(row[plan_columns.BASE])))
            if parent >= 0:
                self.nodes[parent].children.append(len(self.nodes) - 1)

    def cells(self, axes: Iterable[str]) -> int:
        return math.prod([self.sizes[name] for name in axes])

    def check_size(self, node: Node) -> None:
        if self.cells(node.axes) > LARGEST_CLIQUE:
            raise ModelTooLarge(
                f"a clique of the junction tree, {node.axes}, has {count_text(self.cells(node.axes))} cells; the GPU's "
                f'kernels number at most 2^31 of one. Measure smaller cliques there, or use oracle="exact".'
            )

    def group(self, index: int) -> None:
        """Put tables between a node and its children, each over the axes of several children."""
        node = self.nodes[index]
        limit = self.cells(node.axes) // GROUP_RATIO
        groups: list[tuple[set[str], list[int]]] = []
        for child in sorted(node.children, key=lambda c: -self.cells(self.nodes[c].separator)):
            axes = set(self.nodes[child].separator)
            options = [group for group in groups if self.cells(group[0] | axes) <= limit]
            if options:
                best = min(options, key=lambda group: self.cells(group[0] | axes) / self.cells(group[0]))
                best[0].update(axes)
                best[1].append(child)
            else:
                groups.append((axes, [child]))
        node.children = []
        for axes, members in groups:
            if len(members) > 1 and len(axes) < len(node.axes):
                ordered = tuple(name for name in node.axes if name in axes)
                node.children.append(len(self.nodes))
                for child in members:
                    self.nodes[child].parent = len(self.nodes)
                self.nodes.append(Node(ordered, ordered, index, slot=True, children=members))
                self.group(len(self.nodes) - 1)
            else:
                node.children.extend(members)
