"""Accelerated dual averaging (PGM Algorithm 2, after Xiao 2010), with a Lipschitz constant and no line search."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status


@dataclass(kw_only=True)
class DualAveragingState(State):
    r"""The state of dual averaging: `theta` and `p` are the dual iterate $\nu$.

    Attributes:
        center: $\theta_0$, the potentials at the start.
        average: $\mu$, the primal average.
        mean_gradient: $\bar g$.
        t: the number of steps.
    """

    center: np.ndarray
    average: np.ndarray
    mean_gradient: np.ndarray
    t: int = 0


@dataclass(frozen=True)
class DualAveraging(Solver[DualAveragingState]):
    r"""Regularized dual averaging with Nesterov's weights (PGM Algorithm 2).

    With $c = 2/(t+1)$: $\omega = (1-c)\mu + c\nu$; $\bar g \leftarrow (1-c)\bar g + c \nabla L(\omega)$;
    $\theta = \theta_0 - \frac{t(t+1)}{4K} \bar g$; $\nu$ = MARGINAL-ORACLE$(\theta)$; $\mu \leftarrow (1-c)\mu + c\nu$.

    K is the Lipschitz constant computed from the measurements (`Problem.lipschitz`). The gap falls like 1/k^2. K does
    not adapt, so a K that is too large makes the method slow. The average $\mu$ leaves the exponential family; the dual
    iterate $\nu$ with its potentials $\theta$ is returned, which converges to the same marginals.

    Attributes:
        lipschitz: K for a loss of marginals that sum to one; by default the largest entry of Q^T Q, which is sufficient
            because the entropy is strongly convex in the l1 norm. The paper takes the largest eigenvalue of Q^T Q. On
            the tables of a junction tree it is larger by the number of cells that a query sums over, and makes the
            steps smaller by that factor (`experiments/results/pgm_figure3.md`).

    Raises:
        ArgumentError: the constant is not positive, or neither the solver nor the loss has one.
    """

    name: str = "dual_averaging"
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        if self.lipschitz is not None and not 0 < self.lipschitz < math.inf:
            raise ArgumentError.of("lipschitz", self.lipschitz, "a positive number, or None")

    def start(self, problem: Problem, theta: np.ndarray) -> DualAveragingState:
        if self._constant(problem) is None:
            raise ArgumentError(
                "method='dual_averaging' needs a loss with a known Lipschitz constant; this loss has none. "
                "Use method='auto', or give the loss a `lipschitz` attribute."
            )
        p, log_partition = problem.marginals(theta)
        return DualAveragingState(
            theta, p, log_partition, center=theta, average=p.copy(), mean_gradient=np.zeros_like(theta)
        )

    def step(self, problem: Problem, state: DualAveragingState) -> DualAveragingState:
        lipschitz = self._constant(problem)
        if not lipschitz:
            state.status = Status.LINEAR
            return state
        state.t += 1
        c = 2.0 / (state.t + 1)
        omega = (1 - c) * state.average + c * state.p
        _, gradient = problem.loss_and_gradient(omega)
        state.mean_gradient *= 1 - c
        state.mean_gradient += c * gradient
        state.theta = state.center - (state.t * (state.t + 1) / (4 * lipschitz)) * state.mean_gradient
        state.p, state.log_partition = problem.marginals(state.theta)
        state.average *= 1 - c
        state.average += c * state.p
        return state

    def _constant(self, problem: Problem) -> float | None:
        return problem.lipschitz if self.lipschitz is None else self.lipschitz
