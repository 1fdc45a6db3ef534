"""The marginals of many parameter vectors on one plan: replicates, posterior draws, candidates.

What one run costs beside its arithmetic is a call from Python and, where the tables are small, the start of many
short rows. Here the threads share the vectors, each with a workspace of its own, and stay in compiled code; on small
models each takes several vectors at once, interleaved, so that rows are long (Plan.batched). Where contraction is
faster than these kernels, or their workspaces would be large, the vectors are not run here (ContractedSweeps.run_many).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.threads import run_together
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.plan import Plan

WORKSPACE_CELLS = 1 << 24
"""Workspaces of all threads together, at most (128 MB)."""

INTERLEAVED_CELLS = 1 << 17
"""Workspace, potentials and marginals of interleaved vectors, at most (1 MB, a second-level cache)."""

THREAD_CELLS = 1 << 15
"""Cells of junction trees that make it worth waking another thread."""

FEWEST, MOST = 8, 64
"""How many vectors are interleaved: with fewer, rows are too short for it to pay; with more nothing is gained."""


def interleaved(plan: Plan, vectors: int, threads: int) -> int:
    """How many vectors to run at once on one thread: 1 where that is fastest."""
    each = plan.arena_cells + 2 * plan.layout.cells
    most = min(MOST, INTERLEAVED_CELLS // max(each, 1), -(-vectors // threads))
    return 1 << (most.bit_length() - 1) if most >= FEWEST else 1


def fits(plan: Plan, threads: int) -> bool:
    """Whether each thread may have a workspace of its own."""
    return threads * plan.arena_cells <= WORKSPACE_CELLS


class ManyRuns:
    """The workspaces of `threads` threads for runs of many vectors on one plan.

    Attributes:
        count: how many vectors a thread runs at once.
        plan: the plan that is run, for `count` vectors.
    """

    def __init__(self, plan: Plan, kernels: Any, count: int, threads: int):
        self.count: int = count
        self.plan: Plan = plan.batched(count) if count > 1 else plan
        self._kernels, self._threads, self._cells = kernels, threads, plan.layout.cells
        self._roots = np.flatnonzero(self.plan.nodes[:, f.PARENT] < 0)
        self._workspaces: list[tuple[np.ndarray, ...]] = []

    def run(self, thetas: np.ndarray, totals: np.ndarray, mus: np.ndarray, logs: np.ndarray) -> None:
        """Fill `mus` and `logs`; where a log-partition function is not finite its marginals mean nothing.

        Args:
            thetas: shape (vectors, cells), contiguous and read-only.
            totals: shape (vectors,).
            mus: shape (vectors, cells), contiguous.
            logs: shape (vectors,).
        """
        batches = -(-len(thetas) // self.count)
        worth = len(thetas) * self.plan.tree.total_cells // (self.count * THREAD_CELLS)
        threads = max(1, min(self._threads, batches, worth))
        self._make_workspaces(threads)
        cuts = np.minimum(np.linspace(0, batches, threads + 1).astype(int) * self.count, len(thetas)).tolist()
        kernel = self._kernels.run_batches if self.count > 1 else self._kernels.run_rows
        tables = (self.plan.nodes, self.plan.children, self.plan.maps, self._roots)
        arrays = (thetas, totals, mus, logs)
        run_together(
            partial(kernel, *tables, begin, end, *arrays, *workspace, self.plan.scratch)
            for begin, end, workspace in zip(cuts, cuts[1:], self._workspaces, strict=False)
        )

    def _make_workspaces(self, threads: int) -> None:
        columns = (self._cells, self.count)
        missing = threads - len(self._workspaces)
        check_room("the workspaces of many runs", max(missing, 0) * (self.plan.arena_cells + 2 * self._cells))
        for _ in range(missing):
            own = (np.zeros(columns), np.zeros(columns)) if self.count > 1 else ()
            self._workspaces.append((*own, np.zeros(self.plan.arena_cells)))
