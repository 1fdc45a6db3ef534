"""How far marginals are from what is expected of them, by noisy scores, and how much of that is new."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.pgm.dependence import Dependence, dependence_means, sampling_spread
from pgmest.mechanisms.pgm.evidence import Evidence
from pgmest.mechanisms.pgm.scores import noisy_distances, scores_stddev
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import GroupedDistance
from pgmest.tables.domain import Clique
from pgmest.tables.groups import summed

COARSE_LEVEL = 2
"""Scores are released over groups of this level, counted from 0, eight at most, and over all codes."""

POWER = 1.4
"""Errors of one-way marginals add up in a pair by this power: that of their l1 distances (measured; 2 is 20 % less)."""

NO_PAIRS: Mapping[Clique, Dependence] = {}

Groups = tuple[np.ndarray, ...]
"""Of each attribute of a marginal, the group of each code."""
Beyond = Callable[[Sequence[tuple[Clique, Groups]], np.ndarray, np.ndarray, np.ndarray], dict[Clique, np.ndarray]]
"""The dependence of marginals over such groups, by their noisy distances and the standard deviations of the noise."""


@dataclass(eq=False)
class Known:
    """What all scores so far say, those of other rounds, too.

    A distance changes by no more than what is expected does. So an earlier score tells of the distance from what is
    expected now, with that change for a further error.
    """

    found: dict[tuple[Clique, tuple[int, ...]], tuple[np.ndarray, float, float]] = field(default_factory=dict)

    def with_earlier(self, question: GroupedDistance, noisy: float, stddev: float) -> tuple[float, float]:
        """A score and its standard error, averaged with what is known of the same marginal over these groups."""
        key = question.clique, question.expected.shape
        if key in self.found:
            expected, before, error = self.found[key]
            error = math.hypot(error, float(np.abs(question.expected - expected).sum()))
            share = error**2 / (error**2 + stddev**2)
            noisy, stddev = before + share * (noisy - before), math.sqrt(share) * stddev
        self.found[key] = question.expected.astype(np.float32), noisy, stddev
        return noisy, stddev


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
        known: what earlier scores said.
    """

    curator: Curator
    evidence: Evidence
    levels: Mapping[str, Sequence[np.ndarray]]
    spend: Budget
    known: Known = field(default_factory=Known)

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
        scores = np.array([released, np.full(len(questions), stddev)])
        if len(asked) == 1:
            scores = np.array([self.known.with_earlier(*each) for each in zip(questions, *scores, strict=True)]).T
        chances = [MEAN_ABSOLUTE * float(sampling_spread(question.expected).sum()) for question in questions]
        scores = np.vstack([scores, chances])
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        noisy = np.split(released, ends)
        found = [
            beyond(batch, *own) if batch else {}
            for batch, own in zip(batches, np.split(scores, ends, axis=1), strict=True)
        ]
        values = [
            {clique: float(value) for (clique, _), value in zip(batch, some, strict=True)}
            for batch, some in zip(batches, noisy, strict=True)
        ]
        return [
            Scores(
                {clique: _together(seen, whole.get(clique, seen)) for clique, seen in coarse.items()},
                {**over_groups, **over_codes},
                stddev,
            )
            for coarse, whole, over_groups, over_codes in zip(
                found[::2], found[1::2], values[::2], values[1::2], strict=True
            )
        ]

    def beyond_one_ways(
        self, entries: Sequence[tuple[Clique, Groups]], noisy: np.ndarray, stddev: np.ndarray, chances: np.ndarray
    ) -> dict[Clique, np.ndarray]:
        """What remains of the distances of pairs beyond what the errors of one-way marginals explain."""
        return self._beyond(entries, noisy, stddev, chances, self._explained(entries))

    def beyond_pairs(self, pairs: Mapping[Clique, Dependence]) -> Beyond:
        """Of the distances of triples what remains beyond that, and beyond what is wrong with the pairs inside.

        Most of what a triple's score shows are errors of its pairs. What these explain is taken off before noisy values
        are moved to where most of them must be: else each would keep the noise of its pairs' scores as its own.

        Args:
            pairs: what scores of the same expected counts found.
        """

        def beyond(
            entries: Sequence[tuple[Clique, Groups]], noisy: np.ndarray, stddev: np.ndarray, chances: np.ndarray
        ) -> dict[Clique, np.ndarray]:
            explained = self._explained(entries, pairs)
            return self._beyond(entries, noisy, stddev, chances, explained)

        return beyond

    def _beyond(
        self,
        entries: Sequence[tuple[Clique, Groups]],
        noisy: np.ndarray,
        stddev: np.ndarray,
        chances: np.ndarray,
        explained: np.ndarray,
    ) -> dict[Clique, np.ndarray]:
        """What remains: chance, and what is beyond both."""
        systematic = dependence_means(noisy, np.hypot(explained, chances), stddev, self.evidence.total)
        return _by_clique(entries, np.hypot(systematic, chances[:, None]))

    def _explained(
        self, entries: Sequence[tuple[Clique, Groups]], pairs: Mapping[Clique, Dependence] = NO_PAIRS
    ) -> np.ndarray:
        """The distances that errors of one-way marginals alone make, and those of pairs."""
        one_ways: dict[tuple[str, int], float] = {}
        powers, squares = np.zeros(len(entries)), np.zeros(len(entries))
        for place, (clique, groups) in enumerate(entries):
            for name, labels in zip(clique, groups, strict=True):
                key = name, int(labels[-1])
                if key not in one_ways:
                    one_ways[key] = self._one_way_error(name, labels)
                powers[place] += one_ways[key] ** POWER
            for pair in combinations(clique, 2) if pairs else ():
                error = pairs[pair].coarse if self._is_coarse(clique, groups) else pairs[pair].whole
                squares[place] += error**2
        return np.sqrt(powers ** (2 / POWER) + squares)

    def _one_way_error(self, name: str, labels: np.ndarray) -> float:
        """The error that the counts of an attribute's groups have."""
        counts = summed(self.evidence.counts(name), (labels,))
        noise = self.evidence.stddev(name) * np.sqrt(np.bincount(labels))
        return MEAN_ABSOLUTE * float((counts * noise / np.hypot(counts, noise)).sum())

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


def _together(coarse: np.ndarray, whole: np.ndarray) -> Dependence:
    """By what is possible over coarse groups, and over all codes."""
    seen = float(coarse.mean())
    if whole.mean() < seen:
        whole = coarse
    return Dependence(seen, float(whole.mean()), tuple(map(float, whole)))


def _by_clique(entries: Sequence[tuple[Clique, Groups]], values: np.ndarray) -> dict[Clique, np.ndarray]:
    return {clique: value for (clique, _), value in zip(entries, values, strict=True)}
