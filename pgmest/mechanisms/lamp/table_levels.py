"""Tables of attributes with trees, measured over groups of codes and, in the same purchase, over branches of the tree.

The noise of a branch that is a sum of many groups adds up. A small part of a table's share, spent on the counts of
branches, removes most of that noise at little cost for the groups; least squares combines both answers
(`answers.Answer.table`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pgmest.mechanisms.lamp.branch_shrinkage import branches_of_groups, steps_of
from pgmest.mechanisms.lamp.tree_counts import least_error_parts, level_errors
from pgmest.mechanisms.lamp.workload_demand import DemandItem
from pgmest.tables.domain import Clique

Groups = Sequence[np.ndarray]
"""For each attribute, the group of each code."""


def measured_together(
    groups: Groups,
    trees: Sequence[Sequence[np.ndarray]],
    items: Iterable[tuple[DemandItem, float]],
    clique: Clique,
    power: float,
) -> list[tuple[list[np.ndarray], float]]:
    """Return the groups of each measurement of a table, from the coarsest, and its part of the table's share.

    The parts minimize the weighted sum of the errors at the levels that the workload asks for
    (`tree_counts.least_error_parts`). A level that no item asks for is not measured.

    Args:
        groups: The groups over which the table is measured.
        trees: For each attribute, the branch of each code at each level, from the coarsest; nothing without a tree.
        items: The items of the workload that contain the table, and their weights.
        clique: The attributes of the table.
        power: The power of the share to which precision is proportional.
    """
    sides = [branches_of_groups(own, tree) for own, tree in zip(groups, trees, strict=True)]
    levels = [[labels[own] for labels, own in zip(step, groups, strict=True)] for step in steps_of(sides)]
    levels.append(list(groups))
    weights = np.zeros(len(levels))
    for asked, weight in items:
        weights[_level_of(asked, clique, levels)] += weight
    levels = [level for level, weight in zip(levels, weights, strict=True) if weight > 0]
    weights = weights[weights > 0]
    if len(levels) < 2:
        return [(levels[0] if levels else list(groups), 1.0)]
    cells = np.array([math.prod(int(labels[-1]) + 1 for labels in level) for level in levels], dtype=np.float64)
    parts, alone = least_error_parts(cells, weights, power), np.arange(len(cells)) == len(cells) - 1
    if weights @ level_errors(cells, parts, power) >= weights @ level_errors(cells, alone.astype(np.float64), power):
        return [(list(groups), 1.0)]
    return list(zip(levels, parts.tolist(), strict=True))


def _level_of(asked: DemandItem, clique: Clique, levels: Sequence[Groups]) -> int:
    """Return the coarsest level whose branches the queries of an item do not cut through; the finest is the last."""
    factors = asked.inside(clique)
    for level, step in enumerate(levels[:-1]):
        merged = [
            (name, np.diff(labels) == 0)
            for name, labels, finest in zip(clique, step, levels[-1], strict=True)
            if labels[-1] < finest[-1]
        ]
        if all(name in factors and not np.diff(factors[name], axis=1)[:, same].any() for name, same in merged):
            return level
    return len(levels) - 1
