"""Emphasized pairs and triples in LAMP, which are measured first and without scores (`pgmest.mechanisms.emphasis`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pgmest.mechanisms.emphasis import EMPHASIS_SHARE, STRONG
from pgmest.mechanisms.lamp.allocation import water_filling
from pgmest.mechanisms.lamp.candidates import CandidateMarginal
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.workload_demand import MOST_WAYS, WorkloadDemand
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.rounds import Rounds

VISIBLE = 0.9
"""The part of a strong dependence that coarse groups of neighboring values show, in the median over the same tables as
for `STRONG`."""


def emphasized_tables(demand: WorkloadDemand, domain: Domain) -> list[Clique]:
    """Return the pairs and triples inside the items that matter, without attributes of one value.

    >>> from pgmest.workloads import emphasized
    >>> from pgmest.tables.domain import Domain
    >>> domain = Domain({"age": 85, "sex": 2, "income": 2})
    >>> demand = WorkloadDemand.of(domain, emphasized(domain, None, [("sex", "income")]))
    >>> emphasized_tables(demand, domain)
    [('sex', 'income')]
    """
    cliques = [item.clique for item in demand.items if item.matters]
    inside = [part for ways in (2, MOST_WAYS) for clique in cliques for part in combinations(clique, ways)]
    return [part for part in dict.fromkeys(inside) if min(domain.project(part).shape) > 1]


def measured_ahead(
    candidates: Iterable[CandidateMarginal], share: float, worth: float
) -> dict[Clique, tuple[CandidateMarginal, float]]:
    """Return the emphasized marginals that the budget can carry, with their shares.

    Those of which their share would not remove the fraction `worth` of a strong dependence are left out one by one.

    Args:
        candidates: The marginals, with a strong dependence.
        share: The share of the budget for all of them.
        worth: The least part of its error that measuring a marginal must remove.
    """
    kept = list(candidates)
    while kept:
        parts = water_filling(np.array([candidate.errors for candidate in kept]), np.ones(len(kept)), share)
        reductions = [candidate.reduction(float(part)) for candidate, part in zip(kept, parts, strict=True)]
        if min(reductions) >= worth:
            return {c.clique: (c, float(part)) for c, part in zip(kept, parts, strict=True)}
        del kept[int(np.argmin(reductions))]
    return {}


def measure_emphasized(rounds: Rounds) -> None:
    """Measure the emphasized marginals that the budget can carry, before any is scored.

    With a public table, scores decide first whether its dependence is used. If scores are too noisy for any pair, all
    pairs are measured anyway. In both cases only the weights of marginals that matter count.
    """
    mechanism = rounds.mechanism
    tables = emphasized_tables(rounds.demand, rounds.curator.domain)
    if not tables or rounds.public is not None or rounds._scores_are_too_noisy():
        return
    rounds._update_sensitivity()
    rounds.dependence.update((clique, _strong_dependence(rounds, clique)) for clique in tables)
    share = EMPHASIS_SHARE * (1 - mechanism.first_share - mechanism.scoring_share)
    chosen = measured_ahead(map(rounds._table_candidate, tables), share, mechanism.min_error_reduction)
    if chosen:
        rounds._measure(0, chosen, share)
        rounds.evidence = rounds.gathered()
    for clique in set(tables) - set(rounds.level_of):
        del rounds.dependence[clique]


def remaining_dependence(rounds: Rounds) -> dict[Clique, float]:
    """Return the estimated l1 distance of each scored table from the model, in counts, without sampling error.

    It follows from released answers only. Where noise leaves several distances likely, that of a table without an
    answer is the largest of them, and that of a measured table the smallest, less what its answer shows.
    """
    found, tables = {}, dict(zip((a.clique for a in rounds.evidence.answers), rounds.evidence.dependence, strict=True))
    for clique, dependence in rounds.dependence.items():
        likely, known = (dependence.whole, *dependence.possible), dependence.chance
        if clique in rounds.level_of:
            known = math.hypot(known, 2 * rounds.evidence.total * tables.get(clique, 0.0))
        distance = min(likely) if clique in rounds.level_of else max(likely)
        found[clique] = math.sqrt(max(0.0, distance**2 - known**2))
    return found


def _strong_dependence(rounds: Rounds, clique: Clique) -> Dependence:
    """Return a strong dependence of a pair or triple, with the sampling error of its estimated counts.

    The smallest number of values of an attribute limits the dependence.
    """
    smallest = min(map(rounds.curator.domain.__getitem__, clique))
    systematic = 2 * rounds.evidence.total * min(STRONG, 1 - 1 / smallest)
    coarse, whole = rounds._sampling_errors(clique)
    return Dependence(math.hypot(VISIBLE * systematic, coarse), math.hypot(systematic, whole), chance=whole)
