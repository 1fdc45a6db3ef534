"""Belief propagation by the same plan in plain NumPy: written to be read, and compared with the kernels by tests.

A node's table is a flat array of its cells. Two index computations say everything about where a cell belongs:

- to its own separator: as a grid of shape (SEPARATOR, RESIDUAL), whose rows are consecutive cells where the separator
  axes come FIRST in the table and strided ones where they come last (a slot is all separator: one column);
- to a child's separator: cell (o, j), row o and column j, meets entry `outer[o] + inner[j]` of the child's message.

Everything is in log space on the way up, and on the way down a marginal is a conditional table times the marginal of
its separator. Nothing here is fast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgmest.errors import ArgumentError, ImpossibleModelError
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import divide, subtract_logs


class ReferenceOracle:
    """MARGINAL-ORACLE on a plan, as `ExactOracle` (exact/belief_propagation.py) is, without its speed."""

    def __init__(self, plan: PropagationPlan):
        self.plan = plan
        self.layout: Layout = plan.layout
        self.calls: int = 0
        self._count = len(plan.nodes)
        self._roots = np.flatnonzero(plan.nodes[:, f.PARENT] < 0)
        self._entries = [self._entries_in_parent(i) for i in range(self._count)]
        self._conditionals: list[np.ndarray] = []  # per node, the grid of the last run: each row sums to 1, or to 0
        self._separators: list[np.ndarray] = []  # per node, the marginal of its separator in the last run

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The marginals on the plan's cliques, scaled to `total`, and the log-partition function."""
        mu = np.empty(self.layout.cells) if out is None else out
        self._conditionals = [np.empty(0)] * self._count

        def normalize(i: int, table: np.ndarray) -> np.ndarray:
            peak = table.max(axis=1, keepdims=True)
            peak = np.where(np.isneginf(peak), 0.0, peak)  # any finite shift leaves an impossible row at exp(-inf) = 0
            likelihood = np.exp(table - peak)
            z = likelihood.sum(axis=1, keepdims=True)
            self._conditionals[i] = divide(likelihood, z)
            with np.errstate(divide="ignore"):
                return (peak + np.log(z))[:, 0]

        log_partition = self._at_roots(self._messages(theta, normalize))
        if not np.isfinite(log_partition):
            raise ImpossibleModelError(f"the log-partition function is {log_partition}; check the structural zeros.")
        self._separators = self._downward(total, lambda i, marginal: self._conditionals[i] * marginal[:, None], mu)
        self.calls += 1
        return mu, log_partition

    def maximum(self, theta: np.ndarray) -> float:
        """The largest total potential of any record."""
        self.calls += 1
        return self._at_roots(self._messages(theta, _best_of_rows))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """For each measured cell, the largest total potential of a record that falls into it."""
        best = np.empty(self.layout.cells) if out is None else out
        messages = self._messages(theta, _best_of_rows)

        def through(i: int, marginal: np.ndarray) -> np.ndarray:
            outside = np.where(np.isneginf(messages[i]), -np.inf, subtract_logs(marginal, messages[i]))
            return self._table(i, theta, messages) + outside[:, None]

        self._downward(self._at_roots(messages), through, best, np.maximum, -np.inf)
        self.calls += 2
        return best

    def map_record(self, theta: np.ndarray) -> dict[str, int]:
        """A record of largest total potential, attribute -> code."""
        messages = self._messages(theta, _best_of_rows)
        cells, codes = [0] * self._count, {}
        for i, axes in enumerate(self.plan.axes):
            parent = self.plan.nodes[i, f.PARENT]
            entry = self._entries[i][cells[parent]] if parent >= 0 else 0
            best = self._table(i, theta, messages)[entry].argmax()
            cells[i] = int(self._grid(i, np.arange(self.plan.nodes[i, f.CELLS]))[entry, best])
            position = np.unravel_index(cells[i], self.layout.domain.project(axes).shape) if axes else ()
            codes.update(zip(axes, map(int, position), strict=True))
        self.calls += 1
        return {name: codes[name] for name in self.layout.domain}

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The derivative of the last run's marginals along `direction`: Cov @ direction, times the total."""
        if not self._separators:
            raise ArgumentError("covariance needs the marginals of a run: call run(theta) first.")
        tangent = np.empty(self.layout.cells) if out is None else out
        conditionals = self._conditionals
        messages = self._messages(direction, lambda i, table: (conditionals[i] * table).sum(axis=1))

        def product_rule(i: int, change: np.ndarray) -> np.ndarray:
            """d (conditional * marginal) = conditional * (marginal * d log conditional + d marginal)."""
            log_change = self._table(i, direction, messages) - messages[i][:, None]
            return conditionals[i] * (self._separators[i][:, None] * log_change + change[:, None])

        self._downward(0.0, product_rule, tangent)
        self.calls += 1
        return tangent

    # -- sweeps -------------------------------------------------------------------------------------------------------

    def _messages(self, potentials: np.ndarray, reduce: Callable[[int, np.ndarray], np.ndarray]) -> list[np.ndarray]:
        """Each node's message, children first: `reduce` takes a node's grid to one number per separator entry."""
        messages = [np.empty(0)] * self._count
        for i in reversed(range(self._count)):
            messages[i] = reduce(i, self._table(i, potentials, messages))
        return messages

    def _downward(
        self,
        at_roots: float,
        table_of: Callable[[int, np.ndarray], np.ndarray],
        out: np.ndarray,
        combine: np.ufunc = np.add,
        neutral: float = 0.0,
    ) -> list[np.ndarray]:
        """Each separator's marginal, parents first; the measured tables go to `out`.

        `table_of` takes a node and its separator's marginal to its grid; `combine` takes cells to a child's entries.
        """
        received = [np.full(size, neutral) for size in self.plan.nodes[:, f.SEPARATOR]]
        for root in self._roots:
            received[root][:] = at_roots
        for i, (base, n) in enumerate(self.plan.nodes[:, [f.BASE, f.CELLS]]):
            cells = self._cells(i, table_of(i, received[i]))
            if base >= 0:
                out[base : base + n] = cells
            for c in self._children(i):
                combine.at(received[c], self._entries[c], cells)
        return received

    def _at_roots(self, messages: list[np.ndarray]) -> float:
        return float(sum(messages[root][0] for root in self._roots))

    # -- tables and indices -------------------------------------------------------------------------------------------

    def _table(self, i: int, potentials: np.ndarray, messages: list[np.ndarray]) -> np.ndarray:
        """The grid of a node's potential plus the messages of its children."""
        base, n = self.plan.nodes[i, [f.BASE, f.CELLS]]
        cells = potentials[base : base + n].copy() if base >= 0 else np.zeros(n)
        for c in self._children(i):
            cells += messages[c][self._entries[c]]
        return self._grid(i, cells)

    def _children(self, i: int) -> list[int]:
        start, end = self.plan.nodes[i, [f.CHILDREN, f.CHILDREN_END]]
        return self.plan.children[start:end].tolist()

    def _entries_in_parent(self, i: int) -> np.ndarray:
        """For each cell of node i's parent, the entry of node i's separator that it belongs to."""
        parent, outer, inner = self.plan.nodes[i, [f.PARENT, f.UP_OUTER, f.UP_INNER]]
        if parent < 0:
            return np.empty(0, dtype=np.int64)
        n_out, n_in = self.plan.nodes[parent, [f.N_OUT, f.N_IN]]
        maps = self.plan.maps.astype(np.int64)
        return (maps[outer : outer + n_out, None] + maps[None, inner : inner + n_in]).reshape(-1)

    def _grid(self, i: int, cells: np.ndarray) -> np.ndarray:
        """The cells by separator entry and residual, shape (SEPARATOR, RESIDUAL)."""
        n_s, n_r, first = self.plan.nodes[i, [f.SEPARATOR, f.RESIDUAL, f.FIRST]]
        return cells.reshape(n_s, n_r) if first else cells.reshape(n_r, n_s).T

    def _cells(self, i: int, grid: np.ndarray) -> np.ndarray:
        """The flat cells of a grid."""
        return (grid if self.plan.nodes[i, f.FIRST] else grid.T).reshape(-1)


def _best_of_rows(node: int, table: np.ndarray) -> np.ndarray:
    return table.max(axis=1)
