"""The universal accelerated method: for losses with kinks, such as L1, and any other convex loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.estimation.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.estimation.problem import Problem


@dataclass
class UniversalState(AcceleratedState):
    """`width` is epsilon: how much of the acceptance inequality may be missing, times 2 / a."""

    width: float = np.inf


@dataclass(frozen=True)
class UniversalAccelerated(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent whose steps may fall short by a slack (Nesterov 2015): any convex loss.

    A step is accepted when $f(x') \le f(y) + \langle g, x' - y \rangle + a^2 L\,KL(z' \| z) + a \epsilon / 2$. For a
    kinked loss L then settles at what that accuracy needs, without anyone knowing how smooth the loss is. The slack is
    a share of the loss, and shrinks at each restart.

    Attributes:
        accuracy: the first slack, relative to the loss at the start.
        narrowing: factor on the slack at each restart.
    """

    accuracy: float = 0.03
    narrowing: float = 0.4
    name: str = "universal"

    def start(self, problem: Problem, theta: np.ndarray) -> UniversalState:
        accelerated = super().start(problem, theta)
        loss, _ = problem.loss_and_gradient(accelerated.p)
        return UniversalState(**vars(accelerated), width=self.accuracy * max(abs(loss), np.finfo(float).tiny))

    def restart(self, problem: Problem, state: AcceleratedState) -> None:
        assert isinstance(state, UniversalState)
        super().restart(problem, state)
        state.width *= self.narrowing

    def slack(self, state: AcceleratedState) -> float:
        assert isinstance(state, UniversalState)
        return 0.5 * state.width / state.momentum
