"""PMW-Pub: MWEM on public records, which are reweighted until they answer as the private ones do."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import DomainError
from pgmest.data.dataset import Dataset
from pgmest.inference.support.support import Support
from pgmest.mechanisms.mwem.estimators import LimitedEstimator
from pgmest.mechanisms.mwem.mwem import SelectAndMeasure
from pgmest.mechanisms.parameters import COUNT, ESTIMATOR, METADATA, instance, parameter
from pgmest.mechanisms.pmw_pub.estimators import EstimatedWeights, ReplayedPublicWeights
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.curator import Curator
from pgmest.queries.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class PMWPub(SelectAndMeasure):
    """Private multiplicative weights with public data (Liu et al. 2021).

    As `MWEM`, in each round the item of the workload that the model gets most wrong is selected and measured; but the
    model is a distribution over the distinct records of a public dataset, and starts as that dataset. It needs few
    rounds, and its size does not depend on the domain. What no public record has, it cannot represent: with a public
    dataset that lacks much of the private one, more budget does not help.

    estimator="original" goes through all measurements several times in each round with multiplicative weights.
    estimator="pgm" finds the weights that fit all measurements best (`pgmest.estimate` with prior=Support(public)).

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> public, private = data.take(slice(0, 200)), data.take(slice(200, None))
    >>> result = PMWPub(public=public, epsilon=0.1, rounds=3, backend="simulation").fit(private, seed=0)
    >>> result.model.domain == data.domain, result.ledger.remaining / result.ledger.budget < 1e-9
    (True, True)

    Args:
        public: public records over the same attributes as the private ones; their weights, where they have some, count.
        rounds: by default as many as there are items or attributes, whichever are fewer.
        estimator: "pgm" or "original".
        replays: for "original", how often the measurements are gone through in each round.
        measuring, penalty: see `MWEM`.

    Raises:
        ArgumentError: a parameter that is not valid.
        DataError: no public record has a positive weight.
        DomainError: when fitted, before anything is spent: the private records are over other attributes.
    """

    public: Dataset = dataclasses.field(metadata={METADATA: instance(Dataset, "a Dataset of public records")})
    estimator: str = parameter("original", ESTIMATOR)
    replays: int = parameter(20, COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        Support(self.public)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        if self.public.domain != curator.domain:
            raise DomainError(
                f"the public records are over {self.public.domain!r}, the private ones over {curator.domain!r}; "
                "select(...) the same attributes in the same order from both."
            )
        return super().run(curator, workload, rng)

    def conclude(self, curator: Curator) -> Any:
        if curator.public_total is None and not curator.measurements:
            raise KeyboardInterrupt
        return ReplayedPublicWeights(Support(self.public), curator, self.replays).model

    def make_estimator(self, curator: Curator) -> LimitedEstimator:
        """The public records with their weights."""
        support = Support(self.public)
        if self.estimator == "pgm":
            return EstimatedWeights(support, curator)
        return ReplayedPublicWeights(support, curator, self.replays)
