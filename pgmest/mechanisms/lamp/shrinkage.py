"""Shrinkage of the noisy tables of pairs and triples, and iterative proportional fitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.mechanisms.lamp.candidates import interaction_fraction
from pgmest.models.errors.mixture import NOTHING_KNOWN, PriorMixture, shrunk
from pgmest.synthesis.consistency import norm_sub

LEAST_SUM = 1e-200
"""Sums of counts below this are treated as zero."""
LEAST_SHARE, LEAST_NOISE = 1e-3, 1e-2
"""The smallest estimate of a cell: the first number times its expected count, but at most the second times the standard
deviation of the noise. Fitting cannot change a cell of zero."""
PROJECTIONS = 20
"""The number of times that changes of counts in possible cells are shifted to have rows and columns of sum zero."""


def ipf_two_way(table: np.ndarray, rows: np.ndarray, columns: np.ndarray, rounds: int = 200) -> np.ndarray:
    """Return a nonnegative table, scaled along rows and columns in turn until it has the given sums."""
    sums, near = table.sum(axis=1), 1e-4 * rows.sum()
    for _ in range(rounds):
        table = table * safe_ratios(rows, sums)[:, None]
        table *= safe_ratios(columns, table.sum(axis=0))
        sums = table.sum(axis=1)
        if np.abs(sums - rows).sum() <= near:
            break
    return table


@dataclass(frozen=True, eq=False)
class NoisyPair:
    """The noisy counts of a pair, given its one-way marginals.

    Attributes:
        values: The noisy counts, shifted evenly to have the one-way marginals.
        expected: The expected counts, which have the same one-way marginals.
        stddev: The standard deviation of the noise in a cell, given the one-way marginals.
        rows, columns: The one-way marginals.
    """

    values: np.ndarray
    expected: np.ndarray
    stddev: float
    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(
        cls,
        measured: Callable[[np.ndarray], np.ndarray],
        stddev: float,
        rows: np.ndarray,
        columns: np.ndarray,
        expected: np.ndarray | None = None,
    ) -> NoisyPair:
        """Create the pair from its noisy table, a function of the expected one (`Answer.table`)."""
        around = np.outer(rows, columns) / rows.sum() if expected is None else expected
        values = _with_sums(measured(around), rows, columns)
        if not around.all():
            values = around + _within(values - around, around > 0)
        return cls(values, around, stddev, rows, columns)

    @cached_property
    def mixture(self) -> PriorMixture:
        """The estimates of the table under each prior."""
        return PriorMixture.of(self.values, self.expected, self.stddev, interaction_fraction(self.values.shape))

    def risk(self) -> float:
        """Return the expected squared error of `table`, estimated from the noisy counts; see `shrinkage_risk`."""
        return self.mixture.risk(NOTHING_KNOWN)

    def table(self, before: np.ndarray = NOTHING_KNOWN) -> np.ndarray:
        """Return the counts shrunk towards the expected ones, positive and with the one-way marginals.

        Args:
            before: The prior weights; see `shrunk`.
        """
        total = self.rows.sum()
        table = norm_sub(self.expected + self.mixture.estimate(before), total)
        if not self.expected.all():
            table = np.where(self.expected > 0, table, 0.0)
        least = np.minimum(LEAST_SHARE * self.expected, max(LEAST_NOISE * self.stddev, 1e-9 * total))
        return ipf_two_way(np.maximum(table, least), self.rows, self.columns)


def _with_sums(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return noisy counts shifted evenly to have the given sums."""
    values = values + ((rows - values.sum(axis=1)) / values.shape[1])[:, None]
    return values + (columns - values.sum(axis=0)) / values.shape[0]


def _within(off: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Return changes of counts that are zero in impossible cells, with rows and columns of sum zero."""
    off = np.where(possible, off, 0.0)
    cells = [np.maximum(possible.sum(axis=axis, keepdims=True), 1) for axis in (0, 1)]
    for _ in range(PROJECTIONS):
        for axis in (0, 1):
            off = np.where(possible, off - off.sum(axis=axis, keepdims=True) / cells[axis], 0.0)
    return off


def safe_ratios(wanted: np.ndarray, sums: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """Return the ratios of wanted sums to sums, and `otherwise` if a sum is at most `LEAST_SUM`.

    Counts of independent attributes can be as small as 1e-310, whose ratios overflow.
    """
    return np.divide(wanted, sums, out=np.full(np.shape(sums), otherwise), where=sums > LEAST_SUM)


def ipf(table: np.ndarray, margins: Mapping[tuple[int, ...], np.ndarray], rounds: int = 50) -> np.ndarray:
    """Return a nonnegative table, scaled in turn to given marginals (iterative proportional fitting).

    Args:
        table: The table of several attributes.
        margins: The marginals by their axes, in ascending order.
        rounds: The largest number of rounds.
    """
    for _ in range(rounds):
        off = 0.0
        for axes, wanted in margins.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            sums = table.sum(axis=others)
            off += float(np.abs(sums - wanted).sum())
            table = table * np.expand_dims(safe_ratios(wanted, sums), others)
        if off <= 1e-3 * float(table.sum()):
            break
    return table


def shrunk_triple(measured: Callable[[np.ndarray], np.ndarray], stddev: float, expected: np.ndarray) -> np.ndarray:
    """Return the shrunk table of a triple, as `NoisyPair.table`, but without fitting it to the pairs.

    Args:
        measured: The noisy table as a function of the expected one; see `Answer.table`.
        stddev: The standard deviation of the noise in a cell, given the pairs.
        expected: The expected counts, which have the known pairs and no three-way interaction.
    """
    off = measured(expected) - expected
    for axis in range(off.ndim):
        off = off - off.mean(axis=axis, keepdims=True)
    total = float(expected.sum())
    table = norm_sub(shrunk(expected + off, expected, stddev, interaction_fraction(off.shape)), total)
    return np.maximum(table, np.minimum(LEAST_SHARE * expected, max(LEAST_NOISE * stddev, 1e-9 * total)))
