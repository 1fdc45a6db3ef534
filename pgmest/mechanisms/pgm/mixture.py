"""Noisy tables moved towards what is expected of them, by a mixture of priors that says how far the truth may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.pgm.groups import kinds

DISTANCES = 2.0 ** -np.arange(11)
EXPONENTS = (0.5, 0.75, 1.0)
"""Of the priors: how far all counts are from what is expected, as a total variation, and the powers of it that they
deviate with: the first as by chance, the last in proportion."""

PRIORS = len(EXPONENTS) * len(DISTANCES)
NOTHING_KNOWN: np.ndarray = np.r_[0.5, np.full(PRIORS, 0.5 / PRIORS)]
"""The weights of the priors before anything is seen: half of it is that the truth is what is expected."""

ROUNDS = 50
"""Of expectation maximization."""
LEAST = 1e-200
"""Smaller counts and variances are nothing."""


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""What each prior makes of a noisy table.

    Under a prior k the truth varies around what is expected, m, with standard deviation $s_k = \kappa\, m^a$, as many
    counts in all as make a total variation of $2^{-j}$ of the records; a is one of `EXPONENTS`. Its estimate is
    $m + w_k (y - m)$ with $w_k = s_k^2 / (s_k^2 + \sigma^2)$. The first one has no variation.

    Attributes:
        off: y - m.
        kind: of each cell, by how much is expected of it.
        squares: the sum of off squared over the cells of each kind.
        kept: w of each prior and kind, shape (1 + PRIORS, kinds).
        risks: of each prior, Stein's unbiased estimate of the squared error.
        logs: of the weights after, those before left out: minus the risk over $4 \sigma^2$, less the largest.
    """

    off: np.ndarray
    kind: np.ndarray
    squares: np.ndarray
    kept: np.ndarray
    risks: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, expected: np.ndarray, stddev: float, free: float) -> Mixture:
        """Arguments as for `shrunk`."""
        off, kind, noise = values - expected, kinds(expected).ravel(), max(stddev**2, LEAST)
        cells, squares = np.bincount(kind).astype(np.float64), np.bincount(kind, np.square(off).ravel())
        kept = _kept(np.bincount(kind, expected.ravel()) / np.maximum(cells, 1), cells, noise)
        risks = np.square(1 - kept) @ squares + noise * (2 * kept @ cells - cells.sum())
        return cls(off, kind, squares, kept, risks, (risks.min() - risks) * free / (4 * noise))

    def weights(self, before: np.ndarray) -> np.ndarray:
        """Of the priors, after the table was seen."""
        weights = before * np.exp(self.logs)
        return weights / weights.sum()

    def estimate(self, before: np.ndarray) -> np.ndarray:
        """What `off` would be without noise."""
        return (self.weights(before) @ self.kept)[self.kind].reshape(self.off.shape) * self.off

    def risk(self, before: np.ndarray) -> float:
        """The squared error to expect of that."""
        weights, left = self.weights(before), 1 - self.kept
        apart = weights @ np.square(self.kept - weights @ self.kept)
        moved = weights @ ((np.square(left) - weights @ np.square(left)) * self.kept)
        return float(weights @ self.risks - (apart + moved) @ self.squares)


def _kept(means: np.ndarray, cells: np.ndarray, noise: float) -> np.ndarray:
    """w of each prior and kind of cells."""
    means = np.maximum(means, LEAST)
    spreads = [np.zeros((1, len(means)))]
    for exponent in EXPONENTS:
        shape = means**exponent
        spreads.append(np.outer(2 * DISTANCES / MEAN_ABSOLUTE, shape * ((cells @ means) / (cells @ shape))))
    squares = np.square(np.concatenate(spreads))
    return squares / (squares + noise)


def learned(mixtures: Sequence[Mixture]) -> np.ndarray:
    """The weights of the priors that many tables have in common (empirical Bayes), as if there were one more of which
    nothing is known: where all depend by much, or few at all, each is seen in that light.
    """
    weights = NOTHING_KNOWN
    seen = np.exp(np.array([mixture.logs for mixture in mixtures])).reshape(-1, len(weights))
    for _ in range(ROUNDS):
        weights = weights * ((1 / (seen @ weights)) @ seen) + NOTHING_KNOWN
        weights /= weights.sum()
    return weights


def shrunk(
    values: np.ndarray, expected: np.ndarray, stddev: float, free: float = 1.0, before: np.ndarray = NOTHING_KNOWN
) -> np.ndarray:
    r"""Noisy counts moved towards expected ones: the mean of what many priors say, weighted by how well each does.

    Weights after are in proportion to those before, times $\exp(-r_k / 4 \sigma^2)$ of the risk: so the mixture is
    about as good as the best of the priors (Leung and Barron 2006).

    Args:
        values: noisy counts.
        expected: of the same shape.
        stddev: of the noise in each.
        free: the part of the cells that can vary, where sums of them are known: `interaction`.
        before: the weights of the priors; see `learned`.
    """
    return expected + Mixture.of(values, expected, stddev, free).estimate(before)


def shrinkage_risk(values: np.ndarray, expected: np.ndarray, stddev: float, free: float = 1.0) -> float:
    r"""The sum of squared errors to expect of `shrunk`, estimated without bias by the noisy counts alone (Stein 1981).

    For weights q after, estimates $f_k$ and risks $r_k$ with derivatives $g_k = \nabla r_k$ it is
    $\sum_k q_k (r_k - \lVert f_k - f \rVert^2 - \tfrac12 \langle g_k - g, f_k \rangle)$, where f and g are the means
    under q. So it says without any further answer which of two expected tables is the better one to shrink to.

    Args:
        values, expected, stddev, free: as for `shrunk`.
    """
    return Mixture.of(values, expected, stddev, free).risk(NOTHING_KNOWN)
