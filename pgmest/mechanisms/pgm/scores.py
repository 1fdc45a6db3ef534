"""Noisy scores: how far all pairs of attributes are from what is expected of them, released at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.scores import GroupedDistance, GroupedDistances, noisy_scores, score_noise


def score_sensitivity(neighbors: Neighbors) -> float:
    """The most that a distance changes between neighbors, for expected counts that do not depend on the records.

    By the triangle inequality no more than the counts do in l1, over groups as over codes: 1 for each record more or
    less, 2 for each that is replaced. (PrivSyn's InDif compares with the product of the true one-way marginals, which
    the record moves, too: 4. Comparing with what was paid for already is so much more accurate, and asks what matters:
    not how dependent a pair is, but how wrong the model so far.)
    """
    return neighbors.l1_sensitivity()


def scores_stddev(count: int, spend: Budget, neighbors: Neighbors) -> float:
    """The standard deviation of the noise in each of `count` scores."""
    return score_noise(score_sensitivity(neighbors), count, spend).stddev


def noisy_distances(curator: Curator, questions: Sequence[GroupedDistance], spend: Budget) -> np.ndarray:
    """The distance of each question's counts from what is expected, in counts, with noise.

    One record moves each of m scores by at most the sensitivity s: the vector by sqrt(m) s in l2 (Gaussian noise, for
    a Rho) and m s in l1 (Laplace noise, for an Epsilon).
    """
    scores, label = GroupedDistances(tuple(questions)), f"dependence of {len(questions)} tables beyond the model"
    sensitivity = score_sensitivity(curator.neighbors)
    return noisy_scores(curator, range(len(questions)), scores, sensitivity, spend, label=label)
