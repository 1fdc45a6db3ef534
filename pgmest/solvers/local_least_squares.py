r"""Least squares over the local polytope by its dual: the way to estimate where the junction tree is too wide.

The problem of "relaxed marginal consistency" (McKenna, Pradhan, Sheldon and Miklau 2021): tables of the measured
cliques, not negative, with the same total, and equal where they overlap; of these the ones with the least

    sum over cliques o of 1/2 sum w_o (tau_o - y_o)^2.

With a multiplier for each equality, collected into one table Lambda_o per clique, the minimum over tables that only
need to be non-negative has a closed form, tau_o = max(0, y_o - Lambda_o / w_o). So the dual has as many variables as
the overlaps have cells, far fewer than the tables, and its gradient is by how much the tables disagree. It is concave
and once differentiable; L-BFGS needs some hundred evaluations. Every dual value is a lower bound on the loss, also
over the marginals of actual distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.inference.exact.kernel_loading import compile_notice
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.lbfgs import BACKTRACK, SHORTEST_STEP, SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.local_dual import DualPoint, LocalDual
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status


class DualState(State):
    """The dual point, from which tables and potentials are made when they are read: few steps are.

    Attributes:
        oracle: where its tables are noted.
        dual: the dual function.
        point: its value, slope and loss.
        hessian: what is known of its curvature.
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
        """The tables, in the oracle's layout; the oracle notes how far they disagree."""
        self.oracle.inconsistency = self.point.inconsistency
        return self._p

    @cached_property
    def _p(self) -> np.ndarray:
        p = np.empty(self.oracle.layout.cells)
        self.oracle.tables.write(p, *self.dual.tables(self.point.multipliers), 1.0)
        return p

    @cached_property
    def theta(self) -> np.ndarray:  # type: ignore[override]
        """Potentials of which they are the pseudo-marginals."""
        return self.oracle.potentials(*self.dual.tables(self.point.multipliers))

    def kept(self) -> State:
        """Itself: a step makes another one."""
        return self


@dataclass(frozen=True)
class LocalLeastSquares(Solver[DualState]):
    """L-BFGS on the dual of least squares over the local polytope; for `oracle="convex"`, L2 and whole marginals.

    Its tables disagree until it has converged, so they may fit better than any that agree: the objective it reports is
    as far above the dual value as the loss of these tables is from it, in either direction, plus a noise floor for each
    unit that they disagree by.

    Attributes:
        memory: how many pairs L-BFGS keeps.
    """

    memory: int = 20
    name: str = "local_least_squares"

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the problem is one of whole marginals, L2, without prior or structural zeros."""
        loss = problem.loss
        return (
            isinstance(problem.oracle, RegionOracle)
            and isinstance(loss, WeightedSquares)
            and problem.layout == loss.layout
            and bool(np.all(loss.curvature_floor() > 0))
            and not problem.base.any()
        )

    def start(self, problem: Problem, theta: np.ndarray) -> DualState:
        """At multipliers of zero; `theta` is not used."""
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
            state.hessian = state.hessian.forgotten()
        else:
            state.status = Status.PRECISION
        return state

    def objective(self, problem: Problem, state: DualState) -> float:
        """As far above the dual value as the loss is from it, and noise floors for what the tables disagree by."""
        apart = abs(state.point.loss + state.point.value)
        return -state.point.value + apart + state.point.inconsistency * problem.loss.noise_floor

    def lower_bound(self, problem: Problem, state: DualState, enough: float) -> float:
        """The dual value."""
        return -state.point.value


def _evaluated(oracle: RegionOracle, dual: LocalDual, multipliers: np.ndarray) -> DualPoint:
    oracle.calls += 1
    return dual.at(multipliers)
