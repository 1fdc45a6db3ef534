"""Screening: the private selection of the pairs to score, for budgets whose scores of all pairs would be too noisy.

The noise in the scores of m pairs grows with sqrt(m) (with m for pure differential privacy). The exponential mechanism
selects k of them with noise that grows with sqrt(k) (or k) only, and then only these k are scored. So screening finds
dependence that is too weak for the scores of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx
import numpy as np

from pgmest.mechanisms.lamp.scorer import Scorer
from pgmest.mechanisms.lamp.scores import score_sensitivity
from pgmest.privacy.budgets import Budget
from pgmest.privacy.grouped_distances import GroupedDistances
from pgmest.tables.domain import Clique


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
    trees = nx.utils.UnionFind()
    for pair in joined or ():
        trees.union(*pair)
    left, chosen = list(range(len(questions))), []
    for part in spend.split(count):
        if joined is not None:
            left = [place for place in left if trees[questions[place].clique[0]] != trees[questions[place].clique[1]]]
        if not left:
            break
        place = scorer.curator.select(left, scores, sensitivity, part, label="pair to score")
        left.remove(place)
        chosen.append(questions[place].clique)
        trees.union(*questions[place].clique)
    return chosen
