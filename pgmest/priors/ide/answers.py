"""PartialAnswer: noisy answers to a partial workload, and the cells of a prior's records (IDE section 3).

A partial workload has L1 norm 1: each record lies in at most one of its cells. A whole marginal is a partial workload;
any other 0/1 query is split into several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.data.counting import cell_numbers
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, QueryError, count_text
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale
from pgmest.tables.domain import Clique

LARGEST_QUERY = 1 << 26
"""The largest number of entries of a query matrix that is split into partial workloads; they are read row by row."""


@dataclass(frozen=True, eq=False)
class PartialAnswer:
    """The noisy answers to one partial workload with k cells, and the cell of each record of a prior.

    Attributes:
        clique: the attributes of the workload.
        cells: the cell 0..k-1 of each record, k for a record in no cell; shape (records,).
        fractions: the noisy answers as fractions of the total, shape (k,); they may be negative.
        scales: the Laplace scale of each answer's noise, in counts, shape (k,).
    """

    clique: Clique
    cells: np.ndarray
    fractions: np.ndarray
    scales: np.ndarray

    def masses(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the weights of each cell's records and, last, of the records in no cell; shape (k + 1,)."""
        return np.bincount(self.cells, weights, minlength=len(self.fractions) + 1)

    def distance(self, masses: np.ndarray) -> float:
        """Return the L1 distance of the answers from masses; each term is divided by its relative noise scale.

        The relative noise scale of an answer is its noise scale over the smallest one of the workload.
        """
        return float(np.abs(masses[:-1] - self.fractions) @ (self.scales.min() / self.scales))


def partial_answers(prior: Dataset, measurements: Iterable[LinearMeasurement], total: float) -> list[PartialAnswer]:
    """Return the measurements as partial workloads over the prior's records.

    >>> prior = Dataset.from_codes(np.array([[0], [1], [2]]), {"age": 3})
    >>> [answer] = partial_answers(prior, [LinearMeasurement([2.0, 3.0, 5.0], "age")], total=10)
    >>> answer.cells, answer.fractions
    (array([0, 1, 2], dtype=int32), array([0.2, 0.3, 0.5]))

    Args:
        prior: the public records.
        measurements: measurements in counts whose queries have entries 0 and 1 only.
        total: the number of private records.

    Raises:
        ArgumentError: `total` is not a positive number.
        QueryError: a query has entries other than 0 and 1, or is too large to be split.
        UnknownAttributeError, ShapeError: a measurement does not fit the prior's domain.
    """
    if not 0 < total < np.inf:
        raise ArgumentError.of("total", total, "a positive number of records")
    found: list[PartialAnswer] = []
    for measurement in measurements:
        measurement.check(prior.domain)
        found += _split(prior, measurement, total)
    return found


def _split(prior: Dataset, measurement: LinearMeasurement, total: float) -> list[PartialAnswer]:
    """Return one measurement as partial workloads: one for a marginal, several for a query whose rows overlap."""
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
    """Return sets of rows that share no cell, found by first fit.

    With each set comes, for each cell of the marginal, the position in the set of the row that contains the cell; the
    number of rows if no row does.
    """
    batches: list[tuple[list[int], np.ndarray]] = []
    for row, unit in enumerate(np.eye(measurement.rows)):
        weights = measurement.transpose_cells(unit).reshape(-1)
        covered = weights == 1.0
        if not np.all(covered | (weights == 0.0)):
            raise QueryError(
                f"row {row} of the query measured on {measurement.clique} has entries other than 0 and 1; "
                "the update needs counts of records, so measure the marginal or sums of its cells."
            )
        fitting = next((batch for batch in batches if not np.any(covered & (batch[1] >= 0))), None)
        if fitting is None:
            fitting = ([], np.full(len(weights), -1, dtype=np.int32))
            batches.append(fitting)
        fitting[1][covered] = len(fitting[0])
        fitting[0].append(row)
    return [(np.array(rows), np.where(owner < 0, np.int32(len(rows)), owner)) for rows, owner in batches]


def record_cells(data: Dataset, clique: Clique) -> np.ndarray:
    """Return the row-major cell of each record in the marginal on `clique`, shape (records,)."""
    if not clique:
        return np.zeros(data.records, dtype=np.int32)
    columns = [data.column(name) for name in clique]
    return cell_numbers(columns, data.domain.project(clique).shape).astype(np.int32)
