"""MARGINAL-ORACLE: the marginals of the log-linear model with given potentials (PGM section 3.2).

`ExactOracle` runs belief propagation on a compiled plan (propagation_plan.py). The tests compare it with the algorithm
in plain NumPy (inference/reference.py) and with the full joint table.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from pgmest._base.threads import get_threads
from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.contracted_sweeps import ContractedSweeps
from pgmest.inference.exact.contraction_plan import ContractionPlan
from pgmest.inference.exact.kernel_loading import load_covariance_kernels
from pgmest.inference.exact.kernel_sweeps import KernelSweeps
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.outputs import checked_output
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import Factor

CONTRACTED_CELLS, LARGEST_CONTRACTED = 1 << 10, 1 << 22
"""The fewest cells of a tree, and the most cells of a measured clique, for which contraction is considered. In a tree
with fewer cells its plan takes longer than it saves. A larger clique is better left to the kernels, which divide its
table between threads; the maps of a contraction would have an entry for each of its rows."""

NANOSECONDS_A_CELL, NANOSECONDS_A_NODE = 2.6, 350.0
"""The time that the kernels take per cell and per clique of the tree for both sweeps. It is an estimate, used only to
choose between the kernels and contraction."""


class MarginalOracle(Protocol):
    """The interface of a model to a solver: its marginals, its log-partition function, its best record.

    All arrays are flat, in the order of `layout`.
    """

    layout: Layout
    calls: int

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals scaled to `total`, and the log-partition function A(theta)."""
        ...

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record, max_x sum_C theta_C(x_C)."""
        ...


class ExactOracle:
    """Belief propagation on a plan, with a workspace that is allocated once.

    Only one thread may call an oracle at a time. The oracle uses `threads` threads itself (default: `get_threads()`).

    Attributes:
        plan: the propagation plan.
        calls: the number of sweeps (up and down, or max) so far.
        contracted: the sweeps by contraction (contracted_sweeps.py) if these are expected to be faster, else None; also
            None after the first `covariance`.
    """

    contracts = True
    """True if runs may use contraction, which leaves no messages in the workspace."""

    def __init__(self, plan: PropagationPlan, threads: int | None = None):
        self.plan = plan
        self.layout: Layout = plan.layout
        self.threads: int = get_threads() if threads is None else threads
        if self.threads < 1:
            raise ArgumentError.of("threads", threads, "a positive integer, or None for the default")
        self.calls: int = 0
        self._sweeps = KernelSweeps(plan, self.threads)
        self.contracted: ContractedSweeps | None = self._faster_contraction() if self.contracts else None
        self._settled = True  # whether the workspace holds the messages of the last run
        self._theta = self._mu = np.empty(0)  # of the last run

    def _faster_contraction(self) -> ContractedSweeps | None:
        """Return the sweeps by contraction if they are expected to be faster than the kernels."""
        tree, layout = self.plan.tree, self.layout
        largest = max(np.diff(layout.offsets), default=0)
        if tree.total_cells < CONTRACTED_CELLS or not 0 < largest <= LARGEST_CONTRACTED:
            return None
        plan, shares = ContractionPlan.of(layout, tree, self.threads), self.threads if self._sweeps.wide else 1
        kernels = NANOSECONDS_A_CELL * tree.total_cells / shares + NANOSECONDS_A_NODE * len(self.plan.nodes)
        return ContractedSweeps(plan, self.threads) if plan.nanoseconds < kernels else None

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals on the cliques of the plan, scaled to `total`, and the log-partition function.

        Args:
            theta: flat potentials (logs), float64; -inf marks impossible cells.
            total: the sum of each marginal.
            out: the array for the marginals, other than `theta`. `covariance` and `clique_table` read the potentials
                and the marginals again, so do not change either before these calls.

        Raises:
            ImpossibleModelError: no record has a finite total potential.
        """
        theta = self._input(theta, "theta")
        mu = checked_output(out, self.layout.cells)
        self._theta, self._mu, self.calls = theta, mu, self.calls + 1
        self._total = total
        if self.contracted is not None:
            found = self.contracted.run(theta, total, mu)
            self._settled = found is None
            if found is not None:
                return mu, found
        log_partition = self._sweeps.upward(theta, mu)
        if not math.isfinite(log_partition):
            raise ImpossibleModelError(
                f"the log-partition function is {log_partition}: every record has some potential of -inf (or one is "
                "NaN or +inf). Check the structural zeros and the potentials."
            )
        self._sweeps.downward(theta, mu, total)
        return mu, log_partition

    def _settle(self) -> None:
        """Repeat a run by contraction with the kernels, which leave their messages in the workspace."""
        if not self._settled:
            self._mu = np.empty(self.layout.cells)
            self._sweeps.upward(self._theta, self._mu)
            self._sweeps.downward(self._theta, self._mu, self._total)
            self._settled = True

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record, by one max-product sweep."""
        theta = self._input(theta, "theta")
        self.calls += 1
        return (self._sweeps if self.contracted is None else self.contracted).maximum(theta)

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the largest total potential of a record in each measured cell (the cell's max-marginal).

        A cell that no possible record has gets -inf.
        """
        best = checked_output(out, self.layout.cells)
        theta = self._input(theta, "theta")
        (self._sweeps if self.contracted is None else self.contracted).max_marginals(theta, best)
        self.calls += 2
        return best

    def map_record(self, theta: np.ndarray) -> dict[str, int]:
        """Return a record of largest total potential, attribute -> code."""
        theta = self._input(theta, "theta")
        self.calls += 1
        chosen = self._sweeps.best_cells(theta)
        codes: dict[str, int] = {}
        for axes, cell in zip(self.plan.axes, chosen, strict=True):
            shape = self.layout.domain.project(axes).shape
            codes.update(zip(axes, map(int, np.unravel_index(int(cell), shape) if shape else ()), strict=True))
        return {name: codes[name] for name in self.layout.domain}

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last `run`.

        This is Cov @ direction, with Cov the covariance of the indicators of the cells times the total: the Hessian of
        the log-partition function. It is symmetric, so the same sweep differentiates forwards and backwards (PGM A.3).

        The sweep needs the messages of the kernels. So all runs after the first call use the kernels, not contraction.
        """
        self._check_has_run("covariance")
        self._settle()
        self.contracted = None
        kernels = load_covariance_kernels()
        tangent = checked_output(out, self.layout.cells)
        direction = self._input(direction, "direction")
        plan, n, sweeps = self.plan, len(self.plan.nodes), self._sweeps
        shift, buffers = 2 * plan.messages, (plan.scratch, plan.scratch + plan.row)
        kernels.covariance_upward(*sweeps.tables, 0, n, self._theta, self._mu, direction, sweeps.arena, shift, *buffers)
        inputs = (self._theta, self._mu, direction, tangent)
        kernels.covariance_downward(*sweeps.tables, 0, n, *inputs, sweeps.arena, shift, plan.marginals, *buffers)
        self.calls += 1
        return tangent

    def clique_table(self, index: int) -> Factor:
        """Return the marginal of clique `index` of the tree after a run, scaled as in that run."""
        self._check_has_run("clique_table")
        self._settle()
        node = self.plan.clique_nodes[index]
        domain = self.layout.domain.project(self.plan.axes[node])
        table = np.empty(int(self.plan.nodes[node, f.CELLS]))
        self._sweeps.clique_table(node, self._theta, self._mu, table)
        return Factor.owning(domain, table.reshape(domain.shape)).transpose(self.plan.tree.cliques[index])

    def release(self) -> None:
        """Release the arrays of the last run, and forget the adjustments to potentials of earlier runs."""
        self._theta = self._mu = np.empty(0)
        self._settled = True
        if self.contracted is not None:
            self.contracted.reset()

    def _input(self, array: np.ndarray, name: str) -> np.ndarray:
        """Return a read-only view of a checked array: numba compiles a kernel for each type, so there is only one."""
        if array.shape != (self.layout.cells,) or array.dtype != np.float64 or not array.flags.c_contiguous:
            raise ShapeError.of(
                name,
                f"({self.layout.cells},) of contiguous float64",
                f"{array.shape} of {array.dtype}",
                "Potentials lie flat, clique after clique: CliqueVector.flat.",
            )
        view = array.view()
        view.flags.writeable = False
        return view

    def _check_has_run(self, what: str) -> None:
        if self._theta.shape != (self.layout.cells,):
            raise ArgumentError(f"{what} needs the marginals of a run: call run(theta) first.")
