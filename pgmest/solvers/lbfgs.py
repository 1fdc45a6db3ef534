"""L-BFGS on the potentials, by differentiating through the oracle (PGM appendix A.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

SMALLEST_CURVATURE = 1e-12
"""Pairs (s, y) with <s, y> below this share of |s| |y| are dropped, because their curvature is rounding error."""

SHORTEST_STEP = 1e-14
BACKTRACK = 0.4
SUFFICIENT_DECREASE = 1e-4
"""Armijo's rule: the line search shortens the step by the factor BACKTRACK until the function decreases by the share
SUFFICIENT_DECREASE of its linear prediction, and fails below SHORTEST_STEP."""


@dataclass(frozen=True)
class InverseHessian:
    """The limited-memory approximation of an inverse Hessian (Nocedal 1980).

    Attributes:
        memory: the largest number of pairs.
        pairs: (s, y, <s, y>) for each step, the change of the variables and the change of the gradient, latest last.
    """

    memory: int
    pairs: tuple[tuple[np.ndarray, np.ndarray, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def updated(self, s: np.ndarray, y: np.ndarray) -> InverseHessian:
        """Return the approximation with one more pair, or itself if the pair has too little curvature."""
        curvature = dot(s, y)
        if curvature > SMALLEST_CURVATURE * np.sqrt(dot(s, s) * dot(y, y)):
            return InverseHessian(self.memory, (*self.pairs[-(self.memory - 1) :], (s, y, curvature)))
        return self

    def reset(self) -> InverseHessian:
        """Return an approximation without pairs."""
        return InverseHessian(self.memory)

    def descent(
        self,
        gradient: np.ndarray,
        diagonal: np.ndarray | None = None,
        projection: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return minus the product of the inverse Hessian and the gradient, by the two-loop recursion.

        Args:
            gradient: the gradient at the current point.
            diagonal: the diagonal of the initial inverse Hessian, up to a factor; ones by default.
            projection: an orthogonal projection onto a space that contains all gradients and steps; it is applied to
                the initial inverse Hessian.
        """
        direction, scratch, shares = -gradient, np.empty_like(gradient), []
        for s, y, curvature in reversed(self.pairs):
            share = dot(s, direction) / curvature
            shares.append(share)
            direction -= np.multiply(y, share, out=scratch)
        if diagonal is not None:
            direction *= diagonal
        if projection is not None:
            direction = projection(direction)
        if self.pairs:
            _, y, curvature = self.pairs[-1]
            direction *= curvature / dot(y, y if diagonal is None else np.multiply(y, diagonal, out=scratch))
        for (s, y, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += np.multiply(s, share - dot(y, direction) / curvature, out=scratch)
        return direction


@dataclass(kw_only=True)
class QuasiNewtonState(State):
    """The state of L-BFGS: the loss, its gradient with respect to theta, and the approximate inverse Hessian."""

    loss: float
    slope: np.ndarray
    hessian: InverseHessian


@dataclass(frozen=True)
class LBFGS(Solver[QuasiNewtonState]):
    r"""Limited-memory BFGS on $\theta \mapsto f(p_\theta)$, with $\nabla_\theta f = Cov_\theta \nabla f(p_\theta)$.

    The oracle applies the covariance by a backward sweep on the same plan, so an iteration takes two sweeps. The
    objective is not convex in $\theta$, but every stationary point is optimal. The method needs no Lipschitz constant
    and has no convergence rate. It is very slow if the optimum lies at the boundary, because then potentials must go to
    minus infinity. Choose it for smooth user-defined losses on small problems.

    Attributes:
        memory: the largest number of pairs of the approximate inverse Hessian.
    """

    memory: int = 20
    name: str = "lbfgs"

    def start(self, problem: Problem, theta: np.ndarray) -> QuasiNewtonState:
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        slope, hessian = problem.oracle.covariance(gradient), InverseHessian(self.memory)
        return QuasiNewtonState(theta, p, log_partition, loss=loss, slope=slope, hessian=hessian)

    def step(self, problem: Problem, state: QuasiNewtonState) -> QuasiNewtonState:
        direction = state.hessian.descent(state.slope)
        descent = dot(direction, state.slope)
        if descent >= 0:
            state.hessian = state.hessian.reset()
            direction, descent = -state.slope, -dot(state.slope, state.slope)
        size = 1.0 if state.hessian else min(1.0, 1.0 / max(float(np.abs(direction).max()), np.finfo(float).tiny))
        while size > SHORTEST_STEP:
            theta = state.theta + size * direction
            p, log_partition = problem.marginals(theta)
            loss, gradient = problem.loss_and_gradient(p)
            if loss <= state.loss + SUFFICIENT_DECREASE * size * descent:
                slope = problem.oracle.covariance(gradient)
                hessian = state.hessian.updated(size * direction, slope - state.slope)
                return QuasiNewtonState(theta, p, log_partition, loss=loss, slope=slope, hessian=hessian)
            size *= BACKTRACK
        if state.hessian:
            state.hessian = state.hessian.reset()  # its direction failed; the next step tries the gradient
        else:
            state.status = Status.PRECISION
        return state
