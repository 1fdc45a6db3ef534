"""PMW-Pub: MWEM with a model that reweights public records (Liu et al. 2021)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import DomainError
from pgmest.inference.support.support import Support
from pgmest.mechanisms.known_zeros import possible_records
from pgmest.mechanisms.mwem.estimators import LimitedEstimator
from pgmest.mechanisms.mwem.mwem import SelectAndMeasure
from pgmest.mechanisms.parameters import COUNT, ESTIMATOR, METADATA, instance, parameter
from pgmest.mechanisms.pmw_pub.estimators import EstimatedWeights, ReplayedPublicWeights
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.curator import Curator
from pgmest.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class PMWPub(SelectAndMeasure):
    """Private multiplicative weights with public data (Liu et al. 2021).

    The rounds and the accounting are those of `MWEM`. The model is a distribution over the distinct records of a public
    dataset and starts at that dataset, so it needs few rounds, and its size does not depend on the domain. The model
    cannot represent combinations of values that no public record has: if the public dataset lacks many of them, more
    budget does not help.

    estimator="original" updates the weights with all measurements several times in each round (multiplicative weights).
    estimator="pgm" fits the weights to all measurements (`pgmest.estimate` with prior=Support(public)).

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> public, private = data.take(slice(0, 200)), data.take(slice(200, None))
    >>> result = PMWPub(public=public, epsilon=0.1, delta=0, rounds=3, backend="simulation").fit(private, seed=0)
    >>> result.model.domain == data.domain, result.ledger.remaining / result.ledger.budget < 1e-9
    (True, True)

    Args:
        public: public records over the same attributes as the private ones, with their weights.
        rounds: the number of rounds, by default the number of items or of attributes, whichever is less.
        estimator: "original" or "pgm".
        replays: the passes of "original" over all measurements in each round.
        measuring_share, penalty: as for `MWEM`.

    Raises:
        ArgumentError: if a parameter is not valid.
        DataError: if no public record has a positive weight.
        DomainError: by `fit`, before anything is spent, if the private records have another domain.
    """

    public: Dataset = dataclasses.field(metadata={METADATA: instance(Dataset, "a Dataset of public records")})
    estimator: str = parameter("original", ESTIMATOR)
    replays: int = parameter(20, COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        Support(self.public)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        if self.public.domain.project(self.public.domain.varying) != curator.domain.project(curator.domain.varying):
            raise DomainError(
                f"the public records are over {self.public.domain!r}, the private ones over {curator.domain!r}; "
                "select(...) the same attributes in the same order from both."
            )
        return super().run(curator, workload, rng)

    @property
    def graphical(self) -> bool:
        return False

    def conclude(self, curator: Curator) -> Any:
        if curator.public_total is None and not curator.measurements:
            return None
        return ReplayedPublicWeights(self._support(curator), curator, self.replays).model

    def make_estimator(self, curator: Curator) -> LimitedEstimator:
        """Return the estimator of the public records' weights."""
        support = self._support(curator)
        if self.estimator == "pgm":
            return EstimatedWeights(support, curator)
        return ReplayedPublicWeights(support, curator, self.replays)

    def _support(self, curator: Curator) -> Support:
        """Return the public records, without those that structural zeros exclude unless these are all."""
        return Support(possible_records(self.public.select(curator.domain), curator.structural_zeros))
