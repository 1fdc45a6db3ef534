"""L-BFGS on the potentials, by differentiating through the oracle (PGM appendix A.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State

CURVATURE = 1e-12  # a pair with less curvature than this share of its length says nothing
SHORTEST = 1e-14  # of a step


@dataclass
class QuasiNewtonState(State):
    """The loss, its gradient with respect to theta, and the pairs (change of theta, change of gradient)."""

    loss: float = np.nan
    slope: np.ndarray = field(default_factory=lambda: np.empty(0))
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


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
        return QuasiNewtonState(theta, p, log_partition, loss=loss, slope=problem.oracle.covariance(gradient))

    def step(self, problem: Problem, state: QuasiNewtonState) -> QuasiNewtonState:
        direction = self._direction(state)
        descent = dot(direction, state.slope)
        if descent >= 0:
            state.pairs.clear()
            direction, descent = -state.slope, -dot(state.slope, state.slope)
        size = 1.0 if state.pairs else min(1.0, 1.0 / max(float(np.abs(direction).max()), np.finfo(float).tiny))
        while size > SHORTEST:
            theta = state.theta + size * direction
            p, log_partition = problem.marginals(theta)
            loss, gradient = problem.loss_and_gradient(p)
            if loss <= state.loss + 1e-4 * size * descent:
                slope = problem.oracle.covariance(gradient)
                pairs = self._remember(state.pairs, size * direction, slope - state.slope)
                return QuasiNewtonState(theta, p, log_partition, loss=loss, slope=slope, pairs=pairs)
            size *= 0.4
        if state.pairs:
            state.pairs.clear()  # the model of the curvature misled; try once more along the gradient
        else:
            state.finished = "no step along the gradient reduces the loss in floating point"
        return state

    def _remember(
        self, pairs: list[tuple[np.ndarray, np.ndarray]], move: np.ndarray, turn: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        if dot(move, turn) > CURVATURE * np.sqrt(dot(move, move) * dot(turn, turn)):
            pairs = [*pairs[-(self.memory - 1) :], (move, turn)]
        return pairs

    @staticmethod
    def _direction(state: QuasiNewtonState) -> np.ndarray:
        """Minus the inverse Hessian approximation times the slope (the two-loop recursion, Nocedal 1980)."""
        direction = -state.slope
        shares = []
        for move, turn in reversed(state.pairs):
            share = dot(move, direction) / dot(move, turn)
            shares.append(share)
            direction -= share * turn
        if state.pairs:
            move, turn = state.pairs[-1]
            direction *= dot(move, turn) / dot(turn, turn)
        for (move, turn), share in zip(state.pairs, reversed(shares), strict=True):
            direction += (share - dot(turn, direction) / dot(move, turn)) * move
        return direction
