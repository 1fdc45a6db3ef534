"""Noisy counts moved towards what is expected of them, by how much the noise alone explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from pgmest.mechanisms.pgm.mixture import NOTHING_KNOWN, Mixture, shrunk
from pgmest.mechanisms.pgm.offers import interaction
from pgmest.synthesis.consistency import norm_sub

Name = TypeVar("Name", bound=Hashable)

LEAST_SUM = 1e-200
"""Of counts; smaller sums are nothing."""
LEAST_SHARE, LEAST_NOISE = 1e-3, 1e-2
"""A cell is given at least the first share of what is expected of it, or where that is less the second of the noise's
standard deviation: a probability of zero could not be revised."""


def clearly_less(
    differences: Mapping[Name, float], errors: Mapping[Name, float], whole: float = -1.0, alone: float = 0.0
) -> set[Name]:
    """Where noisy differences are below zero, each judged by the others, too.

    A difference must be three standard errors below zero, since among many some are low by chance. Where the sum of all
    is below `whole` of its own, one by itself must only be below `alone` of its own: what is too small to be judged
    alone goes with the others, and what is clearly unlike them does not.

    >>> clearly_less({"a": -4.0, "b": 0.5, "c": 2.0}, {"a": 1.0, "b": 1.0, "c": 1.0}) == {"a"}
    True
    >>> sorted(clearly_less({"a": -9.0, "b": 0.5, "c": 2.0}, {"a": 1.0, "b": 1.0, "c": 1.0}, alone=1.0))
    ['a', 'b']

    Args:
        differences: such as of two noisy distances.
        errors: their standard errors.
        whole, alone: see above.
    """
    together = sum(differences.values()) < whole * math.sqrt(sum(error**2 for error in errors.values()))
    return {name for name, found in differences.items() if found < (alone if together else -3.0) * errors[name]}


def fitted_to(table: np.ndarray, rows: np.ndarray, columns: np.ndarray, rounds: int = 200) -> np.ndarray:
    """A table without negative entries, scaled along rows and columns in turn until it has these sums."""
    for _ in range(rounds):
        table = table * ratios(rows, table.sum(axis=1))[:, None]
        table = table * ratios(columns, table.sum(axis=0))
        if np.abs(table.sum(axis=1) - rows).sum() <= 1e-4 * rows.sum():
            break
    return table


@dataclass(frozen=True, eq=False)
class NoisyPair:
    """The noisy counts of a pair of attributes whose one-way marginals are known better.

    Attributes:
        values: the noisy counts, moved evenly to the one-way marginals.
        expected: a table that has them.
        stddev: of the noise in a cell, the one-way marginals given.
        rows, columns: the one-way marginals.
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
        """From the noisy table, given the expected one (see `Answer.table`): independence, if nothing else is."""
        around = np.outer(rows, columns) / rows.sum() if expected is None else expected
        return cls(_with_sums(measured(around), rows, columns), around, stddev, rows, columns)

    @cached_property
    def mixture(self) -> Mixture:
        """What each prior makes of the counts."""
        return Mixture.of(self.values, self.expected, self.stddev, interaction(self.values.shape))

    def risk(self) -> float:
        """The squared error to expect of `table`, by the noisy counts themselves: see `shrinkage_risk`."""
        return self.mixture.risk(NOTHING_KNOWN)

    def table(self, before: np.ndarray = NOTHING_KNOWN) -> np.ndarray:
        """Shrunk towards what is expected, without negative counts, with the one-way marginals.

        Args:
            before: the weights of the priors; see `shrunk`.
        """
        total = self.rows.sum()
        table = norm_sub(self.expected + self.mixture.estimate(before), total)
        least = np.minimum(LEAST_SHARE * self.expected, max(LEAST_NOISE * self.stddev, 1e-9 * total))
        return fitted_to(np.maximum(table, least), self.rows, self.columns)


def _with_sums(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Noisy counts moved evenly to these sums."""
    values = values + ((rows - values.sum(axis=1)) / values.shape[1])[:, None]
    return values + (columns - values.sum(axis=0)) / values.shape[0]


def ratios(wanted: np.ndarray, sums: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """What to multiply tables by to have the sums wanted; `otherwise` where there is nothing that could be scaled.

    Counts of independent attributes can be as small as 1e-310, and ratios to these are no numbers.
    """
    return np.divide(wanted, sums, out=np.full(np.shape(sums), otherwise), where=sums > LEAST_SUM)


def fitted_to_margins(table: np.ndarray, margins: Mapping[tuple[int, ...], np.ndarray], rounds: int = 50) -> np.ndarray:
    """A table without negative entries, scaled in turn until it has these marginals (iterative proportional fitting).

    Args:
        table: of several attributes.
        margins: by their axes, in order.
        rounds: at most.
    """
    for _ in range(rounds):
        off = 0.0
        for axes, wanted in margins.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            sums = table.sum(axis=others)
            off += float(np.abs(sums - wanted).sum())
            table = table * np.expand_dims(ratios(wanted, sums), others)
        if off <= 1e-3 * float(table.sum()):
            break
    return table


def three_way(measured: Callable[[np.ndarray], np.ndarray], stddev: float, expected: np.ndarray) -> np.ndarray:
    """The table of three attributes from its noisy counts, as `NoisyPair`; that it has the pairs must be seen to after.

    Args:
        measured: the noisy table, given the expected one; see `Answer.table`.
        stddev: of the noise in a cell, the pairs given.
        expected: with the pairs that are known, and without an interaction of all three.
    """
    off = measured(expected) - expected
    for axis in range(off.ndim):
        off = off - off.mean(axis=axis, keepdims=True)
    total = float(expected.sum())
    table = norm_sub(shrunk(expected + off, expected, stddev, interaction(off.shape)), total)
    return np.maximum(table, np.minimum(LEAST_SHARE * expected, max(LEAST_NOISE * stddev, 1e-9 * total)))
