"""Independent: measure the one-way marginals only, as a baseline for all other mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.models.exact import Model
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """The one-way marginals, and a model in which the attributes are independent.

    The budget is divided in proportion to c^(2/3) for c cells (c^(1/2) under pure DP), which minimizes the sum of the
    expected l1 errors. A workload has no effect: all attributes are measured.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census")
    >>> result = Independent(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> len(result.measurements), result.ledger.remaining / result.ledger.budget < 1e-9
    (14, True)
    """

    definition: ClassVar[str] = "either"
    uses: ClassVar[str] = "marginals"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Model:
        cliques = [(name,) for name in curator.domain]
        weights = least_error_weights(curator.domain, cliques, type(curator.budget))
        curator.measure_all(cliques, curator.budget, weights=weights)
        return estimate_measured(curator)
