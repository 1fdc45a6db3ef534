"""What one step of accelerated mirror descent does to arrays, apart from the oracle's call: its passes over the cells.

`SeparatePasses` serve any loss and penalty, one operation at a time. For a loss of weighted squares without a penalty,
the most frequent one, gradients cost less to compute again than to keep: `PassesOfSquares` read the same few arrays
twice a step and write one each time, so that on small models more of the cache is left to the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import divergence, divergence_of_products

if TYPE_CHECKING:
    from pgmest.solvers.acceleration import AcceleratedState


class Passes(Protocol):
    """In this order, around the oracle's call that gives z' for theta'."""

    def propose(self, state: AcceleratedState) -> None:
        """The proximal step from z at the present momentum and L: its end into `state.next_theta`."""

    def compare(self, state: AcceleratedState, log_partition: float) -> tuple[float, float]:
        """KL(z' || z), with the log-partition function of z', and the surrogate's `excess`."""
        ...

    def accept(self, state: AcceleratedState) -> None:
        """x' into `state.average`; z is still the one before."""


class SeparatePasses:
    """For any loss and penalty."""

    def propose(self, state: AcceleratedState) -> None:
        """y, the gradient there, and the penalty's step."""
        from pgmest.solvers.step_kernels import between

        between(state.average, state.p, state.momentum, state.point)
        state.value, _ = state.surrogate.problem.loss_and_gradient(state.point, out=state.gradient)
        state.parts.penalty.propose(state)

    def compare(self, state: AcceleratedState, log_partition: float) -> tuple[float, float]:
        """From the moves of potentials and marginals."""
        from pgmest.solvers.step_kernels import change_and_product

        product = change_and_product(state.p, state.next_p, state.move, state.change)
        distance = divergence(product, state.move, state.change, state.log_partition, log_partition)
        return distance, state.surrogate.excess(state)

    def accept(self, state: AcceleratedState) -> None:
        """x' = y + a (z' - z)."""
        from pgmest.solvers.step_kernels import add_share

        add_share(state.point, state.change, state.momentum, state.average)


SEPARATE_PASSES = SeparatePasses()


@dataclass(frozen=True, eq=False)
class PassesOfSquares:
    """For half the sum of precision (p - target)^2, where nothing is added to the loss.

    Attributes:
        target, precision: by cell of all of the problem's cliques, 0 on those that the loss does not read.
        kernels: step_kernels.py, looked up once.
    """

    target: np.ndarray
    precision: np.ndarray
    kernels: ModuleType

    @classmethod
    def of(cls, problem: Problem) -> PassesOfSquares | None:
        """None for another loss."""
        from pgmest.solvers import step_kernels

        loss = problem.loss
        if type(loss) is not WeightedSquares:  # one that derives from it may be another function
            return None
        target, precision = np.zeros(problem.layout.cells), np.zeros(problem.layout.cells)
        target[problem.measured] = loss.target
        precision[problem.measured] = loss.curvature_floor()
        return cls(target, precision, step_kernels)

    def propose(self, state: AcceleratedState) -> None:
        r"""$\theta' = \theta - g / (a L)$."""
        self.kernels.step_of_squares(
            state.theta,
            state.average,
            state.p,
            self.target,
            self.precision,
            state.momentum,
            self._factor(state),
            state.next_theta,
        )

    def compare(self, state: AcceleratedState, log_partition: float) -> tuple[float, float]:
        """By products with the gradient, of which the move of the potentials is a multiple; x' into `state.point`."""
        factor = self._factor(state)
        product, change, square = self.kernels.compare_squares(
            state.average, state.p, state.next_p, self.target, self.precision, state.momentum, state.point
        )
        distance = divergence_of_products(factor * product, factor * change, state.log_partition, log_partition)
        return distance, 0.5 * square

    def accept(self, state: AcceleratedState) -> None:
        """x' = x + a (z' - x), which is the same."""
        state.average, state.point = state.point, state.average

    def _factor(self, state: AcceleratedState) -> float:
        return -1.0 / (state.momentum * state.smoothness)
