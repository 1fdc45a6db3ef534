"""PartialAnswer: noisy answers of a partial workload, laid over the records of a prior (IDE section 3).

A partial workload has L1 norm 1: each record lies in one of its cells or in none. Whole marginals are such workloads;
any other 0/1 query falls into several of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError, count_text
from pgmest.data.counting import cell_numbers
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale
from pgmest.tables.domain import Clique

LARGEST_QUERY = 1 << 26
"""The most entries of a query matrix that is split into partial workloads."""


@dataclass(frozen=True, eq=False)
class PartialAnswer:
    """Noisy answers of one partial workload with k cells, about the records of a prior.

    Attributes:
        clique: the attributes that the workload reads.
        cells: the cell 0..k-1 of each record, k for a record in no cell; shape (records,).
        fractions: the noisy answers as fractions of the total, shape (k,); some may be negative.
        scales: the Laplace scale of each answer's noise, in counts, shape (k,).
    """

    clique: Clique
    cells: np.ndarray
    fractions: np.ndarray
    scales: np.ndarray

    def masses(self, weights: np.ndarray) -> np.ndarray:
        """The weight in each cell and, last, in none; shape (k + 1,)."""
        return np.bincount(self.cells, weights, minlength=len(self.fractions) + 1)

    def distance(self, masses: np.ndarray) -> float:
        """The L1 distance of the answers from such masses, each term over the noise's scale relative to the least."""
        return float(np.abs(masses[:-1] - self.fractions) @ (self.scales.min() / self.scales))

    def matrix(self) -> np.ndarray:
        """The partial workload as a dense 0/1 matrix, shape (k, records)."""
        return (self.cells == np.arange(len(self.fractions))[:, None]).astype(np.float64)


def partial_answers(prior: Dataset, measurements: Iterable[LinearMeasurement], total: float) -> list[PartialAnswer]:
    """The measurements as partial workloads over the prior's records.

    >>> prior = Dataset.from_codes(np.array([[0], [1], [2]]), {"age": 3})
    >>> [answer] = partial_answers(prior, [LinearMeasurement([2.0, 3.0, 5.0], "age")], total=10)
    >>> answer.cells, answer.fractions
    (array([0, 1, 2], dtype=int32), array([0.2, 0.3, 0.5]))

    Args:
        prior: the public records.
        measurements: in counts; their queries have entries 0 and 1 only.
        total: the number of private records.

    Raises:
        ArgumentError: `total` is not a positive number.
        QueryError: a query with entries other than 0 and 1, or too large to be split.
        UnknownAttributeError, MeasurementShapeError: a measurement does not fit the prior's domain.
    """
    if not 0 < total < np.inf:
        raise ArgumentError.of("total", total, "a positive number of records")
    found: list[PartialAnswer] = []
    for measurement in measurements:
        measurement.check(prior.domain)
        found += _split(prior, measurement, total)
    return found


def _split(prior: Dataset, measurement: LinearMeasurement, total: float) -> list[PartialAnswer]:
    """One measurement as partial workloads: a marginal is one, and rows of a query that overlap go into several."""
    records = record_cells(prior, measurement.clique)
    deviations = np.broadcast_to(np.asarray(measurement.stddev, dtype=np.float64), (measurement.rows,))
    scales = noise_scale("laplace", 1.0) * deviations
    fractions = measurement.values / total
    if measurement.query is None:
        return [PartialAnswer(measurement.clique, records, fractions, scales)]
    if measurement.rows * measurement.cells > LARGEST_QUERY:
        raise QueryError(
            f"the query measured on {measurement.clique} has {count_text(measurement.rows * measurement.cells)} "
            f"entries, more than {LARGEST_QUERY:,}: measure the marginal itself, or fewer rows at a time."
        )
    split = []
    for rows, owner in _disjoint_rows(measurement):
        split.append(PartialAnswer(measurement.clique, owner[records], fractions[rows], scales[rows]))
    return split


def _disjoint_rows(measurement: LinearMeasurement) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of rows that share no cell, first fit; with each, the position in it of the row that owns each cell."""
    batches: list[tuple[list[int], np.ndarray]] = []
    for row, unit in enumerate(np.eye(measurement.rows)):
        weights = measurement.transpose_cells(unit).reshape(-1)
        covered = weights == 1.0
        if not np.all(covered | (weights == 0.0)):
            raise QueryError(
                f"row {row} of the query measured on {measurement.clique} has entries other than 0 and 1; "
                "an update by cells needs counts of records, so measure the marginal or sums of its cells."
            )
        fitting = next((batch for batch in batches if not np.any(covered & (batch[1] >= 0))), None)
        if fitting is None:
            fitting = ([], np.full(len(weights), -1, dtype=np.int32))
            batches.append(fitting)
        fitting[1][covered] = len(fitting[0])
        fitting[0].append(row)
    return [(np.array(rows), np.where(owner < 0, np.int32(len(rows)), owner)) for rows, owner in batches]


def record_cells(data: Dataset, clique: Clique) -> np.ndarray:
    """The row-major cell of each record in the marginal on `clique`, shape (records,)."""
    if not clique:
        return np.zeros(data.records, dtype=np.int32)
    columns = [data.column(name) for name in clique]
    return cell_numbers(columns, data.domain.project(clique).shape).astype(np.int32)
