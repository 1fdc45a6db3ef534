"""Minimising a loss plus a penalty of relative entropy: the implicit step of the mirror flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.estimation.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.estimation.problem import Problem
from pgmest.estimation.solver import State, divergence

ACCURACY = 2e-3
"""The certified gap at which the minimisation stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MOST_STEPS = 3000


@dataclass(frozen=True)
class PenalisedMirrorDescent(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent for $f(p) + s \, KL(p \| q)$, with q given by potentials `prior`.

    The penalty stays inside the proximal step, which keeps its closed form: with step constant $a L$,
    $\theta' = (a L \theta + s \theta_q - g) / (a L + s)$.

    Attributes:
        prior: flat potentials of q, -inf at structural zeros; `theta` has the same ones.
        strength: s, in the units of the loss.
    """

    prior: np.ndarray | float = 0.0
    strength: float = 0.0
    name: str = "penalised"

    def propose(self, state: AcceleratedState) -> None:
        np.copyto(state.move, _difference(self.prior, state.theta))
        state.move *= self.strength
        state.move -= state.gradient
        state.move /= state.momentum * state.smoothness + self.strength


def penalised(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> State:
    r"""The minimiser of $f(p) + s \, KL(p \| q)$, to a certified gap of ACCURACY noise floors or for MOST_STEPS steps.

    The certificate is exact: linearising f at p and minimising the rest gives $w = p(\theta_q - \nabla f(p) / s)$, and
    the objective at p exceeds that lower bound by $s \, KL(p \| w)$. It costs one oracle call.

    Args:
        problem: what f is.
        prior: flat potentials of q.
        strength: s > 0, in the units of the loss.
        start: flat potentials to start from, -inf where those of `prior` are.
    """
    solver = PenalisedMirrorDescent(prior=prior, strength=strength)
    state = solver.start(problem, start.copy())
    for step in range(1, MOST_STEPS + 1):
        state = solver.step(problem, state)
        if state.finished:
            break
        if step % CHECK_EVERY == 0 and _gap(problem, prior, strength, state) <= ACCURACY * problem.loss.noise_floor:
            break
    return State(state.theta, state.p, state.log_partition)


def _gap(problem: Problem, prior: np.ndarray, strength: float, state: State) -> float:
    """How far the penalised loss at the state is above its minimum, at most."""
    _, gradient = problem.loss_and_gradient(state.p)
    lowest = prior - gradient / strength
    w, log_partition = problem.marginals(lowest)
    move = _difference(state.theta, lowest)
    return strength * divergence(move, state.p - w, state.p, log_partition, state.log_partition)


def _difference(left: np.ndarray | float, right: np.ndarray) -> np.ndarray:
    """left - right, 0 where both are -inf."""
    return np.subtract(left, right, out=np.zeros_like(right), where=~np.isneginf(right))
