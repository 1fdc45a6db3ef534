"""Simulated output of private mechanisms, which is not private: for the demo, tests and experiments."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.dual_query.likelihood import DualQueryTranscript, cells_of_records
from pgmest.tables.clique_vector import Layout

LARGEST_DOMAIN = 10**6
"""The most possible records that `simulate_dual_query` tries in each step."""


def simulate_measurements(
    data: Dataset,
    cliques: Iterable[Iterable[str] | str],
    stddev: float,
    seed: int | np.random.Generator | None = None,
) -> list[LinearMeasurement]:
    """Return the marginal of each clique plus independent Gaussian noise, drawn clique after clique.

    **Not private**: the noise is floating-point and comes from a seeded generator, and nothing is charged to a budget.

    >>> data = Dataset.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), {"sex": 2, "income": 2})
    >>> simulate_measurements(data, [("sex", "income")], stddev=10.0, seed=0)
    [LinearMeasurement(sex, income: 4 noisy answers, identity, gaussian stddev 10)]

    Args:
        data: the records.
        cliques: the marginals to measure, in this order.
        stddev: the standard deviation of the noise on each cell, in counts.
        seed: the seed of the noise.

    Raises:
        ArgumentError: `stddev` is not a positive number.
        UnknownAttributeError: an attribute of a clique is not in the data's domain.
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


def simulate_dual_query(
    data: Dataset,
    cliques: Iterable[Iterable[str]],
    *,
    steps: int,
    samples: int,
    eta: float,
    negations: bool = True,
    seed: int | np.random.Generator | None = None,
) -> DualQueryTranscript:
    """Run DualQuery on data; the best record of each step is found by trying all possible records.

    **Not private**: the sampling is floating-point, from a seeded generator, and nothing is charged to a budget.

    Args:
        data: the true records.
        cliques: the marginals whose cells are the workload; each set of attributes once.
        steps: T, the number of synthetic records.
        samples: the number of queries drawn in each step.
        eta: the learning rate.
        negations: whether the workload is closed under negation.
        seed: the seed of the sampling.

    Raises:
        ArgumentError: the domain has too many possible records, or a parameter is not valid.
        UnknownAttributeError: an attribute of a clique is not in the data's domain.
    """
    domain = data.domain
    if domain.size() > LARGEST_DOMAIN:
        raise ArgumentError(
            f"data has {domain.size():,} possible records, too many to try them all: use at most {LARGEST_DOMAIN:,}."
        )
    layout, generator = Layout.of(domain, cliques), np.random.default_rng(seed)
    possible = np.indices(domain.shape).reshape(len(domain), -1).T
    cells = cells_of_records(Dataset.from_codes(possible, domain), layout)
    answers = np.concatenate([data.project(clique).datavector() for clique in layout.cliques]) / data.records
    logits, best, queries = np.zeros(layout.cells), np.zeros(steps, dtype=np.int64), np.zeros((steps, samples), int)
    for step in range(steps):
        both = np.concatenate([logits, -logits]) if negations else logits
        weights = np.exp(both - both.max())
        queries[step] = generator.choice(len(weights), samples, p=weights / weights.sum())
        signs = np.where(queries[step] < layout.cells, 1.0, -1.0)
        scores = np.bincount(queries[step] % layout.cells, signs, minlength=layout.cells)
        best[step] = np.argmax(scores[cells].sum(axis=1))
        logits += eta * answers
        logits[cells[best[step]]] -= eta
    records = Dataset.from_codes(possible[best], domain)
    return DualQueryTranscript(records, layout.cliques, queries, eta, data.records, negations)
