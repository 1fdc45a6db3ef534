"""MARGINAL-ORACLE: the marginals of the log-linear model with given potentials (PGM section 3.2).

`ExactOracle` runs belief propagation by contraction, in compiled kernels (contracted_sweeps.py). Where linear numbers
underflow, and for what needs the messages, its kernels use logarithms (tree_messages.py). The tests compare it with the
algorithm in plain NumPy (inference/reference.py) and with the full joint table.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from pgmest._base.threads import get_threads
from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError
from pgmest.inference.exact.contracted_sweeps import ContractedSweeps
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.exact.tree_messages import TreeMessages
from pgmest.inference.outputs import checked_output
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import Factor

ROUNDING = 1e-13
"""The largest difference of max-marginals that counts as rounding, for each clique, if the largest potential is 1."""


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
    """Belief propagation on a junction tree, with a workspace that is allocated once.

    Only one thread may call an oracle at a time. The oracle uses `threads` threads itself (default: `get_threads()`).

    Args:
        plan: the measured cliques and their junction tree.
        threads: the number of threads of runs by contraction.
        contracts: False if runs compute messages, without contraction, because `messages` are needed anyway.

    Attributes:
        plan: the measured cliques and their junction tree.
        calls: the number of sweeps (up and down, or max) so far.
    """

    def __init__(self, plan: PropagationPlan, threads: int | None = None, contracts: bool = True):
        self.plan = plan
        self.layout: Layout = plan.layout
        self.threads: int = get_threads() if threads is None else threads
        if self.threads < 1:
            raise ArgumentError.of("threads", threads, "a positive integer, or None for the default")
        self.calls: int = 0
        self._theta = self._mu = np.empty(0)  # of the last run
        self._contracts = contracts
        self._settled = False  # whether the messages are those of the last run

    @cached_property
    def contracted(self) -> ContractedSweeps:
        """The sweeps by contraction, which run all potentials but those whose products underflow."""
        return ContractedSweeps.of(self.layout, self.plan.tree, self.threads)

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
        self._theta, self._mu, self._total, self.calls = theta, mu, total, self.calls + 1
        log_partition = self.contracted.run(theta, total, mu) if self._contracts else None
        self._settled = log_partition is None
        if log_partition is None:
            log_partition = self._messages.run(theta, total, mu)
        if not math.isfinite(log_partition):
            raise ImpossibleModelError(
                f"the log-partition function is {log_partition}: every record has some potential of -inf (or one is "
                "NaN or +inf). Check the structural zeros and the potentials."
            )
        return mu, log_partition

    @property
    def cells(self) -> int:
        """The cells of the workspaces that exist by now."""
        return self.contracted.plan.cells + (self._messages.cells if "_messages" in vars(self) else 0)

    @cached_property
    def _messages(self) -> TreeMessages:
        return TreeMessages(self.layout, self.plan.tree)

    @property
    def messages(self) -> TreeMessages:
        """The messages of the last run; a run by contraction, which leaves none, is repeated at their first use."""
        if not self._settled:
            self._messages.run(self._theta, self._total, np.empty(self.layout.cells))
            self._settled = True
        return self._messages

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record, by one max-product sweep."""
        theta = self._input(theta, "theta")
        self.calls += 1
        return self.contracted.maximum(theta)

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the largest total potential of a record in each measured cell (the cell's max-marginal).

        A cell that no possible record has gets -inf.
        """
        best = checked_output(out, self.layout.cells)
        theta = self._input(theta, "theta")
        self.contracted.max_marginals(theta, best)
        self.calls += 2
        return best

    def map_record(self, theta: np.ndarray) -> dict[str, int]:
        """Return a record of largest total potential, attribute -> code.

        The record has the best cell of each clique. If several cells are equally good, all but one are excluded, and
        the cells of the other cliques are compared again.
        """
        left, codes = self._input(theta, "theta").copy(), dict.fromkeys(self.layout.domain, 0)
        self.calls += 1
        best = np.empty(self.layout.cells)
        self.contracted.max_marginals(left, best)
        rounding = ROUNDING * len(self.layout.cliques) * float(np.abs(left[np.isfinite(left)]).max(initial=1.0))
        for number, clique in enumerate(self.layout.cliques):
            cells = slice(*self.layout.offsets[number : number + 2])
            chosen = int(best[cells].argmax())
            if np.count_nonzero(best[cells] >= best[cells][chosen] - rounding) > 1:
                kept = left[cells][chosen]
                left[cells] = -np.inf
                left[cells][chosen] = kept
                self.contracted.max_marginals(left, best)
            shape = self.layout.domains[number].shape
            codes.update(zip(clique, map(int, np.unravel_index(chosen, shape) if shape else ()), strict=True))
        return codes

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last `run`.

        This is Cov @ direction, with Cov the covariance of the indicators of the cells times the total: the Hessian of
        the log-partition function. It is symmetric, so the same sweep differentiates forwards and backwards (PGM A.3).

        The sweep needs messages. So all runs after the first call compute messages, without contraction.
        """
        self._check_has_run("covariance")
        tangent = checked_output(out, self.layout.cells)
        self.messages.covariance(self._input(direction, "direction"), tangent)
        self._contracts = False
        self.calls += 1
        return tangent

    def clique_table(self, index: int) -> Factor:
        """Return the marginal of clique `index` of the tree after a run, scaled as in that run."""
        self._check_has_run("clique_table")
        position = self.layout.index.get(self.plan.tree.cliques[index])
        if position is None or self._settled:
            return self.messages.clique_table(index)
        domain, cells = self.layout.domains[position], slice(*self.layout.offsets[position : position + 2])
        return Factor.owning(domain, self._mu[cells].reshape(domain.shape).copy())

    def release(self) -> None:
        """Release the arrays of the last run, and forget the adjustments to potentials of earlier runs."""
        self._theta = self._mu = np.empty(0)
        self._settled = False
        if "contracted" in vars(self):
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
