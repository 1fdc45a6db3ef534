"""Accelerated dual averaging (PGM Algorithm 2, after Xiao 2010): no line search, but a Lipschitz constant."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State


@dataclass
class DualAveragingState(State):
    """The potentials it started from, the primal average, the average of gradients, and the number of steps."""

    center: np.ndarray = field(default_factory=lambda: np.empty(0))
    average: np.ndarray = field(default_factory=lambda: np.empty(0))
    mean_gradient: np.ndarray = field(default_factory=lambda: np.empty(0))
    steps: int = 0


@dataclass(frozen=True)
class DualAveraging(Solver[DualAveragingState]):
    r"""Regularized dual averaging with Nesterov's weights (PGM Algorithm 2).

    With $c = 2/(t+1)$: $\omega = (1-c)\mu + c\nu$; $\bar g \leftarrow (1-c)\bar g + c \nabla L(\omega)$;
    $\theta = \theta_0 - \frac{t(t+1)}{4K} \bar g$; $\nu$ = MARGINAL-ORACLE$(\theta)$; $\mu \leftarrow (1-c)\mu + c\nu$.

    K is the Lipschitz constant computed from the measurements (`Problem.lipschitz`). Converges like 1/k^2 without ever
    adapting, so a cautious K makes it slow. The average $\mu$ leaves the exponential family; what is returned is the
    dual iterate $\nu$ with its potentials $\theta$, which converges to the same marginals.
    """

    name: str = "dual_averaging"

    def start(self, problem: Problem, theta: np.ndarray) -> DualAveragingState:
        if problem.lipschitz is None:
            raise ArgumentError(
                "method='dual_averaging' needs a loss with a known Lipschitz constant; this loss has none. "
                "Use method='auto', or give the loss a `lipschitz` attribute."
            )
        p, log_partition = problem.marginals(theta)
        return DualAveragingState(
            theta, p, log_partition, center=theta, average=p.copy(), mean_gradient=np.zeros_like(theta)
        )

    def step(self, problem: Problem, state: DualAveragingState) -> DualAveragingState:
        center, average, mean_gradient = state.center, state.average, state.mean_gradient
        lipschitz = problem.lipschitz
        if not lipschitz:
            state.finished = "the loss does not depend on the marginals"
            return state
        state.steps += 1
        t = state.steps
        c = 2.0 / (t + 1)
        _, gradient = problem.loss_and_gradient((1 - c) * average + c * state.p)
        mean_gradient *= 1 - c
        mean_gradient += c * gradient
        theta = center - (t * (t + 1) / (4 * lipschitz)) * mean_gradient
        p, log_partition = problem.marginals(theta)
        average *= 1 - c
        average += c * p
        state.theta, state.p, state.log_partition = theta, p, log_partition
        return state
