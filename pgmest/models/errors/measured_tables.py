"""MeasuredTable: a table that was measured, with the errors of its interaction; one-way marginals are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.models.errors.mixture import PriorMixture
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.table_answers import TableAnswer

TAILS = 4.0 ** np.arange(-1, 5)
TAIL_WEIGHTS = np.array([0.25, 0.45, 0.2, 0.07, 0.02, 0.01])
"""The squared deviation of a single cell, relative to that of a typical cell of its size, and how likely it is: the
deviations of the cells of a table have heavier tails than normal ones."""
LIKELY = 1e-3
"""Priors with less weight than this share of the largest one are left out."""


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A noisy table with its deviations from the expected table, over groups of codes.

    Attributes:
        answer: the noisy table.
        off: its deviations from the expected table, without those of its margins.
        stddev: the standard deviation of the noise in `off`.
        mixture: the estimates of `off` without noise.
    """

    answer: TableAnswer
    off: np.ndarray
    stddev: float
    mixture: PriorMixture

    @classmethod
    def of(cls, answer: TableAnswer, tables: ModelTables) -> MeasuredTable:
        """Compare an answer with the table expected from the marginals of fewer attributes."""
        expected = answer.grouped(tables.expected(answer.clique))
        off = centered(answer.beyond(expected)[None])[0]
        stddev = max(answer.stddev * math.prod(side.centered_spread for side in answer.sides), 1e-9)
        free = math.prod(1 - 1 / groups for groups in off.shape if groups > 1)
        return cls(answer, off, stddev, PriorMixture.of(expected + off, expected, stddev, free))

    def shrunk(self, before: np.ndarray) -> ShrunkTable:
        """Shrink the deviations, given the prior weights of `mixture`."""
        weights = self.mixture.weights(before)
        kept = (weights @ self.mixture.kept)[self.mixture.kind].reshape(self.off.shape)
        squares = self._squared_errors(weights, kept)
        lost = np.sqrt(np.maximum(squares - np.square(kept * self.stddev), 0.0))
        return ShrunkTable(self.answer, self.off, kept, lost)

    def _squared_errors(self, weights: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the posterior mean of the squared error of each shrunk deviation, if deviations have heavy tails."""
        noise, off, kind = self.stddev**2, self.off.ravel(), self.mixture.kind
        likely = weights > LIKELY * weights.max()
        shares = self.mixture.kept[likely]
        spreads = noise * shares / np.maximum(1 - shares, 1e-12)
        variances = (spreads[:, None, :] * TAILS[:, None]).reshape(-1, spreads.shape[1])
        before = np.log(np.outer(weights[likely], TAIL_WEIGHTS)).ravel()
        logs = np.stack(
            [
                b - 0.5 * (off**2 / (v + noise)[kind] + np.log(v + noise)[kind])
                for b, v in zip(before, variances, strict=True)
            ]
        )
        posterior = np.exp(logs - logs.max(axis=0))
        posterior /= posterior.sum(axis=0)
        factors = (variances / (variances + noise))[:, kind]
        mean = (posterior * factors).sum(axis=0) * off
        second = (posterior * (factors * noise + np.square(factors * off))).sum(axis=0)
        estimate = kept.ravel() * off
        return (second - 2 * estimate * mean + estimate**2).reshape(kept.shape)


@dataclass(frozen=True, eq=False)
class ShrunkTable:
    """The shrunk deviations of a measured table, and their errors.

    Attributes:
        answer: the noisy table.
        off: the deviations from the expected table, not shrunk.
        kept: the factor by which each is shrunk.
        lost: the standard deviation of the error of each that is not due to noise.
    """

    answer: TableAnswer
    off: np.ndarray
    kept: np.ndarray
    lost: np.ndarray

    @property
    def deviations(self) -> np.ndarray:
        """The shrunk deviations."""
        return self.kept * self.off

    def draws(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw errors of the deviations, shape (count, *groups), whose margins are zero."""
        noise = centered(self.answer.noise(count, generator))
        return centered(self.kept * noise + self.lost * generator.standard_normal(noise.shape))


def centered(tables: np.ndarray) -> np.ndarray:
    """Return tables, along the first axis, shifted evenly to have margins of zero."""
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables


def best_answer(answers: Iterable[TableAnswer | None]) -> TableAnswer | None:
    """Return the answer over the most cells, averaged with all others to the same query; None without any."""
    merged: dict[tuple[bytes | None, ...], TableAnswer] = {}
    for answer in answers:
        if answer is not None:
            known = merged.get(answer.key)
            merged[answer.key] = answer if known is None else known.averaged(answer)
    return max(merged.values(), key=lambda answer: (math.prod(answer.shape), -answer.stddev), default=None)
