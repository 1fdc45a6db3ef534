"""What PMW-Pub estimates with between rounds: public records, reweighted by multiplicative weights or by estimation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.data.counting import cell_numbers
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mwem.estimators import FINAL_TOLERANCE, TOLERANCE, known_total
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class PublicRecords:
    """A support with its own weights, before anything is measured."""

    def __init__(self, support: Support):
        self.support = support

    def admissible(self, cliques: Sequence[Clique]) -> list[Clique]:
        """All: tables of public records take no more memory than the records."""
        return list(dict.fromkeys(cliques))

    def start(self, curator: Curator) -> None:
        """Begin with the public records' own weights."""
        self.model = _weighted(self.support, np.exp(self.support.log_weights), known_total(curator))


class EstimatedWeights(PublicRecords):
    """The weights that fit all measurements best, and of these the nearest to the public ones (`pgmest.estimate`)."""

    def learn(self, curator: Curator, last: bool) -> None:
        """Estimate with what was measured since.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        tolerance = FINAL_TOLERANCE if last else TOLERANCE
        self.model = estimate_measured(curator, self.model, prior=self.support, tolerance=tolerance)


class ReplayedPublicWeights(PublicRecords):
    """Multiplicative weights: in each round all measurements so far are gone through several times."""

    def __init__(self, support: Support, replays: int):
        super().__init__(support)
        self._replays = replays
        self._cells: list[np.ndarray] = []

    def start(self, curator: Curator) -> None:
        """Begin with the public records' own weights, and with what was measured already."""
        super().start(curator)
        self._p = np.exp(self.support.log_weights)
        self._cells = []
        self.learn(curator, last=False)

    def learn(self, curator: Curator, last: bool) -> None:
        """Replay everything."""
        about = [measurement for measurement in curator.measurements if measurement.clique]
        records = self.support.records
        for measurement in about[len(self._cells) :]:
            columns = [records.column(name) for name in measurement.clique]
            self._cells.append(cell_numbers(columns, records.domain.project(measurement.clique).shape))
        for _ in range(self._replays):
            for measurement, cells in zip(about, self._cells, strict=True):
                self._update(measurement, cells)
        self.model = _weighted(self.support, self._p, self.model.total)

    def _update(self, measurement: LinearMeasurement, cells: np.ndarray) -> None:
        """p <- p exp(Q^T (y - n Q p) / (2 n c)), as `MultiplicativeWeights.update` has it for tables."""
        domain, total = self.support.domain.project(measurement.clique), self.model.total
        fractions = np.bincount(cells, self._p, minlength=domain.size()).reshape(domain.shape)
        residual = measurement.values.reshape(-1) - total * measurement.answer(Factor(domain, fractions))
        curvature = max(1.0, float(np.max(measurement.weighted_column_squares(1.0))))
        exponents = measurement.transpose(residual, domain).reshape(-1) / (2 * total * curvature)
        self._p = self._p * np.exp(exponents - exponents.max())[cells]
        self._p /= self._p.sum()


def _weighted(support: Support, p: np.ndarray, total: float) -> SupportModel:
    """The records of a support with these probabilities."""
    return SupportModel(Support(support.weighted(p)), CliqueVector.zeros(support.domain, []), total)
