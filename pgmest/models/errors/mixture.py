"""Shrinkage of noisy tables towards their expectation, by a mixture of priors on their distance from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.tables.groups import magnitude_classes

DISTANCES = 2.0 ** -np.arange(11)
EXPONENTS = (0.5, 0.75, 1.0)
"""The priors: the distances of the counts from their expectation (total variation), and the powers of the expected
count to which the deviation of a cell is proportional. The power 0.5 is that of sampling error."""

PRIORS = len(EXPONENTS) * len(DISTANCES)
PRIOR_DISTANCES: np.ndarray = np.r_[0.0, np.tile(DISTANCES, len(EXPONENTS))]
"""The distance of each prior; the first prior has no deviation."""
NOTHING_KNOWN: np.ndarray = np.r_[0.5, np.full(PRIORS, 0.5 / PRIORS)]
"""The initial weights of the priors; half of the weight is on the prior without any deviation."""

ROUNDS = 50
"""The number of iterations of expectation maximization."""
LEAST = 1e-200
"""Smaller counts and variances are replaced by this, so that ratios stay finite."""


@dataclass(frozen=True, eq=False)
class PriorMixture:
    r"""The estimates of a table from its noisy counts under each prior.

    Under prior k, the true counts deviate from the expected counts m with standard deviation $s_k = \kappa\, m^a$,
    where a is one of `EXPONENTS` and $\kappa$ makes the total variation distance one of `DISTANCES`. The estimate from
    the noisy counts y is $m + w_k (y - m)$ with $w_k = s_k^2 / (s_k^2 + \sigma^2)$. The first prior has no deviation.

    Attributes:
        off: The differences y - m.
        kind: The kind of each cell, which is the order of magnitude of m.
        squares: The sum of squares of `off` over the cells of each kind.
        kept: The factor w of each prior and kind, shape (1 + PRIORS, kinds).
        risks: Stein's unbiased estimate of the squared error of each prior's estimate.
        logs: The logarithms of the likelihoods of the priors, less the largest: minus the risk over $4 \sigma^2$.
    """

    off: np.ndarray
    kind: np.ndarray
    squares: np.ndarray
    kept: np.ndarray
    risks: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, expected: np.ndarray, stddev: float, free: float) -> PriorMixture:
        """Create the mixture; the arguments are those of `shrunk`."""
        off, kind, noise = values - expected, magnitude_classes(expected).ravel(), max(stddev**2, LEAST)
        cells, squares = np.bincount(kind).astype(np.float64), np.bincount(kind, np.square(off).ravel())
        kept = _kept(np.bincount(kind, expected.ravel()) / np.maximum(cells, 1), cells, noise)
        risks = np.square(1 - kept) @ squares + noise * (2 * kept @ cells - cells.sum())
        return cls(off, kind, squares, kept, risks, (risks.min() - risks) * free / (4 * noise))

    def weights(self, before: np.ndarray) -> np.ndarray:
        """Return the posterior weights of the priors."""
        weights = before * np.exp(self.logs)
        return weights / weights.sum()

    def estimate(self, before: np.ndarray) -> np.ndarray:
        """Return the estimate of `off` without noise."""
        return (self.weights(before) @ self.kept)[self.kind].reshape(self.off.shape) * self.off

    def risk(self, before: np.ndarray) -> float:
        """Return the expected squared error of `estimate`."""
        weights, left = self.weights(before), 1 - self.kept
        apart = weights @ np.square(self.kept - weights @ self.kept)
        moved = weights @ ((np.square(left) - weights @ np.square(left)) * self.kept)
        return float(weights @ self.risks - (apart + moved) @ self.squares)


def _kept(means: np.ndarray, cells: np.ndarray, noise: float) -> np.ndarray:
    """Return the factor w of each prior and kind of cells, from their mean, their number, and the variance of noise."""
    means = np.maximum(means, LEAST)
    spreads = [np.zeros((1, len(means)))]
    for exponent in EXPONENTS:
        shape = means**exponent
        spreads.append(np.outer(2 * DISTANCES / MEAN_ABSOLUTE, shape * ((cells @ means) / (cells @ shape))))
    squares = np.square(np.concatenate(spreads))
    return squares / (squares + noise)


def learned_weights(mixtures: Sequence[PriorMixture], start: np.ndarray = NOTHING_KNOWN) -> np.ndarray:
    """Return the weights of the priors that many tables share, by maximum likelihood (empirical Bayes).

    The initial weights, `start`, count as one more table.
    """
    seen = np.exp(np.array([mixture.logs for mixture in mixtures])).reshape(-1, len(start))
    return mixture_weights(seen, start)


def mixture_weights(likelihood: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the weights of the components of a mixture by expectation maximization, shape (components,).

    Args:
        likelihood: that of each observation under each component, up to a factor, shape (observations, components).
        start: the number of observations that each component has besides, from which the weights begin.
    """
    weights = start / start.sum()
    for _ in range(ROUNDS):
        weights = weights * ((1 / np.maximum(likelihood @ weights, LEAST)) @ likelihood) + start
        weights /= weights.sum()
    return weights


def shrunk(
    values: np.ndarray, expected: np.ndarray, stddev: float, free: float = 1.0, before: np.ndarray = NOTHING_KNOWN
) -> np.ndarray:
    r"""Return noisy counts shrunk towards expected counts: the weighted mean of the estimates under all priors.

    The posterior weights are proportional to the prior weights times $\exp(-r_k / 4 \sigma^2)$, where $r_k$ is the
    estimated risk. So the mixture is about as good as the best of its priors (Leung and Barron 2006).

    Args:
        values: Noisy counts.
        expected: Expected counts, of the same shape.
        stddev: The standard deviation of the noise in each count.
        free: The fraction of the cells that can vary if their margins are known: `interaction_fraction`.
        before: The prior weights; see `learned_weights`.
    """
    return expected + PriorMixture.of(values, expected, stddev, free).estimate(before)


def shrinkage_risk(values: np.ndarray, expected: np.ndarray, stddev: float, free: float = 1.0) -> float:
    r"""Return an unbiased estimate of the sum of squared errors of `shrunk`, from the noisy counts (Stein 1981).

    For posterior weights q, estimates $f_k$ and risks $r_k$ with gradients $g_k = \nabla r_k$, the risk is
    $\sum_k q_k (r_k - \lVert f_k - f \rVert^2 - \tfrac12 \langle g_k - g, f_k \rangle)$, where f and g are the means
    under q. The estimate selects the better of two expected tables without another measurement.

    Args:
        values, expected, stddev, free: The arguments of `shrunk`.
    """
    return PriorMixture.of(values, expected, stddev, free).risk(NOTHING_KNOWN)
