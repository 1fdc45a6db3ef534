"""What PMW-Pub estimates with between rounds: public records, reweighted by multiplicative weights or by estimation."""

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
"""How exactly the weights are fitted between rounds, and at the end."""


class PublicRecords:
    """A support with its own weights, before anything about an attribute is measured."""

    def __init__(self, support: Support, curator: Curator):
        self.support: Support = support
        self.model: Any = _weighted(support, np.exp(support.log_weights), known_total(curator))

    def admissible(self, cliques: Iterable[Clique]) -> list[Clique]:
        """All: tables of public records take no more memory than the records."""
        return list(dict.fromkeys(cliques))


class EstimatedWeights(PublicRecords):
    """The weights that fit all measurements best, and of these the nearest to the public ones (`pgmest.estimate`)."""

    def learn(self, curator: Curator, last: bool) -> None:
        """Estimate with what was measured since.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        tolerance = FINAL_TOLERANCE if last else TOLERANCE
        self.model: Any = estimate_measured(curator, self.model, prior=self.support, tolerance=tolerance)


class ReplayedPublicWeights(PublicRecords):
    """Multiplicative weights: in each round all measurements so far are gone through several times.

    It begins with the public records' own weights, and with what was measured already.
    """

    def __init__(self, support: Support, curator: Curator, replays: int):
        super().__init__(support, curator)
        self._replays = replays
        self._p = np.exp(support.log_weights)
        self._cells: list[np.ndarray] = []
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
        self.model: Any = _weighted(self.support, self._p, self.model.total)

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
