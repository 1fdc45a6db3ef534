"""Noisy scores: the distances of marginals from their expected counts, released at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.grouped_distances import GroupedDistance, GroupedDistances
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.scores import noisy_scores, score_noise


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
