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
from pgmest.solvers.likely_values import likely_values
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
    """An estimated number of records and its standard error, both in counts.

    Attributes:
        value: the estimate, at least 0.
        stddev: the standard error; 0 if exact answers, or the stated total of percentages, determine the total.
    """

    value: float
    stddev: float

    @property
    def known(self) -> bool:
        """True if the total is a fact, without noise or rounding."""
        return self.stddev == 0.0


def estimate_total(measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]) -> TotalEstimate:
    """Return the total that the measurements determine: the exact one, or else their inverse-variance combination.

    A measurement determines the total if the row of ones is in the row space of its query Q. Its minimum-variance
    unbiased estimate of the total is then <c, answers>, with the c of least variance c^T diag(stddev^2) c subject to
    Q^T c = 1 (PGM E.1). This c has a closed form for identity and for groups of cells, and factorizes by attribute for
    a Kron with one noise scale. Otherwise it is a minimum-norm least-squares solution, computed by LSMR for large
    queries. If no measurement of a set of attributes determines the total alone, they are combined (a subset and its
    complement).

    Answers without noise come first: if exact ones determine the total, it is their sum, whatever noisy ones say; next
    come percentages of a stated total. Unbiased random roundings count as published, with the variance of the rounding.
    Other answers between two ends count with likely values between them (`likely_values`). The estimate lies in the
    range of sums that every such measurement allows.

    Args:
        measurements: answers in counts, with independent noise.
        domain: the attributes.

    Returns:
        the estimate and its standard error. An estimate without noise may be 0, or below 1. A noisy one is raised to
        one record or to its standard error, whichever is less, because noise cannot tell so few records from none.

    Raises:
        TotalError: no measurement determines the total.
        UnknownAttributeError, ShapeError, QueryError: a measurement does not fit the domain.
    """
    domain, measurements = as_domain(domain), tuple(measurements)
    groups: dict[frozenset[str], list[LinearMeasurement]] = defaultdict(list)
    for measurement in measurements:
        measurement.check(domain)
        groups[frozenset(measurement.clique)].append(measurement)
    found = [evidence for group in groups.values() for evidence in _group_evidence(group, domain)]
    stated = [measurement.stated_total for measurement in measurements if measurement.stated_total is not None]
    facts = [evidence.value for evidence in found if evidence.variance == 0.0] or stated
    if facts:
        return TotalEstimate(max(math.fsum(facts) / len(facts), 0.0), 0.0)
    if not found:
        raise TotalError(
            f"the number of records cannot be estimated: none of the {plural(len(measurements), 'measurement')} "
            "determines it, because no combination of its queries adds up every cell once. "
            "Pass total=..., or measure it, as with a whole marginal or LinearMeasurement(noisy_count, clique=(), ...)."
        )
    return _combined(found, least_total(measurements))


@dataclass(frozen=True)
class _Evidence:
    """An estimate of the total from one measurement, or from several of the same attributes.

    Attributes:
        value: the estimate.
        variance: its variance; 0 if the answers are exact.
        low, high: the ends of the sums that the answers allow, infinite with noise.
    """

    value: float
    variance: float
    low: float
    high: float


def least_total(measurements: Iterable[LinearMeasurement]) -> float:
    """Return a total that answers without noise need at least, found from those of each set of attributes alone."""
    groups: dict[frozenset[str], list[LinearMeasurement]] = defaultdict(list)
    for measurement in measurements:
        groups[frozenset(measurement.clique)].append(measurement)
    return max(map(_least_total, groups.values()), default=0.0)


def _least_total(group: Sequence[LinearMeasurement]) -> float:
    """Return a total that answers without noise need at least, those of one set of attributes.

    Answers that add up cells, each in at most s answers, need a total of at least 1/s of their sum.
    """
    least, everywhere, lows = 0.0, 0.0, 0.0
    for measurement in group:
        if measurement.low is None:
            continue
        times, squares = (
            measurement.transpose_cells(np.ones(measurement.rows)),
            measurement.weighted_column_squares(1.0),
        )
        if not np.allclose(times, squares):  # not a matrix of zeros and ones
            continue
        low = math.fsum(np.maximum(measurement.low, 0.0))
        least = max(least, low / max(times.max(), 1.0))
        if measurement.clique == group[0].clique:
            everywhere, lows = everywhere + times, lows + low
    return max(least, lows / max(float(np.max(everywhere)), 1.0))


def _combined(found: Sequence[_Evidence], least: float) -> TotalEstimate:
    """Return the inverse-variance combination of estimates with noise or ends, in the range that all allow.

    The total is at least `least`.
    """
    precision = math.fsum(1.0 / evidence.variance for evidence in found)
    value = math.fsum(evidence.value / evidence.variance for evidence in found) / precision
    stddev = math.sqrt(1.0 / precision)
    low, high = max(least, *(one.low for one in found)), min(one.high for one in found)
    if low <= high:
        value = min(max(value, low), high)
    return TotalEstimate(max(value, min(stddev, 1.0, high if high > 0 else 1.0)), stddev)


def _group_evidence(group: Sequence[LinearMeasurement], domain: Domain) -> list[_Evidence]:
    """Return estimates from the measurements of one set of attributes.

    There is one for each measurement that determines the total. If none does, there may be one from all together. If
    exact measurements determine the total, the others are left out.
    """
    exact = [measurement for measurement in group if measurement.exact_rows.all()]
    if 0 < len(exact) < len(group) and (found := _group_evidence(exact, domain)):
        return found
    answers = [_Answers.of(measurement) for measurement in group]
    weights = [_weights_of_one(measurement, a.deviations) for measurement, a in zip(group, answers, strict=True)]
    if len(group) > 1 and all(found is None for found in weights):
        whole = Residuals(group, loss_layout(domain, [group[0].clique]), [a.deviations for a in answers])
        products = _Products(
            len(whole.targets), whole.layout.cells, whole.answers, whole.transpose, whole.weighted_column_squares
        )
        weights, answers = [_least_variance_weights(products, whole.scales)], [_Answers.joined(answers)]
    return [a.total(found) for found, a in zip(weights, answers, strict=True) if found is not None]


@dataclass(frozen=True)
class _Answers:
    """The answers of a measurement as estimates of the true ones; all arrays have one entry per answer.

    Attributes:
        values: the estimates.
        deviations: their standard deviations; EXACT_STDDEV for exact answers, so that weights stay finite.
        low, high: the ends of the true answers, infinite with noise.
        shift: the distance of the estimates from the middles of the ends, an error that the answers share.
    """

    values: np.ndarray
    deviations: np.ndarray
    low: np.ndarray
    high: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, measurement: LinearMeasurement) -> _Answers:
        """Return the answers of one measurement."""
        rows, values = measurement.rows, measurement.values
        deviations = np.broadcast_to(np.asarray(measurement.stddev), (rows,))
        if measurement.low is None or measurement.high is None:
            unbounded = np.full(rows, np.inf)
            return cls(values, deviations, -unbounded, unbounded, np.zeros(rows))
        low, high = measurement.low, measurement.high
        likely = values
        if measurement.base is None and (measurement.query is None or isinstance(measurement.query, Grouping)):
            likely = likely_values(low, high)
        return cls(likely, deviations, low, high, likely - values)

    @classmethod
    def joined(cls, parts: Sequence[_Answers]) -> _Answers:
        """Return the answers of several measurements, one after the other."""
        names = ("values", "deviations", "low", "high", "shift")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def total(self, weights: np.ndarray) -> _Evidence:
        """Return the estimate of the total that the answers give with these weights c, where Q^T c = 1."""
        used = weights != 0.0
        c, low, high = weights[used], self.low[used], self.high[used]
        unsure = low != high
        noise = float(np.sum((c * self.deviations[used])[unsure] ** 2))
        ends = np.sort(np.stack([c * low, c * high]), axis=0)
        shared = float(np.dot(c, self.shift[used]))
        return _Evidence(
            float(np.dot(c, self.values[used])), noise + shared**2, float(ends[0].sum()), float(ends[1].sum())
        )


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
