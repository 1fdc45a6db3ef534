"""HalvesErrors: errors of the differences between the counts of two halves of ranges of codes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SPREADS = 2.0 ** -np.arange(4)
"""The prior standard deviations of differences, relative to the number of records divided by the root of the number of
ranges. All of these are as likely; of real attributes the root mean square is 0.55 for the halves of all codes, and
0.35 to 0.45 for those of parts."""
COMMON = 0.5
"""The difference that all attributes of a table may have in common, of either sign, on the same scale: codes are often
sorted by frequency. Means over the attributes of real tables have the root mean square 0.4, and reach 0.8."""
UNLIKE = 0.01
"""The prior probability that a difference is unrelated to all others: it is any between all records and none, of either
sign. One code may have most of the records."""


@dataclass(frozen=True, eq=False)
class HalvesErrors:
    r"""The errors of the differences between the counts of the two halves of each range of codes, at one level.

    Codes have an order in which counts often fall, or change slowly. So sums over ranges differ by more than those of
    as many codes in any order, and alike in all attributes. Halves differ by D, of which the answers say V with the
    noise variance n, and the model says M. With the usual difference m and the standard deviation $\tau$ of D, it is
    $m + w (V - m)$ given V, up to the variance $w n$, where $w = \tau^2 / (\tau^2 + n)$. What that differs from M is an
    error of known sign, which adds up over attributes. All is averaged over the likely values of $\tau$ (`SPREADS`),
    and over whether a range is unlike all others (`UNLIKE`).

    Attributes:
        cuts: the ends of the halves, shape (2 * ranges + 1,).
        means: the mean error of the difference of each range, shape (ranges,).
        squares: the mean square of what it differs from its mean by, shape (ranges,).
    """

    cuts: np.ndarray
    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(
        cls, values: np.ndarray, counts: np.ndarray, stddev: np.ndarray, root: np.ndarray | None, records: float
    ) -> tuple[HalvesErrors, ...]:
        """Return the errors at each level, from the halves of all codes to those of pairs of codes.

        Args:
            values: an unbiased estimate of the counts of codes.
            counts: the model's counts.
            stddev: the standard deviation of the noise in each value.
            root: a square root of the covariance of this noise, shape (codes, codes); None for independent noise.
            records: the number of records.
        """
        found = []
        for cuts in _levels(len(counts)):
            noise = _independent(stddev, cuts) if root is None else np.square(_differences(root.T, cuts)).sum(axis=0)
            known, modeled = _differences(values, cuts), _differences(counts, cuts)
            scale = records / math.sqrt(len(known))
            alike = _posterior(COMMON * scale, np.square(scale * SPREADS[:, None]), known, noise)
            unlike = _posterior(0.0, np.full((1, 1), records**2 / 3), known, noise)
            both = np.logaddexp(alike.logs + math.log(1 - UNLIKE), unlike.logs + math.log(UNLIKE))
            weights = np.exp((logs := both.sum(axis=1)) - logs.max())
            weights /= weights.sum()
            apart = np.exp(unlike.logs + math.log(UNLIKE) - both)
            parts = [
                (weights[:, None] * share, one.means - modeled, one.variances)
                for share, one in ((1 - apart, alike), (apart, unlike))
            ]
            means = sum((share * errors).sum(axis=0) for share, errors, _ in parts)
            squares = sum((share * (np.square(errors - means) + left)).sum(axis=0) for share, errors, left in parts)
            found.append(cls(cuts, np.asarray(means), np.asarray(squares)))
        return tuple(found)

    def corrected(self, errors: np.ndarray, signs: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return drawn errors of codes whose differences have these means and mean squares, shape (count, codes).

        Differences that are too large are scaled, and what others lack is drawn, evenly over the codes of each half.

        Args:
            errors: drawn errors, shape (count, codes).
            signs: normal numbers that multiply the means, shape (count,).
            generator: the random generator.
        """
        now = _differences(errors, self.cuts)
        squares = np.square(now).mean(axis=0)
        scale = np.sqrt(np.minimum(self.squares / np.maximum(squares, 1e-300), 1.0))
        lacking = np.sqrt(np.maximum(self.squares - squares, 0.0))
        changes = now * (scale - 1) + lacking * generator.standard_normal(now.shape) + signs[:, None] * self.means
        widths = np.diff(self.cuts)
        signed = 0.5 * np.repeat(changes, 2, axis=1) * np.tile([1.0, -1.0], now.shape[1]) / widths
        return errors + np.repeat(signed, widths, axis=1)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Differences given noisy answers, for some normal priors.

    Attributes:
        logs: the logarithm of the likelihood of each answer, up to a constant, shape (priors, ranges).
        means: the posterior means, of the same shape.
        variances: the posterior variances, of the same shape.
    """

    logs: np.ndarray
    means: np.ndarray
    variances: np.ndarray


def _posterior(mean: float, variance: np.ndarray, known: np.ndarray, noise: np.ndarray) -> _Posterior:
    total = variance + noise
    kept = variance / total
    logs = -0.5 * (np.square(known - mean) / total + np.log(total))
    return _Posterior(logs, mean + kept * (known - mean), kept * noise)


def _levels(size: int) -> Iterator[np.ndarray]:
    """Yield the ends of the halves at each level."""
    cuts = np.array([0, size])
    while np.diff(cuts).min() >= 2:
        cuts = np.sort(np.concatenate([cuts, (cuts[:-1] + cuts[1:]) // 2]))
        yield cuts


def _weights(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of the two halves' sums in the difference of each range, which is 0 for equal counts."""
    widths = np.diff(cuts)
    one, two = widths[::2], widths[1::2]
    return 2 * two / (one + two), 2 * one / (one + two)


def _differences(counts: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the differences between halves of counts along the last axis."""
    sums, (one, two) = np.add.reduceat(counts, cuts[:-1], axis=-1), _weights(cuts)
    return sums[..., ::2] * one - sums[..., 1::2] * two


def _independent(stddev: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the variances of the differences of independent counts."""
    sums, (one, two) = np.add.reduceat(np.square(stddev), cuts[:-1]), _weights(cuts)
    return sums[::2] * one**2 + sums[1::2] * two**2
