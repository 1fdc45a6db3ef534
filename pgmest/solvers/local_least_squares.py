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

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.inference.regions.region_tables import RegionTables
from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.lbfgs import BACKTRACK, SHORTEST_STEP, SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

POSITIVE_SHARE = 0.1
"""The share of a clique's cells guessed to be positive, for scaling; measured tables are mostly empty cells."""


class LocalDual:
    """The dual function. Its variables are scaled so that each has about the same curvature.

    Args:
        tables: the regions; every outer one with an inner one is measured.
        loss: of marginals that sum to one, with a positive precision in each cell.
    """

    def __init__(self, tables: RegionTables, loss: WeightedSquares):
        self.tables = tables
        target, precision = loss.target, np.broadcast_to(np.asarray(loss.precision), (loss.layout.cells,))
        outer, inner = tables.split(target)
        variance_outer, variance_inner = tables.split(1.0 / precision)
        self._measured_outer, measured_inner = tables.measured
        self._with_own = measured_inner
        self._target, self._variance = [*outer, *inner], [*variance_outer, *variance_inner]
        self._n = len(outer)
        empty = [int(start) for clique, start in zip(loss.cliques, loss.layout.offsets, strict=False) if not clique]
        self._constant = loss.constant + sum(0.5 * float(precision[at] * (1 - target[at]) ** 2) for at in empty)
        self._places, self._scales = [], []
        start = 0
        for i, edges in enumerate(tables.edges):
            nodes = [edge.outer for edge in edges] + [self._n + i] * self._with_own[i]
            shape = (len(nodes), *(outer + inner)[self._n + i].shape)
            cells = [self._variance[node].sum() / np.prod(shape[1:]) for node in nodes]
            self._places.append((slice(start, start + int(np.prod(shape))), shape, nodes))
            self._scales.append(np.sqrt(np.array(cells) * POSITIVE_SHARE).reshape(-1, *[1] * (len(shape) - 1)))
            start += int(np.prod(shape))
        self.totals: slice = slice(start, start + len(self._target))
        self.size: int = start + len(self._target)
        self._total_scales = np.array([np.sqrt(max(v.sum(), np.finfo(float).tiny)) for v in self._variance])
        self._total_scales *= np.sqrt(POSITIVE_SHARE)

    def value(self, x: np.ndarray) -> tuple[float, np.ndarray, list[np.ndarray]]:
        """Minus the dual value at scaled multipliers x, its gradient, and the tables, that of each region."""
        slope = np.zeros(self.size)
        multipliers = [self._centred(x[place].reshape(shape) / scale) for (place, shape, _), scale in self._spaces]
        levels = x[self.totals] / self._total_scales
        slopes = [np.zeros(shape) for _, shape, _ in self._places]
        best: list[np.ndarray] = []
        value = self._constant
        for node, (y, variance) in enumerate(zip(self._target, self._variance, strict=True)):
            if not self._is_measured(node):
                best.append(np.full(y.shape, 1.0 / y.size))
                continue
            shift = np.full(y.shape, levels[node])
            around = self._around(node)
            for i, position in around:
                shift += self._spread(node, i, position, multipliers[i][position])
            table = np.maximum(y - variance * shift, 0.0)
            # 1/2 w (tau - y)^2 + Lambda tau, where w (tau - y) = -Lambda unless tau = 0
            value += 0.5 * _weighted_square(table - y, variance) + dot(shift.reshape(-1), table.reshape(-1))
            value -= levels[node]
            slope[self.totals][node] = (table.sum() - 1.0) / self._total_scales[node]
            for i, position in around:
                slopes[i][position] = self._project(node, i, position, table)
            best.append(table)
        for ((place, _, _), scale), part in zip(self._spaces, slopes, strict=True):
            slope[place] = (self._centred(part) / scale).reshape(-1)
        return -value, -slope, self._agreed(best, slopes)

    def _agreed(self, best: list[np.ndarray], slopes: list[np.ndarray]) -> list[np.ndarray]:
        """The tables, with that of an inner region nobody measured the mean of those around it."""
        inner = [
            best[self._n + i] if own else part.mean(axis=0)
            for i, (own, part) in enumerate(zip(self._with_own, slopes, strict=True))
        ]
        return best[: self._n] + inner

    @property
    def _spaces(self):
        return list(zip(self._places, self._scales, strict=True))

    def _is_measured(self, node: int) -> bool:
        return self._measured_outer[node] if node < self._n else self._with_own[node - self._n]

    def _around(self, node: int) -> list[tuple[int, int]]:
        """The multipliers of a region, as (inner region, position)."""
        return self.tables.inside[node] if node < self._n else [(node - self._n, -1)]

    def _spread(self, node: int, i: int, position: int, values: np.ndarray) -> np.ndarray:
        return self.tables.edges[i][position].spread(values) if node < self._n else values

    def _project(self, node: int, i: int, position: int, table: np.ndarray) -> np.ndarray:
        return self.tables.edges[i][position].project(table) if node < self._n else table

    @staticmethod
    def _centred(part: np.ndarray) -> np.ndarray:
        """Multipliers of one overlap sum to zero, for the table they agree on has no cost of its own."""
        return part - part.mean(axis=0)


def _weighted_square(difference: np.ndarray, variance: np.ndarray) -> float:
    return dot((difference / variance).reshape(-1), difference.reshape(-1))


@dataclass(kw_only=True)
class DualState(State):
    """p: the tables at the multipliers, and theta the potentials of which they are the pseudo-marginals.

    Attributes:
        dual: the dual function.
        value: minus the dual value.
        slope: its gradient.
        hessian: what is known of its curvature.
        multipliers: where it was evaluated.
        inconsistency: the largest L1 disagreement of the tables there.
    """

    dual: LocalDual
    value: float
    slope: np.ndarray
    hessian: InverseHessian
    multipliers: np.ndarray
    inconsistency: float


@dataclass(frozen=True)
class LocalLeastSquares(Solver[DualState]):
    """L-BFGS on the dual of least squares over the local polytope; for `oracle="convex"`, L2 and whole marginals.

    Its tables disagree until it has converged, so they may fit better than any that agree: the objective it reports is
    as far above the dual value as the loss of these tables is from it, in either direction.

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
        return _state(_evaluated(problem.oracle, dual, np.zeros(dual.size)), InverseHessian(self.memory), False)

    def step(self, problem: Problem, state: DualState) -> DualState:
        assert isinstance(problem.oracle, RegionOracle)
        direction = state.hessian.descent(state.slope)
        descent = dot(direction, state.slope)
        size = 1.0 if state.hessian else 1.0 / max(float(np.sqrt(dot(state.slope, state.slope))), np.finfo(float).tiny)
        while size > SHORTEST_STEP and descent < 0:
            trial = _evaluated(problem.oracle, state.dual, state.multipliers + size * direction)
            if trial.value <= state.value + SUFFICIENT_DECREASE * size * descent:
                return _state(trial, state.hessian.updated(size * direction, trial.slope - state.slope), True)
            size *= BACKTRACK
        if state.hessian:
            state.hessian = state.hessian.forgotten()
        else:
            state.status = Status.PRECISION
        return state

    def objective(self, problem: Problem, state: DualState) -> float:
        loss, _ = problem.loss_and_gradient(state.p)
        return -state.value + abs(loss + state.value)

    def lower_bound(self, problem: Problem, state: DualState, enough: float) -> float:
        """The dual value, less noise floors for what the tables disagree by: the gap is small where both are."""
        return -state.value - state.inconsistency * problem.loss.noise_floor


@dataclass(frozen=True)
class _Evaluated:
    """The dual function at some multipliers, and the tables of the outer and of the inner regions there."""

    oracle: RegionOracle
    dual: LocalDual
    multipliers: np.ndarray
    value: float
    slope: np.ndarray
    outer: list[np.ndarray]
    inner: list[np.ndarray]
    inconsistency: float


def _evaluated(oracle: RegionOracle, dual: LocalDual, multipliers: np.ndarray) -> _Evaluated:
    value, slope, regions = dual.value(multipliers)
    n = len(oracle.graph.outer)
    oracle.keep(regions[:n], regions[n:])
    return _Evaluated(oracle, dual, multipliers, value, slope, regions[:n], regions[n:], oracle.inconsistency)


def _state(at: _Evaluated, hessian: InverseHessian, settled: bool) -> DualState:
    """With the tables as marginals, and their potentials."""
    p = np.empty(at.oracle.layout.cells)
    at.oracle.tables.write(p, at.outer, at.inner, 1.0)
    return DualState(
        at.oracle.potentials(at.outer, at.inner),
        p,
        0.0,
        settled=settled,
        dual=at.dual,
        value=at.value,
        slope=at.slope,
        hessian=hessian,
        multipliers=at.multipliers,
        inconsistency=at.inconsistency,
    )
