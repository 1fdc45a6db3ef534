"""MWEM: measure what the model so far gets most wrong, and estimate again (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.mechanisms.mechanism import Mechanism, Outcome
from pgmest.mechanisms.mwem.candidates import Candidate, candidates_of
from pgmest.mechanisms.mwem.estimators import AveragedWeights, GraphicalModel, ReplayedWeights, RoundEstimator
from pgmest.privacy.curator import Curator
from pgmest.queries.workloads import Workload, as_workload
from pgmest.tables.domain import Clique

ESTIMATORS = ("pgm", "original")
COUNT_SHARE = 0.02
"""The share of the budget that the number of records gets where it is not public."""


@dataclass(frozen=True, kw_only=True)
class SelectAndMeasure(Mechanism):
    """The rounds of MWEM, for any estimator between them: select an item, measure it, learn from it.

    Args:
        rounds, selection, penalty: see `MWEM`.
    """

    rounds: int | None = None
    selection: float = 0.1
    penalty: bool = False

    definition: ClassVar[str] = "either"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is not None:
            check_count("rounds", self.rounds)
        if not 0 < self.selection < 1:
            raise ArgumentError.of("selection", self.selection, "between 0 and 1")

    @abstractmethod
    def make_estimator(self, curator: Curator) -> RoundEstimator:
        """What learns from the measurements."""

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        domain, items = curator.domain, as_workload(curator.domain, workload)
        rounds = self.rounds or min(len(items), len(domain))
        estimator = self.make_estimator(curator)
        if curator.public_total is None:
            curator.count(curator.budget * COUNT_SHARE)
        estimator.start(curator)
        spend = curator.remaining / rounds
        candidates = candidates_of(items, domain, spend * (1 - self.selection), curator.neighbors, self.penalty)
        chosen: list[Clique] = []
        for turn in range(rounds):
            best = self._choose(curator, candidates, estimator, spend * self.selection, f"round {turn + 1}")
            last = turn == rounds - 1
            rest = curator.remaining if last else spend * (1 - self.selection)
            curator.measure(best.item.clique, rest, best.measured, label=f"round {turn + 1}: {best.name}")
            chosen.append(best.item.clique)
            estimator.learn(curator, last)
        return Outcome(estimator.model, {"chosen": chosen, "rounds": rounds})

    def _choose(
        self, curator: Curator, candidates: Sequence[Candidate], estimator: RoundEstimator, spend: Any, label: str
    ) -> Candidate:
        """The item on which the model is far off, among those for which there is room."""
        admissible = set(estimator.admissible([candidate.item.clique for candidate in candidates]))
        options = [candidate for candidate in candidates if candidate.item.clique in admissible]
        asked = Workload(tuple(candidate.item for candidate in options))
        estimated = asked.answer(estimator.model)

        def scores(data: Any) -> np.ndarray:
            pairs = zip(options, asked.iterate(data), estimated, strict=True)
            return np.array([option.score(float(np.abs(mine - model).sum())) for option, mine, model in pairs])

        sensitivity = max(candidate.sensitivity for candidate in options)
        return curator.select(options, scores, sensitivity, spend, label=f"{label}: one of {len(options)}")


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
        selection: the share of each round's budget that choosing gets; 0.5 as published, which is seldom better.
        penalty: whether the error that a measurement would have by its noise alone is subtracted from the error. It
            avoids large marginals: good where there are many small ones to choose from (all triples of Adult: a fifth
            less error), bad where large ones must be learnt all the same (15 triples of stroke: seven times as much).
        max_megabytes: items that would make the model's tables larger are not chosen: those of the junction tree, or
            of the components.

    Raises:
        ArgumentError: a parameter that is not valid; before anything is spent, a workload without an item that fits
            into `max_megabytes`.
    """

    estimator: str = "pgm"
    factored: bool = True
    replays: int = 20
    max_megabytes: float = 25.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.estimator not in ESTIMATORS:
            raise ArgumentError.of("estimator", self.estimator, ESTIMATORS)
        check_count("replays", self.replays)
        if not self.max_megabytes > 0:
            raise ArgumentError.of("max_megabytes", self.max_megabytes, "a positive number")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        items = as_workload(curator.domain, workload)
        if not self.make_estimator(curator).admissible(items.cliques):
            raise ArgumentError.of("max_megabytes", self.max_megabytes, "large enough for an item of the workload")
        return super().run(curator, workload, rng)

    def conclude(self, curator: Curator) -> Any:
        if self.estimator == "pgm":
            return super().conclude(curator)
        estimator = self.make_estimator(curator)
        estimator.start(curator)
        return estimator.model

    def make_estimator(self, curator: Curator) -> RoundEstimator:
        if self.estimator == "pgm":
            return GraphicalModel(curator, self.max_megabytes)
        if self.factored:
            return ReplayedWeights(curator.domain, self.max_megabytes, self.replays)
        return AveragedWeights(curator.domain, self.max_megabytes)


def check_count(name: str, value: object) -> None:
    """See that a parameter is a positive integer.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError.of(name, value, "a positive integer")
