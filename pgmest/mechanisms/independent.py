"""Independent: one-way marginals only; the baseline that every other mechanism has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.queries.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Measure each attribute's marginal, and model the attributes as independent.

    The budget is shared so that the sum of the expected l1 errors is least. With a workload only the attributes that it
    names are measured; the others are uniform in the model.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census")
    >>> result = Independent(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> len(result.measurements), result.ledger.remaining / result.ledger.budget < 1e-9
    (14, True)
    """

    definition: ClassVar[str] = "either"
    gaussian_only: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Model:
        named = {name for clique in cliques_of(workload, curator.domain) for name in clique}
        cliques = [(name,) for name in curator.domain.ordered(named)]
        weights = least_error_weights(curator.domain, cliques, type(curator.budget))
        curator.measure_all(cliques, curator.budget, weights=weights)
        return estimate_measured(curator)
