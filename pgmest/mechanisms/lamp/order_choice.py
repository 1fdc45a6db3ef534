"""The choice between the order of a tree and that of the list for the groups over which pairs are measured.

LAMP measures pairs over ranges of codes (`groups`). The order of a tree hides what the order of the list tells about
the codes: if the tree says nothing about them, its groups hide the dependence that those of the list show. So the first
release of scores compares the groups of both orders, if they differ. One more score for each pair of an attribute with
a tree is charged with the others; the choice follows from released scores, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.mechanisms.lamp.collected_evidence import evidence_of
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import nested_groups, ranges_of_branches
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.scorer import COARSE_LEVEL, Scorer
from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.tables.domain import Clique

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.scored_rounds import ScoredRounds

MORE, SURE = 0.1, 2.0
"""The order of the list is chosen if its groups show more dependence than those of the tree by more than this part, and
by more than this many standard errors. Otherwise the groups of the tree, which people ask for, are measured."""


@dataclass(frozen=True, eq=False)
class ListOrder:
    """The evidence before any pair is measured, with the order of the list for some attributes.

    Attributes:
        names: The attributes.
        curator: The `OrderedCurator`.
        possible: The structural zeros.
        evidence: The evidence.
        levels: For each attribute, its nested groups of codes.
    """

    names: frozenset[str]
    curator: Any
    possible: PossibleCells | None
    evidence: Evidence
    levels: dict[str, tuple[np.ndarray, ...]]

    @classmethod
    def of(cls, rounds: ScoredRounds, names: Collection[str]) -> ListOrder:
        """Return what is known at the start of the rounds."""
        before: Any = rounds.curator
        curator: Any = OrderedCurator(before.curator, before.order.listed(names))
        possible = PossibleCells.of(curator.domain, curator.structural_zeros, rounds.mechanism.max_megabytes)
        evidence = evidence_of(curator, None, (), possible)
        levels = {
            name: nested_groups(evidence.counts(name), ranges_of_branches(curator.domain, name))
            for name in rounds.demand.attributes
        }
        return cls(frozenset(names), curator, possible, evidence, levels)

    def adopt(self, rounds: ScoredRounds) -> None:
        """Go on with this order; the scores of these attributes about other groups are forgotten."""
        before: Any = rounds.curator
        rounds.demand = before.order.listed_demand(rounds.demand, self.names)
        rounds.curator, rounds.possible = self.curator, self.possible
        rounds.evidence, rounds.levels = self.evidence, self.levels
        rounds.score_history.forget(self.names)


def comparable(rounds: ScoredRounds) -> set[str]:
    """Return the attributes whose list has another order than the tree, so that it has other coarse groups.

    Once pairs have answers over groups, the order stays; nor is it compared if there is a public table.
    """
    if not isinstance(rounds.curator, OrderedCurator) or rounds.public is not None or rounds.evidence.answers:
        return set()
    known = {name for clique in rounds.level_of for name in clique}
    return {
        name
        for name in rounds.curator.order.orders
        if len(rounds.levels.get(name, ())) - 1 > COARSE_LEVEL and name not in known
    }


def with_the_better_order(
    rounds: ScoredRounds, scorer: Scorer, expected: Mapping[Clique, np.ndarray], names: Collection[str]
) -> dict[Clique, Dependence]:
    """Return the dependence of pairs, after the rounds have gone over to the order of the list where it is better."""
    listed = ListOrder.of(rounds, names)
    pairs = [pair for pair in expected if set(names).intersection(pair)]
    other = replace(scorer, curator=listed.curator, evidence=listed.evidence, levels=listed.levels)
    by_tree, by_list = scorer.found([dict(expected)], beside=(other, listed.evidence.expected(pairs)))
    found, chosen = by_tree.dependence, set[str]()
    for name in names:
        own = [pair for pair in pairs if name in pair]
        shown, before = (sum(scores[pair].coarse for pair in own) for scores in (by_list.dependence, found))
        if shown - before > max(MORE * before, SURE * math.sqrt(2 * len(own)) * by_list.stddev):
            chosen.add(name)
    if chosen:
        (listed if chosen == set(names) else ListOrder.of(rounds, chosen)).adopt(rounds)
    for pair in pairs:
        if chosen.intersection(pair):
            coarse, whole = by_list.dependence[pair].coarse, found[pair]
            found[pair] = replace(whole, coarse=coarse) if coarse <= whole.whole else by_list.dependence[pair]
    return found
