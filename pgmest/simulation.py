"""Measurements like those of a private mechanism, without its privacy: for the demo, tests and experiments."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pgmest.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.measurement import LinearMeasurement


def simulate_measurements(
    data: Dataset,
    cliques: Iterable[Iterable[str] | str],
    stddev: float,
    seed: int | np.random.Generator | None = None,
) -> list[LinearMeasurement]:
    """The marginal of each clique plus independent Gaussian noise, drawn clique after clique.

    **Not private**: the noise is floating-point and comes from a seeded generator, and nothing is charged to a budget.

    >>> data = Dataset.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), {"sex": 2, "income": 2})
    >>> simulate_measurements(data, [("sex", "income")], stddev=10.0, seed=0)
    [LinearMeasurement(sex, income: 4 noisy answers, identity, gaussian stddev 10)]

    Args:
        data: the records.
        cliques: the marginals to measure, in this order.
        stddev: the standard deviation of the noise on each cell, in counts.
        seed: of the noise.

    Raises:
        ArgumentError: `stddev` is not a positive number.
        UnknownAttributeError: a clique names what is not in the data's domain.
    """
    if not 0 < stddev < np.inf:
        raise ArgumentError.of("stddev", stddev, "a positive number")
    generator = np.random.default_rng(seed)
    marginals = data.project_many(cliques)
    return [
        LinearMeasurement(
            marginal.values + generator.normal(0.0, stddev, marginal.values.shape), marginal.domain.attributes, stddev
        )
        for marginal in marginals
    ]
