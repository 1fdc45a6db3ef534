"""Minimizing a loss plus a penalty of relative entropy: the soft prior, and the implicit step of the mirror flow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.accelerated import AcceleratedMirrorDescent, AcceleratedState
from pgmest.solvers.problem import Problem
from pgmest.solvers.smoothing import AcceleratedSmoothing, SmoothingState
from pgmest.solvers.solver import State, divergence

ACCURACY = 2e-3
"""The certified gap at which an implicit step stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MOST_STEPS = 3000


@dataclass(frozen=True)
class EntropyPenalty:
    r"""$s \, KL(p \| q)$, with q given by flat potentials `prior`, -inf at structural zeros.

    Attributes:
        prior: $\theta_q$.
        strength: s > 0, in the units of the loss.
        log_partition: A(theta_q); only values need it, not steps or gaps.
    """

    prior: np.ndarray
    strength: float
    log_partition: float = 0.0

    def propose(self, state: AcceleratedState) -> None:
        r"""The proximal step with the penalty inside: $\theta' = (a L \theta + s \theta_q - g) / (a L + s)$."""
        np.copyto(state.move, difference(self.prior, state.theta))
        state.move *= self.strength
        state.move -= state.gradient
        state.move /= state.momentum * state.smoothness + self.strength

    def value(self, state: State) -> float:
        """s KL(p || q) at the state."""
        move = difference(state.theta, self.prior)
        return self.strength * max(dot(move, state.p) - state.log_partition + self.log_partition, 0.0)

    def lowest(self, problem: Problem, gradient: np.ndarray) -> float:
        """min over p of <g, p> + s KL(p || q) = s A(theta_q) - s A(theta_q - g / s): one oracle call."""
        _, log_partition = problem.marginals(self.prior - gradient / self.strength)
        return self.strength * (self.log_partition - log_partition)

    def gap(self, problem: Problem, state: State) -> float:
        r"""How far f(p) + s KL(p || q) at the state is above its minimum, at most, for a smooth f: one oracle call.

        Linearizing f at p and minimizing the rest gives $w = p(\theta_q - \nabla f(p) / s)$, and the objective at p
        exceeds that lower bound by $s \, KL(p \| w)$.
        """
        _, gradient = problem.loss_and_gradient(state.p)
        lowest = self.prior - gradient / self.strength
        w, log_partition = problem.marginals(lowest)
        move = difference(state.theta, lowest)
        return self.strength * divergence(move, state.p - w, state.p, log_partition, state.log_partition)


@dataclass(frozen=True)
class PenalisedMirrorDescent(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent for $f(p) + s \, KL(p \| q)$ with a smooth f; `theta` has the structural zeros of q.

    The penalty stays inside the proximal step, which keeps its closed form.
    """

    penalty: EntropyPenalty = field(kw_only=True)
    name: str = "penalized"

    def propose(self, state: AcceleratedState) -> None:
        self.penalty.propose(state)

    def objective(self, problem: Problem, state: AcceleratedState) -> float:
        return super().objective(problem, state) + self.penalty.value(state)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """The objective less its exact gap at the mirror iterate."""
        return self.objective(problem, state) - self.penalty.gap(problem, state)


@dataclass(frozen=True)
class PenalisedSmoothing(AcceleratedSmoothing):
    """The same for absolute residuals, which are rounded off (`pgmest.solvers.smoothing`)."""

    penalty: EntropyPenalty = field(kw_only=True)
    name: str = "penalized smoothing"

    def propose(self, state: AcceleratedState) -> None:
        self.penalty.propose(state)

    def objective(self, problem: Problem, state: AcceleratedState) -> float:
        return super().objective(problem, state) + self.penalty.value(state)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """By the slopes at the average, under which the loss has a linear minorant."""
        assert isinstance(state, SmoothingState)
        _, gradient = state.smooth.loss_and_gradient(state.average)
        support = state.rounded.support(state.average[problem.measured])
        return support - dot(gradient, state.average) + self.penalty.lowest(problem, gradient)


def penalized(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> State:
    r"""The minimizer of $f(p) + s \, KL(p \| q)$, to a certified gap of ACCURACY noise floors or for MOST_STEPS steps.

    Args:
        problem: what f is.
        prior: flat potentials of q.
        strength: s > 0, in the units of the loss.
        start: flat potentials to start from, -inf where those of `prior` are.
    """
    solver = PenalisedMirrorDescent(penalty=EntropyPenalty(prior, strength))
    state = solver.start(problem, start.copy())
    for step in range(1, MOST_STEPS + 1):
        state = solver.step(problem, state)
        if state.finished:
            break
        if step % CHECK_EVERY == 0 and solver.penalty.gap(problem, state) <= ACCURACY * problem.loss.noise_floor:
            break
    return State(state.theta, state.p, state.log_partition)


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left - right, 0 where both are -inf."""
    return np.subtract(left, right, out=np.zeros_like(right), where=~np.isneginf(right))
