r"""Penalties that stay inside the proximal step of accelerated mirror descent: none, or relative entropy.

One step minimizes $\langle g, p \rangle + a L \, KL(p \| z) + h(p)$ over distributions p, with h the penalty. Both
penalties here leave it in closed form: the new potentials are a weighted sum of known ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.certificate import duality_gap
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State, divergence

if TYPE_CHECKING:
    from pgmest.solvers.acceleration import AcceleratedState


class Penalty(Protocol):
    """A convex function h of distributions, added to the loss f."""

    def propose(self, state: AcceleratedState) -> None:
        """The proximal step for the present gradient, momentum and L: into `state.move`, its end `state.next_theta`."""

    def value(self, state: State) -> float:
        """h at the state's distribution."""
        ...

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """min over p of <gradient, p> + h(p)."""
        ...

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """A lower bound on the minimum of f + h, for a smooth f; `enough` as for `Solver.lower_bound`."""
        ...


@dataclass(frozen=True)
class NoPenalty:
    """h = 0: mirror descent on the loss alone."""

    def propose(self, state: AcceleratedState) -> None:
        r"""$\theta' = \theta - g / (a L)$."""
        from pgmest.solvers.step_kernels import step_by

        factor = -1.0 / (state.momentum * state.smoothness)
        step_by(state.theta, state.gradient, factor, state.move, state.next_theta)

    def value(self, state: State) -> float:
        """None."""
        return 0.0

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """At a single record: one sweep of the max-product."""
        return problem.linear_minimum(gradient)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """From the average x, whose gradient oscillates less than that of z."""
        loss, gradient = problem.loss_and_gradient(state.average)
        return loss - duality_gap(problem, state.average, gradient, enough=enough)


NO_PENALTY = NoPenalty()


@dataclass(frozen=True)
class EntropyPenalty:
    r"""$s \, KL(p \| q)$, with q given by flat potentials `prior`, -inf at structural zeros; so are those of p.

    Attributes:
        prior: $\theta_q$.
        strength: s > 0, in the units of the loss.
        log_partition: A(theta_q); only values need it, not steps or gaps.
    """

    prior: np.ndarray
    strength: float
    log_partition: float = 0.0

    def propose(self, state: AcceleratedState) -> None:
        r"""$\theta' = (a L \theta + s \theta_q - g) / (a L + s)$."""
        np.copyto(state.move, difference(self.prior, state.theta))
        state.move *= self.strength
        state.move -= state.gradient
        state.move /= state.momentum * state.smoothness + self.strength
        np.add(state.theta, state.move, out=state.next_theta)

    def value(self, state: State) -> float:
        """s KL(p || q) at the state."""
        move = difference(state.theta, self.prior)
        return self.strength * max(dot(move, state.p) - state.log_partition + self.log_partition, 0.0)

    def linear_minimum(self, problem: Problem, gradient: np.ndarray) -> float:
        """min over p of <g, p> + s KL(p || q) = s A(theta_q) - s A(theta_q - g / s): one oracle call."""
        _, log_partition = problem.marginals(self.prior - gradient / self.strength)
        return self.strength * (self.log_partition - log_partition)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """The objective less its exact gap at the mirror iterate."""
        loss, _ = problem.loss_and_gradient(state.p)
        return loss + self.value(state) - self.gap(problem, state)

    def gap(self, problem: Problem, state: State) -> float:
        r"""How far f(p) + s KL(p || q) at the state is above its minimum, at most, for a smooth f: one oracle call.

        Linearizing f at p and minimizing the rest gives $w = p(\theta_q - \nabla f(p) / s)$, and the objective at p
        exceeds that lower bound by $s \, KL(p \| w)$.
        """
        _, gradient = problem.loss_and_gradient(state.p)
        minimizer = self.prior - gradient / self.strength
        w, log_partition = problem.marginals(minimizer)
        move = difference(state.theta, minimizer)
        product = dot(move, state.p)
        return self.strength * divergence(product, move, state.p - w, log_partition, state.log_partition)


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left - right, 0 where both are -inf."""
    return np.subtract(left, right, out=np.zeros_like(right), where=~np.isneginf(right))
