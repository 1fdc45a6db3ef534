"""Counts of the branches of the coarsest level of each tree, with at least the share that TopDown spends on totals.

The few counts of that level are a small part of the errors of a workload, so that the shares that minimize these errors
leave little for them. But they are read first. By default TopDown spends the same on each level, and within a level the
same on totals as on each other kind of question (`tree_counts.least_coarsest_share`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import SpendTooSmall
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.lamp.candidates import CandidateMarginal
from pgmest.mechanisms.lamp.measured_marginals import MeasuredMarginal
from pgmest.mechanisms.lamp.tree_counts import least_coarsest_share
from pgmest.tables.domain import Clique

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.rounds import Rounds

LEAST_MISSING = 1e-4
"""A smaller missing share of the budget is not worth a measurement."""
MOST_OF_LEFT = 0.9
"""The largest part of what is left of the budget that goes to these counts."""


def lacking_counts(
    rounds: Rounds, plan: Mapping[Clique, tuple[CandidateMarginal, float]], share: float, left: float
) -> dict[str, float]:
    """Return, for each attribute whose coarsest level lacks budget, the share of the budget for its counts.

    A workload decides by its weights how well coarser levels are measured, so nothing is lacking if there is one.

    Args:
        rounds: The state of the run.
        plan: The candidates that will be measured besides, each with its part.
        share: The share of the budget for all of these.
        left: The share of the budget that is left for these and the counts.
    """
    if not rounds.demand.at_levels or rounds.noise_model.power != 1:
        return {}
    trees = {name: tree for name in rounds.demand.attributes if len(tree := rounds._tree(name)) > 1}
    lacking = {
        name: _needed(rounds, name, tree, len(trees)) - _planned_share(rounds, name, plan, share)
        for name, tree in trees.items()
    }
    most = MOST_OF_LEFT * left / max(len(trees), 1)
    return {name: min(more, most) for name, more in lacking.items() if more > LEAST_MISSING}


def measure_counts(rounds: Rounds, number: int, shares: Mapping[str, float]) -> None:
    """Measure the counts of the coarsest levels of some attributes with shares of the budget."""
    for name, share in shares.items():
        _measure(rounds, number, name, rounds._tree(name)[0], share)


def _planned_share(
    rounds: Rounds, name: str, plan: Mapping[Clique, tuple[CandidateMarginal, float]], share: float
) -> float:
    """Return what an attribute's coarsest level gets if the planned candidates get a share of the budget together."""
    if (name,) not in plan:
        return 0.0
    whole = sum(part * rounds._with_levels(clique) for clique, (_, part) in plan.items())
    candidate, part = plan[name,]
    part *= rounds._with_levels((name,)) * share / whole
    return rounds._parts((name,), None if candidate.levels is None else candidate.level(part), part)[0][2]


def _needed(rounds: Rounds, name: str, tree: Sequence[np.ndarray], trees: int) -> float:
    """Return the share of the budget that the counts of an attribute's coarsest level need; 0 if they are public."""
    size = (int(tree[0].max()) + 1,)
    spent = sum(found.share for found in rounds.measured_marginals if (found.clique, found.groups) == ((name,), size))
    return least_coarsest_share(len(tree), trees) - spent if spent > 0 else 0.0


def _measure(rounds: Rounds, number: int, name: str, labels: np.ndarray, share: float) -> None:
    """Measure the counts of branches, unless the share is too small for noise to be sampled."""
    curator, query = rounds.curator, grouping_query((name,), [labels], [False])
    try:
        (found,) = curator.measure_all([(name,)], curator.budget * share, weights=[1.0], queries=[query])
    except SpendTooSmall:
        return
    size, stddev = (int(labels.max()) + 1,), float(np.mean(found.stddev))
    rounds.measured_marginals.append(MeasuredMarginal(number, (name,), size, share, stddev))
