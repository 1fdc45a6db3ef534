"""The number of records, estimated from the measurements where it is not known (PGM E.1)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pgmest._base.errors import TotalError, plural
from pgmest.losses.base import loss_layout
from pgmest.losses.residual import Residuals
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Domain, as_domain

TOLERANCE = 1e-8  # largest |Q^T c - 1| at which answers combined by c are the total
DENSE_WORK = 2e8  # up to this many multiplications a dense least-squares solve is fast enough
LSMR_ITERATIONS = 2000
SMALLEST_SQUARE = 1e-300  # keeps the scaling of a cell that no query reads finite


@dataclass(frozen=True)
class TotalEstimate:
    """An estimated number of records and its standard error, both in counts."""

    value: float
    stddev: float


@dataclass(frozen=True)
class _Combination:
    """An unbiased estimate of the total from some answers: its value and its variance."""

    value: float
    variance: float


def estimate_total(measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]) -> TotalEstimate:
    """The inverse-variance combination of every measurement that determines the total (PGM E.1).

    A measurement determines it when the row of ones is in the row space of its query: then answers combined by the c of
    least variance c^T diag(stddev^2) c with Q^T c = 1 are its minimum-variance unbiased estimate of the total. That c
    is known in closed form for identity and for groups of cells, and per attribute for a Kron with one noise scale;
    otherwise it is the minimum-norm least-squares solution, by LSMR where the query is large. Measurements of the same
    attributes that determine the total only together (a subset and its complement) are solved together.

    Args:
        measurements: in counts, with independent noise.
        domain: the attributes.

    Returns:
        the estimate, and the standard error of the combination. A table has at least one record and solvers need a
        positive total, so a value below 1 is raised to 1; the standard error stays what it was.

    Raises:
        TotalError: no measurement determines the total.
        UnknownAttributeError, MeasurementShapeError, QueryError: a measurement does not fit the domain.
    """
    domain, measurements = as_domain(domain), tuple(measurements)
    groups: dict[frozenset[str], list[LinearMeasurement]] = defaultdict(list)
    for measurement in measurements:
        measurement.check(domain)
        groups[frozenset(measurement.clique)].append(measurement)
    found = [combination for group in groups.values() for combination in _group_combinations(group, domain)]
    if not found:
        raise TotalError(
            f"the number of records cannot be estimated: none of the {plural(len(measurements), 'measurement')} "
            "determines it, because no combination of its queries adds up every cell once. "
            "Pass total=..., or measure it, as with a whole marginal or LinearMeasurement(noisy_count, clique=(), ...)."
        )
    precision = math.fsum(1.0 / combination.variance for combination in found)
    value = math.fsum(combination.value / combination.variance for combination in found) / precision
    return TotalEstimate(max(value, 1.0), math.sqrt(1.0 / precision))


def _group_combinations(group: Sequence[LinearMeasurement], domain: Domain) -> list[_Combination]:
    """The estimates from the measurements of one set of attributes: each alone, or else all together."""
    alone = [combination for measurement in group if (combination := _from_one(measurement)) is not None]
    if alone or len(group) == 1:
        return alone
    stacked = Residuals(group, loss_layout(domain, [group[0].clique]), [measurement.stddev for measurement in group])
    products = _Products(
        len(stacked.targets),
        stacked.layout.cells,
        stacked.answers,
        stacked.transpose,
        stacked.weighted_column_squares,
    )
    weights = _shortest_weights(products, stacked.scales)
    return [] if weights is None else [_combine(weights, stacked.targets, stacked.scales)]


def _from_one(measurement: LinearMeasurement) -> _Combination | None:
    """The minimum-variance unbiased estimate from one measurement; None where it does not determine the total."""
    deviations = np.broadcast_to(np.asarray(measurement.stddev), (measurement.rows,))
    weights = _weights_of_one(measurement, deviations)
    return None if weights is None else _combine(weights, measurement.values, deviations)


def _weights_of_one(measurement: LinearMeasurement, deviations: np.ndarray) -> np.ndarray | None:
    if measurement.query is None:
        return np.ones(measurement.rows)
    if isinstance(measurement.query, Grouping):
        return _group_weights(measurement.query)
    if measurement.query.attributes is not None and measurement.uniform_stddev is not None:
        factors = [_factor_weights(query) for query in measurement.query.matrices]
        known = [weights for weights in factors if weights is not None]
        return reduce(np.kron, known, np.ones(1)) if len(known) == len(factors) else None
    products = _Products(
        measurement.rows,
        measurement.cells,
        measurement.answer_cells,
        measurement.transpose_cells,
        measurement.weighted_column_squares,
    )
    return _shortest_weights(products, deviations)


def _factor_weights(query: MatrixQuery) -> np.ndarray | None:
    """The shortest c with Q^T c = 1 for one factor of a Kron; the shortest for the Kron is their Kronecker product."""
    if isinstance(query, Identity):
        return np.ones(query.rows)
    if isinstance(query, Grouping):
        return _group_weights(query)
    products = _Products(query.rows, query.columns, query.apply, query.transpose, query.weighted_column_squares)
    return _shortest_weights(products, np.ones(query.rows))


def _group_weights(query: Grouping) -> np.ndarray:
    """Every cell is in one group: the groups count once, but for empty ones, which only add noise."""
    return (np.bincount(query.groups, minlength=query.rows) > 0).astype(np.float64)


def _combine(weights: np.ndarray, values: np.ndarray, deviations: np.ndarray) -> _Combination:
    return _Combination(float(weights @ values), float(np.sum((weights * deviations) ** 2)))


@dataclass(frozen=True)
class _Products:
    """A query matrix Q known by its products."""

    rows: int
    cells: int
    apply: Callable[[np.ndarray], np.ndarray]
    transpose: Callable[[np.ndarray], np.ndarray]
    column_squares: Callable[[np.ndarray], np.ndarray]
    """sum_r weights[r] * Q[r, j]^2 for each cell j."""

    def transposed_matrix(self) -> np.ndarray:
        """Q^T, dense, by as many products as Q's shorter side is long."""
        if self.rows <= self.cells:
            return np.stack([self.transpose(unit) for unit in np.eye(self.rows)], axis=1)
        return np.stack([self.apply(unit) for unit in np.eye(self.cells)], axis=0)


def _shortest_weights(products: _Products, deviations: np.ndarray) -> np.ndarray | None:
    """The c of least variance c^T diag(deviations^2) c with Q^T c = 1; None where no c has Q^T c = 1.

    Very unequal noise may keep LSMR from converging. What then lacks to Q^T c = 1 is made up for by the shortest
    correction, which does not know the noise: the estimate is unbiased in any case.
    """
    weights = np.zeros(products.rows)
    for scale in (deviations, np.ones(products.rows)):
        weights = weights + _least_squares(products, 1.0 / scale, 1.0 - products.transpose(weights)) / scale
        if np.abs(products.transpose(weights) - 1.0).max() <= TOLERANCE:
            return weights
    return None


def _least_squares(products: _Products, precision: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The minimum-norm least-squares solution d of Q^T W d = target, W = diag(precision), equations scaled alike."""
    rows, cells = products.rows, products.cells
    squares = products.column_squares(precision**2)
    scaling = 1.0 / np.sqrt(np.maximum(squares, max(1e-13 * squares.max(), SMALLEST_SQUARE)))
    if rows * cells * min(rows, cells) <= DENSE_WORK:
        system = scaling[:, None] * products.transposed_matrix() * precision
        return np.linalg.lstsq(system, scaling * target, rcond=None)[0]
    from scipy.sparse.linalg import LinearOperator, lsmr

    operator: Any = LinearOperator  # its stubs do not know that calling it makes one from functions
    system = operator(
        (cells, rows),
        matvec=lambda answers: scaling * products.transpose(precision * answers.reshape(-1)),
        rmatvec=lambda table: precision * products.apply(scaling * table.reshape(-1)),
        dtype=np.float64,
    )
    return lsmr(system, scaling * target, atol=1e-14, btol=1e-14, conlim=0.0, maxiter=LSMR_ITERATIONS)[0]
