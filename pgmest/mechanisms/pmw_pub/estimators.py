"""The estimators of PMW-Pub: public records, reweighted by multiplicative weights or by maximum likelihood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.data.counting import cell_numbers
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.estimation import estimate_measured, known_total
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

TOLERANCE, FINAL_TOLERANCE = 1e-2, 1e-3
"""The relative tolerance of the weights between rounds, where a coarse fit ranks the items, and in the last fit."""


class PublicRecords:
    """The public records with their public weights: the model before the first measurement."""

    def __init__(self, support: Support, curator: Curator):
        self.support: Support = support
        self.model: Any = _weighted(support, np.exp(support.log_weights), known_total(curator))

    def admissible(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return all cliques: the size of the model does not depend on the measurements."""
        return list(dict.fromkeys(cliques))


class EstimatedWeights(PublicRecords):
    """The weights that fit all measurements best and, among equal fits, are nearest to the public weights."""

    def learn(self, curator: Curator, last: bool) -> None:
        """Fit the weights to all measurements.

        Raises:
            KeyboardInterrupt: if the user interrupts.
        """
        tolerance = FINAL_TOLERANCE if last else TOLERANCE
        self.model: Any = estimate_measured(curator, self.model, prior=self.support, tolerance=tolerance)


class ReplayedPublicWeights(PublicRecords):
    """Multiplicative weights: each round updates several times with all measurements so far.

    The weights start at the public weights and learn the measurements that the curator already has.
    """

    def __init__(self, support: Support, curator: Curator, replays: int):
        super().__init__(support, curator)
        self._replays = replays
        self._p = np.exp(support.log_weights)
        self._cells: list[np.ndarray] = []
        self.learn(curator, last=False)

    def learn(self, curator: Curator, last: bool) -> None:
        """Update `replays` times with every measurement."""
        about = [measurement for measurement in curator.measurements if measurement.clique]
        records = self.support.records
        for measurement in about[len(self._cells) :]:
            columns = [records.column(name) for name in measurement.clique]
            self._cells.append(cell_numbers(columns, records.domain.project(measurement.clique).shape))
        for _ in range(self._replays):
            for measurement, cells in zip(about, self._cells, strict=True):
                self._update(measurement, cells)
        self.model: Any = _weighted(self.support, self._p, self.model.total)

    def _update(self, measurement: LinearMeasurement, cells: np.ndarray) -> None:
        """Update p <- p exp(Q^T (y - n Q p) / (2 n c)), as `MultiplicativeWeights.update` does for tables."""
        domain, total = self.support.domain.project(measurement.clique), self.model.total
        fractions = np.bincount(cells, self._p, minlength=domain.size()).reshape(domain.shape)
        residual = measurement.values.reshape(-1) - total * measurement.answer(Factor(domain, fractions))
        curvature = max(1.0, float(np.max(measurement.weighted_column_squares(1.0))))
        exponents = (measurement.transpose(residual, domain).reshape(-1) / (2 * total * curvature))[cells]
        self._p = self._p * np.exp(np.minimum(exponents - exponents[self._p > 0].max(), 0.0))
        self._p /= self._p.sum()


def _weighted(support: Support, p: np.ndarray, total: float) -> SupportModel:
    """Return the records of a support with the probabilities p."""
    return SupportModel(Support(support.weighted(p)), CliqueVector.zeros(support.domain, []), total)
