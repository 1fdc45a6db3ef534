r"""The three scores of PrivBayes for an attribute and its parents, and their sensitivities.

A score is a function of the (|X|, |Pi|) table of counts of an attribute and its parents. Scores are in counts, not
fractions, so their sensitivity does not depend on the number of records, which is private under `AddRemove`.

======  =========================================================================================================
score   definition (Zhang et al. 2017, section 4)
======  =========================================================================================================
I       mutual information, n I(X; Pi) / g(n) with g(n) = (n + 1) log(n + 1) - n log n, about 1 + log n
F       -n/2 times the l1 distance to the nearest distribution of greatest mutual information; X binary
R       n/2 times the l1 distance of the joint distribution from the product of its marginals
======  =========================================================================================================

The bounds for neighbors that differ in one record, with counts c, their row and column sums a and b, and n records:

- **R, a record added.** With p = a / n, q = b / n and the new record's unit vectors e, f, the matrix c - a b^T / n
  changes by n / (n + 1) (e - p)(f - q)^T, whose l1 norm is at most 4 n / (n + 1). So R changes by less than 2.
  **Replaced**: 3 + 2 / n, as published (for fractions 3 / n + 2 / n^2).
- **F.** With each code of Pi assigned to a code of X, F is minus the least
  (n/2 - K_0)_+ + (n/2 - K_1)_+ over assignments, with K_x the records that agree with it. For one assignment an
  added record raises n/2 by 1/2 in both terms and one of the K by at most 1: the sum changes by at most 1. A replaced
  record changes each K by at most 1, in opposite directions, so the sum changes by at most 1, as published.
- **I, a record added.** n I = S(c) + S(n) - S(a) - S(b) with S the sum of t log t, and each increment of t log t
  is increasing and concave. Hence n I rises by at most g(n) and falls by at most 2 g(n / 2) - g(n). Divided by g,
  which increases, the score changes by at most 1. **Replaced**: as published, divided by g(n).

The sensitivity for an individual of k records is k times as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pgmest.privacy.neighbors import Neighbors
from pgmest.tables.domain import Clique

Family = Clique
"""An attribute, followed by its parents."""


def mutual_information_score(table: np.ndarray) -> float:
    """Return I, the mutual information in natural logarithms."""
    total = table.sum()
    if total <= 0:
        return 0.0
    information = _xlogx(table) + _xlogx(total) - _xlogx(table.sum(axis=0)) - _xlogx(table.sum(axis=1))
    return float(information / information_scale(total))


def nearest_dependence_score(table: np.ndarray) -> float:
    """Return F. The score of a table with one row, an attribute with a single value, is 0."""
    counts = table.astype(np.int64)
    half = counts.sum() / 2
    agreeing = np.where(counts[0] >= counts[-1], counts[0], 0), np.where(counts[0] < counts[-1], counts[-1], 0)
    larger = int(agreeing[1].sum() > agreeing[0].sum())
    excess, missing = agreeing[larger].sum() - half, half - agreeing[1 - larger].sum()
    if excess <= 0:
        return -float(missing - excess)  # the best assignment of every column leaves no excess
    movable = (agreeing[larger] > 0) & (counts[larger - 1] > 0)
    return -_least_shortfall(counts[larger][movable], counts[larger - 1][movable], excess, missing)


def _least_shortfall(lost: np.ndarray, gained: np.ndarray, excess: float, missing: float) -> float:
    """Return the minimum over subsets of (sum of lost - excess)_+ + (missing - sum of gained)_+ (dynamic program)."""
    most = int(min(gained.sum(), math.ceil(missing)))
    cost = np.full(most + 1, np.inf)  # cost[g]: the least loss for a gain of g (the last: at least g)
    cost[0] = 0.0
    for loss, gain in zip(lost.tolist(), gained.tolist(), strict=True):
        step = min(gain, most)
        enough = cost[most - step :].min()
        cost[step:] = np.minimum(cost[step:], cost[: most + 1 - step] + loss)
        cost[most] = min(cost[most], enough + loss)
    shortfall = np.maximum(cost - excess, 0.0) + np.maximum(missing - np.arange(most + 1), 0.0)
    return float(shortfall.min())


def dependence_score(table: np.ndarray) -> float:
    """Return R, half the l1 distance from independence."""
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.sum(), 1.0)
    return 0.5 * float(np.abs(table - independent).sum())


SCORES: dict[str, Callable[[np.ndarray], float]] = {
    "I": mutual_information_score,
    "F": nearest_dependence_score,
    "R": dependence_score,
}


def information_scale(records: float) -> float:
    """Return g(n) = (n + 1) log(n + 1) - n log n, the most that record n + 1 adds to n I."""
    return float(_xlogx(np.array(records + 1.0)) - _xlogx(np.array(float(records))))


def sensitivity(score: str, neighbors: Neighbors, public_total: int | None, binary: bool) -> float:
    """Return the sensitivity of a score, derived at the top of this module.

    Args:
        score: "I", "F" or "R".
        neighbors: the neighboring relation.
        public_total: the number of records under `Replace`, None under `AddRemove`.
        binary: whether in every family the attribute or its parents have at most two codes, which makes the sensitivity
            of I smaller.
    """
    if public_total is None:
        return neighbors.records * {"I": 1.0, "F": 1.0, "R": 2.0}[score]
    n = max(2, public_total)
    if score == "F":
        return float(neighbors.records)
    if score == "R":
        return neighbors.records * (3 + 2 / n)
    if binary:
        moved = math.log(n) + (n - 1) * math.log(n / (n - 1))
    else:
        moved = 2 * math.log((n + 1) / 2) + (n - 1) * math.log((n + 1) / (n - 1))
    return neighbors.records * moved / information_scale(n)


def _xlogx(values: np.ndarray) -> float:
    from scipy.special import xlogy

    return float(xlogy(values, values).sum())
