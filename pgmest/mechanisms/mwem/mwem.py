"""MWEM: measure what the model so far gets most wrong, and estimate again (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.tree_limit import MEGABYTES_PER_CELL
from pgmest.mechanisms.adaptive import Adaptive, EqualRounds, Round
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.mwem.candidates import candidates_of, measurable
from pgmest.mechanisms.mwem.estimators import AveragedWeights, LimitedEstimator, ReplayedWeights
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.mechanisms.parameters import (
    ACCOUNTINGS,
    COUNT,
    COUNT_SHARE,
    ESTIMATOR,
    FLAG,
    MEASURING,
    MEGABYTES,
    SHARE,
    TREE_MEGABYTES,
    Renaming,
    optional,
    parameter,
    share_of_selection,
)
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors, Replace
from pgmest.privacy.plans import Plan
from pgmest.queries.workloads import Item, Workload
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, kw_only=True)
class SelectAndMeasure(Mechanism):
    """The rounds of MWEM, for any estimator between them: select an item, measure it, learn from it.

    Args:
        rounds, measuring, penalty: see `MWEM`.
    """

    rounds: int | None = parameter(None, optional(COUNT))
    measuring: float = parameter(MEASURING, SHARE)
    penalty: bool = parameter(False, FLAG)

    definition: ClassVar[str] = "either"
    accountings: ClassVar[tuple[str, ...]] = ACCOUNTINGS
    old_names: ClassVar[Mapping[str, Renaming]] = {"selection": Renaming("measuring", share_of_selection)}

    def plan(self, domain: Domain, workload: Workload | None) -> Plan:
        rounds, counted = self._rounds(domain, self._items(domain, workload)), self._counted(self.neighbors)
        choosing = (1 - counted) * (1 - self.measuring)
        return Plan(counted + (1 - counted) * self.measuring, rounds, choosing / rounds)

    @staticmethod
    def _counted(neighbors: Neighbors) -> float:
        """The share of the budget that counts the records."""
        return 0.0 if isinstance(neighbors, Replace) else COUNT_SHARE

    @staticmethod
    def _items(domain: Domain, workload: Workload | None) -> list[Item]:
        items = list(filter(measurable, relevant_workload(domain, workload)))
        if not items:
            raise ArgumentError("workload has no query that is not zero: give one at least, or None for all pairs.")
        return items

    def _rounds(self, domain: Domain, items: Sequence[Item]) -> int:
        return self.rounds or min(len(items), len(domain))

    @abstractmethod
    def make_estimator(self, curator: Curator) -> LimitedEstimator:
        """What learns from the measurements, from what was measured already on."""

    def check_room(self, curator: Curator, cliques: Sequence[Clique]) -> None:
        """See, before anything is spent, that one of these cliques could be measured."""

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        domain = curator.domain
        items = self._items(domain, workload)
        self.check_room(curator, [item.clique for item in items])
        rounds = self._rounds(domain, items)
        if curator.public_total is None:
            curator.count(curator.budget * self._counted(curator.neighbors))
        estimator = self.make_estimator(curator)
        spend = curator.remaining / rounds * self.measuring
        every = candidates_of(items, domain, spend, curator.neighbors, self.penalty)

        def candidates(turn: Round, model: Any) -> list[Candidate]:
            admissible = set(estimator.admissible([candidate.clique for candidate in every]))
            return [candidate for candidate in every if candidate.clique in admissible]

        chosen = Adaptive(candidates, EqualRounds(rounds), estimator, self.measuring).run(curator)
        return Outcome(estimator.model, {"chosen": chosen, "rounds": rounds})


@dataclass(frozen=True, kw_only=True)
class MWEM(SelectAndMeasure):
    r"""Multiplicative weights with the exponential mechanism, on any workload of marginals, ranges and prefixes.

    In each round an item of the workload on which the model is far off is chosen privately, it is measured, and the
    model is estimated again. The score of item i with queries W_i and weight w_i is

    .. math:: w_i \, \lVert W_i (x - \hat x) \rVert_1 \, / \, \lVert W_i \rVert_1

    with $\lVert W_i \rVert_1$ the largest l1 norm of a column, so that a record moves all scores about equally.
    Measured are the item's queries or its marginal's cells, whichever leaves less expected error in its answers.
    Where the number of records is not public, 2 % of the budget counts them first.

    estimator="pgm" is MWEM+PGM (PGM section 5): the graphical model of all measurements, each round starting from the
    last one. estimator="original" is multiplicative weights: `factored`, on the tables of independent components, with
    the replay of all past measurements in each round; or basic, on the vector of all cells, with one update a round
    and the average over the rounds as its answer. For the single-query variant give a workload of one-row items.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> result = MWEM(epsilon=1.0, rounds=3, backend="simulation").fit(data, seed=0)
    >>> len(result.details["chosen"]), result.ledger.remaining / result.ledger.budget < 1e-9
    (3, True)

    Args:
        rounds: by default as many as there are items or attributes, whichever are fewer.
        estimator: "pgm" or "original".
        factored: for "original", whether to use the factored version.
        replays: for the factored version, how often the measurements are gone through in each round.
        measuring: the share of a round that pays for the measurement; the rest pays for the selection. 0.5 as
            published, which is seldom better.
        penalty: whether the error that a measurement would have by its noise alone is subtracted from the error. It
            avoids large marginals: good where there are many small ones to choose from (all triples of Adult: a fifth
            less error), bad where large ones must be learnt all the same (15 triples of stroke: seven times as much).
        max_megabytes: items that would make the model's tables larger are not chosen: those of the junction tree, or
            of the components.

    Raises:
        ArgumentError: a parameter that is not valid; before anything is spent, a workload without an item that fits
            into `max_megabytes`, or without a query that is not zero.
    """

    estimator: str = parameter("pgm", ESTIMATOR)
    factored: bool = parameter(True, FLAG)
    replays: int = parameter(20, COUNT)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    def check_room(self, curator: Curator, cliques: Sequence[Clique]) -> None:
        if not self._fitting(curator, cliques):
            raise ArgumentError.of("max_megabytes", self.max_megabytes, "large enough for an item of the workload")

    def _fitting(self, curator: Curator, cliques: Iterable[Clique]) -> list[Clique]:
        """The cliques of which one could be measured first."""
        domain = curator.domain
        if self.estimator == "pgm":
            return tree_limit(curator, [], self.max_megabytes).fitting(cliques)
        if self.factored:
            weights = MultiplicativeWeights(domain, combinations(domain.attributes, 1), 1.0)
            return [c for c in cliques if weights.cells_with(c) * MEGABYTES_PER_CELL <= self.max_megabytes]
        return list(cliques) if domain.size() * MEGABYTES_PER_CELL <= self.max_megabytes else []

    def conclude(self, curator: Curator) -> Any:
        if self.estimator == "pgm":
            return super().conclude(curator)
        if curator.public_total is None and not curator.measurements:
            raise KeyboardInterrupt
        return self.make_estimator(curator).model

    def make_estimator(self, curator: Curator) -> LimitedEstimator:
        if self.estimator == "pgm":
            return GraphicalModel(curator, tree_limit(curator, [], self.max_megabytes))
        if self.factored:
            return ReplayedWeights(curator, self.max_megabytes, self.replays)
        return AveragedWeights(curator)
