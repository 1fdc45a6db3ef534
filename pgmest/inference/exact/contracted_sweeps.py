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

The max-product takes the same steps with the maximum for the sum and the sum for the product, on logarithms
(max_contraction_kernels.py), and refuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.threads import run_together
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.exact.contraction_plan import ONE_CELL, ContractionPlan
from pgmest.inference.exact.kernel_loading import (
    load_contraction_kernels,
    load_many_contraction_kernels,
    load_max_contraction_kernels,
)
from pgmest.tables.clique_vector import Layout

SMALLEST_SUMS: dict[np.dtype[Any], float] = {
    np.dtype(np.float64): math.exp(-300.0),
    np.dtype(np.float32): math.exp(-50.0),
}
"""Beliefs whose scaled sum is smaller may have lost terms to underflow; above, those are below exp(-100) in all, in
float32 below exp(-30)."""

SHARED_OPERATIONS = 1 << 22
"""Matrix products of at least this many multiplications are worth sharing between threads."""

WAKING = 2e5
"""Nanoseconds of work that make it worth waking another thread."""


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
        theta = _read_only(theta)
        blas, work = self._workspace(theta.dtype)
        work[ONE_CELL] = 1.0
        tables, scales = self._tables, self._scales

        def upward(low: int, high: int) -> float:
            return kernels.upward(blas, *tables, low, high, theta, out, work, scales, smallest)

        def downward(low: int, high: int) -> bool:
            return kernels.downward(blas, *tables, low, high, out, work, scales, smallest, float(total))

        found = self._upward(upward, lambda i: partial(kernels.matrices_upward, blas, *tables, i, out, work))
        if math.isnan(found):
            return None
        ended = self._downward(downward, lambda i: partial(kernels.matrices_downward, blas, *tables, i, out, work))
        return self.plan.log_free + found if ended else None

    def maximum(self, theta: np.ndarray) -> float:
        """The largest total potential of any record, by one sweep of the max-product; -inf where none is possible."""
        kernels = load_max_contraction_kernels(theta.dtype, bool(self._shared))
        theta, tables, (_, work) = _read_only(theta), self._tables, self._workspace(theta.dtype)
        work[ONE_CELL] = 0.0  # its logarithm

        def upward(low: int, high: int) -> float:
            return kernels.upward_max(*tables, low, high, theta, work)

        return self._upward(upward, lambda i: partial(kernels.matrices_upward_max, *tables, i, theta, work))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray) -> float:
        """Write the largest total potential of a record through each cell; the largest of all is returned."""
        top = self.maximum(theta)
        if top == -math.inf:
            out.fill(-math.inf)
            return top
        kernels = load_max_contraction_kernels(theta.dtype, bool(self._shared))
        theta, tables, (_, work) = _read_only(theta), self._tables, self._workspace(theta.dtype)

        def downward(low: int, high: int) -> bool:
            kernels.downward_max(*tables, low, high, theta, out, work, top)
            return True

        self._downward(downward, lambda i: partial(kernels.matrices_downward_max, *tables, i, theta, work))
        return top

    def run_many(
        self, thetas: np.ndarray, totals: np.ndarray, outs: np.ndarray, logs: np.ndarray, threads: int
    ) -> None:
        """`run` for each row, its log-partition function in `logs`; each thread runs some rows by itself."""
        from pgmest._base.blas_kernels import gemm_address

        kernel, kind, plan = load_many_contraction_kernels().run_rows, thetas.dtype, self.plan
        threads = max(1, min(threads, len(thetas), int(len(thetas) * plan.nanoseconds / WAKING)))
        check_room("the workspaces of many runs", threads * plan.cells)
        arrays, limits = (_read_only(thetas), totals, outs, logs), (SMALLEST_SUMS[kind], plan.log_free)

        def task(begin: int, end: int) -> partial:
            work, scales = np.zeros(plan.cells, kind), np.ones(plan.scales)
            work[ONE_CELL] = 1.0
            return partial(kernel, gemm_address(kind), *self._tables, begin, end, *arrays, work, scales, *limits)

        cuts = np.linspace(0, len(thetas), threads + 1).astype(int).tolist()
        run_together(task(*some) for some in pairwise(cuts))

    @cached_property
    def _scales(self) -> np.ndarray:
        return np.ones(self.plan.scales)

    def _workspace(self, kind: np.dtype[Any]) -> tuple[int, np.ndarray]:
        """Where the product of matrices of this precision is, and the workspace."""
        if kind not in self._work:
            from pgmest._base.blas_kernels import gemm_address

            check_room("the oracle's tables", self.plan.cells)
            self._work[kind] = gemm_address(kind), np.zeros(self.plan.cells, kind)
        return self._work[kind]

    def _upward(self, sweep: Callable[[int, int], float], share: Callable[[int], partial]) -> float:
        """The sum of what all sweeps return, NaN if one does: then the rest is not run."""
        found = self._together(sweep)
        for low, high, shared in self._above:
            if shared:
                self._share(share(low))
            elif not math.isnan(sum(found)):
                found.append(sweep(low, high))
        return math.fsum(found)

    def _downward(self, sweep: Callable[[int, int], bool], share: Callable[[int], partial]) -> bool:
        """Whether all sweeps ended; after one that did not, those below are not run."""
        for low, high, shared in reversed(self._above):
            if shared:
                self._share(share(low))
            elif not sweep(low, high):
                return False
        return all(self._together(sweep))

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


def _read_only(theta: np.ndarray) -> np.ndarray:
    """A view, as numba compiles anew for each kind of argument."""
    view = theta.view()
    view.flags.writeable = False
    return view
