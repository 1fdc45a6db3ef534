"""The estimation of an unknown number of records from the measurements (PGM E.1)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pgmest.errors import TotalError, plural
from pgmest.losses.base import loss_layout
from pgmest.losses.residual import Residuals
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Domain, as_domain

TOLERANCE = 1e-8
"""The largest |Q^T c - 1| at which the combination c of the answers counts as an estimate of the total."""

DENSE_WORK = 2e8
LSMR_ITERATIONS = 2000
"""Least-squares problems of at most DENSE_WORK multiplications are solved densely, larger ones by LSMR with at most
LSMR_ITERATIONS iterations."""

SMALLEST_SQUARE = 1e-300
"""The smallest column square, which keeps the scaling of a cell that no query reads finite."""


@dataclass(frozen=True)
class TotalEstimate:
    """An estimated number of records and its standard error, both in counts."""

    value: float
    stddev: float


def estimate_total(measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]) -> TotalEstimate:
    """Return the inverse-variance combination of all measurements that determine the total (PGM E.1).

    A measurement determines the total if the row of ones is in the row space of its query Q. Its minimum-variance
    unbiased estimate of the total is then <c, answers>, with the c of least variance c^T diag(stddev^2) c subject to
    Q^T c = 1. This c has a closed form for identity and for groups of cells, and factorizes by attribute for a Kron
    with one noise scale. Otherwise it is a minimum-norm least-squares solution, computed by LSMR for large queries. If
    no measurement of a set of attributes determines the total alone, they are combined (a subset and its complement).

    Args:
        measurements: answers in counts, with independent noise.
        domain: the attributes.

    Returns:
        the estimate and its standard error. A value below 1 is raised to 1, because solvers need a positive total; the
        standard error does not change.

    Raises:
        TotalError: no measurement determines the total.
        UnknownAttributeError, MeasurementShapeError, QueryError: a measurement does not fit the domain.
    """
    domain, measurements = as_domain(domain), tuple(measurements)
    groups: dict[frozenset[str], list[LinearMeasurement]] = defaultdict(list)
    for measurement in measurements:
        measurement.check(domain)
        groups[frozenset(measurement.clique)].append(measurement)
    found = [estimate for group in groups.values() for estimate in _group_estimates(group, domain)]
    if not found:
        raise TotalError(
            f"the number of records cannot be estimated: none of the {plural(len(measurements), 'measurement')} "
            "determines it, because no combination of its queries adds up every cell once. "
            "Pass total=..., or measure it, as with a whole marginal or LinearMeasurement(noisy_count, clique=(), ...)."
        )
    precision = math.fsum(1.0 / variance for _, variance in found)
    value = math.fsum(estimate / variance for estimate, variance in found) / precision
    return TotalEstimate(max(value, 1.0), math.sqrt(1.0 / precision))


def _group_estimates(group: Sequence[LinearMeasurement], domain: Domain) -> list[tuple[float, float]]:
    """Return unbiased estimates from the measurements of one set of attributes, each with its variance.

    There is one for each measurement that determines the total. If none does, there may be one from all together.
    """
    noise = [np.broadcast_to(np.asarray(measurement.stddev), (measurement.rows,)) for measurement in group]
    weights = [_weights_of_one(measurement, deviations) for measurement, deviations in zip(group, noise, strict=True)]
    values = [measurement.values for measurement in group]
    if len(group) > 1 and all(found is None for found in weights):
        whole = Residuals(group, loss_layout(domain, [group[0].clique]), [measurement.stddev for measurement in group])
        products = _Products(
            len(whole.targets), whole.layout.cells, whole.answers, whole.transpose, whole.weighted_column_squares
        )
        weights, values, noise = [_least_variance_weights(products, whole.scales)], [whole.targets], [whole.scales]
    return [
        (float(found @ answers), float(np.sum((found * deviations) ** 2)))
        for found, answers, deviations in zip(weights, values, noise, strict=True)
        if found is not None
    ]


def _weights_of_one(measurement: LinearMeasurement, deviations: np.ndarray) -> np.ndarray | None:
    """Return the c of least variance for one measurement; None if no c has Q^T c = 1."""
    if measurement.query is None:
        return np.ones(measurement.rows)
    if isinstance(measurement.query, Grouping):
        return _group_weights(measurement.query)
    if measurement.query.attributes is not None and measurement.uniform_stddev is not None:
        factors = [_factor_weights(query) for query in measurement.query.matrices]
        known = [weights for weights in factors if weights is not None]
        return reduce(np.kron, known, np.ones(1)) if len(known) == len(factors) else None
    m = measurement
    products = _Products(m.rows, m.cells, m.answer_cells, m.transpose_cells, m.weighted_column_squares)
    return _least_variance_weights(products, deviations)


def _factor_weights(query: MatrixQuery) -> np.ndarray | None:
    """Return the shortest c with Q^T c = 1 for one factor of a Kron; that of the Kron is their Kronecker product."""
    if isinstance(query, Identity):
        return np.ones(query.rows)
    if isinstance(query, Grouping):
        return _group_weights(query)
    products = _Products(query.rows, query.cells, query.apply, query.transpose, query.weighted_column_squares)
    return _least_variance_weights(products, np.ones(query.rows))


def _group_weights(query: Grouping) -> np.ndarray:
    """Return weight 1 for each group with cells and 0 for empty groups, which only add noise."""
    return (np.bincount(query.groups, minlength=query.rows) > 0).astype(np.float64)


@dataclass(frozen=True)
class _Products:
    """A query matrix Q that is given by its products.

    Attributes:
        rows, cells: the shape of Q.
        apply, transpose: the products with Q and with Q^T.
        column_squares: maps weights to sum_r weights[r] * Q[r, j]^2 for each cell j.
    """

    rows: int
    cells: int
    apply: Callable[[np.ndarray], np.ndarray]
    transpose: Callable[[np.ndarray], np.ndarray]
    column_squares: Callable[[np.ndarray], np.ndarray]

    def transposed_matrix(self) -> np.ndarray:
        """Return Q^T as a dense array, by one product for each unit vector of Q's shorter side."""
        if self.rows <= self.cells:
            return np.stack([self.transpose(unit) for unit in np.eye(self.rows)], axis=1)
        return np.stack([self.apply(unit) for unit in np.eye(self.cells)], axis=0)


def _least_variance_weights(products: _Products, deviations: np.ndarray) -> np.ndarray | None:
    """Return the c of least variance c^T diag(deviations^2) c with Q^T c = 1; None if no c has Q^T c = 1.

    LSMR may not converge if the noise of the answers is very unequal. Then the shortest correction that ignores the
    noise is added, so that Q^T c = 1 and the estimate is unbiased in any case.
    """
    weights = np.zeros(products.rows)
    for scale in (deviations, np.ones(products.rows)):
        weights = weights + _least_squares(products, 1.0 / scale, 1.0 - products.transpose(weights)) / scale
        if np.abs(products.transpose(weights) - 1.0).max() <= TOLERANCE:
            return weights
    return None


def _least_squares(products: _Products, precision: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the minimum-norm least-squares solution d of Q^T W d = target, W = diag(precision), with scaled rows."""
    rows, cells = products.rows, products.cells
    squares = products.column_squares(precision**2)
    scaling = 1.0 / np.sqrt(np.maximum(squares, max(1e-13 * squares.max(), SMALLEST_SQUARE)))
    if rows * cells * min(rows, cells) <= DENSE_WORK:
        system = scaling[:, None] * products.transposed_matrix() * precision
        return np.linalg.lstsq(system, scaling * target, rcond=None)[0]
    from scipy.sparse.linalg import LinearOperator, lsmr

    operator: Any = LinearOperator  # the type stubs lack its constructor from functions
    system = operator(
        (cells, rows),
        matvec=lambda answers: scaling * products.transpose(precision * answers.reshape(-1)),
        rmatvec=lambda table: precision * products.apply(scaling * table.reshape(-1)),
        dtype=np.float64,
    )
    return lsmr(system, scaling * target, atol=1e-14, btol=1e-14, conlim=0.0, maxiter=LSMR_ITERATIONS)[0]
