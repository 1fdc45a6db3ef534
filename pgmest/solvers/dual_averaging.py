"""Accelerated dual averaging (PGM Algorithm 2, after Xiao 2010): no line search, but a Lipschitz constant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status


@dataclass(kw_only=True)
class DualAveragingState(State):
    r"""theta, p: the dual iterate $\nu$.

    Attributes:
        center: $\theta_0$, the potentials it started from.
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

    K is the Lipschitz constant computed from the measurements (`Problem.lipschitz`). Converges like 1/k^2 without ever
    adapting, so a cautious K makes it slow. The average $\mu$ leaves the exponential family; what is returned is the
    dual iterate $\nu$ with its potentials $\theta$, which converges to the same marginals.

    Attributes:
        lipschitz: a K of your own, for a loss of marginals that sum to one. The entropy is strongly convex in the l1
            norm, so the largest entry of Q^T Q is enough, and that is the default. The paper takes its largest
            eigenvalue, which on the tables of a junction tree is larger by as many cells as a query sums over, and so
            makes the steps as much smaller (`experiments/results/pgm_figure3.md`).

    Raises:
        ArgumentError: a constant that is not positive, or none where the loss has none.
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
