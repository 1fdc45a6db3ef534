"""The squared loss: what estimation minimises unless told otherwise."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.domain import Domain, as_domain
from pgmest.loss.base import FlatLoss, cell_positions, dot
from pgmest.loss.residual import Residuals, column_squares, lipschitz_of_squares, measured_layout
from pgmest.measurement import LinearMeasurement


class L2Loss(FlatLoss):
    r"""$\sum_i \tfrac12 \lVert (Q_i \mu_{C_i} - y_i) / \sigma_i \rVert_2^2$ (PGM Section 3, with the weights of C.2).

    For Gaussian noise it is the negative log-likelihood up to a constant. All identity measurements of one set of
    attributes are merged exactly into one precision-weighted target, so a call costs three passes over the cells
    however often a marginal was measured. What repeated measurements differ by is a constant of the value.

    An object keeps a scratch array: use it from one thread at a time.

    Args:
        measurements: the noisy answers.
        domain: the attributes.

    Raises:
        UnknownAttributeError, MeasurementShapeError, QueryError: a measurement does not fit the domain.
    """

    smooth = True

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        self.measurements = tuple(measurements)
        self.layout = measured_layout(self.measurements, as_domain(domain))
        self._merge([measurement for measurement in self.measurements if measurement.query is None])
        structured = [measurement for measurement in self.measurements if measurement.query is not None]
        self._residuals = Residuals(structured, self.layout, [measurement.stddev for measurement in structured])
        self._scratch = np.empty(self.layout.cells)
        self._scale = 1.0

    def _merge(self, identities: list[LinearMeasurement]) -> None:
        """Precision-weighted mean of the answers about each cell; the spread around it is a constant of the value."""
        target = np.zeros(self.layout.cells)
        precision = np.zeros(self.layout.cells)
        self._constant = 0.0
        for measurement in identities:
            cells = cell_positions(self.layout, measurement.clique)
            added = np.broadcast_to(1.0 / np.square(measurement.stddev), (measurement.rows,))
            before = precision[cells].copy()
            precision[cells] += added
            difference = measurement.values - target[cells]
            share = added / precision[cells]
            self._constant += 0.5 * float(np.sum(before * share * difference**2))
            target[cells] += share * difference
        self._target = target
        uniform = precision.size and np.all(precision == precision[0])
        self._precision: np.ndarray | float = float(precision[0]) if uniform else precision

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says: precision * (mu - target), and half its product with mu - target."""
        gradient = np.empty(self.layout.cells) if out is None else out
        difference = np.subtract(flat, self._target, out=self._scratch)
        np.multiply(difference, self._precision, out=gradient)
        value = 0.5 * dot(difference, gradient) + self._constant
        if self._residuals.measurements:
            residuals = self._residuals.standardised(flat)
            value += 0.5 * dot(residuals, residuals)
            self._residuals.add_transpose(residuals / self._residuals.scales, gradient)
        return value, gradient

    def hessian_product(self, marginals: CliqueVector, direction: CliqueVector) -> CliqueVector:
        """The Hessian times `direction`; it is the same at all marginals."""
        flat = self.flatten(direction)
        product = flat * self._precision
        scales = self._residuals.scales
        self._residuals.add_transpose(self._residuals.answers(flat) / scales**2, product)
        return CliqueVector.of(self.layout, product)

    @property
    def complete(self) -> bool:
        """Whether every cell of every clique was measured directly, and nothing else was."""
        return not self._residuals.measurements

    @property
    def target(self) -> np.ndarray:
        """The precision-weighted mean of the direct answers about each cell, in the unit of the marginals."""
        return self._target.copy()

    def quadratic(self, direction: np.ndarray) -> float:
        """Half the squared length of the standardised change in the answers."""
        np.multiply(direction, self._precision, out=self._scratch)
        value = 0.5 * dot(direction, self._scratch)
        if self._residuals.measurements:
            moved = self._residuals.answers(direction) / self._residuals.scales
            value += 0.5 * dot(moved, moved)
        return value

    def of_fractions(self, total: float) -> FlatLoss:
        """Where every query is identity, by scaling the target once rather than the marginals at every call."""
        if self._residuals.measurements:
            return super().of_fractions(total)
        scaled = copy.copy(self)
        scaled.__dict__.pop("curvature", None)
        scaled.__dict__.pop("lipschitz", None)
        scaled._target = self._target / total
        scaled._precision = self._precision * total**2
        scaled._scratch = np.empty(self.layout.cells)
        scaled._scale = total
        return scaled

    def curvature_floor(self) -> np.ndarray:
        """The precision with which each cell was measured directly; queries other than identity add no floor."""
        return np.broadcast_to(np.asarray(self._precision), (self.layout.cells,))

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """1/2 for each answer, the mean of half a squared standardised error."""
        return 0.5 * sum(measurement.rows for measurement in self.measurements)

    @cached_property
    def curvature(self) -> CliqueVector:
        """||W Q e_j||^2 summed over the measurements of each clique: the Hessian's diagonal, by cell."""
        return CliqueVector.of(self.layout, column_squares(self.measurements, self.layout) * self._scale**2)

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """sum over cliques of the largest `curvature`: the Lipschitz constant from l1 to the maximum norm.

        Where each clique is measured once it is the sum of max_column_norm()^2.
        """
        return lipschitz_of_squares(self.curvature.flat, self.layout)
