"""MWEM: in each round, measure the item with the largest error of the model (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.mechanisms.adaptive import Adaptive, EqualRounds, Round
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.mwem.candidates import candidates_of, measurable
from pgmest.mechanisms.mwem.estimators import AveragedWeights, LimitedEstimator, ReplayedWeights
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.mechanisms.parameters import (
    COUNT,
    COUNT_SHARE,
    ESTIMATOR,
    FLAG,
    MEASURING_SHARE,
    MEGABYTES,
    SHARE,
    TREE_MEGABYTES,
    optional,
    parameter,
)
from pgmest.mechanisms.result import Outcome
from pgmest.mechanisms.tree_limit import MEGABYTES_PER_CELL
from pgmest.mechanisms.unnamed import measure_unnamed
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors, Replace
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload


@dataclass(frozen=True, kw_only=True)
class SelectAndMeasure(Mechanism):
    """The rounds of MWEM with any estimator: select an item of the workload, measure it, and update the model.

    Args:
        rounds, measuring_share, penalty: as for `MWEM`.
    """

    rounds: int | None = parameter(None, optional(COUNT))
    measuring_share: float = parameter(MEASURING_SHARE, SHARE)
    penalty: bool = parameter(False, FLAG)

    definition: ClassVar[str] = "either"
    gaussian_curve: ClassVar[bool] = True

    def covering_workload(self, domain: Domain, workload: Workload) -> Workload:
        return workload

    @staticmethod
    def _counted(neighbors: Neighbors) -> float:
        """Return the share of the budget that counts the records."""
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
        """Return the estimator, which has learned the curator's measurements."""

    def check_size(self, curator: Curator, cliques: Sequence[Clique]) -> None:
        """Raise ArgumentError, before anything is spent, if no clique fits into the estimator's tables."""

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        domain = curator.domain
        items = self._items(domain, workload)
        self.check_size(curator, [item.clique for item in items])
        rounds = self._rounds(domain, items)
        if curator.fixed_total is None:
            curator.count(curator.budget * self._counted(curator.neighbors))
        measure_unnamed(curator, workload)
        estimator = self.make_estimator(curator)
        spend = curator.remaining / rounds * self.measuring_share
        every = candidates_of(items, domain, spend, curator.neighbors, self.penalty)
        every = [candidate for candidate in every if curator.known(candidate.clique) is None] or every

        def candidates(turn: Round, model: Any) -> list[Candidate]:
            admissible = set(estimator.admissible([candidate.clique for candidate in every]))
            return [candidate for candidate in every if candidate.clique in admissible]

        chosen = Adaptive(candidates, EqualRounds(rounds), estimator, self.measuring_share).run(curator)
        return Outcome(estimator.model, {"chosen": chosen, "rounds": rounds})


@dataclass(frozen=True, kw_only=True)
class MWEM(SelectAndMeasure):
    r"""Multiplicative weights with the exponential mechanism, on any workload of marginals, ranges and prefixes.

    Each round selects an item of the workload by the exponential mechanism, measures the item, and estimates the model
    again. The score of item i with queries W_i and weight w_i is

    .. math:: w_i \, \lVert W_i (x - \hat x) \rVert_1 \, / \, \lVert W_i \rVert_1,

    where $\lVert W_i \rVert_1$ is the largest l1 norm of a column, so that a record moves all scores about equally.
    The measurement asks the item's queries or the cells of the marginal, whichever has the less expected error in the
    item's answers. If the number of records is not public, 2 % of the budget counts the records first. Attributes that
    no item names are measured by their one-way marginals before the rounds, for their part of 10 % of the budget.

    estimator="pgm" is MWEM+PGM (PGM section 5): the graphical model of all measurements. estimator="original" is
    multiplicative weights in two versions. The factored version keeps tables of independent components and replays
    all measurements in each round. The basic version keeps the vector of all cells, updates once per round, and returns
    the average over the rounds. A workload of one-row items gives the single-query variant of the paper.

    Under (epsilon, delta) the budget is in mu: choices are a tenth of it, so noise is less than with a budget in rho.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> result = MWEM(epsilon=1.0, delta=0, rounds=3, backend="simulation").fit(data, seed=0)
    >>> len(result.details["chosen"]), result.ledger.remaining / result.ledger.budget < 1e-9
    (3, True)

    Args:
        rounds: the number of rounds, by default the number of items or of attributes, whichever is less.
        estimator: "pgm" or "original".
        factored: whether "original" is the factored version.
        replays: the passes of the factored version over all measurements in each round.
        measuring_share: the share of a round's budget for the measurement; the rest pays for the selection. The paper
            has 0.5, which is seldom better.
        penalty: whether scores subtract the expected error of the measurement's noise. The penalty avoids large
            marginals: it helps if there are many small candidates (all triples of Adult: a fifth less error) and hurts
            if the workload needs large ones (15 triples of stroke: seven times the error).
        max_megabytes: the largest size of the model's tables, those of the junction tree or of the components, 8 bytes
            a cell.

    Raises:
        ArgumentError: if a parameter is not valid or, before anything is spent, if no item with a nonzero query fits
            into `max_megabytes`.
    """

    estimator: str = parameter("pgm", ESTIMATOR)
    factored: bool = parameter(True, FLAG)
    replays: int = parameter(20, COUNT)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    def check_size(self, curator: Curator, cliques: Sequence[Clique]) -> None:
        domain = curator.domain
        if self.estimator == "pgm":
            fits = bool(tree_limit(curator, [], self.max_megabytes).fitting(cliques))
        elif self.factored:
            weights = MultiplicativeWeights(domain, combinations(domain.attributes, 1), 1.0)
            fits = min(map(weights.cells_with, cliques)) * MEGABYTES_PER_CELL <= self.max_megabytes
        else:
            fits = domain.size() * MEGABYTES_PER_CELL <= self.max_megabytes
        if not fits:
            raise ArgumentError.of("max_megabytes", self.max_megabytes, "large enough for an item of the workload")

    @property
    def holds_invariants(self) -> bool:
        return self.estimator == "pgm"

    @property
    def graphical(self) -> bool:
        return True

    def conclude(self, curator: Curator) -> Any:
        if self.estimator == "pgm":
            return super().conclude(curator)
        if curator.fixed_total is None and not curator.measurements:
            return None
        return self.make_estimator(curator).model

    def make_estimator(self, curator: Curator) -> LimitedEstimator:
        if self.estimator == "pgm":
            return GraphicalModel(curator, tree_limit(curator, [], self.max_megabytes))
        if self.factored:
            return ReplayedWeights(curator, self.max_megabytes, self.replays)
        return AveragedWeights(curator)
