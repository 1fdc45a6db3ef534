"""The marginals of many parameter vectors on one plan: replicates, posterior draws, candidates.

The overhead of one run is a call from Python and, if the tables are small, the start of many short rows. Here each
thread runs its share of the vectors in its own workspace and stays in compiled code. On small models a thread runs
several interleaved vectors at once, which makes the rows longer (PropagationPlan.batched). If contraction is faster
than these kernels, or if their workspaces would be large, ContractedSweeps.run_many runs the vectors instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.threads import run_together
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.propagation_plan import PropagationPlan

WORKSPACE_CELLS = 1 << 24
"""The most cells of the workspaces of all threads together (128 MB)."""

INTERLEAVED_CELLS = 1 << 17
"""The most cells of the workspace, potentials and marginals of interleaved vectors (1 MB, a second-level cache)."""

THREAD_CELLS = 1 << 15
"""The cells of junction trees per thread above which waking another thread pays off."""

FEWEST, MOST = 8, 64
"""The fewest and the most interleaved vectors: with fewer, rows are too short; with more there is no further gain."""


def interleaved(plan: PropagationPlan, vectors: int, threads: int) -> int:
    """Return the number of vectors that one thread interleaves, 1 if interleaving does not pay off."""
    each = plan.arena_cells + 2 * plan.layout.cells
    most = min(MOST, INTERLEAVED_CELLS // max(each, 1), -(-vectors // threads))
    return 1 << (most.bit_length() - 1) if most >= FEWEST else 1


def fits(plan: PropagationPlan, threads: int) -> bool:
    """Return whether the workspaces of all threads stay within the limit."""
    return threads * plan.arena_cells <= WORKSPACE_CELLS


class ManyRuns:
    """The workspaces of `threads` threads for runs of many vectors on one plan.

    Attributes:
        count: the number of vectors that a thread interleaves.
        plan: the plan for `count` vectors.
    """

    def __init__(self, plan: PropagationPlan, kernels: Any, count: int, threads: int):
        self.count: int = count
        self.plan: PropagationPlan = plan.batched(count) if count > 1 else plan
        self._kernels, self._threads, self._cells = kernels, threads, plan.layout.cells
        self._roots = np.flatnonzero(self.plan.nodes[:, f.PARENT] < 0)
        self._workspaces: list[tuple[np.ndarray, ...]] = []

    def run(self, thetas: np.ndarray, totals: np.ndarray, mus: np.ndarray, logs: np.ndarray) -> None:
        """Fill `mus` and `logs`; the marginals of a vector are undefined if its log-partition function is not finite.

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
