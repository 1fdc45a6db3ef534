"""The error of each measured table that its noise alone causes, for a plan before a run or a release after it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The expected absolute value of a standard normal variable."""


@dataclass(frozen=True)
class MeasuredTable:
    """A measured table.

    Attributes:
        clique: the attributes of the table.
        cells: the number of answers.
        stddev: the standard deviation of the noise of one answer, in records; repeated measurements are combined.
        mean_count: the average number of records per cell.
    """

    clique: Clique
    cells: int
    stddev: float
    mean_count: float

    @property
    def noise_dominated(self) -> bool:
        """True if the standard deviation of the noise exceeds the average count of a cell."""
        return self.stddev > self.mean_count

    @property
    def error(self) -> float:
        """An estimate of the share of records that the noise moves between cells, at most 1."""
        return min(1.0, 0.5 * MEAN_ABSOLUTE * self.stddev / self.mean_count) if self.mean_count > 0 else 1.0


def measured_tables(measurements: Iterable[LinearMeasurement], records: float) -> tuple[MeasuredTable, ...]:
    """Return the measured tables, each once, with the combined noise of its measurements, the smallest cliques first.

    Args:
        measurements: the measurements.
        records: an approximate number of records, which must not be computed from private data.
    """
    precision: dict[Clique, float] = {}
    cells: dict[Clique, int] = {}
    for measurement in measurements:
        if measurement.clique:
            spread = float(np.sqrt(np.mean(np.square(measurement.stddev))))
            precision[measurement.clique] = precision.get(measurement.clique, 0.0) + spread**-2
            cells[measurement.clique] = max(measurement.rows, cells.get(measurement.clique, 0))
    found = [MeasuredTable(c, cells[c], precision[c] ** -0.5, records / cells[c]) for c in precision]
    return tuple(sorted(found, key=lambda table: (len(table.clique), table.stddev, table.cells)))
