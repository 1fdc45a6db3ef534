"""The squared loss, which is the default of `estimate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeGuard

import numpy as np

from pgmest.errors import ShapeError
from pgmest.losses.base import FlatLoss, cell_positions, dot
from pgmest.losses.residual import Residuals, column_squares, lipschitz_of_squares, measured_layout
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain, as_domain


class WeightedSquares(FlatLoss):
    """The loss 1/2 sum precision * (mu - target)^2 + constant, summed over cells.

    Args:
        layout: the layout of the cells.
        target: shape (layout.cells,), in the unit of the marginals.
        precision: one number, or shape (layout.cells,).
        constant: a constant that is added to every value.
        noise_floor: as for FlatLoss.
    """

    def __init__(
        self, layout: Layout, target: np.ndarray, precision: np.ndarray | float, constant: float, noise_floor: float
    ):
        self.layout: Layout = layout
        self.target: np.ndarray = np.ascontiguousarray(target, dtype=np.float64)
        self.precision = precision
        self.constant = constant
        self.noise_floor = noise_floor
        self._by_cell = np.array(self.curvature_floor(), dtype=np.float64)

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value, and the gradient precision * (mu - target)."""
        from pgmest.losses.squares_kernels import value_and_gradient

        flat = self._input(flat, "flat")
        gradient = np.empty(self.layout.cells) if out is None else out
        if gradient.shape != flat.shape:
            raise ShapeError.of("out", flat.shape, gradient.shape)
        twice = value_and_gradient(flat, self.target, self._by_cell, gradient)
        return 0.5 * twice + self.constant, gradient

    def quadratic(self, direction: np.ndarray) -> float:
        """Return half the weighted square of the direction."""
        from pgmest.losses.squares_kernels import square

        return 0.5 * square(self._input(direction, "direction"), self._by_cell)

    def _input(self, flat: np.ndarray, name: str) -> np.ndarray:
        """Return a read-only, contiguous float64 view, or a copy if necessary, after checking the shape.

        Kernels are compiled once for each kind of array, so all calls use the same kind. They do not check bounds.
        """
        if np.shape(flat) != (self.layout.cells,):
            raise ShapeError.of(name, (self.layout.cells,), np.shape(flat))
        view = np.ascontiguousarray(flat, dtype=np.float64).view()
        view.flags.writeable = False
        return view

    def of_fractions(self, total: float) -> WeightedSquares:
        """Return the loss of fractions: the target is scaled once, so the marginals need no scaling at every call."""
        return WeightedSquares(
            self.layout, self.target / total, self.precision * total**2, self.constant, self.noise_floor
        )

    def curvature_floor(self) -> np.ndarray:
        """Return the precision of each cell."""
        return np.broadcast_to(np.asarray(self.precision), (self.layout.cells,))

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The Lipschitz constant from the l1 to the maximum norm: the sum over cliques of the largest precision."""
        return lipschitz_of_squares(self.curvature_floor(), self.layout)


def is_positive_squares(loss: FlatLoss) -> TypeGuard[WeightedSquares]:
    """Return whether a loss is weighted squares with a positive precision in every cell."""
    return isinstance(loss, WeightedSquares) and bool(np.all(loss.curvature_floor() > 0))


class L2Loss(FlatLoss):
    r"""The loss $\sum_i \tfrac12 \lVert (Q_i \mu_{C_i} - y_i) / \sigma_i \rVert_2^2$ (PGM Section 3, weights of C.2).

    For Gaussian noise it is the negative log-likelihood up to a constant. All identity measurements of one set of
    attributes are merged exactly into one precision-weighted target, so a call costs one pass over the cells, even if
    a marginal was measured several times. The spread of repeated measurements adds a constant to the value.

    Args:
        measurements: the noisy answers.
        domain: the domain of the marginals.

    Raises:
        UnknownAttributeError, ShapeError, QueryError: a measurement does not fit the domain.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self.layout: Layout = measured_layout(self.measurements, as_domain(domain))
        direct = [measurement for measurement in self.measurements if measurement.query is None]
        structured = [measurement for measurement in self.measurements if measurement.query is not None]
        self._direct = _merged(direct, self.layout)
        self._residuals = Residuals(structured, self.layout, [measurement.stddev for measurement in structured])

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value and the gradient: of the merged identity answers, plus those of the other queries."""
        value, gradient = self._direct.flat_value_and_gradient(flat, out)
        if self._residuals.measurements:
            residuals = self._residuals.standardized(flat)
            value += 0.5 * dot(residuals, residuals)
            self._residuals.add_transpose(residuals / self._residuals.scales, gradient)
        return value, gradient

    def quadratic(self, direction: np.ndarray) -> float:
        """Return half the squared length of the standardized change of the answers."""
        value = self._direct.quadratic(direction)
        if self._residuals.measurements:
            moved = self._residuals.answers(direction) / self._residuals.scales
            value += 0.5 * dot(moved, moved)
        return value

    def of_fractions(self, total: float) -> FlatLoss:
        """Return the loss of fractions; if every query is identity, it is weighted squares."""
        return super().of_fractions(total) if self._residuals.measurements else self._direct.of_fractions(total)

    def curvature_floor(self) -> np.ndarray:
        """Return the precision of the identity measurements of each cell; other queries add no floor."""
        return self._direct.curvature_floor()

    @property
    def noise_floor(self) -> float:  # type: ignore[override]
        """1/2 for each answer, the expectation of half a squared standardized error."""
        return 0.5 * sum(measurement.rows for measurement in self.measurements)

    @property
    def inequality(self) -> float:
        """The ratio of the largest precision of a table to the smallest; 1 unless all answers are cells of tables."""
        if self._residuals.measurements or not self.layout.cells:
            return 1.0
        largest = np.maximum.reduceat(self._direct.curvature_floor(), self.layout.offsets[:-1])
        return float(largest.max() / largest.min())

    @cached_property
    def curvature(self) -> CliqueVector:
        """The Hessian's diagonal by cell: ||W Q e_j||^2, summed over the measurements of each clique."""
        return CliqueVector.of(self.layout, column_squares(self.measurements, self.layout))

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The Lipschitz constant from the l1 to the maximum norm: the sum over cliques of the largest `curvature`.

        If each clique is measured once, it is the sum of max_column_norm()^2.
        """
        return lipschitz_of_squares(self.curvature.flat, self.layout)


def _merged(measurements: list[LinearMeasurement], layout: Layout) -> WeightedSquares:
    """Merge identity measurements: the target is their precision-weighted mean, and their spread is a constant."""
    target, precision, constant = np.zeros(layout.cells), np.zeros(layout.cells), 0.0
    for measurement in measurements:
        cells = cell_positions(layout, measurement.clique)
        added = np.broadcast_to(1.0 / np.square(measurement.stddev), (measurement.rows,))
        before = precision[cells].copy()
        precision[cells] += added
        difference = measurement.values - target[cells]
        share = added / precision[cells]
        constant += 0.5 * float(np.sum(before * share * difference**2))
        target[cells] += share * difference
    uniform = precision.size and np.all(precision == precision[0])
    floor = 0.5 * sum(measurement.rows for measurement in measurements)
    return WeightedSquares(layout, target, float(precision[0]) if uniform else precision, constant, floor)
