r"""Penalties inside the proximal step of accelerated mirror descent: none, or relative entropy.

One step minimizes $\langle g, p \rangle + a L \, KL(p \| z) + h(p)$ over distributions p, with h the penalty. For both
penalties the step has a closed form: the new potentials are a weighted sum of known ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.certificate import lower_bound
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State, divergence

if TYPE_CHECKING:
    from pgmest.solvers.acceleration import AcceleratedState


class Penalty(Protocol):
    """A convex function h of distributions, added to the loss f."""

    def propose(self, state: AcceleratedState) -> None:
        """Compute the proximal step for the current gradient, momentum and L: `state.move` and `state.next_theta`."""

    def value(self, state: State) -> float:
        """Return h at the state's distribution."""
        ...

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """Return min over p of <gradient, p> + h(p)."""
        ...

    def lower_bound(self, problem: Problem, state: AcceleratedState, sufficient_gap: float) -> float:
        """Return a lower bound on min f + h for a smooth f; `sufficient_gap` as for `Solver.lower_bound`."""
        ...


@dataclass(frozen=True)
class NoPenalty:
    """The penalty h = 0, for mirror descent on the loss alone."""

    def propose(self, state: AcceleratedState) -> None:
        r"""Compute $\theta' = \theta - g / (a L)$."""
        from pgmest.solvers.step_kernels import step_by

        factor = -1.0 / (state.momentum * state.smoothness)
        step_by(state.theta, state.gradient, factor, state.move, state.next_theta)

    def value(self, state: State) -> float:
        """Return 0."""
        return 0.0

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """Return the minimum of <gradient, p>, attained at a single record, by one max-product sweep."""
        return problem.linear_minimum(gradient)

    def lower_bound(self, problem: Problem, state: AcceleratedState, sufficient_gap: float) -> float:
        """Return the bound at the average x, whose gradient oscillates less than that at z."""
        return lower_bound(problem, state.average, sufficient_gap)


NO_PENALTY = NoPenalty()


@dataclass(frozen=True)
class EntropyPenalty:
    r"""The penalty $s \, KL(p \| q)$. The potentials of p must be -inf wherever those of q are (structural zeros).

    Attributes:
        prior: $\theta_q$, the flat potentials of q.
        strength: s > 0, in the units of the loss.
        log_partition: A(theta_q); `value` and `linear_minimum` need it, steps and gaps do not.
    """

    prior: np.ndarray
    strength: float
    log_partition: float = 0.0

    def propose(self, state: AcceleratedState) -> None:
        r"""Compute $\theta' = (a L \theta + s \theta_q - g) / (a L + s)$."""
        np.copyto(state.move, difference(self.prior, state.theta))
        state.move *= self.strength
        state.move -= state.gradient
        state.move /= state.momentum * state.smoothness + self.strength
        np.add(state.theta, state.move, out=state.next_theta)

    def value(self, state: State) -> float:
        """Return s KL(p || q) at the state."""
        move = difference(state.theta, self.prior)
        return self.strength * max(dot(move, state.p) - state.log_partition + self.log_partition, 0.0)

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """Return min over p of <g, p> + s KL(p || q) = s A(theta_q) - s A(theta_q - g / s), by one oracle call."""
        _, log_partition = problem.marginals(self.prior - gradient / self.strength)
        return self.strength * (self.log_partition - log_partition)

    def lower_bound(self, problem: Problem, state: AcceleratedState, sufficient_gap: float) -> float:
        """Return the objective minus its gap at the mirror iterate."""
        loss, _ = problem.loss_and_gradient(state.p)
        return loss + self.value(state) - self.gap(problem, state)

    def gap(self, problem: Problem, state: State) -> float:
        r"""Return an upper bound on the distance of f + s KL(. || q) at the state from its minimum, by one oracle call.

        For smooth f. The minimizer of the objective with f linearized at p is $w = p(\theta_q - \nabla f(p) / s)$, and
        the objective at p exceeds that lower bound by $s \, KL(p \| w)$.
        """
        _, gradient = problem.loss_and_gradient(state.p)
        minimizer = self.prior - gradient / self.strength
        w, log_partition = problem.marginals(minimizer)
        move = difference(state.theta, minimizer)
        product = dot(move, state.p)
        return self.strength * divergence(product, move, state.p - w, log_partition, state.log_partition)


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left - right, and 0 in cells where both are -inf."""
    return np.subtract(left, right, out=np.zeros_like(right), where=right != -np.inf)
