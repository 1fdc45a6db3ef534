"""The k-marginal score of the NIST 2020 differential privacy temporal map challenge, with its penalty on counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable, random_kway

WORST = 2.0
"""The largest L1 distance between two distributions."""


@dataclass(frozen=True, eq=False)
class KMarginalScore:
    """The k-marginal score with the distance of each group.

    Attributes:
        score: 1000 (1 - d / 2), with d the mean of the groups' distances; 1000 is perfect.
        distances: the distance of each group in 0..2, a Factor over the group attributes; NaN for groups without a
            record on either side.
        penalized: the number of groups whose distance is 2 because of their count.
    """

    score: float
    distances: Factor
    penalized: int


def k_marginal_score(
    true: Dataset,
    estimated: Projectable,
    groups: Sequence[str] = ("PUMA", "YEAR"),
    *,
    k: int = 2,
    count: int = 50,
    penalty_from: float = 250,
    attributes: Iterable[str] | None = None,
    seed: int | np.random.Generator | None = None,
) -> KMarginalScore:
    """Return the score of the mean L1 distance of random k-way marginals within each group (sprint 2 of the challenge).

    Within a group, both sides are compared as fractions. The distance is 2, the largest, if a side has less than one
    record in the group, or if the two counts of the group differ by `penalty_from` or more. Groups without a record on
    either side are left out.

    Args:
        true: the records.
        estimated: records, a model, or a mechanism's result, in counts.
        groups: the attributes that define the groups; PUMA and YEAR in the challenge.
        k: the number of attributes of a marginal, besides those of the groups.
        count: the number of random marginals, drawn independently, so that a set may be drawn twice.
        penalty_from: the least difference of counts that is penalized; 250 in the challenge.
        attributes: the attributes of the marginals; by default all that are not in `groups`.
        seed: the seed of the choice.

    Raises:
        UnknownAttributeError: a name is not an attribute.
        ArgumentError: there are too few attributes, or no group has a record.
    """
    keys = true.domain.clique(groups)
    others = true.domain.without(keys) if attributes is None else true.domain.project(attributes)
    if not set(others).isdisjoint(keys):
        raise ArgumentError.of("attributes", tuple(others), "attributes that are not in groups")
    rng = np.random.default_rng(seed)
    chosen = [random_kway(others, k, 1, rng).cliques[0] for _ in range(count)]
    counts = [source.project(keys).values for source in (true, estimated)]
    present = (counts[0] >= 1) | (counts[1] >= 1)
    if not present.any():
        raise ArgumentError.of("groups", keys, "attributes of data with at least one record")
    distances = np.mean([_distances(true, estimated, keys, clique) for clique in chosen], axis=0)
    penalized = present & (np.abs(counts[0] - counts[1]) >= penalty_from)
    distances = np.where(present, np.where(penalized, WORST, distances), np.nan)
    score = 1000.0 * (1.0 - float(distances[present].mean()) / 2.0)
    return KMarginalScore(score, Factor(true.domain.project(keys), distances), int(penalized.sum()))


def _distances(true: Projectable, estimated: Projectable, keys: Clique, clique: Clique) -> np.ndarray:
    """Return the L1 distance between the two sides' fractions within each group, an array of the groups' shape."""
    mine, theirs = (source.project((*keys, *clique)).values for source in (true, estimated))
    cells = tuple(range(len(keys), mine.ndim))
    n, m = mine.sum(axis=cells, keepdims=True), theirs.sum(axis=cells, keepdims=True)
    both = (n >= 1) & (m >= 1)
    difference = np.abs(mine / np.where(both, n, 1.0) - theirs / np.where(both, m, 1.0)).sum(axis=cells)
    return np.where(both.reshape(difference.shape), difference, WORST)
