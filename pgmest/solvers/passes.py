"""The passes over the cells in one step of accelerated mirror descent, apart from the oracle call.

`SeparatePasses` work for any loss and penalty, one operation at a time. For weighted squares without a penalty, the
most frequent case, recomputing gradients is cheaper than storing them: `FusedSquaresPasses` read the same few arrays
twice per step and write one array each time, which leaves more of the cache to the oracle on small models.
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
    """The array operations of a step: `propose`, the oracle call that gives z' for theta', `compare`, and `accept`."""

    def propose(self, state: AcceleratedState) -> None:
        """Write the result of the proximal step from z, with the current momentum and L, to `state.next_theta`."""

    def compare(self, state: AcceleratedState, log_partition: float) -> tuple[float, float]:
        """Return KL(z' || z) and the surrogate's `excess`, given the log-partition function of z'."""
        ...

    def accept(self, state: AcceleratedState) -> None:
        """Write x' to `state.average`; `state.p` still holds the old z."""


class SeparatePasses:
    """The passes for any loss and penalty."""

    def propose(self, state: AcceleratedState) -> None:
        """Compute y, the gradient at y, and the proximal step of the penalty."""
        from pgmest.solvers.step_kernels import between

        between(state.average, state.p, state.momentum, state.point)
        state.value, _ = state.surrogate.problem.loss_and_gradient(state.point, out=state.gradient)
        state.parts.penalty.propose(state)

    def compare(self, state: AcceleratedState, log_partition: float) -> tuple[float, float]:
        """Compare by the changes of the potentials and of the marginals."""
        from pgmest.solvers.step_kernels import change_and_product

        product = change_and_product(state.p, state.next_p, state.move, state.change)
        distance = divergence(product, state.move, state.change, state.log_partition, log_partition)
        return distance, state.surrogate.excess(state)

    def accept(self, state: AcceleratedState) -> None:
        """Compute x' = y + a (z' - z)."""
        from pgmest.solvers.step_kernels import add_share

        add_share(state.point, state.change, state.momentum, state.average)


SEPARATE_PASSES = SeparatePasses()


@dataclass(frozen=True, eq=False)
class FusedSquaresPasses:
    """The passes for the loss 1/2 sum precision (p - target)^2 without a penalty.

    Attributes:
        target, precision: one entry per cell of the problem; 0 on cliques that the loss does not read.
        kernels: the module step_kernels, imported once.
    """

    target: np.ndarray
    precision: np.ndarray
    kernels: ModuleType

    @classmethod
    def of(cls, problem: Problem) -> FusedSquaresPasses | None:
        """Return the passes for a problem whose loss is weighted squares; None for other losses."""
        from pgmest.solvers import step_kernels

        loss = problem.loss
        if type(loss) is not WeightedSquares:  # a subclass may compute another function
            return None
        target, precision = np.zeros(problem.layout.cells), np.zeros(problem.layout.cells)
        target[problem.measured] = loss.target
        precision[problem.measured] = loss.curvature_floor()
        return cls(target, precision, step_kernels)

    def propose(self, state: AcceleratedState) -> None:
        r"""Compute $\theta' = \theta - g / (a L)$."""
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
        """Compare by products with the gradient, of which theta' - theta is a multiple; write x' to `state.point`."""
        factor = self._factor(state)
        product, change, square = self.kernels.compare_squares(
            state.average, state.p, state.next_p, self.target, self.precision, state.momentum, state.point
        )
        distance = divergence_of_products(factor * product, factor * change, state.log_partition, log_partition)
        return distance, 0.5 * square

    def accept(self, state: AcceleratedState) -> None:
        """Take over x' = (1 - a) x + a z', which `compare` has written to `state.point`."""
        state.average, state.point = state.point, state.average

    def _factor(self, state: AcceleratedState) -> float:
        """Return the factor on the gradient in the step, minus the step size."""
        return -1.0 / (state.momentum * state.smoothness)
