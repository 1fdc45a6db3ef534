"""One-way marginals from noisy counts, by empirical Bayes over all codes and over neighboring codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pgmest.mechanisms.lamp.candidates import interaction_fraction
from pgmest.mechanisms.lamp.dependence import mixture_weights
from pgmest.models.errors.mixture import shrinkage_risk, shrunk
from pgmest.synthesis.consistency import norm_sub

MOST_ATOMS = 600
"""The largest number of atoms around the values in the mixture."""
PROBES, PROBE = 2, 0.1
"""The number of random directions in which a divergence is estimated, and the step, in standard deviations."""

REACHES = (1, 3, 9)
"""The numbers of neighbors on either side of a code that are tried."""
LEAST_CODES, MOST_CODES = 17, 20_000
"""The numbers of codes between which neighbors are used. Fewer codes have too few neighbors; more need too much memory,
`NEIGHBOR_ATOMS` numbers each."""
ELSEWHERE = 0.1
"""The weight of all codes, instead of the neighbors, in the prior of a code."""
UNLIKE = 0.01
"""The prior probability that a count is unrelated to all others."""
NEIGHBOR_ROUNDS, NEIGHBOR_ATOMS = 5, 100
"""The numbers of iterations and of atoms for priors from neighbors."""
NEIGHBORS_ALIKE = 0.5
"""The prior weight of the estimates from neighbors: the codes of many attributes have no order."""

KEPT, MOST_KEPT = 1024, 2000
"""The number of estimates that are kept, and the largest number of codes of one of them: 30 MB at most."""


@dataclass(frozen=True, eq=False)
class OneWayEstimate:
    """An estimated one-way marginal.

    Attributes:
        counts: The counts, which are positive and sum to the total.
        stddev: The standard deviation of the noise in each noisy count.
        risk: The expected sum of squared errors, estimated from the noisy counts (Stein 1981).
    """

    counts: np.ndarray
    stddev: float
    risk: float

    @classmethod
    def of(cls, values: np.ndarray, stddev: float, total: float) -> OneWayEstimate:
        r"""Estimate the counts by a weighted mean of empirical Bayes estimates from all codes and from neighbors.

        The weight of an estimate with risk r is proportional to $\exp(-r / 4 \sigma^2)$ (Leung and Barron 2006).
        Estimates are kept, because each round asks again for the attributes about which it has learned nothing.

        Args:
            values: Noisy counts, shape (codes,).
            stddev: The standard deviation of the noise in each.
            total: The number of records.
        """
        estimate = _kept if len(values) <= MOST_KEPT else _estimate
        return estimate(np.asarray(values, dtype=float).tobytes(), float(stddev), float(total))

    @classmethod
    def publicly(cls, values: np.ndarray, stddev: float, total: float, public: np.ndarray) -> OneWayEstimate:
        """Estimate the counts by shrinkage towards those of a public table; the other arguments are those of `of`."""
        values, left = _with_total(values, stddev, total)
        free = interaction_fraction(values.shape)
        risk = shrinkage_risk(values, public, left, free)
        return cls.nearest(shrunk(values, public, left, free), stddev, risk, total)

    @classmethod
    def nearest(cls, means: np.ndarray, stddev: float, risk: float, total: float) -> OneWayEstimate:
        """Create the estimate with the nearest positive counts that sum to the total; the array is read-only."""
        counts = norm_sub(means, total)
        counts = np.maximum(counts, 1e-6 * total / len(counts))
        counts *= total / counts.sum()
        counts.flags.writeable = False
        return cls(counts, stddev, risk)


def _estimate(noisy: bytes, stddev: float, total: float) -> OneWayEstimate:
    """Return what `OneWayEstimate.of` does, from the bytes of the noisy counts."""
    values, left = _with_total(np.frombuffer(noisy), stddev, total)
    estimates = [partial(posterior_means, stddev=left), *_by_neighbors(values, left)]
    means = [estimate(values) for estimate in estimates]
    risks = [estimated_risk(estimate, values, mean, left) for estimate, mean in zip(estimates, means, strict=True)]
    others = len(risks) - 1
    before = np.r_[1 - NEIGHBORS_ALIKE, np.full(others, NEIGHBORS_ALIKE / others)] if others else np.ones(1)
    weights = before * np.exp(-(np.array(risks) - min(risks)) / (4 * left**2))
    weights /= weights.sum()
    return OneWayEstimate.nearest(weights @ np.array(means), stddev, float(weights @ risks), total)


_kept = lru_cache(KEPT)(_estimate)


def _with_total(values: np.ndarray, stddev: float, total: float) -> tuple[np.ndarray, float]:
    """Return noisy counts shifted evenly to sum to the total, and the standard deviation of the remaining noise."""
    return values + (total - values.sum()) / len(values), stddev * math.sqrt(interaction_fraction(values.shape))


def posterior_means(values: np.ndarray, stddev: float) -> np.ndarray:
    """Return the posterior mean of each true value given all noisy values.

    The prior, a distribution on nonnegative numbers, is estimated by maximum likelihood from all values (nonparametric
    empirical Bayes; Kiefer and Wolfowitz 1956, Jiang and Zhang 2009). Many small values are shrunk towards each other;
    single large values stay.

    Args:
        values: Noisy values with independent noise, shape (n,).
        stddev: The standard deviation of the noise, positive.
    """
    atoms = _atoms(values, stddev)
    logs = -0.5 * np.square((values[:, None] - atoms) / stddev)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = mixture_weights(likelihood, np.full(len(atoms), 0.5 / len(atoms)))
    return (likelihood @ (weights * atoms)) / (likelihood @ weights)


def estimated_risk(
    estimate: Callable[[np.ndarray], np.ndarray], values: np.ndarray, means: np.ndarray, stddev: float
) -> float:
    r"""Return the estimated sum of squared errors of an estimator f, from the noisy values y only (Stein 1981).

    It is $\lVert f(y) - y \rVert^2 + \sigma^2 (2 \,\mathrm{div} f(y) - n)$. Since the priors depend on y, too, the
    divergence is estimated from small random changes of y (Ramani, Blu and Unser 2008).

    Args:
        estimate: The estimator f.
        values: The noisy values y.
        means: The estimate f(y).
        stddev: The standard deviation of the noise.
    """
    generator, step, slopes = np.random.default_rng(0), PROBE * stddev, []
    for _ in range(PROBES):
        signs = generator.choice([-1.0, 1.0], len(values))
        slopes.append(float(signs @ (estimate(values + step * signs) - means)) / step)
    return float(np.square(means - values).sum() + stddev**2 * (2 * np.mean(slopes) - len(values)))


def _by_neighbors(values: np.ndarray, stddev: float) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Return, for each of `REACHES`, the estimator whose prior comes from the neighbors of each code."""
    if not LEAST_CODES <= len(values) <= MOST_CODES:
        return []
    largest = max(float(values.max()), 0.0) + 4 * stddev
    atoms = stddev * np.sinh(np.linspace(0.0, math.asinh(largest / stddev), NEIGHBOR_ATOMS))
    reaches = [reach for reach in REACHES if 2 * reach < len(values)]
    return [partial(neighbors_means, stddev=stddev, atoms=atoms, reach=reach) for reach in reaches]


def neighbors_means(values: np.ndarray, stddev: float, atoms: np.ndarray, reach: int) -> np.ndarray:
    """Return the posterior mean of each true value if its prior comes from its neighbors.

    The prior of a code is a mixture of the mean posterior distribution of its neighbors, that of all codes, and a
    uniform distribution. Priors and posteriors depend on each other, so they are found by iteration.

    Args:
        values, stddev: The arguments of `posterior_means`.
        atoms: The possible counts.
        reach: The number of neighbors on either side of a code.
    """
    places = np.arange(len(values))
    first, last = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(values))
    logs = -0.5 * np.square((values[:, None] - atoms) / stddev)
    top = logs.max(axis=1, keepdims=True)
    likelihood, priors = np.exp(logs - top), np.full(logs.shape, 1 / len(atoms))
    for _ in range(NEIGHBOR_ROUNDS):
        posterior = likelihood * priors
        posterior /= posterior.sum(axis=1, keepdims=True)
        sums = np.cumsum(np.concatenate([np.zeros((1, len(atoms))), posterior]), axis=0)
        everywhere = (sums[-1] + 0.5 / len(atoms)) / (len(values) + 0.5)
        others = np.maximum(sums[last] - sums[first] - posterior, 0.0) / (last - first - 1)[:, None]
        priors = ELSEWHERE * everywhere + (1 - ELSEWHERE) * others
    posterior = likelihood * priors
    sums = posterior.sum(axis=1)
    alike = (1 - UNLIKE) * sums * np.exp(top[:, 0])
    alike /= alike + UNLIKE * math.sqrt(2 * math.pi) * stddev / atoms[-1]
    return alike * (posterior @ atoms) / sums + (1 - alike) * values


def _atoms(values: np.ndarray, stddev: float) -> np.ndarray:
    """Return the atoms of the mixture: zero, numbers near zero, and numbers around each value."""
    near = values if 3 * len(values) <= MOST_ATOMS else np.quantile(values, np.linspace(0, 1, MOST_ATOMS // 3))
    small = stddev * np.geomspace(0.1, 4, 12)
    return np.unique(np.maximum(np.concatenate([[0.0], small, near, near - stddev, near + stddev]), 0.0))
