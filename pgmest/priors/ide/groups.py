"""One level of IDE Algorithm 2: the noisy answers for all groups, and the update of one group's distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import noise_scale
from pgmest.priors.ide.answers import PartialAnswer, record_cells
from pgmest.priors.ide.penalized import penalized_update
from pgmest.priors.ide.sweeps import Order
from pgmest.priors.ide.update import iterative_update
from pgmest.sampling.systematic import systematic_sample
from pgmest.tables.domain import Clique

TotalsFrom = Literal["all", "counts"]
"""The answers that a group's total is computed from: its count and all table sums, or its count alone."""


@dataclass(frozen=True)
class Prior:
    """A distribution over some of the public records: their rows, and their weights, which sum to 1."""

    rows: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class _GroupTable:
    """The noisy tables of one clique in all groups.

    Attributes:
        clique: the attributes of the tables, without those that define the groups.
        cells: the cell of each public record, shape (public records,).
        values: the noisy counts, shape (groups, cells).
        scale: the Laplace scale of the noise, in counts.
    """

    clique: Clique
    cells: np.ndarray
    values: np.ndarray
    scale: float


@dataclass(frozen=True)
class AnswersByGroup:
    """The noisy answers for all groups of a level, and the group of each public record.

    Attributes:
        by: the attributes whose values define a group.
        groups: the group of each public record, shape (public records,).
        sizes: the number of public records of each group, shape (groups,).
        totals: the noisy number of private records of each group, at least 0, shape (groups,).
        tables: the noisy marginals of the groups.
    """

    by: Clique
    groups: np.ndarray
    sizes: np.ndarray
    totals: np.ndarray
    tables: tuple[_GroupTable, ...]

    @classmethod
    def of(
        cls,
        public: Dataset,
        by: Clique,
        counts: LinearMeasurement | None,
        marginals: Sequence[LinearMeasurement],
        totals_from: TotalsFrom = "all",
    ) -> AnswersByGroup:
        """Return the answers by group.

        A group's total is the inverse-variance mean of its count and table sums, or with totals_from="counts" its count
        rounded down.
        """
        groups, size = record_cells(public, by), public.domain.size(by)
        tables, precision, sums = [], np.zeros(size), np.zeros(size)
        for measurement in marginals:
            clique = measurement.clique[len(by) :]
            values = measurement.values.reshape(size, -1)
            deviation = float(np.max(measurement.stddev))
            scale = deviation * noise_scale("laplace", 1.0)
            tables.append(_GroupTable(clique, record_cells(public, clique), values, scale))
            sums += values.sum(axis=1) / (values.shape[1] * deviation**2)
            precision += 1.0 / (values.shape[1] * deviation**2)
        if counts is not None:
            sums += counts.values / np.square(counts.stddev)
            precision += 1.0 / np.square(counts.stddev)
        totals = np.maximum(np.divide(sums, precision, out=np.zeros(size), where=precision > 0), 0.0)
        if totals_from == "counts" and counts is not None:
            totals = np.floor(np.maximum(counts.values, 0.0))
        return cls(by, groups, np.bincount(groups, minlength=size), totals, tuple(tables))

    def answers(self, group: int, rows: np.ndarray) -> list[PartialAnswer]:
        """Return one group's noisy answers as partial workloads over the public records `rows`."""
        total = max(float(self.totals[group]), 1.0)
        return [
            PartialAnswer(
                table.clique,
                table.cells[rows],
                table.values[group] / total,
                np.full(table.values.shape[1], table.scale),
            )
            for table in self.tables
        ]


@dataclass(frozen=True)
class GroupUpdate:
    """PRIOR_UPDATE of IDE Algorithm 2, with the settings of `synthesize_hierarchy`."""

    prior_weight: float
    pooling: float
    max_support: int | None
    max_sweeps: int
    tolerance: float
    order: Order = "sweeps"
    refill: bool = False

    def __call__(self, grouped: AnswersByGroup, group: int, parent: Prior, generator: np.random.Generator) -> Prior:
        """Return the group's distribution: the prior from the parent's distribution, updated by the noisy answers."""
        prior = self._prior(grouped, group, parent, generator)
        answers = grouped.answers(group, prior.rows)
        if not answers:
            return prior
        limits = (self.max_sweeps, self.tolerance, generator)
        if self.prior_weight > 0:
            bounds = [1.0 / (self.prior_weight * answer.scales) for answer in answers]
            weights = penalized_update(prior.weights, answers, bounds, *limits, None, self.order)[0]
        else:
            weights = iterative_update(prior.weights, answers, *limits, None, self.order, self.refill)[0]
        held = (weights > 0) | self.refill
        return Prior(prior.rows[held], weights[held])

    def _prior(self, grouped: AnswersByGroup, group: int, parent: Prior, generator: np.random.Generator) -> Prior:
        """Return the parent's distribution, mixed with that of the group's public records, thinned to `max_support`."""
        weights = parent.weights
        if np.isfinite(self.pooling):
            own = weights * (grouped.groups[parent.rows] == group)
            if own.sum() > 0:
                size = float(grouped.sizes[group])
                weights = (own * (size / own.sum()) + weights * self.pooling) / (size + self.pooling)
        if self.max_support is None or len(weights) <= self.max_support:
            return Prior(parent.rows, weights)
        rows, copies = np.unique(systematic_sample(weights, self.max_support, generator), return_counts=True)
        return Prior(parent.rows[rows], copies / self.max_support)
