"""A private choice of the marginal that a model gets most wrong, beyond the noise that measuring it would bring."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.models.distribution import Distribution
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean absolute value of normal noise, in standard deviations."""


def most_wrong(
    curator: Curator,
    model: Distribution,
    weights: Mapping[Clique, float],
    gain: Callable[[Clique, np.ndarray], float],
    spend: Budget,
) -> Clique:
    """The clique with nearly the largest weight * gain, chosen by the exponential mechanism.

    Args:
        curator: holds the data.
        model: what is known so far.
        weights: how much each candidate matters.
        gain: of a candidate and the errors of its marginal, true counts minus the model's: what measuring it would
            bring, in counts; it changes by no more than the errors do, in l1.
        spend: what the choice may cost.
    """
    candidates = list(weights)
    estimated = [marginal.values for marginal in model.project_many(candidates)]

    def scores(data: Dataset) -> list[float]:
        truth = data.project_many(candidates)
        return [
            weights[clique] * gain(clique, true.values - mine)
            for clique, true, mine in zip(candidates, truth, estimated, strict=True)
        ]

    return curator.select(candidates, scores, max(weights.values()) * curator.neighbors.l1_sensitivity(), spend)


def beyond_noise(errors: np.ndarray, noise: float) -> float:
    """The l1 norm of a marginal's errors, less an expected error of `noise` in each cell."""
    return float(np.abs(errors).sum()) - noise * errors.size
