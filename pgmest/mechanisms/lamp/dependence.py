"""Dependence: the distance of a marginal from its expectation under the model, estimated from noisy distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE

STEPS, WEAKEST = 49, 2.0**-12
"""The number of grid points for dependence, and the smallest one, as a total variation distance."""
CASES = 2
"""The number of equally likely values that represent the uncertainty of a dependence."""
ROUNDS = 100
"""The number of iterations of expectation maximization; more do not change the mixture."""
UNLIKELY = 1e-200
"""Smaller likelihoods are treated as zero: they change no digit, and computing with subnormal numbers is slow."""


def sampling_spread(means: np.ndarray) -> np.ndarray:
    """Return the standard deviation of Poisson counts around their means.

    For rare cells, most of which are empty, it is the value that gives their mean absolute deviation of 2 m.
    """
    return np.minimum(np.sqrt(means), 2 * means / MEAN_ABSOLUTE)


@dataclass(frozen=True)
class Dependence:
    """The l1 distance of a pair or triple from the model, in counts.

    Attributes:
        coarse: The expected distance over coarse groups.
        whole: The expected distance over all codes.
        possible: Equally likely values of `whole`, in ascending order; empty if `whole` is certain.
        chance: The sampling error that `whole` includes.
    """

    coarse: float
    whole: float
    possible: tuple[float, ...] = ()
    chance: float = 0.0

    @property
    def systematic(self) -> float:
        """The expected distance over all codes without sampling error."""
        return math.sqrt(max(0.0, self.whole**2 - self.chance**2))

    def beyond(self, coarse_chance: float, whole_chance: float) -> Dependence:
        """Return the dependence after subtracting the sampling error, which adds in squares."""
        coarse, whole = (
            math.sqrt(max(0.0, found**2 - chance**2))
            for found, chance in ((self.coarse, coarse_chance), (self.whole, whole_chance))
        )
        return Dependence(coarse, max(coarse, whole))

    def left_within(self, level: int, coarse_level: int) -> float:
        """Return the distance that groups of a level hide.

        Each level finer than the coarse one halves what is hidden; a level coarser than it hides part of `coarse`, too.
        """
        hidden = math.sqrt(max(0.0, self.whole**2 - self.coarse**2))
        if level >= coarse_level:
            return hidden * 2.0 ** (coarse_level - level)
        seen = self.coarse * (1 - 2.0 ** -(level + 2)) / (1 - 2.0 ** -(coarse_level + 2))
        return math.sqrt(max(0.0, self.whole**2 - seen**2))


@dataclass(frozen=True, eq=False)
class SystematicDependence:
    """The dependence of a table beyond its sampling error (l1), and the part that the groups of each level hide."""

    whole: float
    hidden: list[float]

    @classmethod
    def of(cls, systematic: Dependence, finest: Sequence[bool], coarse_level: int) -> SystematicDependence:
        """Create it from a dependence; levels at which every code is its own group hide nothing."""
        hidden = [0.0 if last else systematic.left_within(level, coarse_level) for level, last in enumerate(finest)]
        return cls(systematic.whole, hidden)

    def shown(self, level: int) -> float:
        """Return the part of the dependence that the groups of a level show."""
        return math.sqrt(max(0.0, self.whole**2 - self.hidden[level] ** 2))


def mixture_weights(likelihood: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the weights of the atoms of a mixture, found by expectation maximization.

    Args:
        likelihood: The likelihood of each value under each atom, shape (values, atoms). Where it is below `UNLIKELY` it
            is set to zero.
        before: The weights to start from, times the number of values that they count as.
    """
    likelihood[likelihood < UNLIKELY] = 0.0
    weights = before / before.sum()
    for _ in range(ROUNDS):
        weights = weights * ((1 / (likelihood @ weights)) @ likelihood) + before
        weights /= weights.sum()
    return weights


def posterior_dependence(noisy: np.ndarray, explained: np.ndarray, stddev: np.ndarray, total: float) -> np.ndarray:
    """Return the posterior mean of the lower and of the upper half of each dependence, shape (n, 2).

    A noisy distance combines the dependence and the known errors of the model, which add in squares. The prior of the
    dependence is a mixture of normal distributions on a logarithmic grid and at 0, whose weights are estimated by
    maximum likelihood from all distances (empirical Bayes; see Stephens 2017). Half of the initial weight is at 0.

    Args:
        noisy: Noisy l1 distances in counts, shape (n,).
        explained: The distances that known errors explain, of the same shape.
        stddev: The standard deviations of the noise, of the same shape.
        total: The number of records.
    """
    atoms = 2 * total * np.r_[0.0, np.geomspace(WEAKEST, 1.0, STEPS)]
    before = np.r_[0.5, np.full(STEPS, 0.5 / STEPS)]
    distances = np.hypot(explained[:, None], atoms)
    slopes = np.divide(atoms, distances, out=np.zeros_like(distances), where=distances > 0)
    widths = np.log(atoms[-1] / atoms[-2]) / 2 * atoms
    variances = np.square(stddev)[:, None] + np.square(slopes * widths)
    off = noisy[:, None] - distances
    logs = -0.5 * (np.square(off) / variances + np.log(variances))
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = mixture_weights(likelihood, before)
    means = atoms + slopes * np.square(widths) / variances * off
    posterior = likelihood * weights
    ends = np.cumsum(posterior / posterior.sum(axis=1, keepdims=True), axis=1)[:, :, None] * CASES
    low, high = np.arange(CASES), np.arange(1, CASES + 1)
    parts = np.diff(np.clip(ends, low, high) - low, axis=1, prepend=0.0)
    return np.maximum(np.einsum("nak,na->nk", parts, means), 0.0)
