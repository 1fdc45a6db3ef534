"""The residuals of measurements as a linear map of flat marginals, and losses that sum a penalty of each residual."""

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
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain, as_domain


class Residuals:
    """The answers of all measurements, one after the other, as a linear map of flat marginals.

    Args:
        measurements: measurements that the caller has checked against the layout's domain.
        layout: a layout with a table over the attributes of each measurement.
        scales: the unit of the residuals, a scalar or an array for each measurement.
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
        # Q is the identity if every marginal was measured once, directly, in the layout's order.
        starts = [cells.start if isinstance(cells, slice) else None for cells in self._cells]
        direct = all(measurement.query is None for measurement in self.measurements)
        self._is_identity = direct and starts == layout.offsets[:-1].tolist()
        groupings = [isinstance(measurement.query, Grouping) for measurement in self.measurements]
        self._grouped = self._grouping_matrix(groupings) if sum(groupings) > 1 else None
        each = zip(self.measurements, self._cells, self._rows, strict=True)
        self._separate = [
            one for one, grouping in zip(each, groupings, strict=True) if self._grouped is None or not grouping
        ]

    def _grouping_matrix(self, groupings: Sequence[bool]) -> Any:
        """Return one sparse matrix for all groupings, with empty rows for the other answers.

        Mechanisms measure hundreds of small groupings; separate products would cost one call each.
        """
        from scipy import sparse

        order = np.arange(self.layout.cells)
        rows, cells = [], []
        for measurement, places, answers, grouping in zip(
            self.measurements, self._cells, self._rows, groupings, strict=True
        ):
            if grouping:
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
        """Return Q mu for all measurements, shape (rows,)."""
        if self._is_identity:
            return flat.copy()
        answers = np.empty(len(self.targets)) if self._grouped is None else self._grouped @ flat
        for measurement, cells, rows in self._separate:
            answers[rows] = measurement.answer_cells(flat[cells])
        return answers

    def standardized(self, flat: np.ndarray) -> np.ndarray:
        """Return (Q mu - y) / scale, shape (rows,)."""
        answers = self.answers(flat)
        answers -= self.targets
        answers /= self.scales
        return answers

    def add_transpose(self, weights: np.ndarray, gradient: np.ndarray) -> None:
        """Add Q^T weights to `gradient`, shape (layout.cells,)."""
        if self._is_identity:
            gradient += weights
            return
        if self._grouped is not None:
            gradient += self._grouped_transpose @ weights
        for measurement, cells, rows in self._separate:
            gradient[cells] += measurement.transpose_cells(weights[rows])

    def transpose(self, weights: np.ndarray) -> np.ndarray:
        """Return Q^T weights, shape (layout.cells,)."""
        cells = np.zeros(self.layout.cells)
        self.add_transpose(weights, cells)
        return cells

    def squared_answers(self, flat: np.ndarray) -> np.ndarray:
        """Return sum_j Q[r, j]^2 mu[j] for each row r, shape (rows,)."""
        return self._squared.answers(flat)

    @cached_property
    def _squared(self) -> Residuals:
        measurements = [
            m if m.query is None else LinearMeasurement(m.values, m.clique, m.stddev, m.query.squared())
            for m in self.measurements
        ]
        return Residuals(measurements, self.layout, [1.0] * len(measurements))

    def of_fractions(self, total: float) -> Residuals:
        """Return the residuals as a linear map of marginals that sum to one instead of `total`."""
        scaled = copy.copy(self)
        scaled.scales, scaled.targets = self.scales / total, self.targets / total
        return scaled

    def weighted_column_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_r weights[r] * Q[r, j]^2 for each cell j, shape (layout.cells,)."""
        squares = np.zeros(self.layout.cells)
        for measurement, cells, rows in zip(self.measurements, self._cells, self._rows, strict=True):
            squares[cells] += measurement.weighted_column_squares(weights[rows])
        return squares


class ResidualLoss(FlatLoss):
    """The base class of sums over all answers of a penalty of the standardized residual z = (Q mu - y) / scale.

    A subclass defines the unit `_scale` of a measurement's residuals, and the penalty with its derivative.

    Args:
        measurements: the noisy answers.
        domain: the domain of the marginals.

    Raises:
        UnknownAttributeError, ShapeError, QueryError: a measurement does not fit the domain.
    """

    def __init__(self, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]):
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self.layout: Layout = measured_layout(self.measurements, as_domain(domain))
        self._residuals = Residuals(self.measurements, self.layout, [self._scale(m) for m in self.measurements])

    @abstractmethod
    def _scale(self, measurement: LinearMeasurement) -> float | np.ndarray:
        """Return the unit of the measurement's residuals, in counts."""

    @abstractmethod
    def _penalty(self, residuals: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum of the penalties, and the derivative of each, for standardized residuals of shape (rows,)."""

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value and the gradient, by one product with every query and one with its transpose."""
        value, slopes = self._penalty(self._residuals.standardized(flat))
        gradient = np.empty(self.layout.cells) if out is None else out
        gradient.fill(0.0)
        self._residuals.add_transpose(slopes / self._residuals.scales, gradient)
        return value, gradient

    @cached_property
    def _lipschitz_of_squares(self) -> float:
        return lipschitz_of_squares(column_squares(self.measurements, self.layout), self.layout)


def measured_layout(measurements: Iterable[LinearMeasurement], domain: Domain) -> Layout:
    """Return the layout of the measured cliques, after checking each measurement against the domain."""
    for measurement in measurements:
        measurement.check(domain)
    return loss_layout(domain, (measurement.clique for measurement in measurements))


def column_squares(measurements: Iterable[LinearMeasurement], layout: Layout) -> np.ndarray:
    """Return the diagonal of the L2 Hessian: the sum over measurements of ||W Q e_j||^2 for each cell j."""
    squares = np.zeros(layout.cells)
    for measurement in measurements:
        squares[cell_positions(layout, measurement.clique)] += measurement.column_squares
    return squares


def lipschitz_of_squares(squares: np.ndarray, layout: Layout) -> float:
    """Return the sum over cliques of the largest entry of `squares`, a bound on all entries of the joint Hessian.

    The Hessian by joint cells is positive semidefinite, so its largest entry lies on its diagonal. The diagonal entry
    of joint cell x is the sum over cliques C of squares_C[x_C].
    """
    if not layout.cliques:
        return 0.0
    return float(np.maximum.reduceat(squares, layout.offsets[:-1]).sum())
