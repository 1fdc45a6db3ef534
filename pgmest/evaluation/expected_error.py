"""What error to expect of each table that was measured, from its noise alone: of a plan before, of a release after."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class MeasuredTable:
    """A table that was measured.

    Attributes:
        clique: its attributes.
        cells: how many answers it has.
        stddev: of the noise on one of them, in records; of several measurements of one table together.
        mean_count: the records expected in a cell on average.
    """

    clique: Clique
    cells: int
    stddev: float
    mean_count: float

    @property
    def drowned(self) -> bool:
        """Whether the noise on a cell exceeds the count that it has on average."""
        return self.stddev > self.mean_count

    @property
    def error(self) -> float:
        """About the share of records that the noise alone would move, if nothing else were measured; at most 1."""
        return min(1.0, 0.5 * MEAN_ABSOLUTE * self.stddev / self.mean_count) if self.mean_count > 0 else 1.0


def measured_tables(measurements: Iterable[LinearMeasurement], records: float) -> tuple[MeasuredTable, ...]:
    """The tables measured, each once: the noise of several measurements of cells together; the smallest tables first.

    Args:
        measurements: with their noise.
        records: how many there are about, not from the private data.
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
