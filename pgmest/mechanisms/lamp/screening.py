"""Small budgets, and the private selection of the pairs to score where scores of all pairs would be too noisy.

The noise in the scores of m pairs grows with sqrt(m) (with m for pure differential privacy). The exponential mechanism
selects k of them with noise that grows with sqrt(k) (or k) only, and then only these k are scored. So screening finds
dependence that is too weak for the scores of all pairs.

With such a budget nearly everything would be spent on one-way marginals, and errors in these would hide dependence. So
the one-way marginals are measured again before pairs are scored, and dependent pairs weigh more. The rules depend on
the domain, the budget and the number of records. Their constants were fixed once, on samples of public tables
(`experiments.flagship.strongest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pgmest.mechanisms.lamp.scorer import Scorer, score_sensitivity
from pgmest.privacy.budgets import Budget
from pgmest.privacy.candidates import Candidates
from pgmest.privacy.grouped_distances import GroupedDistances
from pgmest.tables.domain import Clique

SMALL_BUDGET = 0.05
"""The budget is small for a table if the scores of all pairs have a larger standard deviation (total variation)."""

AGAIN = 1 / 3
"""The part of a small budget, of what the first one-way marginals and scores leave, that measures one-way marginals
again before errors in them hide the dependence of pairs."""

DEPENDENCE_WEIGHT = 0.25
"""The importance that a small budget gives to items in proportion to their dependence, relative to that of all items.
Otherwise nearly everything would be spent on one-way marginals, which are a part of every item."""

LEAST_RATIO = 4
"""Pairs are selected before they are scored only if there are more than this many times as many pairs as selections."""


def is_small(stddev: float, records: float) -> bool:
    """Return whether a budget is small.

    Args:
        stddev: The standard deviation of the noise in the scores of all pairs, in counts.
        records: The number of records.
    """
    return stddev > SMALL_BUDGET * 2 * records


def selections(pairs: int, attributes: int) -> int | None:
    """Return how many of the pairs are selected before they are scored, or None if all are scored."""
    return attributes - 1 if pairs > LEAST_RATIO * (attributes - 1) else None


def screened_pairs(
    scorer: Scorer,
    expected: Mapping[Clique, np.ndarray],
    count: int,
    spend: Budget,
    joined: Iterable[Clique] | None = None,
) -> list[Clique]:
    """Select, one by one, pairs whose distance from the model most exceeds what known errors explain.

    The distances are those over coarse groups.

    Args:
        scorer: The scorer, whose curator selects.
        expected: The expected counts of each pair over codes.
        count: The number of pairs to select.
        spend: The budget of all selections together.
        joined: If given, pairs that are already joined: the selected pairs form a spanning forest beside them. Then
            fewer than `count` pairs may be selected, which costs less.
    """
    questions = scorer.beyond_explained(expected)
    scores, sensitivity = GroupedDistances(tuple(questions)), score_sensitivity(scorer.curator.neighbors)
    candidates, left = Candidates(range(len(questions))), np.arange(len(questions))
    place = {name: number for number, name in enumerate(scorer.curator.domain)}
    ends = np.array([[place[name] for name in question.clique] for question in questions], dtype=np.int64)
    part_of = np.arange(len(place))  # the number of each attribute's tree
    for pair in joined or ():
        _join(part_of, *(place[name] for name in pair))
    chosen = []
    for part in spend.split(count):
        if joined is not None:
            left = left[part_of[ends[left, 0]] != part_of[ends[left, 1]]]
        if not len(left):
            break
        found = scorer.curator.select(candidates.some(left), scores, sensitivity, part, label="pair to score")
        left = left[left != found]
        chosen.append(questions[found].clique)
        _join(part_of, *ends[found])
    return chosen


def _join(part_of: np.ndarray, one: int, other: int) -> None:
    """Give the trees of two attributes the same number, in place."""
    part_of[part_of == part_of[other]] = part_of[one]
