"""How far marginals are from what is expected of them: what noisy distances say of it, and what may be true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE

STEPS, WEAKEST = 49, 2.0**-12
"""Orders of magnitude of dependence, as a total variation: how many, and the least."""
CASES = 2
"""Its uncertainty is so many values that are equally likely."""
ALIKE = 1.1
"""Cases that differ by less than this factor are one."""
ROUNDS = 100
"""Of expectation maximization."""


def sampling_spread(means: np.ndarray) -> np.ndarray:
    """The standard deviation by which counts vary around such means where only chance moves them (Poisson).

    Of rare cells it is what gives the mean absolute deviation of 2 m: most of them are empty.
    """
    return np.minimum(np.sqrt(means), 2 * means / MEAN_ABSOLUTE)


@dataclass(frozen=True)
class Dependence:
    """How far a pair is from what the model says, in counts (l1): over coarse groups, and over all codes.

    Attributes:
        coarse, whole: as expected.
        possible: of the latter values that are equally likely, where it is uncertain.
    """

    coarse: float
    whole: float
    possible: tuple[float, ...] = ()

    def cases(self) -> list[Dependence]:
        """What may be true, each as likely as the others."""
        if not self.possible or self.possible[-1] <= ALIKE * self.possible[0]:
            return [self]
        return [Dependence(self.coarse * (value / self.whole), value) for value in self.possible]

    def beyond(self, coarse_chance: float, whole_chance: float) -> Dependence:
        """What remains of it where chance alone explains so much."""
        coarse, whole = (
            math.sqrt(max(0.0, found**2 - chance**2))
            for found, chance in ((self.coarse, coarse_chance), (self.whole, whole_chance))
        )
        return Dependence(coarse, max(coarse, whole))

    def left_within(self, level: int, coarse_level: int) -> float:
        """What groups of a level cannot show: halved by each level more, and all of the coarse by none."""
        hidden = math.sqrt(max(0.0, self.whole**2 - self.coarse**2))
        if level >= coarse_level:
            return hidden * 2.0 ** (coarse_level - level)
        seen = self.coarse * (1 - 2.0 ** -(level + 2)) / (1 - 2.0 ** -(coarse_level + 2))
        return math.sqrt(max(0.0, self.whole**2 - seen**2))


@dataclass(frozen=True, eq=False)
class Case:
    """How much of a table's deviation is systematic (l1), and how much of that each level hides."""

    whole: float
    hidden: list[float]

    @classmethod
    def of(cls, systematic: Dependence, finest: Sequence[bool], coarse_level: int) -> Case:
        """What is hidden at each level, none of it where all codes are by themselves."""
        hidden = [0.0 if last else systematic.left_within(level, coarse_level) for level, last in enumerate(finest)]
        return cls(systematic.whole, hidden)

    def shown(self, level: int) -> float:
        """What a level shows."""
        return math.sqrt(max(0.0, self.whole**2 - self.hidden[level] ** 2))


def dependence_means(noisy: np.ndarray, explained: np.ndarray, stddev: np.ndarray, total: float) -> np.ndarray:
    """The mean of each true dependence given a noisy distance, of which errors that are known explain a part; of its
    lower half and its upper one, shape (n, 2).

    Both parts add up in squares. The distribution that dependence comes from is a mixture of normal ones, each as wide
    as `STEPS` leave it between its neighbors, whose weights are estimated by maximum likelihood (empirical Bayes; of
    this kind: Stephens 2017). Before, dependence is thought to be 0, or of any order of magnitude.

    Args:
        noisy: distances in counts (l1), shape (n,).
        explained: of the same shape.
        stddev: of the noise, of the same shape.
        total: the number of records.
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
    weights = before
    for _ in range(ROUNDS):
        weights = weights * ((1 / (likelihood @ weights)) @ likelihood) + before
        weights /= weights.sum()
    means = atoms + slopes * np.square(widths) / variances * off
    posterior = likelihood * weights
    ends = np.cumsum(posterior / posterior.sum(axis=1, keepdims=True), axis=1)[:, :, None] * CASES
    low, high = np.arange(CASES), np.arange(1, CASES + 1)
    parts = np.diff(np.clip(ends, low, high) - low, axis=1, prepend=0.0)
    return np.maximum(np.einsum("nak,na->nk", parts, means), 0.0)
