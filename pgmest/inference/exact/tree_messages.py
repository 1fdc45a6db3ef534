"""Belief propagation in logarithms on a junction tree, for what sweeps by contraction cannot do.

Runs by contraction (contracted_sweeps.py) leave no messages behind, and refuse potentials whose products underflow.
This file takes all potentials, and computes what needs messages: the tables of the cliques of the tree, their factors,
and the derivative of the marginals. The nodes are the cliques of the tree, and below each the measured cliques inside
it, whose message is their whole table. message_kernels.py says what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pgmest._base.memory import check_room
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.axes import Axes
from pgmest.inference.exact.kernel_loading import load_message_kernels
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


@dataclass(eq=False)
class _Node:
    """A clique of the tree, or a measured clique inside one.

    Attributes:
        axes: its attributes, in the order of its table.
        parent: the number of its parent, -1 for a root.
        measured: the position of its potential in the layout, -1 without a potential.
        separator: the attributes that it shares with its parent, in the order of the larger table.
        below: the numbers of its children.
    """

    axes: Clique
    parent: int
    measured: int = -1
    separator: Clique = ()
    below: list[int] = field(default_factory=list)


class TreeMessages:
    """The messages and marginals of the last run, for one layout and tree.

    Attributes:
        layout: the measured cliques.
        tree: a junction tree that holds them.
    """

    def __init__(self, layout: Layout, tree: JunctionTree):
        self.layout: Layout = layout
        self.tree: JunctionTree = tree
        self._axes = Axes(dict(layout.domain.items()))
        self._nodes: list[_Node] = []
        self._of_clique: list[int] = []
        self._place()
        f = self._kernels = load_message_kernels()
        nodes = self._table = np.full((len(self._nodes), f.N_NODE), -1, dtype=np.int64)
        entries = np.cumsum([0, *(self._axes.cells(node.separator) for node in self._nodes)])
        nodes[:, f.AT], nodes[:, f.CELLS] = entries[:-1], np.diff(entries)
        cells = self.layout.cells  # measured tables come first, as in the output
        for number, node in enumerate(self._nodes):
            self._describe(number, node)
            if node.measured >= 0:
                nodes[number, [f.POTENTIAL, f.TABLE]] = self.layout.offsets[node.measured]
            else:
                nodes[number, f.TABLE] = cells
                cells += self._axes.cells(node.axes)
        self._maps, longest = self._axes.maps(), int(nodes[:, f.N_IN].max())
        check_room("the oracle's messages", cells + f.N_STATE * int(entries[-1]))
        self._tables, self._state, self._row = np.zeros(cells), np.zeros((f.N_STATE, entries[-1])), np.zeros(longest)
        self._roots = np.zeros(entries[-1])
        self._roots[[entries[number] for number, node in enumerate(self._nodes) if node.parent < 0]] = 1.0
        self._theta = np.empty(0)

    @property
    def cells(self) -> int:
        """The cells of the workspace."""
        return self._tables.size + self._state.size

    def run(self, theta: np.ndarray, total: float, out: np.ndarray) -> float:
        """Write the marginals, scaled to `total`; return the log-partition function, -inf if no record is possible."""
        self._theta = theta
        log_partition = self._kernels.upward(self._table, self._maps, theta, self._tables, self._state)
        if math.isfinite(log_partition):
            np.multiply(self._roots, total, out=self._state[self._kernels.MARGINAL])
            self._kernels.downward(self._table, self._maps, self._tables, self._state)
            out[:] = self._tables[: len(out)]
        return log_partition

    def covariance(self, direction: np.ndarray, out: np.ndarray) -> None:
        """Write the derivative of the marginals along a direction of the potentials."""
        self._kernels.covariance(self._table, self._maps, self._tables, direction, out, self._state, self._row)

    def clique_table(self, position: int) -> Factor:
        """Return the marginal of a clique of the tree, with the axes of the clique."""
        number = self._of_clique[position]
        domain, start = self.layout.domain.project(self._nodes[number].axes), self._table[number, self._kernels.TABLE]
        values = self._tables[start : start + domain.size()].reshape(domain.shape).copy()
        return Factor.owning(domain, values).transpose(self.tree.cliques[position])

    def log_factors(self, position: int) -> list[Factor]:
        """Return the logs of tables whose product is the marginal of a clique of the tree."""
        number, f = self._of_clique[position], self._kernels
        node = self._nodes[number]
        factors = [self._entries(child, f.MESSAGE) for child in node.below]
        if node.measured >= 0:
            factors.append(CliqueVector.of(self.layout, self._theta)[node.axes])
        return [*factors, self._entries(number, f.WEIGHT).log() + self._entries(number, f.LOW)]

    def _entries(self, number: int, row: int) -> Factor:
        """Return a row of the state of a separator as a table."""
        f = self._kernels
        start, cells = (int(value) for value in self._table[number, [f.AT, f.CELLS]])
        domain = self.layout.domain.project(self._nodes[number].separator)
        return Factor.owning(domain, self._state[row, start : start + cells].reshape(domain.shape).copy())

    # -- the plan ------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Add the cliques of the tree, parents first, each followed by the measured cliques inside it."""
        hosted: list[list[int]] = [[] for _ in self.tree.cliques]
        for number, clique in enumerate(self.layout.cliques):
            hosted[self.tree.containing(clique) or 0].append(number)
        inside: list[list[int]] = []  # of each clique of the tree, its node, and those of measured cliques in it
        for position, clique in enumerate(self.tree.cliques):
            above = self.tree.parents[position]
            shared = set(clique).intersection(self.tree.cliques[above]) if above >= 0 else set()
            parent = self._smallest(inside[above], shared) if above >= 0 else -1
            same = [number for number in hosted[position] if len(self.layout.cliques[number]) == len(clique)]
            axes = self.layout.cliques[same[0]] if same else self._ordered(clique, shared)
            self._of_clique.append(len(self._nodes))
            inside.append([self._add(axes, parent, same[0] if same else -1)])
            for number in sorted(hosted[position], key=lambda number: -self.layout.sizes[number]):
                if number not in same[:1]:
                    names = self.layout.cliques[number]
                    inside[-1].append(self._add(names, self._smallest(inside[-1], names), number))

    def _ordered(self, clique: Clique, separator: set[str]) -> Clique:
        """Return the attributes so that rows lie within the larger of the separator and the rest, if possible."""
        sizes, last = self._axes.sizes, self._axes.cells(separator) ** 2 >= self._axes.cells(clique)
        return tuple(sorted(clique, key=lambda name: ((name in separator) == last, sizes[name])))

    def _smallest(self, numbers: list[int], names: Iterable[str]) -> int:
        """Return the last of these nodes, which are in order of decreasing size, that has all the attributes."""
        return next(number for number in reversed(numbers) if set(names).issubset(self._nodes[number].axes))

    def _add(self, axes: Clique, parent: int, measured: int) -> int:
        node = _Node(axes, parent, measured)
        if parent >= 0:
            above = self._nodes[parent]
            above.below.append(len(self._nodes))
            larger, other = sorted((above.axes, axes), key=self._axes.cells, reverse=True)
            node.separator = tuple(name for name in larger if name in other)
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _describe(self, number: int, node: _Node) -> None:
        """Set the rows, the children and the index maps of a node, and the index maps of its children from its side."""
        f, axes, table = self._kernels, node.axes, self._table
        links = [(number, node.separator), *((child, self._nodes[child].separator) for child in node.below)]
        split = self._axes.split(axes)
        table[number, [f.N_OUT, f.N_IN]] = self._axes.cells(axes[:split]), self._axes.cells(axes[split:])
        table[number, f.CHILD] = node.below[0] if node.below else -1
        for child, following in zip(node.below, node.below[1:], strict=False):
            table[child, f.SIBLING] = following
        for other, separator in links:
            strides = self._axes.strides(separator)
            columns = [f.OUTER, f.INNER] if other == number else [f.UP_OUTER, f.UP_INNER]
            table[other, columns] = self._axes.map(axes[:split], strides), self._inner_map(axes[split:], strides)

    def _inner_map(self, row: Clique, strides: dict[str, int]) -> int:
        """Return the start of the map from the cells of a row to entries, or how they lie without a map."""
        if not any(self._axes.sizes[name] > 1 and name in strides for name in row):
            return self._kernels.CONSTANT
        if all(name in strides for name in row):
            return self._axes.inner_map(row, strides)  # -1 if consecutive
        return self._axes.map(row, strides)
