r"""The implicit step of the mirror flow, solved in its dual by a quasi-Newton method that ends with a certified gap.

The step minimizes $f(p) + s \, KL(p \| q)$ with $f(p) = \tfrac12 \sum w (p - y)^2$ over the measured cells. With
multipliers h, one per measured cell and in units of the noise ($r = \sqrt w$), the dual problem is to minimize

.. math:: \varphi(h) = \tfrac12 \lVert h \rVert^2 + \langle h, r y \rangle + s A(\theta_q - r h / s),
          \quad \nabla \varphi(h) = h + r y - r p, \quad p = p(\theta_q - r h / s).

By weak duality the gradient is a certificate without further cost: the objective at p exceeds its minimum by at most
$\tfrac12 \lVert \nabla \varphi(h) \rVert^2$. The Hessian is $I + r \, Cov \, r / s$. Its eigenvalues range from 1,
where multipliers of overlapping tables cancel, to the ratio of the largest cells to the noise. Two devices reduce this
range, and limited-memory BFGS does the rest:

- The diagonal entry of a cell is about $1 + w p / s$; its inverse D preconditions the steps.
- Where multipliers cancel, p does not change and the minimum is known at the start: minus the part of r y that is
  orthogonal to the tables that agree on shared marginals. The projection onto these tables (`SharedMarginals`) keeps
  all steps in the space where p changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.inverse_hessian import SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.penalty import difference
from pgmest.solvers.problem import Problem
from pgmest.solvers.shared_marginals import SharedMarginals
from pgmest.solvers.solver import State

MEMORY = 6
"""The number of pairs that limited-memory BFGS keeps: each costs two passes over the measured cells in every step."""

MAX_CALLS = 600
"""The number of oracle calls after which the dual method stops without a certificate."""

FLAT = 1e-12
"""Dual values that differ by less than this share are equal up to rounding; then the line search tests the slope."""

SHORTEST, LONGEST = 0.1, 0.5
SHORTEST_STEP = 1e-8
"""The line search shortens a refused step to the zero of the linearly interpolated slope, by a factor between SHORTEST
and LONGEST, and fails below SHORTEST_STEP."""


@dataclass(frozen=True)
class DualPoint:
    """The dual function at multipliers h: theta, p and the log-partition function, the dual value and its gradient."""

    h: np.ndarray
    theta: np.ndarray
    p: np.ndarray
    log_partition: float
    value: float
    slope: np.ndarray

    @property
    def gap(self) -> float:
        """An upper bound on the distance of the objective at p from its minimum."""
        return 0.5 * dot(self.slope, self.slope)


class ImplicitStep:
    """The solver of implicit steps of one problem, for any prior distribution and any strength.

    Args:
        problem: a problem whose loss is weighted squares with positive precisions.
    """

    def __init__(self, problem: Problem):
        loss = problem.loss
        assert isinstance(loss, WeightedSquares)
        self._problem = problem
        self._roots: np.ndarray = np.sqrt(loss.curvature_floor())
        self._answers: np.ndarray = self._roots * loss.target
        self._shared = _shared_marginals(loss, self._roots)
        self._scratch = np.empty(len(self._roots))

    def minimize(self, prior: np.ndarray, strength: float, start: np.ndarray, sufficient_gap: float) -> State | None:
        """Return the minimizer up to a certified gap; None if that takes more than MAX_CALLS oracle calls.

        At the limit of time it is the point reached. Arguments as for `approach`.
        """
        point = self.approach(prior, strength, start, sufficient_gap, MAX_CALLS)
        if point.gap > sufficient_gap and not out_of_time():
            return None
        return State(point.theta, point.p, point.log_partition)

    def approach(
        self, prior: np.ndarray, strength: float, start: np.ndarray, sufficient_gap: float, most_calls: int
    ) -> DualPoint:
        """Return the point reached at a certified gap, after a number of oracle calls, or where no step is found.

        The limit of time ends it, too.

        Args:
            prior: flat potentials of q.
            strength: s.
            start: flat potentials to start from, with -inf in the same cells as `prior`; if q has the better dual
                value, q is the start.
            sufficient_gap: the gap, in the units of the loss.
            most_calls: the number of oracle calls.
        """
        first = self._problem.oracle.calls
        point, hessian = self._start(prior, strength, start), InverseHessian(MEMORY)
        while point.gap > sufficient_gap and self._problem.oracle.calls - first < most_calls and not out_of_time():
            following = self._step(point, hessian, prior, strength)
            if following is not None:
                hessian = hessian.updated(following.h - point.h, following.slope - point.slope)
                point = following
            elif hessian:  # the curvature may have changed since the pairs were recorded
                hessian = hessian.reset()
            else:
                break
        return point

    def targets(self, point: DualPoint) -> np.ndarray:
        """Return the target marginals y + h / r, at which the certificate of a point's multipliers is evaluated."""
        return (self._answers + point.h) / self._roots

    def _start(self, prior: np.ndarray, strength: float, start: np.ndarray) -> DualPoint:
        fixed = self._onto_marginals(self._answers) - self._answers
        point = self._at(fixed, prior, strength)
        if start is prior:
            return point
        move = strength * difference(prior, start)[self._problem.measured] / self._roots
        other = self._at(fixed + self._onto_marginals(move), prior, strength)
        return other if other.value < point.value else point

    def _onto_marginals(self, cells: np.ndarray) -> np.ndarray:
        """Return the part of the multipliers that changes p."""
        return cells.copy() if self._shared is None else self._shared.project(cells, np.empty_like(cells))

    def _at(self, h: np.ndarray, prior: np.ndarray, strength: float) -> DualPoint:
        problem, scratch = self._problem, self._scratch
        theta = prior.copy()
        np.multiply(h, self._roots, out=scratch)
        scratch /= strength
        theta[problem.measured] -= scratch
        p, log_partition = problem.marginals(theta)
        slope = h + self._answers
        value = dot(h, slope) - 0.5 * dot(h, h) + strength * log_partition
        slope -= np.multiply(p[problem.measured], self._roots, out=scratch)
        return DualPoint(h, theta, p, log_partition, value, slope)

    def _step(self, point: DualPoint, hessian: InverseHessian, prior: np.ndarray, strength: float) -> DualPoint | None:
        """Return the next point along the quasi-Newton direction; None if the line search finds no step."""
        shrink = np.multiply(self._roots, point.p[self._problem.measured])
        shrink *= self._roots
        shrink /= strength
        shrink += 1.0
        np.reciprocal(shrink, out=shrink)
        direction = hessian.descent(point.slope, shrink, self._onto_marginals)
        predicted, size = dot(direction, point.slope), 1.0
        while predicted < 0.0 and size >= SHORTEST_STEP:
            tried = self._at(point.h + size * direction, prior, strength)
            slope, change = dot(tried.slope, direction), tried.value - point.value
            flat = abs(change) <= FLAT * abs(point.value) and slope <= -LONGEST * predicted
            if flat or change <= SUFFICIENT_DECREASE * size * predicted:
                return tried
            size *= min(LONGEST, max(SHORTEST, predicted / (predicted - slope))) if slope > 0 else LONGEST
        return None


def _shared_marginals(loss: WeightedSquares, roots: np.ndarray) -> SharedMarginals | None:
    """Return the projection if each table has a single precision and some tables overlap; otherwise None."""
    if len(loss.cliques) < 2:
        return None
    tables = np.split(roots, loss.layout.offsets[1:-1])
    if not all(np.ptp(table) == 0.0 for table in tables):
        return None
    return SharedMarginals(loss.layout, np.array([table[0] for table in tables])) or None
