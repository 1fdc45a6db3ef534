"""The contract of the solvers: a state goes in, a better state comes out.

A solver is a small class with `start` and `step`, which knows a `Problem` and no model. Every state holds potentials of
the model's own family *and their marginals*: p is what the oracle makes of theta, so that stopping at any time gives a
usable model. What makes the solvers differ is the step: geometry (entropy on the tree), acceleration, step rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.certificate import duality_gap
from pgmest.solvers.problem import Problem
from pgmest.solvers.status import Status


@dataclass
class State:
    """Where a solver stands.

    Attributes:
        theta: flat potentials; base potentials plus a combination of the loss's cliques.
        p: their marginals, summing to one.
        log_partition: A(theta).
        status: why the solver goes no further; None while it does.
        detail: what completes the sentence of the status, where it has a gap.
        settled: whether this is a good moment for a certificate, because oscillations have died down.
    """

    theta: np.ndarray
    p: np.ndarray
    log_partition: float
    status: Status | None = None
    detail: str = ""
    settled: bool = False

    def kept(self) -> State:
        """What later steps do not overwrite."""
        return State(self.theta.copy(), self.p.copy(), self.log_partition)


S = TypeVar("S", bound=State)


class Solver(ABC, Generic[S]):
    """One algorithm. `name` is what `estimate(method=...)` calls it."""

    name: str

    @abstractmethod
    def start(self, problem: Problem, theta: np.ndarray) -> S:
        """The state at potentials `theta`."""

    @abstractmethod
    def step(self, problem: Problem, state: S) -> S:
        """The next state; it may reuse the arrays of the old one."""

    def objective(self, problem: Problem, state: S) -> float:
        """What is minimized, at the state: the loss f, unless the solver adds a penalty to it."""
        return problem.loss_and_gradient(state.p)[0]

    def lower_bound(self, problem: Problem, state: S, enough: float) -> float:
        """A proven lower bound on the minimum of the objective.

        Bounds closer than `enough` to the optimum need not be tightened.
        """
        loss, gradient = problem.loss_and_gradient(state.p)
        return loss - duality_gap(problem, state.p, gradient, enough=enough)


def divergence(product: float, step: np.ndarray, change: np.ndarray, log_p: float, log_q: float) -> float:
    """KL(q || p) = <theta_q - theta_p, q> - A(theta_q) + A(theta_p), with `step` = theta_q - theta_p.

    `product` is <step, q>. Near convergence that is a small difference of large numbers. It is then replaced by half of
    the symmetric divergence <step, q - p>, with `change` = q - p, which it equals up to third order and which loses no
    digits.
    """
    exact = product - log_q + log_p
    return exact if _keeps_digits(exact, log_q) else 0.5 * dot(step, change)


def divergence_of_products(product: float, change: float, log_p: float, log_q: float) -> float:
    """The same, where <step, q - p> is known."""
    exact = product - log_q + log_p
    return exact if _keeps_digits(exact, log_q) else 0.5 * change


def _keeps_digits(exact: float, log_q: float) -> bool:
    return exact > 1e-9 * max(1.0, abs(log_q))
