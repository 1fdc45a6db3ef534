"""Losses that are sums of other losses, or that a user's function computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.base import FlatLoss, cell_positions, loss_layout
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain, as_domain


class SumLoss(FlatLoss):
    """The weighted sum of losses over one domain, for example different losses of groups of measurements, or a penalty.

    Args:
        losses: the parts.
        weights: one nonnegative number for each part; by default all 1.

    Raises:
        ArgumentError: there is no part, the parts are over different domains, or the weights are not one nonnegative
            number for each part.
    """

    def __init__(self, losses: Iterable[FlatLoss], weights: Sequence[float] | None = None):
        self.losses: tuple[FlatLoss, ...] = tuple(losses)
        self.weights: tuple[float, ...] = (
            (1.0,) * len(self.losses) if weights is None else tuple(float(weight) for weight in weights)
        )
        _check_parts(self.losses, self.weights)
        cliques = [clique for loss in self.losses for clique in loss.cliques]
        self.layout: Layout = loss_layout(self.losses[0].domain, cliques)
        self._cells = [self._positions(loss) for loss in self.losses]
        self.smooth: bool = all(loss.smooth for loss in self.losses)

    def _positions(self, loss: FlatLoss) -> np.ndarray:
        """Return the cells of the sum's layout that a part reads, in the part's order."""
        index = np.arange(self.layout.cells)
        parts = [index[cell_positions(self.layout, clique)] for clique in loss.cliques]
        return np.concatenate([index[:0], *parts])

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """The weighted sum of the parts' noise floors."""
        return math.fsum(weight * loss.noise_floor for loss, weight in zip(self.losses, self.weights, strict=True))

    def curvature_floor(self) -> np.ndarray:
        """Return the weighted sum of the parts' curvature floors, by cell."""
        floor = np.zeros(self.layout.cells)
        for loss, weight, cells in zip(self.losses, self.weights, self._cells, strict=True):
            floor[cells] += weight * loss.curvature_floor()
        return floor

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """The weighted sum of the parts' Lipschitz constants; None if a part has no known constant."""
        constants = [loss.lipschitz for loss in self.losses]
        known = [constant for constant in constants if constant is not None]
        return float(np.dot(self.weights, known)) if len(known) == len(constants) else None

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the weighted sums of the parts' values and gradients."""
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        values = []
        for loss, weight, cells in zip(self.losses, self.weights, self._cells, strict=True):
            value, part = loss.flat_value_and_gradient(flat[cells])
            values.append(weight * value)
            gradient[cells] += weight * part
        return math.fsum(values), gradient


class FunctionLoss(FlatLoss):
    """A loss that a user's convex function of some marginals computes.

    >>> domain = Domain({"age": 3, "sex": 2})
    >>> def women_above_men(marginals):  # a hinge: 0 once code 1 has at least as many records as code 0
    ...     difference = marginals[("sex",)].values @ [1.0, -1.0]
    ...     return max(0.0, difference), {("sex",): np.array([1.0, -1.0]) * (difference > 0)}
    >>> loss = FunctionLoss(women_above_men, domain, [("sex",)], smooth=False)
    >>> loss.value(CliqueVector(domain, {("sex",): [6.0, 4.0]}))
    2.0

    Args:
        function: takes a CliqueVector of marginals in counts on `cliques`; returns the value, and the (sub)gradient
            as a CliqueVector or a mapping from clique to array, on the same cliques.
        domain: the domain of the marginals.
        cliques: the marginals that the function reads; of two cliques with the same attributes the first is kept.
        lipschitz: as in the Loss protocol; None if unknown.
        smooth: as in the Loss protocol.
    """

    def __init__(
        self,
        function: Callable[[CliqueVector], tuple[float, Any]],
        domain: Domain | Mapping[str, int],
        cliques: Iterable[Iterable[str]],
        lipschitz: float | None = None,
        smooth: bool = True,
    ):
        self.function = function
        self.layout: Layout = loss_layout(as_domain(domain), cliques)
        self.lipschitz = lipschitz
        self.smooth = smooth

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value and the gradient of the function.

        Raises:
            ArgumentError: the function returned NaN, or a gradient on other cliques.
            ShapeError: the gradient of a clique has another shape than the clique.
        """
        value, gradient = self.function(CliqueVector.of(self.layout, flat))
        if math.isnan(value):
            raise ArgumentError("the loss function returned NaN; it must have a value at all nonnegative marginals.")
        values = self._checked(gradient)
        if out is None:
            return float(value), values.copy()
        np.copyto(out, values)
        return float(value), out

    def _checked(self, gradient: Any) -> np.ndarray:
        """Return the gradient as a flat array; raise ArgumentError if its cliques are not those of the loss."""
        vector = gradient if isinstance(gradient, CliqueVector) else CliqueVector(self.domain, gradient)
        if len(vector) != len(self.cliques) or not all(clique in vector for clique in self.cliques):
            raise ArgumentError(f"the loss function reads {self.cliques} but its gradient is on {vector.cliques}.")
        return self.flatten(vector)


def _check_parts(losses: Sequence[FlatLoss], weights: Sequence[float]) -> None:
    if not losses:
        raise ArgumentError("a sum of losses needs at least one loss; for a loss of 0 use L2Loss([], domain).")
    if len({loss.domain for loss in losses}) > 1:
        raise ArgumentError("the losses of a sum must all be over the same domain.")
    if len(weights) != len(losses) or not all(0 <= weight < math.inf for weight in weights):
        raise ArgumentError.of("weights", tuple(weights), f"{len(losses)} nonnegative numbers, one for each loss")
