"""MeasuredTable: a table that was measured, with the errors of its interaction; one-way marginals are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from pgmest.models.errors.mixture import PRIOR_DISTANCES, PriorMixture
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.nested_answers import joined
from pgmest.models.errors.smooth_functions import smooth_functions
from pgmest.models.errors.table_answers import TableAnswer, centered

TAILS = 4.0 ** np.arange(-1, 5)
TAIL_WEIGHTS = np.array([0.25, 0.45, 0.2, 0.07, 0.02, 0.01])
"""The squared deviation of a single cell, relative to that of a typical cell of its size, and how likely it is: the
deviations of the cells of a table have heavier tails than normal ones."""
USUAL, USUAL_SPREAD = 0.1, 1.0
"""The prior of the total variation distance of a table from the expected one: its typical value, and the standard
deviation of its logarithm."""
_USUAL: np.ndarray = np.exp(-0.5 * (np.log(np.maximum(PRIOR_DISTANCES, 1e-9) / USUAL) / USUAL_SPREAD) ** 2)
USUAL_WEIGHTS: np.ndarray = _USUAL / _USUAL.sum()
"""The prior weights of the priors of `PriorMixture`."""
LARGER, STRONG = 0.5, 0.3
"""The share of the posterior weights of distances, from the largest on, that counts: of all tables, and of those that
may depend far more than others. The latter was chosen on three generated tables of households at epsilon 0.3 and 0.5: a
smaller share widens intervals of all such pairs, and those of strong pairs hold hardly more often."""
LIKELY = 1e-3
"""Priors with less weight than this share of the largest one are left out."""
LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A noisy table with its deviations from the expected table, over groups of codes.

    Attributes:
        answer: the noisy table.
        expected: the table expected from the marginals of fewer attributes.
        off: the answers' deviations from it, without those of their margins.
        model: the deviations of the model's table from it.
        stddev: the standard deviation of the noise in `off`.
        mixture: the priors of the true deviations.
    """

    answer: TableAnswer
    expected: np.ndarray
    off: np.ndarray
    model: np.ndarray
    stddev: float
    mixture: PriorMixture

    @classmethod
    def of(cls, answer: TableAnswer, tables: ModelTables) -> MeasuredTable:
        """Compare an answer with the table expected from the marginals of fewer attributes."""
        expected = answer.grouped(tables.expected(answer.clique))
        off = centered(answer.beyond(expected)[None])[0]
        model = centered((answer.grouped(tables.table(answer.clique)) - expected)[None])[0]
        stddev = max(answer.centered_stddev, 1e-9)
        free = math.prod(1 - 1 / groups for groups in off.shape if groups > 1)
        mixture = PriorMixture.of(expected + off, expected, stddev, free)
        return cls(answer, expected, off, model, stddev, mixture)

    def compared(self, before: np.ndarray, strong: bool = False) -> ComparedTable:
        """Return the errors of the model's deviations.

        Args:
            before: the prior weights of `mixture`.
            strong: whether the table may depend far more than others.
        """
        mean, variance = self._moments(largest(self.mixture.weights(before), STRONG if strong else LARGER))
        kept = self._kept()
        squares = variance + np.square(mean - self.model)
        lost = np.sqrt(np.maximum(squares - np.square(kept * self.stddev), 0.0))
        directions = SmoothDirections.of(self.expected, self.off - self.model) if self.off.ndim == 2 else None
        return ComparedTable(self.answer, mean, np.sqrt(variance), kept, lost, directions, strong)

    def _kept(self) -> np.ndarray:
        """Return the share of the answers' deviations that the model keeps, by least squares for each kind of cell."""
        kind, noise = self.mixture.kind, self.stddev**2
        together = np.bincount(kind, (self.off * self.model).ravel())
        found = np.clip(together / (np.bincount(kind, np.square(self.off).ravel()) + noise), 0.0, 1.0)
        return found[kind].reshape(self.off.shape)

    def _moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior mean and variance of each true deviation.

        Single deviations have heavy tails. They are at least as large as the sampling error of the records.
        """
        noise, off, kind = self.stddev**2, self.off.ravel(), self.mixture.kind
        likely = weights > LIKELY * weights.max()
        shares = self.mixture.kept[likely]
        sampling = np.bincount(kind, self.expected.ravel()) / np.maximum(np.bincount(kind), 1)
        spreads = noise * shares / np.maximum(1 - shares, 1e-12) + np.maximum(sampling, 0.0)
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
        return mean.reshape(self.off.shape), np.maximum(second - mean**2, 0.0).reshape(self.off.shape)


@dataclass(frozen=True, eq=False)
class ComparedTable:
    """A measured table: its true deviations from the expected table, and the errors of the model's.

    Attributes:
        answer: the noisy table.
        deviations: the posterior means of the true deviations.
        spread: their posterior standard deviations.
        kept: the share of the noise that is in the model's deviations.
        lost: the standard deviation of the rest of the model's errors.
        directions: what the answers say about the sums of its smooth parts, for a table of two attributes.
        strong: whether the table may depend far more than others: then all of `lost` is drawn, also in small tables, of
            which most is in the margins otherwise.
    """

    answer: TableAnswer
    deviations: np.ndarray
    spread: np.ndarray
    kept: np.ndarray
    lost: np.ndarray
    directions: SmoothDirections | None = None
    strong: bool = False

    @property
    def size(self) -> float:
        """The expected l1 norm of the true deviations."""
        ratio = np.abs(self.deviations) / np.maximum(self.spread, LEAST)
        rest = self.spread * np.exp(-0.5 * np.square(ratio)) * math.sqrt(2 / math.pi)
        return float((rest + np.abs(self.deviations) * erf(ratio / math.sqrt(2))).sum())

    def draws(self, field: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draw errors of the deviations, whose margins are zero, shape (count, *groups).

        Args:
            field: drawn dependence, of which only the correlations of cells matter, shape (count, *groups).
            generator: the random generator.
        """
        noise = centered(self.answer.noise(len(field), generator))
        top = np.abs(field).max(axis=0)
        field = np.divide(field, top, out=np.zeros_like(field), where=top > LEAST)  # squares of tiny counts underflow
        field = centered(field) if self.strong else field
        stddev = np.sqrt(np.mean(np.square(field), axis=0))
        kept, lost = centered(self.kept * noise), centered(self.lost / np.maximum(stddev, LEAST) * field)
        return kept + (lost if self.directions is None else self.directions.limited(lost, kept, noise))


@dataclass(frozen=True, eq=False)
class SmoothDirections:
    r"""Products of smooth functions of two attributes, and how far the answers are from the model in each.

    The model's error in such a direction is the sum of the answers' noise and of what lies between model and answers,
    which is known. So its mean square is at most $s^2 + d^2$, with the standard deviation s of the noise and the
    distance d. What shrinkage takes off single cells may be larger, but then most of it is not smooth.

    Attributes:
        read: for each attribute, the functions that give the coefficients of a table, shape (groups, degrees).
        written: those that give the table of coefficients, of the same shape.
        apart: the coefficients of the answers minus those of the model, shape (degrees, degrees).
    """

    read: tuple[np.ndarray, np.ndarray]
    written: tuple[np.ndarray, np.ndarray]
    apart: np.ndarray

    @classmethod
    def of(cls, expected: np.ndarray, apart: np.ndarray) -> SmoothDirections:
        """Compare the deviations of answers and model, `apart`, in the directions of an expected table."""
        marginals = expected.sum(axis=1), expected.sum(axis=0)
        functions, roots = [smooth_functions(counts) for counts in marginals], [np.sqrt(m)[:, None] for m in marginals]
        one, two = (np.divide(f, r, out=np.zeros_like(f), where=r > 0) for f, r in zip(functions, roots, strict=True))
        return cls((one, two), (functions[0] * roots[0], functions[1] * roots[1]), one.T @ apart @ two)

    def limited(self, lost: np.ndarray, kept: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return drawn errors without what the answers exclude of their smooth part.

        Args:
            lost: drawn errors of shrinkage, shape (count, *groups).
            kept: the drawn noise that is in the model, of the same shape.
            noise: the drawn noise of the answers, of the same shape.
        """
        found = self._coefficients(lost)
        most, other, now = (np.mean(np.square(self._coefficients(one)), axis=0) for one in (noise, kept, lost))
        left = np.sqrt(np.clip((most + np.square(self.apart) - other) / np.maximum(now, LEAST), 0.0, 1.0))
        return lost + self.written[0] @ (found * (left - 1)) @ self.written[1].T

    def _coefficients(self, tables: np.ndarray) -> np.ndarray:
        return self.read[0].T @ tables @ self.read[1]


def largest(weights: np.ndarray, share: float) -> np.ndarray:
    """Return the weights of priors, given that the distance from the expected table is in this upper share.

    Where noise leaves the distance unknown, tables of strong dependence are then covered, too.
    """
    order = np.argsort(-PRIOR_DISTANCES, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    found = np.empty_like(weights)
    found[order] = np.clip(share - before, 0.0, weights[order])
    return found / found.sum()


def best_answer(answers: Iterable[TableAnswer | None]) -> TableAnswer | None:
    """Return the answer over the most cells, with those over unions of its groups; None without any.

    Answers to the same query are averaged first.
    """
    merged: dict[tuple[bytes | None, ...], TableAnswer] = {}
    for answer in answers:
        if answer is not None:
            known = merged.get(answer.key)
            merged[answer.key] = answer if known is None else known.averaged(answer)
    return joined(sorted(merged.values(), key=lambda answer: (-math.prod(answer.shape), answer.stddev)))
