"""The residuals of measurements as a linear map of the flat marginals, and losses that penalize each one alone."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest.losses.base import FlatLoss, cell_positions, loss_layout
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.matrices import Grouping
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain, as_domain


class Residuals:
    """All answers of some measurements, one after the other, as a linear map of the flat marginals.

    Args:
        measurements: checked against the layout's domain by the caller.
        layout: holds a table over the attributes of each measurement.
        scales: the unit of each answer's residual, a scalar or an array for each measurement.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], layout: Layout, scales: Iterable[float | np.ndarray]):
        self.layout: Layout = layout
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self._cells = [cell_positions(layout, measurement.clique) for measurement in self.measurements]
        stops = np.cumsum([0, *(measurement.rows for measurement in self.measurements)])
        self._rows = [slice(start, stop) for start, stop in pairwise(stops)]
        self.scales: np.ndarray = np.empty(stops[-1])
        self.targets: np.ndarray = np.empty(stops[-1])
        for measurement, rows, scale in zip(self.measurements, self._rows, scales, strict=True):
            self.scales[rows] = scale
            self.targets[rows] = measurement.values
        self._are_cells = self._answers_are_cells()
        together = [isinstance(measurement.query, Grouping) for measurement in self.measurements]
        self._grouped = self._sums(together) if sum(together) > 1 else None
        each = zip(self.measurements, self._cells, self._rows, strict=True)
        self._apart = [one for one, joined in zip(each, together, strict=True) if self._grouped is None or not joined]

    def _answers_are_cells(self) -> bool:
        """Whether every marginal was measured directly, once, in the order of the layout: then Q is the identity."""
        starts = [cells.start if isinstance(cells, slice) else None for cells in self._cells]
        return all(m.query is None for m in self.measurements) and starts == self.layout.offsets[:-1].tolist()

    def _sums(self, together: Sequence[bool]) -> Any:
        """One sparse matrix for all sums over groups, with empty rows for the other answers.

        Mechanisms measure hundreds of small ones, each of which would cost a call.
        """
        from scipy import sparse

        order = np.arange(self.layout.cells)
        rows, cells = [], []
        for measurement, places, answers, joined in zip(
            self.measurements, self._cells, self._rows, together, strict=True
        ):
            if joined:
                assert isinstance(measurement.query, Grouping)
                rows.append(measurement.query.groups + answers.start)
                cells.append(order[places])
        at = np.concatenate(rows), np.concatenate(cells)
        return sparse.csr_array((np.ones(len(at[0])), at), shape=(len(self.targets), self.layout.cells))

    @cached_property
    def _grouped_transpose(self) -> Any:
        assert self._grouped is not None
        return self._grouped.T.tocsr()

    def answers(self, flat: np.ndarray) -> np.ndarray:
        """Q mu for all measurements, shape (rows,)."""
        if self._are_cells:
            return flat.copy()
        answers = np.empty(len(self.targets)) if self._grouped is None else self._grouped @ flat
        for measurement, cells, rows in self._apart:
            answers[rows] = measurement.answer_cells(flat[cells])
        return answers

    def standardized(self, flat: np.ndarray) -> np.ndarray:
        """(Q mu - y) / scale, shape (rows,)."""
        answers = self.answers(flat)
        answers -= self.targets
        answers /= self.scales
        return answers

    def add_transpose(self, weights: np.ndarray, gradient: np.ndarray) -> None:
        """Add Q^T weights to `gradient`, shape (layout.cells,)."""
        if self._are_cells:
            gradient += weights
            return
        if self._grouped is not None:
            gradient += self._grouped_transpose @ weights
        for measurement, cells, rows in self._apart:
            gradient[cells] += measurement.transpose_cells(weights[rows])

    def transpose(self, weights: np.ndarray) -> np.ndarray:
        """Q^T weights, shape (layout.cells,)."""
        cells = np.zeros(self.layout.cells)
        self.add_transpose(weights, cells)
        return cells

    def squared_answers(self, flat: np.ndarray) -> np.ndarray:
        """sum_j Q[r, j]^2 mu[j] for each row r, shape (rows,)."""
        return self._squared.answers(flat)

    @cached_property
    def _squared(self) -> Residuals:
        measurements = [
            m if m.query is None else LinearMeasurement(m.values, m.clique, m.stddev, m.query.squared())
            for m in self.measurements
        ]
        return Residuals(measurements, self.layout, [1.0] * len(measurements))

    def of_fractions(self, total: float) -> Residuals:
        """The same residuals as a linear map of marginals that sum to one instead of `total`."""
        scaled = copy.copy(self)
        scaled.scales, scaled.targets = self.scales / total, self.targets / total
        return scaled

    def weighted_column_squares(self, weights: np.ndarray) -> np.ndarray:
        """The sum over rows r of weights[r] * Q[r, j]^2 at each cell j, shape (layout.cells,)."""
        squares = np.zeros(self.layout.cells)
        for measurement, cells, rows in zip(self.measurements, self._cells, self._rows, strict=True):
            squares[cells] += measurement.weighted_column_squares(weights[rows])
        return squares


class ResidualLoss(FlatLoss):
    """The sum over all answers of a penalty of the standardized residual z = (Q mu - y) / scale.

    A subclass gives the unit `_scale` of a measurement's residuals, and the penalty with its derivative.

    Args:
        measurements: the noisy answers.
        domain: the attributes.

    Raises:
        UnknownAttributeError, MeasurementShapeError, QueryError: a measurement does not fit the domain.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self.layout: Layout = measured_layout(self.measurements, as_domain(domain))
        self._residuals = Residuals(self.measurements, self.layout, [self._scale(m) for m in self.measurements])

    @abstractmethod
    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        """The unit in which the measurement's residuals are penalized."""

    @abstractmethod
    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum of the penalties, and the derivative of each, for standardized residuals of shape (rows,)."""

    def _curvature(self, residuals: np.ndarray) -> np.ndarray:
        """The second derivative of each penalty, shape (rows,)."""
        raise NotImplementedError(f"{type(self).__name__} has no second derivative.")

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says; one product with every query and one with its transpose."""
        value, slopes = self._penalty(self._residuals.standardized(flat))
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        self._residuals.add_transpose(slopes / self._residuals.scales, gradient)
        return value, gradient

    def hessian_product(self, marginals: CliqueVector, direction: CliqueVector) -> CliqueVector:
        """The Hessian at `marginals` times `direction`, both in counts.

        Raises:
            NotImplementedError: the loss is not smooth.
        """
        curvature = self._curvature(self._residuals.standardized(self.flatten(marginals)))
        moved = self._residuals.answers(self.flatten(direction)) / self._residuals.scales
        return CliqueVector.of(self.layout, self._residuals.transpose(curvature * moved / self._residuals.scales))

    @cached_property
    def _lipschitz_of_squares(self) -> float:
        return lipschitz_of_squares(column_squares(self.measurements, self.layout), self.layout)


def measured_layout(measurements: Iterable[LinearMeasurement], domain: Domain) -> Layout:
    """The layout of the measured cliques, after checking each measurement against the domain."""
    for measurement in measurements:
        measurement.check(domain)
    return loss_layout(domain, (measurement.clique for measurement in measurements))


def column_squares(measurements: Iterable[LinearMeasurement], layout: Layout) -> np.ndarray:
    """The sum over measurements of ||W Q e_j||^2 at each cell j of the layout: the diagonal of the L2 Hessian."""
    squares = np.zeros(layout.cells)
    for measurement in measurements:
        squares[cell_positions(layout, measurement.clique)] += measurement.column_squares
    return squares


def lipschitz_of_squares(squares: np.ndarray, layout: Layout) -> float:
    """sum over cliques of the largest cell of `squares`, a bound on every entry of the Hessian by joint cells.

    That Hessian is positive semidefinite, so its largest entry lies on its diagonal, where the joint cell x has
    sum over cliques C of squares_C[x_C].
    """
    if not layout.cliques:
        return 0.0
    return float(np.maximum.reduceat(squares, layout.offsets[:-1]).sum())
