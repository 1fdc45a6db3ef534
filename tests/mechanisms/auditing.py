"""Audit a mechanism with one line: `assert not audit_mechanism(Mine(rho=0.5, backend="simulation")).contradicts(...)`.

The data is small, so that one record matters; it differs from its neighbor by one record in a cell of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pgmest as pg
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.result import Result
from pgmest.privacy import AuditReport, audit
from pgmest.privacy.audit import likelihood_ratio

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
RECORDS = np.array([[0, 0, 0]] * 6 + [[1, 1, 0]] * 5 + [[0, 2, 1]] * 4)
OUTLIER = (1, 0, 1)
DATA = pg.Dataset.from_codes(RECORDS, DOMAIN)
NEIGHBOUR = pg.Dataset.from_codes(np.vstack([RECORDS, OUTLIER]), DOMAIN)


def outlier_count(result: Result) -> float:
    """The count that the model gives the one record by which the datasets differ."""
    return float(result.project(("a", "b", "c")).values[OUTLIER])


measured = likelihood_ratio(DATA, NEIGHBOUR)
"""Return how much better the measurements fit the data than the neighbor: the sharpest statistic of marginals."""

THRESHOLDS: dict[Callable[[Result], float], float] = {measured: 0.0, outlier_count: 0.5}
"""The thresholds of statistics that tell the datasets apart; no runs are needed to find them."""


def audit_mechanism(
    mechanism: Mechanism,
    *,
    workload: Any = None,
    statistic: Callable[[Result], float] = measured,
    trials: int = 30,
    delta: float = 0.0,
) -> AuditReport:
    """Fit the mechanism `trials` times to each of two neighbors; too few to contradict its budget are an error.

    `statistic` is `measured` for mechanisms that publish measurements, `outlier_count` for those that publish a model
    alone, or any number that the record in a cell of its own moves.
    """

    (report,) = audit_statistics(mechanism, [statistic], workload=workload, trials=trials, delta=delta)
    return report


def audit_statistics(
    mechanism: Mechanism,
    statistics: Sequence[Callable[[Result], float]] = (measured, outlier_count),
    *,
    workload: Any = None,
    trials: int = 30,
    delta: float = 0.0,
) -> list[AuditReport]:
    """Audit each statistic of the same runs, in the way of `audit_mechanism`."""
    runs: dict[tuple[int, int], Result] = {}

    def run(data: pg.Dataset, seed: int) -> Result:
        key = data.records, seed
        if key not in runs:
            runs[key] = mechanism.fit(data, workload, seed=seed, progress=False)
        return runs[key]

    assert mechanism.backend == "simulation"
    options = {"trials": trials, "delta": delta, "claim": mechanism.budget()}
    return [audit(run, DATA, NEIGHBOUR, statistic=one, threshold=THRESHOLDS.get(one), **options) for one in statistics]
