r"""Coefficients: what noisy answers say about dependence in terms of few functions, and draws of it.

Cell by cell, noisy tables must be shrunk, and shrinkage takes something off correlations and coefficients, which are
sums of many cells and known much better. So each coefficient is estimated by itself. Its prior is normal with one of
some `SCALES`, whose probabilities are learned from all measured pairs (Stephens 2017), separately for correlations of
codes, for products of the code with another function, and for all others. The mean of the posterior moves from the
model's coefficient towards the unbiased one that the answers give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.models.errors.mixture import mixture_weights
from pgmest.models.errors.table_answers import TableAnswer

SCALES = 0.01 * 2.0 ** np.arange(0.0, 7.0, 0.5)
"""The grid of standard deviations of coefficients."""
TYPICAL, SPREAD, COUNT = (0.3, 0.2, 0.1), 0.8, 4.0
"""The prior of the scale of each kind of coefficient: its typical value, the standard deviation of its logarithm, and
the number of coefficients that it counts as."""
SEEN = 0.5
"""Scales are learned from coefficients of which groups of codes show more than this share."""
LEAST = 1e-12
"""The least variance, and the smallest share."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The coefficients of a pair.

    Attributes:
        model: those of the model's table, shape (functions, functions).
        beyond: those of the answers minus the model's. If codes were counted in groups, only the part between groups.
        variance: the variances of the noise in `beyond`.
        seen: the share of the variance of each product of functions that is between groups; 1 for single codes.
    """

    model: np.ndarray
    beyond: np.ndarray
    variance: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(
        cls, answer: TableAnswer, table: np.ndarray, marginals: Sequence[np.ndarray], functions: Sequence[np.ndarray]
    ) -> Coefficients:
        """Read the coefficients of the marginal that an answer is about, of one attribute or two.

        Args:
            answer: the noisy table.
            table: the model's table, in counts.
            marginals: the one-way marginals of its attributes.
            functions: the functions of each attribute, orthonormal under these.
        """
        total = max(float(table.sum()), LEAST)
        off = answer.beyond(answer.grouped(table))
        model, sizes, seen = table / total, np.ones(()), np.ones(())
        for axis, (side, counts, own) in enumerate(zip(answer.sides, marginals, functions, strict=True)):
            off = off - off.mean(axis=axis, keepdims=True)
            means, shown = _group_means(side.labels, side.groups, counts, own)
            means = means - means.mean(axis=0)
            spread = means if side.inverse is None else side.inverse.T @ means
            sizes, seen = np.multiply.outer(sizes, np.square(spread).sum(axis=0)), np.multiply.outer(seen, shown)
            off, model = _along(off, means, axis), _along(model, own, axis)
        variance = np.maximum(answer.stddev**2 * sizes / total**2, LEAST)
        return cls(model, off / total, variance, np.clip(seen, 0.0, 1.0))

    def draws(
        self, weights: np.ndarray, count: int, generator: np.random.Generator, lowered: np.ndarray | float = 1.0
    ) -> np.ndarray:
        """Draw the true coefficients, shape (count, functions, functions).

        Args:
            weights: the prior probability of each scale, shape (3, scales).
            count: the number of draws.
            generator: the random generator.
            lowered: the factors by which the scales of coefficients are lowered, shape (functions, functions).
        """
        kind, answered = kinds_of(self.model.shape), self.seen * self.model + self.beyond
        spread = self.seen * (SCALES[:, None, None] * lowered) ** 2 + self.variance
        logs = np.log(weights.T[:, kind]) - 0.5 * (np.log(spread) + answered**2 / spread)
        prior = (drawn_scales(logs, count, generator) * lowered) ** 2
        gain = prior / (self.seen * prior + self.variance)
        left = np.sqrt(np.maximum(prior * (1.0 - self.seen**2 * gain), 0.0))
        return self.model + self.seen * gain * self.beyond + left * generator.standard_normal(left.shape)


def _along(table: np.ndarray, matrix: np.ndarray, axis: int) -> np.ndarray:
    """Multiply a table by a matrix, shape (codes, functions), along an axis."""
    return np.moveaxis(np.tensordot(table, matrix, axes=(axis, 0)), -1, axis)


def _group_means(
    labels: np.ndarray, groups: int, counts: np.ndarray, functions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of functions over groups of codes, and the share of their variance between groups."""
    shares = np.maximum(counts, LEAST)
    shares = shares / shares.sum()
    sums = np.zeros((groups, functions.shape[1]))
    np.add.at(sums, labels, shares[:, None] * functions)
    whole = np.bincount(labels, shares, groups)
    means = sums / whole[:, None]
    return means, np.square(means).T @ whole


def kinds_of(shape: tuple[int, ...]) -> np.ndarray:
    """Return the kind of each coefficient: 0 for the correlation of codes, 1 if one function is a code, else 2."""
    kind = np.full(shape, 2)
    kind[:1], kind[:, :1] = 1, 1
    kind[:1, :1] = 0
    return kind


def drawn_scales(logs: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw scales with probabilities in proportion to exp(logs), shape (scales, ...); the result is (count, ...)."""
    shares = np.exp(logs - logs.max(axis=0))
    ends = np.cumsum(shares, axis=0)
    levels = generator.random((count, *logs.shape[1:])) * ends[-1]
    return SCALES[np.minimum((levels[:, None] > ends).sum(axis=1), len(SCALES) - 1)]


def learned_scales(measured: Iterable[Coefficients]) -> np.ndarray:
    """Return the probability of each scale for each kind of coefficient, shape (3, scales), by maximum likelihood."""
    found: list[list[np.ndarray]] = [[], [], []]
    for one in measured:
        kind, whole = kinds_of(one.model.shape), one.model + one.beyond
        for place, values in enumerate(found):
            chosen = (kind == place) & (one.seen > SEEN)
            values.append(np.stack([whole[chosen], one.variance[chosen]]))
    return np.stack(
        [_scales(np.concatenate([np.zeros((2, 0)), *v], axis=1), t) for v, t in zip(found, TYPICAL, strict=True)]
    )


def _scales(values: np.ndarray, typical: float) -> np.ndarray:
    """Return the probabilities of the scales given coefficients and their variances, shape (2, coefficients)."""
    start = np.exp(-0.5 * (np.log(SCALES / typical) / SPREAD) ** 2)
    start *= COUNT / start.sum()
    spread = SCALES[:, None] ** 2 + values[1]
    logs = -0.5 * (np.log(spread) + values[0] ** 2 / spread)
    likely = np.exp(logs - logs.max(axis=0, initial=-np.inf))
    return mixture_weights(likely.T, start)
