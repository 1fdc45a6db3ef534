"""Rules that choose a point on a path of estimates, and what a point is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.accuracy_on_truth.scoring import Scores

LEVELS = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Discrepancy principle: stop at a loss of this times the noise floor."""

EXCESSES = (0.3, 0.1, 0.05, 0.02)
"""Stop where the loss is above its optimum by this times the noise floor."""

DISCREPANCY, EXCESS = "loss <= c floor", "loss <= optimum + c floor"
HELD_OUT, CAUTIOUS = "held-out loss", "held-out loss, one standard error"
FIXED, BEST = "fixed", "best point on the truth"


@dataclass(frozen=True)
class Row:
    """One scored estimate.

    Attributes:
        family: the path it lies on.
        rule: what chose it on that path; "path" for a point that nothing chose.
        parameter: of the rule; for "path" the step, the penalty or the time.
        loss: over the noise floor.
        calls: of the oracle, on the way there.
        scores: against the truth.
    """

    family: str
    rule: str
    parameter: float
    loss: float
    calls: int
    scores: Scores


def thresholds(optimum: float) -> dict[tuple[str, float], float]:
    """(rule, its parameter) -> the loss at which it stops; losses over the noise floor."""
    stops = {(DISCREPANCY, level): level for level in LEVELS}
    return stops | {(EXCESS, excess): optimum + excess for excess in EXCESSES}


def chosen(points: Sequence[Row], optimum: Row) -> Iterator[Row]:
    """The first point each rule accepts, and the best by the error of measured marginals.

    A rule that stops below the optimum's loss gives the optimum; where the path ends before a rule is met, it gives
    nothing.
    """
    family = points[0].family
    for (rule, parameter), stop in thresholds(optimum.loss).items():
        met = next((row for row in points if row.loss <= stop), optimum if stop < optimum.loss else None)
        if met is not None:
            yield replace(met, family=family, rule=rule, parameter=parameter)
    yield replace(min(points, key=lambda row: row.scores.measured), rule=BEST, parameter=np.nan)
