r"""The implicit step of the mirror flow by its dual: quasi-Newton ascent that ends with a certified gap.

The step minimizes $f(p) + s \, KL(p \| q)$ with $f(p) = \tfrac12 \sum w (p - y)^2$ over the measured cells. With
multipliers h, one a measured cell and in units of the noise ($r = \sqrt w$), its dual is to minimize

.. math:: \varphi(h) = \tfrac12 \lVert h \rVert^2 + \langle h, r y \rangle + s A(\theta_q - r h / s),
          \quad \nabla \varphi(h) = h + r y - r p, \quad p = p(\theta_q - r h / s).

Weak duality makes the gradient a certificate that costs nothing: the objective at p exceeds its minimum by at most
$\tfrac12 \lVert \nabla \varphi(h) \rVert^2$. The Hessian is $I + r \, Cov \, r / s$: as large as the largest
cells' share of the records over the noise, and 1 where multipliers of overlapping tables cancel. Two things bring that
together, and limited-memory BFGS finds the rest:

- In its own table a cell's entry is about $1 + w p / s$, by whose inverse D steps are scaled.
- Where multipliers cancel p does not move, and the minimum is known from the start: minus the part of r y that is in no
  marginals of a table. The projection onto what is (`SharedMarginals`) keeps all steps where p moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.lbfgs import InverseHessian
from pgmest.solvers.penalty import difference
from pgmest.solvers.problem import Problem
from pgmest.solvers.shared_marginals import SharedMarginals
from pgmest.solvers.solver import State

MEMORY = 6
MAX_CALLS = 600
"""Oracle calls without a certificate after which the dual is given up."""

SUFFICIENT_DECREASE = 1e-4
FLAT = 1e-12
"""Armijo's rule; where values differ by less than this share, which is rounding, the slope decides."""

SHORTEST, LONGEST = 0.1, 0.5
SHORTEST_STEP = 1e-8
"""A refused step is shortened to where the slope vanishes by linear interpolation, within these factors."""


@dataclass(frozen=True)
class _Point:
    """The dual function at multipliers h: theta, p and the log-partition function there, its value and gradient."""

    h: np.ndarray
    theta: np.ndarray
    p: np.ndarray
    log_partition: float
    value: float
    slope: np.ndarray

    @property
    def gap(self) -> float:
        """At most by so much the objective at p is above its minimum."""
        return 0.5 * dot(self.slope, self.slope)


class ImplicitStep:
    """Steps of one problem, from any distribution and of any length.

    Args:
        problem: its loss is of weighted squares, with positive precisions.
    """

    def __init__(self, problem: Problem):
        loss = problem.loss
        assert isinstance(loss, WeightedSquares)
        self._problem = problem
        self._roots: np.ndarray = np.sqrt(loss.curvature_floor())
        self._answers: np.ndarray = self._roots * loss.target
        self._shared = _shared_marginals(loss, self._roots)
        self._scratch = np.empty(len(self._roots))

    def minimize(self, prior: np.ndarray, strength: float, start: np.ndarray, enough: float) -> State | None:
        """The minimizer to a gap of at most `enough`; None where the dual does not prove it within MAX_CALLS calls.

        Args:
            prior: flat potentials of q.
            strength: s.
            start: flat potentials to start from, -inf where those of `prior` are; q itself where it is better.
            enough: in the units of the loss.
        """
        first = self._problem.oracle.calls
        point, hessian = self._start(prior, strength, start), InverseHessian(MEMORY)
        while point.gap > enough:
            if self._problem.oracle.calls - first >= MAX_CALLS:
                return None
            following = self._step(point, hessian, prior, strength)
            if following is None and hessian:  # what it knows is of where the curvature was another
                hessian = hessian.forgotten()
                continue
            if following is None:
                return None
            hessian = hessian.updated(following.h - point.h, following.slope - point.slope)
            point = following
        return State(point.theta, point.p, point.log_partition)

    def _start(self, prior: np.ndarray, strength: float, start: np.ndarray) -> _Point:
        fixed = self._onto_marginals(self._answers) - self._answers
        point = self._at(fixed, prior, strength)
        if start is prior:
            return point
        move = strength * difference(prior, start)[self._problem.measured] / self._roots
        other = self._at(fixed + self._onto_marginals(move), prior, strength)
        return other if other.value < point.value else point

    def _onto_marginals(self, cells: np.ndarray) -> np.ndarray:
        """The part of multipliers that moves p."""
        return cells.copy() if self._shared is None else self._shared.project(cells, np.empty_like(cells))

    def _at(self, h: np.ndarray, prior: np.ndarray, strength: float) -> _Point:
        problem, scratch = self._problem, self._scratch
        theta = prior.copy()
        np.multiply(h, self._roots, out=scratch)
        scratch /= strength
        theta[problem.measured] -= scratch
        p, log_partition = problem.marginals(theta)
        slope = h + self._answers
        value = dot(h, slope) - 0.5 * dot(h, h) + strength * log_partition
        slope -= np.multiply(p[problem.measured], self._roots, out=scratch)
        return _Point(h, theta, p, log_partition, value, slope)

    def _step(self, point: _Point, hessian: InverseHessian, prior: np.ndarray, strength: float) -> _Point | None:
        """The next point along the quasi-Newton direction; None where no step is found."""
        shrink = np.multiply(self._roots, point.p[self._problem.measured])
        shrink *= self._roots
        shrink /= strength
        shrink += 1.0
        np.reciprocal(shrink, out=shrink)
        direction = hessian.descent(point.slope, shrink, self._onto_marginals)
        promised, size = dot(direction, point.slope), 1.0
        while promised < 0.0 and size >= SHORTEST_STEP:
            tried = self._at(point.h + size * direction, prior, strength)
            slope, change = dot(tried.slope, direction), tried.value - point.value
            flat = abs(change) <= FLAT * abs(point.value) and slope <= -LONGEST * promised
            if flat or change <= SUFFICIENT_DECREASE * size * promised:
                return tried
            size *= min(LONGEST, max(SHORTEST, promised / (promised - slope))) if slope > 0 else LONGEST
        return None


def _shared_marginals(loss: WeightedSquares, roots: np.ndarray) -> SharedMarginals | None:
    """Where each table has one precision and some overlap."""
    if len(loss.cliques) < 2:
        return None
    tables = np.split(roots, loss.layout.offsets[1:-1])
    if not all(np.ptp(table) == 0.0 for table in tables):
        return None
    return SharedMarginals(loss.layout, np.array([table[0] for table in tables])) or None
