"""The contract of the solvers: a step maps a state to a better state.

A solver is a small class with `start` and `step`, which depends on a `Problem` and not on a model. Every state holds
potentials in the model's exponential family and their marginals p, computed by the oracle, so that a run can stop at
any time with a usable model. Solvers differ in their steps: geometry (entropy on the tree), acceleration, step rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.certificate import lower_bound
from pgmest.solvers.problem import Problem
from pgmest.solvers.status import Status


@dataclass
class State:
    """The state of a solver.

    Attributes:
        theta: flat potentials: the base potentials plus potentials on the loss's cliques.
        p: the marginals of theta, summing to one.
        log_partition: A(theta).
        status: the reason for which the solver has stopped; None while it can continue.
        detail: the text for the field `{detail}` in the sentence of the status.
        settled: whether oscillations have died down, so that a certificate is likely to be tight.
    """

    theta: np.ndarray
    p: np.ndarray
    log_partition: float
    status: Status | None = None
    detail: str = ""
    settled: bool = False

    def snapshot(self) -> State:
        """Return a copy that later steps do not overwrite."""
        return State(self.theta.copy(), self.p.copy(), self.log_partition)


S = TypeVar("S", bound=State)


class Solver(ABC, Generic[S]):
    """The base class of the solvers. `name` is the solver's name in reports and error messages."""

    name: str

    @abstractmethod
    def start(self, problem: Problem, theta: np.ndarray) -> S:
        """Return the state at potentials `theta`."""

    @abstractmethod
    def step(self, problem: Problem, state: S) -> S:
        """Return the next state, which may reuse the arrays of the old one."""

    def objective(self, problem: Problem, state: S) -> float:
        """Return the objective at the state: the loss f, plus the penalty if the solver adds one."""
        return problem.loss_and_gradient(state.p)[0]

    def lower_bound(self, problem: Problem, state: S, sufficient_gap: float) -> float:
        """Return a proven lower bound on the minimum of the objective.

        A bound within `sufficient_gap` of the objective need not be tightened.
        """
        return lower_bound(problem, state.p, sufficient_gap)


def divergence(product: float, step: np.ndarray, change: np.ndarray, log_p: float, log_q: float) -> float:
    """Return KL(q || p) = <theta_q - theta_p, q> - A(theta_q) + A(theta_p), without loss of digits.

    Near convergence this is a small difference of large numbers. Then half of the symmetric divergence
    <theta_q - theta_p, q - p> is returned, which equals it up to third order and loses no digits.

    Args:
        product: <step, q>.
        step: theta_q - theta_p.
        change: q - p.
        log_p, log_q: A(theta_p) and A(theta_q).
    """
    exact = product - log_q + log_p
    return exact if _keeps_digits(exact, log_q) else 0.5 * dot(step, change)


def divergence_of_products(product: float, change: float, log_p: float, log_q: float) -> float:
    """Return KL(q || p) as `divergence` does, where `change` is the product <theta_q - theta_p, q - p>."""
    exact = product - log_q + log_p
    return exact if _keeps_digits(exact, log_q) else 0.5 * change


def _keeps_digits(exact: float, log_q: float) -> bool:
    """Return whether a difference of log-partition functions is far above their rounding errors."""
    return exact > 1e-9 * max(1.0, abs(log_q))
