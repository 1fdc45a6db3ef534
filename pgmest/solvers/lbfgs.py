"""L-BFGS on the potentials, by differentiating through the oracle (PGM appendix A.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.inverse_hessian import BACKTRACK, SHORTEST_STEP, SUFFICIENT_DECREASE, InverseHessian
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status


@dataclass(kw_only=True)
class QuasiNewtonState(State):
    """The state of L-BFGS: the loss, its gradient with respect to theta, and the approximate inverse Hessian."""

    loss: float
    slope: np.ndarray
    hessian: InverseHessian


@dataclass(frozen=True)
class LBFGS(Solver[QuasiNewtonState]):
    r"""Limited-memory BFGS on $\theta \mapsto f(p_\theta)$, with $\nabla_\theta f = Cov_\theta \nabla f(p_\theta)$.

    The oracle applies the covariance by a sweep over the messages of the last run, so an iteration takes two sweeps.
    The objective is not convex in $\theta$, but every stationary point is optimal. The method needs no Lipschitz
    constant and has no convergence rate. It is very slow if the optimum lies at the boundary, because then potentials
    must go to minus infinity. Choose it for smooth user-defined losses on small problems.

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
