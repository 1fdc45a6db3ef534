"""Both sweeps of belief propagation by tensor contraction, without the tables of the junction tree.

If many small measured cliques lie in one large clique of the tree, the table of that clique costs far more than the
small marginals that are needed. A message is a sum of a product of small tables. So it can be computed pair by pair
(contraction_plan.py), mostly as matrix products, without the table of the clique. The downward sweep is the derivative
of the upward sweep: with Z = sum_x prod_C f_C(x_C), the marginal on C is f_C dZ/df_C / Z, and each product c = a b of
the upward sweep gives dZ/da = dZ/dc b^T and dZ/db = a^T dZ/dc in the downward sweep (reverse-mode differentiation;
Darwiche 2003).

The sweeps compute with linear numbers instead of logarithms. This saves a maximum and a logarithm for each entry of a
message and makes them faster on chains and trees, too. Potentials are shifted to a maximum of 0 and messages are kept
near 1, so that only terms below exp(-700) of the largest entry underflow. This matters only if the maxima of the
cliques exclude one another; then the sums of the beliefs, which would be near 1 if the cliques agreed, are tiny. `run`
detects this and tries equivalent potentials that agree better (agreeing_potentials.py). If these fail, too, it returns
None, and the caller computes messages in logarithms (tree_messages.py).

The max-product takes the same steps on logarithms, with the maximum in place of the sum and the sum in place of the
product (max_contraction_kernels.py). It never refuses potentials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest._base.team import Alone, Team
from pgmest._base.threads import run_together
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.exact.agreeing_potentials import AgreeingPotentials
from pgmest.inference.exact.contraction_arrays import ONE_CELL
from pgmest.inference.exact.contraction_plan import ContractionPlan
from pgmest.inference.exact.kernel_loading import (
    load_contraction_kernels,
    load_max_contraction_kernels,
)
from pgmest.tables.clique_vector import Layout

SMALLEST_SUM = math.exp(-300.0)
"""The least scaled sum of beliefs that is accepted. Beliefs with a smaller sum may have lost terms to underflow; above
it, all lost terms together are below exp(-100)."""

SHARED_OPERATIONS = 1 << 19
"""The least number of multiplications per part when threads share a matrix product."""


@dataclass(frozen=True)
class _Workspace:
    """The resources of the sweeps.

    Attributes:
        kernels: the compiled kernels.
        blas: the address of the BLAS matrix product.
        cells: the workspace.
        sums, maxima: the threads that run sum-product and max-product sweeps in it.
    """

    kernels: ModuleType
    blas: int
    cells: np.ndarray
    sums: Team | Alone
    maxima: Team | Alone


class ContractedSweeps:
    """The sweeps of one contraction plan, with their workspace.

    Args:
        plan: the steps of both sweeps.
        threads: the number of threads that share subtrees and large matrix products.
    """

    def __init__(self, plan: ContractionPlan, threads: int = 1):
        self.plan: ContractionPlan = plan
        self.threads: int = threads
        self._tables = plan.steps, plan.sides, plan.maps
        columns = plan.steps[:, [f.ROWS, f.SUMMED, f.COLUMNS, f.KEPT]]
        self._part = SHARED_OPERATIONS
        shared = (plan.steps[:, f.KIND] == f.MATRICES) & (columns.prod(axis=1) >= 2 * self._part)
        self._helped: bool = threads > 1 and bool(shared.any())
        self._agreeing = AgreeingPotentials(plan.layout)

    def __reduce__(self) -> tuple[Any, ...]:
        return ContractedSweeps, (self.plan, self.threads)  # a copy allocates a new workspace

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree, threads: int = 1) -> ContractedSweeps:
        """Return the sweeps on a tree that holds all cliques of the layout."""
        return cls(ContractionPlan.of(layout, tree, threads), threads)

    def run(self, theta: np.ndarray, total: float, out: np.ndarray) -> float | None:
        """Write the marginals of flat potentials, scaled to `total`.

        Returns:
            the log-partition function; None if linear numbers overflow or underflow, or did so for recent potentials.
            Then `out` is undefined.
        """
        if self._agreeing.skip():
            return None
        found = self._both_sweeps(self._agreeing.shifted(theta), float(total), out)
        if math.isnan(found) and self._agreeing.renew(theta):
            found = self._both_sweeps(self._agreeing.shifted(theta), float(total), out)
        if math.isnan(found):
            return None
        self._agreeing.accept()
        return self.plan.log_free + found

    def reset(self) -> None:
        """Forget the adjustments to the potentials of earlier runs."""
        self._agreeing.reset()

    def _both_sweeps(self, theta: np.ndarray, total: float, out: np.ndarray) -> float:
        theta, space = _read_only(theta), self._workspace
        space.cells[ONE_CELL] = 1.0
        more = space.cells, self._scales, SMALLEST_SUM
        if self.plan.shares:
            return self._run_together(theta, total, out, space, more)
        both_sweeps = space.kernels.both_sweeps
        with space.sums as team:
            return both_sweeps(space.blas, *self._tables, theta, out, *more, total, team)

    def _run_together(
        self, theta: np.ndarray, total: float, out: np.ndarray, space: _Workspace, more: tuple[Any, ...]
    ) -> float:
        """Run both sweeps, with one thread for each share of the subtrees, and a team for the cliques above them."""
        kernels, tables = space.kernels, self._tables

        def upward(low: int, high: int, team: np.ndarray) -> float:
            return kernels.upward(space.blas, *tables, low, high, theta, out, *more, team)

        def downward(low: int, high: int, team: np.ndarray) -> bool:
            return kernels.downward(space.blas, *tables, low, high, out, *more, total, team)

        found = math.fsum(self._together(upward))
        if math.isnan(found):
            return found
        with space.sums as team:
            found += upward(*self._above, team)
            if math.isnan(found) or not downward(*self._above, team):
                return math.nan
        return found if all(self._together(downward)) else math.nan

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record, by one max-product sweep; -inf if no record is possible."""
        upward, space = self._max_upward(theta), self._workspace
        found = math.fsum(self._together(upward))
        with space.maxima as team:
            return found + upward(*self._above, team)

    def max_marginals(self, theta: np.ndarray, out: np.ndarray) -> float:
        """Write the max-marginals (the largest total potential of a record in each cell); return their maximum."""
        upward, space = self._max_upward(theta), self._workspace
        theta, downward_max = _read_only(theta), load_max_contraction_kernels().downward_max

        def downward(low: int, high: int, team: np.ndarray) -> None:
            downward_max(*self._tables, low, high, theta, out, space.cells, top, team)

        top = math.fsum(self._together(upward))
        with space.maxima as team:
            top += upward(*self._above, team)
            if top > -math.inf:
                downward(*self._above, team)
        if top > -math.inf:
            self._together(downward)
        else:
            out.fill(-math.inf)
        return top

    def _max_upward(self, theta: np.ndarray) -> Callable[[int, int, np.ndarray], float]:
        """Return the upward max-product sweep as a function of a range of steps and a team."""
        kernels, theta, work = load_max_contraction_kernels(), _read_only(theta), self._workspace.cells
        work[ONE_CELL] = 0.0  # the logarithm of the constant 1
        return lambda low, high, team: kernels.upward_max(*self._tables, low, high, theta, work, team)

    @cached_property
    def _scales(self) -> np.ndarray:
        return np.ones(self.plan.scales)

    @cached_property
    def _workspace(self) -> _Workspace:
        from pgmest._base.blas_kernels import gemm_address
        from pgmest.inference.exact.contraction_products import MAX_PRODUCT

        check_room("the oracle's tables", self.plan.cells)
        blas, cells, linger = gemm_address(), np.zeros(self.plan.cells), not self.plan.shares
        kernels = load_contraction_kernels(together=self._helped or not linger)

        def team(product: int) -> Team | Alone:
            if not self._helped:
                return self._alone
            return Team(self.threads, self._part, partial(kernels.assist, product, *self._tables, cells), linger)

        return _Workspace(kernels, blas, cells, team(blas), team(MAX_PRODUCT))

    @cached_property
    def _alone(self) -> Alone:
        return Alone()

    def _together(self, sweep: Callable[[int, int, np.ndarray], Any]) -> list[Any]:
        """Run a sweep over each share of the subtrees, in parallel if there are several threads."""
        with self._alone as array:
            tasks = [partial(sweep, *share, array) for share in self.plan.shares]
        return run_together(tasks) if tasks and self.threads > 1 else [task() for task in tasks]

    @cached_property
    def _above(self) -> tuple[int, int]:
        """The range (low, high) of the steps after those of all shares."""
        return max((high for _, high in self.plan.shares), default=0), len(self.plan.steps)


def _read_only(theta: np.ndarray) -> np.ndarray:
    """Return a read-only view of a writable array: numba compiles a kernel for each kind of argument."""
    if not theta.flags.writeable:
        return theta
    view = theta.view()
    view.flags.writeable = False
    return view
