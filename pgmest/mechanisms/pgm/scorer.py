"""How far marginals are from what is expected of them, by noisy scores, and how much of that is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest.mechanisms.pgm.evidence import Evidence
from pgmest.mechanisms.pgm.offers import MEAN_ABSOLUTE, Dependence
from pgmest.mechanisms.pgm.scores import noisy_distances, scores_stddev
from pgmest.mechanisms.pgm.shrinkage import posterior_means
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import GroupedDistance
from pgmest.tables.domain import Clique
from pgmest.tables.groups import summed

COARSE_LEVEL = 2
"""Scores are released over groups of this level, counted from 0, eight at most, and over all codes."""

NO_PAIRS: Mapping[Clique, Dependence] = {}

Groups = tuple[np.ndarray, ...]
"""Of each attribute of a marginal, the group of each code."""
Beyond = Callable[[Sequence[tuple[Clique, Groups]], np.ndarray, float], dict[Clique, float]]
"""The dependence of marginals over such groups, by their noisy distances and the standard deviation of the noise."""


@dataclass(frozen=True, eq=False)
class Scores:
    """How far marginals are from what is expected of them.

    Attributes:
        dependence: estimated.
        noisy: the distances as released, over codes.
        stddev: of their noise.
    """

    dependence: dict[Clique, Dependence]
    noisy: dict[Clique, float]
    stddev: float


@dataclass(frozen=True, eq=False)
class Scorer:
    """Asks for scores, and takes off what is explained by errors that are known.

    Distances are in counts (l1), and errors that have nothing to do with each other add up in squares.

    Attributes:
        curator: pays.
        evidence: what is known.
        levels: of each attribute the groups of its codes, from coarse to fine.
        spend: for all the scores asked at once.
    """

    curator: Curator
    evidence: Evidence
    levels: Mapping[str, Sequence[np.ndarray]]
    spend: Budget

    def stddev(self, cliques: Iterable[Clique]) -> float:
        """The standard deviation of the noise in each score, where these marginals are scored."""
        count = sum(1 + self._has_finer(clique) for clique in cliques)
        return scores_stddev(count, self.spend, self.curator.neighbors)

    def found(self, asked: Sequence[dict[Clique, np.ndarray]], beyond: Beyond) -> list[Scores]:
        """The dependence of marginals beyond what is expected of them, by noisy scores, all released at once.

        Args:
            asked: once or several times marginals with the counts over codes that are expected of them.
            beyond: `beyond_one_ways` or `beyond_pairs`.
        """
        batches = [self._over(expected, finest) for expected in asked for finest in (False, True)]
        owners = [expected for expected in asked for _ in (False, True)]
        questions = [
            GroupedDistance(clique, groups, summed(expected[clique], groups))
            for expected, batch in zip(owners, batches, strict=True)
            for clique, groups in batch
        ]
        released = noisy_distances(self.curator, questions, self.spend)
        stddev = scores_stddev(len(questions), self.spend, self.curator.neighbors)
        noisy = np.split(released, np.cumsum([len(batch) for batch in batches])[:-1])
        found = [beyond(batch, values, stddev) if batch else {} for batch, values in zip(batches, noisy, strict=True)]
        values = [
            {clique: float(value) for (clique, _), value in zip(batch, some, strict=True)}
            for batch, some in zip(batches, noisy, strict=True)
        ]
        return [
            Scores(
                {clique: Dependence(seen, max(seen, whole.get(clique, 0.0))) for clique, seen in coarse.items()},
                {**over_groups, **over_codes},
                stddev,
            )
            for coarse, whole, over_groups, over_codes in zip(
                found[::2], found[1::2], values[::2], values[1::2], strict=True
            )
        ]

    def beyond_one_ways(
        self, entries: Sequence[tuple[Clique, Groups]], noisy: np.ndarray, stddev: float
    ) -> dict[Clique, float]:
        """What remains of the distances of pairs beyond what the errors of one-way marginals explain."""
        distances = posterior_means(self._clipped(noisy, stddev), stddev)
        left = np.square(distances) - np.square(self._explained(entries))
        return _by_clique(entries, np.sqrt(np.maximum(left, 0.0)))

    def beyond_pairs(self, pairs: Mapping[Clique, Dependence]) -> Beyond:
        """Of the distances of triples what remains beyond that, and beyond what is wrong with the pairs inside.

        Most of what a triple's score shows are errors of its pairs. What these explain is taken off before noisy values
        are moved to where most of them must be: else each would keep the noise of its pairs' scores as its own.

        Args:
            pairs: what scores of the same expected counts found.
        """

        def beyond(entries: Sequence[tuple[Clique, Groups]], noisy: np.ndarray, stddev: float) -> dict[Clique, float]:
            explained = self._explained(entries, pairs)
            further = posterior_means(self._clipped(noisy - explained, stddev), stddev)
            return _by_clique(entries, np.sqrt(further * (further + 2 * explained)))

        return beyond

    def _explained(
        self, entries: Sequence[tuple[Clique, Groups]], pairs: Mapping[Clique, Dependence] = NO_PAIRS
    ) -> np.ndarray:
        """The distances that errors of one-way marginals alone make, and those of pairs."""
        one_ways: dict[tuple[str, int], float] = {}
        squares = np.zeros(len(entries))
        for place, (clique, groups) in enumerate(entries):
            for name, labels in zip(clique, groups, strict=True):
                key = name, int(labels[-1])
                if key not in one_ways:
                    one_ways[key] = self._one_way_error(name, labels)
                squares[place] += one_ways[key] ** 2
            for pair in combinations(clique, 2) if pairs else ():
                error = pairs[pair].coarse if self._is_coarse(clique, groups) else pairs[pair].whole
                squares[place] += error**2
        return np.sqrt(squares)

    def _one_way_error(self, name: str, labels: np.ndarray) -> float:
        """The error that the counts of an attribute's groups have."""
        counts = summed(self.evidence.counts(name), (labels,))
        noise = self.evidence.stddev(name) * np.sqrt(np.bincount(labels))
        return MEAN_ABSOLUTE * float((counts * noise / np.hypot(counts, noise)).sum())

    def _clipped(self, noisy: np.ndarray, stddev: float) -> np.ndarray:
        """Without values that no distance can have, beyond what noise explains."""
        return np.clip(noisy, -4 * stddev, 2 * self.evidence.total)

    def _over(self, cliques: Iterable[Clique], finest: bool) -> list[tuple[Clique, Groups]]:
        """Marginals over coarse groups, or over all codes those for which that is not the same."""
        return [
            (clique, tuple(self._labels(name, finest) for name in clique))
            for clique in cliques
            if not finest or self._has_finer(clique)
        ]

    def _labels(self, name: str, finest: bool) -> np.ndarray:
        levels = self.levels[name]
        return levels[-1] if finest else levels[min(COARSE_LEVEL, len(levels) - 1)]

    def _is_coarse(self, clique: Clique, groups: Groups) -> bool:
        return all(labels is self._labels(name, finest=False) for name, labels in zip(clique, groups, strict=True))

    def _has_finer(self, clique: Clique) -> bool:
        """Whether the coarse groups of some attribute are not its codes."""
        return any(len(self.levels[name]) - 1 > COARSE_LEVEL for name in clique)


def _by_clique(entries: Sequence[tuple[Clique, Groups]], values: np.ndarray) -> dict[Clique, float]:
    return {clique: float(value) for (clique, _), value in zip(entries, values, strict=True)}
