"""Noisy scores: how far all pairs of attributes are from what is expected of them, released at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.mechanisms.pgm.groups import summed
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.privacy.noise import Noise, make_backend, noise_for
from pgmest.tables.domain import Clique

STEP = 2.0**-10
"""Expected counts are rounded to multiples of this, so that scores are exact in floats, and multiples of it, too."""

Question = tuple[Clique, tuple[np.ndarray, ...], np.ndarray]
"""A pair, groups of its attributes' codes, and what is expected of its counts over these."""


def distance(counts: np.ndarray, expected: np.ndarray) -> float:
    """The l1 distance between integer counts and expected ones, which are first rounded to the grid."""
    return float(np.abs(counts - np.rint(expected / STEP) * STEP).sum())


def score_sensitivity(neighbors: Neighbors) -> float:
    """The most that `distance` changes between neighbors, for expected counts that do not depend on the records.

    By the triangle inequality no more than the counts do in l1, over groups as over codes: 1 for each record more or
    less, 2 for each that is replaced. (PrivSyn's InDif compares with the product of the true one-way marginals, which
    the record moves, too: 4. Comparing with what was paid for already is so much more accurate, and asks what matters:
    not how dependent a pair is, but how wrong the model so far.)
    """
    return neighbors.l1_sensitivity()


def scores_stddev(count: int, spend: Budget, neighbors: Neighbors) -> float:
    """The standard deviation of the noise in each of so many scores."""
    return _noise(count, spend, neighbors).stddev


def noisy_scores(curator: Curator, questions: Sequence[Question], spend: Budget, backend: str) -> np.ndarray:
    """The distance of each question's counts from what is expected, in counts, with noise.

    One record moves each of m scores by at most the sensitivity s: the vector by sqrt(m) s in l2 (Gaussian noise, for
    a Rho) and m s in l1 (Laplace noise, for an Epsilon).
    """
    noise = _noise(len(questions), spend, curator.neighbors)

    def release(data: Dataset, generator: np.random.Generator) -> list[float]:
        tables = data.project_many([pair for pair, _, _ in questions])
        exact = [
            distance(summed(table.values, groups), expected)
            for table, (_, groups, expected) in zip(tables, questions, strict=True)
        ]
        return make_backend(backend, generator).add_noise(np.array(exact), noise, 0).tolist()

    label = f"how wrong the model is on {len(questions)} tables"
    return np.array(curator.release(release, spend, label=label, secure=True))


def _noise(count: int, spend: Budget, neighbors: Neighbors) -> Noise:
    unit = noise_for(spend, AddRemove())  # of sensitivity 1
    norm = (math.sqrt(count) if isinstance(spend, Rho) else count) * score_sensitivity(neighbors)
    norm = math.nextafter(norm, math.inf)
    return replace(unit, scale=math.nextafter(norm * unit.scale, math.inf), sensitivity=norm, step=STEP)
