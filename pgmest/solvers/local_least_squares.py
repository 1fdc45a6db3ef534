r"""Least squares over the local polytope, solved in the dual, for models whose junction tree is too wide.

The problem is that of "relaxed marginal consistency" (McKenna, Pradhan, Sheldon and Miklau 2021): among nonnegative
tables of the measured cliques that have the same total and equal marginals on their overlaps, minimize

    sum over cliques o of 1/2 sum w_o (tau_o - y_o)^2.

Each equality has a multiplier; Lambda_o is the sum of those of clique o, one table per clique. The minimum over
nonnegative tables then has a closed form, tau_o = max(0, y_o - Lambda_o / w_o). So the dual has one variable per cell
of the overlaps, far fewer than the tables have cells, and its gradient is the disagreement of the tables. The dual
function is concave and once differentiable; L-BFGS needs some hundred evaluations. Every dual value is a lower bound on
the loss over the local polytope, and hence also over the marginals of actual distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.inference.exact.kernel_loading import compile_notice
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares, is_positive_squares
from pgmest.solvers.inverse_hessian import BACKTRACK, SHORTEST_STEP, SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.local_dual import DualPoint, LocalDual
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status


class DualState(State):
    """The state of the dual method. Tables and potentials are computed only when they are read, which is rare.

    Attributes:
        oracle: the oracle, whose `inconsistency` is set when the tables are read.
        dual: the dual function.
        point: the current point of the dual function.
        hessian: the approximate inverse Hessian.
    """

    def __init__(self, oracle: RegionOracle, dual: LocalDual, point: DualPoint, hessian: InverseHessian, settled: bool):
        self.oracle: RegionOracle = oracle
        self.dual: LocalDual = dual
        self.point: DualPoint = point
        self.hessian: InverseHessian = hessian
        self.log_partition: float = 0.0
        self.status: Status | None = None
        self.detail: str = ""
        self.settled: bool = settled

    @property
    def p(self) -> np.ndarray:  # type: ignore[override]
        """The tables, in the oracle's layout. Reading them sets the oracle's `inconsistency`."""
        self.oracle.inconsistency = self.point.inconsistency
        return self._p

    @cached_property
    def _p(self) -> np.ndarray:
        p = np.empty(self.oracle.layout.cells)
        self.oracle.tables.write(p, *self.dual.tables(self.point.multipliers), 1.0)
        return p

    @cached_property
    def theta(self) -> np.ndarray:  # type: ignore[override]
        """Potentials whose pseudo-marginals are the tables."""
        return self.oracle.potentials(*self.dual.tables(self.point.multipliers))

    def snapshot(self) -> State:
        """Return itself: a step creates a new state."""
        return self


@dataclass(frozen=True)
class LocalLeastSquares(Solver[DualState]):
    """L-BFGS on the dual of least squares over the local polytope; for `oracle="convex"`, L2 and whole marginals.

    The tables are inconsistent until the solver has converged, so their loss may be below the optimum. The reported
    objective is therefore the dual value, plus the distance of the tables' loss from it in either direction, plus one
    noise floor per unit of inconsistency (L1).

    Attributes:
        memory: the largest number of pairs of the approximate inverse Hessian.
    """

    memory: int = 20
    name: str = "local_least_squares"

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Return whether the problem has the L2 loss of whole marginals, and neither prior nor structural zeros."""
        loss = problem.loss
        return (
            isinstance(problem.oracle, RegionOracle)
            and is_positive_squares(loss)
            and problem.layout == loss.layout
            and not problem.base.any()
        )

    def start(self, problem: Problem, theta: np.ndarray) -> DualState:
        """Return the state with all multipliers zero; `theta` is not used."""
        if not self.fits(problem):
            raise ArgumentError(
                'method="local_least_squares" needs oracle="convex", loss="l2", whole marginals, and neither prior nor '
                'structural zeros. Use method="auto".'
            )
        assert isinstance(problem.oracle, RegionOracle)
        assert isinstance(problem.loss, WeightedSquares)
        dual = LocalDual(problem.oracle.tables, problem.loss)
        with compile_notice():
            point = _evaluated(problem.oracle, dual, np.zeros(dual.size))
        return DualState(problem.oracle, dual, point, InverseHessian(self.memory), False)

    def step(self, problem: Problem, state: DualState) -> DualState:
        point = state.point
        direction = state.hessian.descent(point.slope)
        descent = dot(direction, point.slope)
        size = 1.0 if state.hessian else 1.0 / max(float(np.sqrt(dot(point.slope, point.slope))), np.finfo(float).tiny)
        while size > SHORTEST_STEP and descent < 0:
            trial = _evaluated(state.oracle, state.dual, point.multipliers + size * direction)
            if trial.value <= point.value + SUFFICIENT_DECREASE * size * descent:
                hessian = state.hessian.updated(size * direction, trial.slope - point.slope)
                return DualState(state.oracle, state.dual, trial, hessian, True)
            size *= BACKTRACK
        if state.hessian:
            state.hessian = state.hessian.reset()
        else:
            state.status = Status.PRECISION
        return state

    def objective(self, problem: Problem, state: DualState) -> float:
        """Return the dual value + |loss - dual value| + inconsistency * noise floor."""
        distance = abs(state.point.loss + state.point.value)
        return -state.point.value + distance + state.point.inconsistency * problem.loss.noise_floor

    def lower_bound(self, problem: Problem, state: DualState, sufficient_gap: float) -> float:
        """Return the dual value."""
        return -state.point.value


def _evaluated(oracle: RegionOracle, dual: LocalDual, multipliers: np.ndarray) -> DualPoint:
    oracle.calls += 1
    return dual.at(multipliers)
