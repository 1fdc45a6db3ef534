"""Scorer: noisy distances of marginals from the model, and the dependence that they imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.dependence import Dependence, posterior_dependence, sampling_spread
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.grouped_distances import GroupedDistance, GroupedDistances
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.scores import noisy_scores, score_noise
from pgmest.tables.domain import Clique
from pgmest.tables.groups import summed


def score_sensitivity(neighbors: Neighbors) -> float:
    """Return the largest change of a distance between neighbors if the expected counts do not depend on the records.

    By the triangle inequality, the distance changes by at most the l1 change of the counts, over groups as over codes:
    1 for each added or removed record, and 2 for each replaced one. PrivSyn's InDif has the sensitivity 4, since it
    compares with the product of the true one-way marginals, which also depend on the record. Comparing with released
    counts lowers the noise, and it measures the error of the current model rather than the dependence of a pair.
    """
    return neighbors.l1_sensitivity()


def scores_stddev(count: int, spend: Budget, neighbors: Neighbors) -> float:
    """Return the standard deviation of the noise in each of `count` scores."""
    return score_noise(score_sensitivity(neighbors), count, spend).stddev


def noisy_distances(
    curator: Curator | OrderedCurator, questions: Sequence[GroupedDistance], spend: Budget
) -> np.ndarray:
    """Release the distance of each question's counts from the expected ones, in counts, with noise.

    A record changes each of m distances by at most the sensitivity s. So it changes their vector by sqrt(m) s in l2,
    for which a Rho adds Gaussian noise, and by m s in l1, for which an Epsilon adds Laplace noise.

    Args:
        curator: The curator.
        questions: The distances.
        spend: The budget of all of them.
    """
    scores = GroupedDistances(tuple(questions))
    scores = curator.about_codes(scores) if isinstance(curator, OrderedCurator) else scores
    records = curator.curator if isinstance(curator, OrderedCurator) else curator
    label = f"dependence of {len(questions)} tables beyond the model"
    return noisy_scores(
        records, range(len(questions)), scores, score_sensitivity(curator.neighbors), spend, label=label
    )


COARSE_LEVEL = 2
"""The level, counted from 0, of the coarse groups that are scored besides all codes; it has at most eight groups."""

NO_PAIRS: Mapping[Clique, Dependence] = {}

Groups = tuple[np.ndarray, ...]
"""For each attribute of a marginal, the group of each code."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of several marginals.

    Attributes:
        dependence: The estimated dependence of each marginal.
        noisy: The released distance of each marginal over all codes.
        stddev: The standard deviation of the noise in a distance.
    """

    dependence: dict[Clique, Dependence]
    noisy: dict[Clique, float]
    stddev: float


@dataclass(frozen=True, eq=False)
class Scorer:
    """A scorer, which releases noisy distances and removes the part that known errors explain.

    Distances are in counts (l1). Independent errors add up in squares.

    Attributes:
        curator: The curator that releases the distances.
        evidence: The evidence so far.
        levels: For each attribute, the groups of its codes, from coarse to fine.
        spend: The budget of one release of scores.
    """

    curator: Curator
    evidence: Evidence
    levels: Mapping[str, Sequence[np.ndarray]]
    spend: Budget

    def stddev(self, cliques: Iterable[Clique]) -> float:
        """Return the standard deviation of the noise in each score if these marginals are scored."""
        count = sum(1 + self._has_finer(clique) for clique in cliques)
        return scores_stddev(count, self.spend, self.curator.neighbors)

    def beyond_explained(self, expected: Mapping[Clique, np.ndarray]) -> list[GroupedDistance]:
        """Return the distance of each pair over coarse groups, less the part that known and sampling errors explain."""
        batch = self._over(expected, finest=False)
        tables = [summed(expected[clique], groups) for clique, groups in batch]
        chances = [MEAN_ABSOLUTE * float(sampling_spread(table).sum()) for table in tables]
        explained = np.hypot(self._explained(batch, NO_PAIRS), chances)
        return [
            GroupedDistance(clique, groups, table, float(error))
            for (clique, groups), table, error in zip(batch, tables, explained, strict=True)
        ]

    def found(
        self,
        asked: Sequence[dict[Clique, np.ndarray]],
        pairs: Mapping[Clique, Dependence] = NO_PAIRS,
    ) -> list[Scores]:
        """Return the scores of marginals, all released at once.

        The errors of one-way marginals are subtracted from the distances. For triples, those of the pairs inside are
        subtracted, too, since they are most of a triple's distance. This happens before the distances are shrunk
        towards each other; otherwise the noise of the pairs' scores would be treated as dependence of the triple.

        Args:
            asked: One or several sets of marginals with their expected counts over codes.
            pairs: The dependence of the pairs inside the marginals from the same model, if these are triples.
        """
        sets = [(expected, finest) for expected in asked for finest in (False, True)]
        batches = [self._over(expected, finest) for expected, finest in sets]
        questions = [
            GroupedDistance(clique, groups, summed(expected[clique], groups))
            for (expected, _), batch in zip(sets, batches, strict=True)
            for clique, groups in batch
        ]
        released = noisy_distances(self.curator, questions, self.spend)
        stddev = scores_stddev(len(questions), self.spend, self.curator.neighbors)
        chances = np.array([MEAN_ABSOLUTE * float(sampling_spread(question.expected).sum()) for question in questions])
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        split = list(zip(batches, np.split(released, ends), np.split(chances, ends), strict=True))
        seen = [self._beyond(batch, known, stddev, chance, pairs) if batch else {} for batch, known, chance in split]
        noisy = [_by_clique(batch, known) for batch, known, _ in split]
        return [
            Scores(
                {clique: _dependence(values, seen[at + 1].get(clique, values)) for clique, values in seen[at].items()},
                {clique: float(value) for clique, value in {**noisy[at], **noisy[at + 1]}.items()},
                stddev,
            )
            for at in range(0, len(batches), 2)
        ]

    def _beyond(
        self,
        entries: Sequence[tuple[Clique, Groups]],
        noisy: np.ndarray,
        stddev: float,
        chances: np.ndarray,
        pairs: Mapping[Clique, Dependence],
    ) -> dict[Clique, np.ndarray]:
        """Return the likely dependences without known errors, and last the sampling error that they include."""
        explained = np.hypot(self._explained(entries, pairs), chances)
        systematic = posterior_dependence(noisy, explained, np.full(len(noisy), stddev), self.evidence.total)
        return _by_clique(entries, np.column_stack([np.hypot(systematic, chances[:, None]), chances]))

    def _explained(self, entries: Sequence[tuple[Clique, Groups]], pairs: Mapping[Clique, Dependence]) -> np.ndarray:
        """Return the distances that errors of one-way marginals, and of pairs if given, explain."""
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
        """Return the expected l1 error in the counts of an attribute's groups."""
        if name in self.evidence.ranges:
            variances = np.diag(summed(self.evidence.covariance(name), (labels, labels)))
            return MEAN_ABSOLUTE * float(np.sqrt(np.maximum(variances, 0.0)).sum())
        counts = summed(self.evidence.counts(name), (labels,))
        noise = self.evidence.stddev(name) * np.sqrt(np.bincount(labels))
        return MEAN_ABSOLUTE * float((counts * noise / np.hypot(counts, noise)).sum())

    def _over(self, cliques: Iterable[Clique], finest: bool) -> list[tuple[Clique, Groups]]:
        """Return marginals over coarse groups, or over all codes those whose coarse groups are not their codes."""
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
        """Return whether the coarse groups of some attribute are coarser than its codes."""
        return any(len(self.levels[name]) - 1 > COARSE_LEVEL for name in clique)


def _dependence(coarse: np.ndarray, whole: np.ndarray) -> Dependence:
    """Return the dependence from its possible values, and their sampling error, over coarse groups and codes."""
    seen = float(coarse[:-1].mean())
    if whole[:-1].mean() < seen:
        whole = coarse
    *possible, chance = map(float, whole)
    return Dependence(seen, float(whole[:-1].mean()), tuple(possible), chance)


def _by_clique(entries: Sequence[tuple[Clique, Groups]], values: np.ndarray) -> dict[Clique, np.ndarray]:
    return {clique: value for (clique, _), value in zip(entries, values, strict=True)}
