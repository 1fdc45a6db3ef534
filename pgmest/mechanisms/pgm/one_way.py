"""One-way marginals from noisy counts: by what counts there are, and by what counts their neighbors have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgmest.mechanisms.pgm.mixture import shrinkage_risk, shrunk
from pgmest.mechanisms.pgm.offers import interaction
from pgmest.mechanisms.pgm.shrinkage import clearly_less
from pgmest.synthesis.consistency import norm_sub

ROUNDS = 100
"""Of expectation maximization; the mixture that it approaches is the same for any more."""
MOST_ATOMS = 600
"""Of the mixture."""
PROBES, PROBE = 2, 0.1
"""How often a derivative is estimated, and by changes of how much, in standard deviations."""

REACHES = (1, 3, 9)
"""How many codes on either side are neighbors."""
LEAST_CODES, MOST_CODES = 17, 20_000
"""Fewer codes have no neighborhoods worth the name; more would take memory, an array of `NEIGHBOR_ATOMS` each."""
ELSEWHERE = 0.1
"""The part of what is thought of a code that comes from all codes, not its neighbors."""
UNLIKE = 0.01
"""That a code has any count, whatever others have."""
NEIGHBOR_ROUNDS, NEIGHBOR_ATOMS = 5, 100
NEIGHBORS_ALIKE = 0.5
"""That neighbors are alike is thought this likely before anything is seen: codes need have no order."""


@dataclass(frozen=True, eq=False)
class OneWay:
    """An estimated one-way marginal.

    Attributes:
        counts: positive, of sum `total`.
        stddev: of the noise in each of the counts that it was made of.
        risk: the sum of squared errors to expect, by the noisy counts themselves (Stein 1981).
    """

    counts: np.ndarray
    stddev: float
    risk: float

    @classmethod
    def of(cls, values: np.ndarray, stddev: float, total: float) -> OneWay:
        r"""By empirical Bayes: of all codes at once, and of each one's neighbors, weighted by how well each does.

        The weight of an estimate is in proportion to $\exp(-r / 4 \sigma^2)$ of its risk (Leung, Barron 2006).

        Args:
            values: noisy counts, shape (codes,).
            stddev: of the noise in each.
            total: the number of records.
        """
        values, left = _with_total(values, stddev, total)
        estimates = [partial(posterior_means, stddev=left), *_by_neighbors(values, left)]
        means = [estimate(values) for estimate in estimates]
        risks = [_risk(estimate, values, mean, left) for estimate, mean in zip(estimates, means, strict=True)]
        others = len(risks) - 1
        before = np.r_[1 - NEIGHBORS_ALIKE, np.full(others, NEIGHBORS_ALIKE / others)] if others else np.ones(1)
        weights = before * np.exp(-(np.array(risks) - min(risks)) / (4 * left**2))
        weights /= weights.sum()
        return cls._estimated(weights @ np.array(means), stddev, float(weights @ risks), total)

    @classmethod
    def publicly(cls, values: np.ndarray, stddev: float, total: float, public: np.ndarray) -> OneWay:
        """Shrunk to the counts of a public table; other arguments as for `of`."""
        values, left = _with_total(values, stddev, total)
        free = interaction(values.shape)
        risk = shrinkage_risk(values, public, left, free)
        return cls._estimated(shrunk(values, public, left, free), stddev, risk, total)

    @classmethod
    def _estimated(cls, means: np.ndarray, stddev: float, risk: float, total: float) -> OneWay:
        counts = norm_sub(means, total)
        counts = np.maximum(counts, 1e-6 * total / len(counts))
        return cls(counts * (total / counts.sum()), stddev, risk)


def _with_total(values: np.ndarray, stddev: float, total: float) -> tuple[np.ndarray, float]:
    """Noisy counts moved evenly to the total, and the standard deviation of the noise that remains."""
    return values + (total - values.sum()) / len(values), stddev * math.sqrt(interaction(values.shape))


def posterior_means(values: np.ndarray, stddev: float) -> np.ndarray:
    """The mean of each true value given its noisy one, where the true ones come from a distribution that is unknown.

    That distribution, on numbers of at least 0, is estimated by maximum likelihood from all values together
    (nonparametric empirical Bayes; Kiefer and Wolfowitz 1956, Jiang and Zhang 2009). So many small values are pulled to
    where most of them must be, and lone large ones stay.

    Args:
        values: shape (n,), with independent normal noise (or noise of that variance).
        stddev: of the noise, positive.
    """
    atoms = _atoms(values, stddev)
    logs = -0.5 * np.square((values[:, None] - atoms) / stddev)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(len(atoms), 1 / len(atoms))
    for _ in range(ROUNDS):
        posterior = weights * ((1 / (likelihood @ weights)) @ likelihood)  # summed over the values
        weights = (posterior + 0.5 / len(atoms)) / (len(values) + 0.5)
    return (likelihood @ (weights * atoms)) / (likelihood @ weights)


def _risk(estimate: Callable[[np.ndarray], np.ndarray], values: np.ndarray, means: np.ndarray, stddev: float) -> float:
    r"""The sum of squared errors to expect of an estimate f, by the noisy values y alone (Stein 1981).

    It is $\lVert f(y) - y \rVert^2 + \sigma^2 (2 \,\mathrm{div} f(y) - n)$; the divergence is taken from what small
    changes of the noisy values do (Ramani, Blu, Unser 2008), since what is expected depends on them, too.

    Args:
        estimate: f.
        values: y.
        means: f(y).
        stddev: of the noise.
    """
    generator, step, slopes = np.random.default_rng(0), PROBE * stddev, []
    for _ in range(PROBES):
        signs = generator.choice([-1.0, 1.0], len(values))
        slopes.append(float(signs @ (estimate(values + step * signs) - means)) / step)
    return float(np.square(means - values).sum() + stddev**2 * (2 * np.mean(slopes) - len(values)))


def _by_neighbors(values: np.ndarray, stddev: float) -> list[Callable[[np.ndarray], np.ndarray]]:
    """For each of `REACHES` the posterior means by what the neighbors of each code have."""
    if not LEAST_CODES <= len(values) <= MOST_CODES:
        return []
    largest = max(float(values.max()), 0.0) + 4 * stddev
    atoms = stddev * np.sinh(np.linspace(0.0, math.asinh(largest / stddev), NEIGHBOR_ATOMS))
    reaches = [reach for reach in REACHES if 2 * reach < len(values)]
    return [partial(neighbors_means, stddev=stddev, atoms=atoms, reach=reach) for reach in reaches]


def neighbors_means(values: np.ndarray, stddev: float, atoms: np.ndarray, reach: int) -> np.ndarray:
    """The mean of each true value given its noisy one, where it is expected to be like its neighbors.

    What is expected of a code is the mean of its neighbors' posterior distributions, its own left out, and of all
    codes'; so they are found together, in a few rounds. It may also be any count, whatever others have.

    Args:
        values, stddev: as for `posterior_means`.
        atoms: counts that are possible.
        reach: how many codes on either side are neighbors.
    """
    count = len(values)
    logs = -0.5 * np.square((values[:, None] - atoms) / stddev)
    top = logs.max(axis=1, keepdims=True)
    likelihood = np.exp(logs - top)
    start, end = np.maximum(np.arange(count) - reach, 0), np.minimum(np.arange(count) + reach + 1, count)
    neighbors = (end - start - 1)[:, None]
    expected = np.full(likelihood.shape, 1 / len(atoms))
    sums = np.zeros((count + 1, len(atoms)))
    for _ in range(NEIGHBOR_ROUNDS):
        posterior = _normalized(expected * likelihood)
        np.cumsum(posterior, axis=0, out=sums[1:])
        around = np.maximum(sums[end] - sums[start] - posterior, 0.0) / neighbors
        everywhere = (sums[-1] + 0.5 / len(atoms)) / (count + 0.5)
        expected = (1 - ELSEWHERE) * around + ELSEWHERE * everywhere
    posterior = expected * likelihood
    alike = (1 - UNLIKE) * posterior.sum(axis=1) * np.exp(top[:, 0])
    alike /= alike + UNLIKE * math.sqrt(2 * math.pi) * stddev / atoms[-1]
    return alike * (_normalized(posterior) @ atoms) + (1 - alike) * values


def _normalized(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(axis=1, keepdims=True)


def _atoms(values: np.ndarray, stddev: float) -> np.ndarray:
    """Where the mixture may have mass: at zero, near zero, and around each value."""
    near = values if 3 * len(values) <= MOST_ATOMS else np.quantile(values, np.linspace(0, 1, MOST_ATOMS // 3))
    small = stddev * np.geomspace(0.1, 4, 12)
    return np.unique(np.maximum(np.concatenate([[0.0], small, near, near - stddev, near + stddev]), 0.0))


def where_public(alone: Mapping[str, OneWay], publicly: Mapping[str, OneWay]) -> set[str]:
    """The attributes whose noisy counts are better shrunk to public ones than by empirical Bayes.

    The difference of the two estimated risks is in units of the noise; its standard error is that of a sum of n
    squares, sqrt(2 n).

    Args:
        alone, publicly: of each attribute the two estimates.
    """
    differences = {name: (found.risk - alone[name].risk) / found.stddev**2 for name, found in publicly.items()}
    return clearly_less(differences, {name: math.sqrt(2 * len(found.counts)) for name, found in publicly.items()})
