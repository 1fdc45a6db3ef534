"""L-BFGS on the potentials, by differentiating through the oracle (PGM appendix A.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

SMALLEST_CURVATURE = 1e-12  # a pair with less curvature than this share of its length says nothing
SHORTEST_STEP = 1e-14
BACKTRACK = 0.4
SUFFICIENT_DECREASE = 1e-4
"""The line search takes the first step, shortened by BACKTRACK, that decreases the function by this share of what its
slope promises (Armijo)."""


@dataclass(frozen=True)
class InverseHessian:
    """The limited-memory approximation of an inverse Hessian (Nocedal 1980).

    Attributes:
        memory: how many pairs are kept.
        pairs: (s, y, <s, y>), the change of the variables in a step and that of the gradient, the latest last.
    """

    memory: int
    pairs: tuple[tuple[np.ndarray, np.ndarray, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def updated(self, s: np.ndarray, y: np.ndarray) -> InverseHessian:
        """With one more pair, if it has curvature."""
        curvature = dot(s, y)
        if curvature > SMALLEST_CURVATURE * np.sqrt(dot(s, s) * dot(y, y)):
            return InverseHessian(self.memory, (*self.pairs[-(self.memory - 1) :], (s, y, curvature)))
        return self

    def forgotten(self) -> InverseHessian:
        """Without any pair."""
        return InverseHessian(self.memory)

    def descent(
        self,
        gradient: np.ndarray,
        diagonal: np.ndarray | None = None,
        projection: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Minus its product with the gradient, by the two-loop recursion.

        Args:
            gradient: where it descends from.
            diagonal: of the inverse Hessian that the pairs update, up to a factor; ones by default.
            projection: orthogonal, onto a space of all gradients and steps, in which that inverse Hessian is to be.
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
    """The loss and its gradient with respect to theta, and what is known of the curvature."""

    loss: float
    slope: np.ndarray
    hessian: InverseHessian


@dataclass(frozen=True)
class LBFGS(Solver[QuasiNewtonState]):
    r"""Limited-memory BFGS on $\theta \mapsto f(p_\theta)$, with $\nabla_\theta f = Cov_\theta \nabla f(p_\theta)$.

    The covariance is applied by the oracle's own backward sweep on the same plan. The objective is not convex in
    $\theta$, but every stationary point is optimal. Two sweeps an iteration; no need for a Lipschitz constant, but also
    no rate: where the optimum lies at the boundary, potentials must run off to minus infinity, and it crawls. Choose it
    for smooth losses of your own on small problems.

    Attributes:
        memory: how many pairs are kept.
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
            state.hessian = state.hessian.forgotten()
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
            state.hessian = state.hessian.forgotten()  # it misled; try once more along the gradient
        else:
            state.status = Status.PRECISION
        return state
