"""Losses made of others, or of a user's own function of the marginals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, UnknownCliqueError
from pgmest.losses.base import FlatLoss, cell_positions, loss_layout
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain, as_domain


class SumLoss(FlatLoss):
    """The weighted sum of losses over one domain: a different loss for each group of measurements, a penalty, ...

    Args:
        losses: the parts.
        weights: a nonnegative number for each part; 1 by default.

    Raises:
        ArgumentError: no part, parts over different domains, or weights that are not one nonnegative number each.
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
        index = np.arange(self.layout.cells)
        parts = [index[cell_positions(self.layout, clique)] for clique in loss.cliques]
        return np.concatenate([index[:0], *parts])

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """The weighted sum of the parts' floors."""
        return math.fsum(weight * loss.noise_floor for loss, weight in zip(self.losses, self.weights, strict=True))

    def curvature_floor(self) -> np.ndarray:
        """The weighted sum of the parts' floors, by cell."""
        floor = np.zeros(self.layout.cells)
        for loss, weight, cells in zip(self.losses, self.weights, self._cells, strict=True):
            floor[cells] += weight * loss.curvature_floor()
        return floor

    @property
    def lipschitz(self) -> float | None:  # type: ignore[override]
        """The weighted sum of the parts' constants; None where one has none."""
        constants = [loss.lipschitz for loss in self.losses]
        known = [constant for constant in constants if constant is not None]
        return float(np.dot(self.weights, known)) if len(known) == len(constants) else None

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says."""
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        values = []
        for loss, weight, cells in zip(self.losses, self.weights, self._cells, strict=True):
            value, part = loss.flat_value_and_gradient(flat[cells])
            values.append(weight * value)
            gradient[cells] += weight * part
        return math.fsum(values), gradient


class FunctionLoss(FlatLoss):
    """A user's own convex function of some marginals.

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
        domain: the attributes.
        cliques: the marginals that the function reads; the same attributes twice count once, in the first order.
        lipschitz: as in the Loss protocol; None where unknown.
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
        """As FlatLoss says.

        Raises:
            ArgumentError: the function returned NaN, or a gradient on other cliques.
            ShapeError: the gradient of a clique has another shape.
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
        vector = gradient if isinstance(gradient, CliqueVector) else CliqueVector(self.domain, gradient)
        if len(vector) != len(self.cliques):
            raise ArgumentError(f"the loss function reads {self.cliques} but its gradient is on {vector.cliques}.")
        try:
            return self.flatten(vector)
        except UnknownCliqueError:
            raise ArgumentError(
                f"the loss function reads {self.cliques} but its gradient is on {vector.cliques}."
            ) from None


def _check_parts(losses: Sequence[FlatLoss], weights: Sequence[float]) -> None:
    if not losses:
        raise ArgumentError("a sum of losses needs at least one; for no loss at all use L2Loss([], domain).")
    if len({loss.domain for loss in losses}) > 1:
        raise ArgumentError("the losses of a sum must all be over the same domain.")
    if len(weights) != len(losses) or not all(0 <= weight < math.inf for weight in weights):
        raise ArgumentError.of("weights", tuple(weights), f"{len(losses)} nonnegative numbers, one for each loss")
