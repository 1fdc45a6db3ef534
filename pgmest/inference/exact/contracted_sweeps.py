"""Both sweeps of belief propagation without the tables of the junction tree: sums of products, contracted.

Where many small measured cliques meet in one large clique of the tree, its table costs far more than what is asked
about it. A message is a sum of a product of small tables, so it can be computed pair by pair (contraction_plan.py),
mostly as matrix products, without the table of the clique. The downward sweep is the derivative of the upward one: with
Z = sum_x prod_C f_C(x_C), the marginal on C is f_C dZ/df_C / Z, and each product c = a b of the way up gives
dZ/da = dZ/dc b^T and dZ/db = a^T dZ/dc on the way down (reverse-mode differentiation; Darwiche 2003).

Everything is linear here, not logarithmic, which saves a maximum and a logarithm for each entry of a message, so that
it is faster on chains and trees, too. Potentials are shifted to a maximum of 0 and messages kept near 1, so what
underflows is below exp(-700) of the largest entry. That can matter only where the maxima of the cliques exclude one
another, and then the sums of the beliefs, which would be near 1 if they agreed, are tiny: `run` sees that and gives up,
and the caller falls back on the kernels, which compute with logarithms where they must.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.threads import run_together
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.exact.contraction_plan import ONE_CELL, ContractionPlan
from pgmest.inference.exact.kernel_loading import load_contraction_kernels
from pgmest.tables.clique_vector import Layout

SMALLEST_SUMS: dict[np.dtype[Any], float] = {
    np.dtype(np.float64): math.exp(-300.0),
    np.dtype(np.float32): math.exp(-50.0),
}
"""Beliefs whose scaled sum is smaller may have lost terms to underflow; above, those are below exp(-100) in all, in
float32 below exp(-30)."""

SHARED_OPERATIONS = 1 << 22
"""Matrix products of at least this many multiplications are worth sharing between threads."""


class ContractedSweeps:
    """The steps of both sweeps, with a workspace of their own.

    Args:
        plan: what is run.
        threads: how many threads share large products of matrices.
    """

    def __init__(self, plan: ContractionPlan, threads: int = 1):
        self.plan: ContractionPlan = plan
        self.threads: int = threads
        self._tables = plan.steps, plan.sides, plan.maps
        columns = plan.steps[:, [f.ROWS, f.SUMMED, f.COLUMNS, f.KEPT]]
        shared = (plan.steps[:, f.KIND] == f.MATRICES) & (columns.prod(axis=1) >= SHARED_OPERATIONS)
        self._shared: list[int] = np.flatnonzero(shared).tolist() if threads > 1 else []
        self._work: dict[np.dtype[Any], tuple[int, np.ndarray]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ContractedSweeps, (self.plan, self.threads)  # a copy makes a workspace of its own

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree, threads: int = 1) -> ContractedSweeps:
        """The sweeps on a tree that holds all cliques of the layout."""
        return cls(ContractionPlan.of(layout, tree, threads), threads)

    def run(self, theta: np.ndarray, total: float, out: np.ndarray) -> float | None:
        """Write the marginals of flat potentials, scaled to `total`.

        Returns:
            the log-partition function; None where linear numbers cannot hold what it takes, and `out` is of no use.
        """
        kernels, smallest = load_contraction_kernels(theta.dtype, bool(self._shared)), SMALLEST_SUMS[theta.dtype]
        theta = theta.view()
        theta.flags.writeable = False  # numba compiles anew for each kind of argument
        blas, work = self._workspace(theta.dtype)
        tables, scales = self._tables, self._scales

        def upward(low: int, high: int) -> float:
            return kernels.upward(blas, *tables, low, high, theta, out, work, scales, smallest)

        def downward(low: int, high: int) -> bool:
            return kernels.downward(blas, *tables, low, high, out, work, scales, smallest, float(total))

        logs = self._together(upward)
        for low, high, shared in self._above:
            if shared:
                self._share(partial(kernels.matrices_upward, blas, *tables, low, out, work))
            elif not math.isnan(math.fsum(logs)):
                logs.append(upward(low, high))
        log_partition = math.fsum([self.plan.log_free, *logs])
        if math.isnan(log_partition):
            return None
        for low, high, shared in reversed(self._above):
            if shared:
                self._share(partial(kernels.matrices_downward, blas, *tables, low, out, work))
            elif not downward(low, high):
                return None
        return log_partition if all(self._together(downward)) else None

    def run_many(
        self, thetas: np.ndarray, totals: np.ndarray, outs: np.ndarray, logs: np.ndarray, threads: int
    ) -> None:
        """`run` for each row, its log-partition function in `logs`; each thread runs some rows by itself."""

        def some(part: int) -> None:
            sweeps = ContractedSweeps(self.plan)
            for k in range(part, len(thetas), threads):
                found = sweeps.run(thetas[k], float(totals[k]), outs[k])
                if found is not None:
                    logs[k] = found

        run_together([partial(some, part) for part in range(min(threads, len(thetas)))])

    @cached_property
    def _scales(self) -> np.ndarray:
        return np.ones(self.plan.scales)

    def _workspace(self, kind: np.dtype[Any]) -> tuple[int, np.ndarray]:
        """Where the product of matrices of this precision is, and the workspace."""
        if kind not in self._work:
            from pgmest._base.blas_kernels import gemm_address

            check_room("the oracle's tables", self.plan.cells)
            work = np.zeros(self.plan.cells, kind)
            work[ONE_CELL] = 1.0
            self._work[kind] = gemm_address(kind), work
        return self._work[kind]

    def _together(self, sweep: Callable[[int, int], Any]) -> list[Any]:
        """A sweep over each share of the subtrees; a thread alone runs one after another."""
        tasks = [partial(sweep, *share) for share in self.plan.shares]
        return run_together(tasks) if tasks and self.threads > 1 else [task() for task in tasks]

    @cached_property
    def _above(self) -> list[tuple[int, int, bool]]:
        """(low, high, shared): later steps that one kernel runs, and between them each step that threads share."""
        low, found = max((high for _, high in self.plan.shares), default=0), list[tuple[int, int, bool]]()
        for i in self._shared:
            if i >= low:
                found += [(low, i, False), (i, i + 1, True)]
                low = i + 1
        return [*found, (low, len(self.plan.steps), False)]

    def _share(self, kernel: partial) -> None:
        run_together([partial(kernel, part, self.threads) for part in range(self.threads)])
