"""The sweeps of belief propagation by the kernels: clique by clique, wide cliques shared between threads."""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.threads import run_together
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.kernel_loading import load_kernels
from pgmest.inference.exact.propagation_plan import BUFFERS, PropagationPlan

THREADED_CELLS = 1 << 17
"""The fewest cells of a clique whose rows are divided between threads; smaller ones take less than waking a thread."""


class KernelSweeps:
    """The sweeps on a plan, with a workspace that holds the messages of the last ones.

    Attributes:
        wide: the nodes whose rows are divided between threads. The other nodes run in few calls of a kernel.
    """

    def __init__(self, plan: PropagationPlan, threads: int):
        self.plan: PropagationPlan = plan
        self.threads: int = threads
        self._kernels = load_kernels()
        nodes = plan.nodes
        wide = (nodes[:, f.CELLS] >= THREADED_CELLS) & (nodes[:, f.SLOT] == 0) & (nodes[:, f.N_OUT] >= threads)
        self.wide: list[int] = np.flatnonzero(wide).tolist() if threads > 1 else []
        shared = max((int(nodes[i, [f.SEPARATOR, f.SPREAD_SIZE]].max()) for i in self.wide), default=0)
        self._private = shared + BUFFERS * plan.row  # cells of private memory of each further thread
        self._roots = nodes[nodes[:, f.PARENT] < 0, f.MESSAGE]  # the places of their messages
        self._away = self._schedule()
        self._towards = self._away[::-1]

    @cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The arrays of the plan, as the kernels take them."""
        return self.plan.nodes, self.plan.children, self.plan.maps

    @cached_property
    def arena(self) -> np.ndarray:
        """The workspace of the kernels."""
        check_room("the oracle's tables", self.plan.arena_cells)
        cells = self.plan.arena_cells + (self.threads - 1) * self._private * bool(self.wide)
        return np.zeros(cells)

    def upward(self, theta: np.ndarray, mu: np.ndarray) -> float:
        """Send the messages towards the roots, and return the log-partition function; `mu` is a buffer."""
        for low, high, wide in self._towards:
            if wide:
                self._upward_wide(low, theta, mu)
            else:
                self._kernels.upward(*self.tables, low, high, theta, mu, self.arena, self.plan.scratch)
        return float(self.arena[self._roots].sum())

    def downward(self, theta: np.ndarray, mu: np.ndarray, total: float) -> None:
        """Send the messages away from the roots, and write the marginals of sum `total` into `mu`."""
        for low, high, wide in self._away:
            if wide:
                self._downward_wide(low, theta, mu, total)
            else:
                self._kernels.downward(*self.tables, low, high, theta, mu, self.arena, self.plan.scratch, total)

    def clique_table(self, node: int, theta: np.ndarray, mu: np.ndarray, table: np.ndarray) -> None:
        """Write the marginal of a node's clique after both sweeps into `table`."""
        self._kernels.clique_table(*self.tables, node, theta, mu, self.arena, self.plan.scratch, table)

    def _schedule(self) -> list[tuple[int, int, bool]]:
        """Return ranges of nodes (low, high, wide) in the order of the sweep away from the roots."""
        bounds: list[tuple[int, int, bool]] = []
        low = 0
        for i in [*self.wide, len(self.plan.nodes)]:
            if low < i:
                bounds.append((low, i, False))
            if i < len(self.plan.nodes):
                bounds.append((i, i + 1, True))
            low = i + 1
        return bounds

    def _shares(self, node: int) -> list[tuple[int, int]]:
        """Return the rows of a wide node, split evenly."""
        cuts = np.linspace(0, int(self.plan.nodes[node, f.N_OUT]), self.threads + 1).astype(int).tolist()
        return list(pairwise(cuts))

    def _private_cells(self, thread: int) -> tuple[int, int]:
        """Return the start of the partial results of a further thread, and the start of its row buffer."""
        start = self.plan.arena_cells + (thread - 1) * self._private
        return start, start + self._private - BUFFERS * self.plan.row

    def _reduce_wide(self, node: int, target: int, combine: np.ufunc, kernel: partial, inputs: tuple) -> None:
        """Run a kernel over shares of the rows into private separator entries, and combine these in a fixed order."""
        size, arena = int(self.plan.nodes[node, f.SEPARATOR]), self.arena
        tasks = []
        for thread, (begin, end) in enumerate(self._shares(node)):
            start, buffer = (target, self.plan.scratch) if thread == 0 else self._private_cells(thread)
            tasks.append(partial(kernel, begin, end, *inputs, start, buffer))
        run_together(tasks)
        own = arena[target : target + size]
        for thread in range(1, self.threads):
            start, _ = self._private_cells(thread)
            combine(own, arena[start : start + size], out=own)

    def _upward_wide(self, node: int, theta: np.ndarray, mu: np.ndarray) -> None:
        kernels, row, arena = self._kernels, self.plan.nodes[node], self.arena
        peaks, sums, inputs = int(row[f.PEAK]), int(row[f.WEIGHT]), (theta, mu, arena)
        self._reduce_wide(node, peaks, np.maximum, partial(kernels.clique_max, *self.tables, node), inputs)
        kernels.settle_peaks(self.plan.nodes, node, arena)
        self._reduce_wide(node, sums, np.add, partial(kernels.clique_sum, *self.tables, node), inputs)
        kernels.send_message(self.plan.nodes, node, arena)

    def _downward_wide(self, node: int, theta: np.ndarray, mu: np.ndarray, total: float) -> None:
        kernels, arena = self._kernels, self.arena
        kernels.weigh(self.plan.nodes, node, arena, total)
        spread, size = (int(v) for v in self.plan.nodes[node, [f.SPREAD, f.SPREAD_SIZE]])
        tasks = []
        for thread, (begin, end) in enumerate(self._shares(node)):
            start, buffer = (spread, self.plan.scratch) if thread == 0 else self._private_cells(thread)
            arena[start : start + size] = 0.0
            own = (theta, mu, arena, start - spread, buffer)
            tasks.append(partial(kernels.clique_spread, *self.tables, node, begin, end, *own))
        run_together(tasks)
        for thread in range(1, self.threads):
            start, _ = self._private_cells(thread)
            arena[spread : spread + size] += arena[start : start + size]
