"""Interval: the ends of an answer, and the kind of statement that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

KINDS = ("auto", "errors", "noise", "bounds")
"""The kinds of intervals; `pgmest.interval` explains them."""

WHOLE = 1e-6
"""Ends of counts are moved to whole numbers unless they are within this distance of one, by rounding errors."""


@dataclass(frozen=True)
class Interval:
    """The ends of an answer, in its units; `low, high = interval` unpacks them.

    Attributes:
        low, high: the ends.
        level: the probability that goes with the ends: the coverage for "errors" and "noise", and for "bounds" the
            probability that the noise of all measurements is inside the assumed boxes.
        kind: "errors", "noise" or "bounds".
        about: "table" or "population".
        basis: the evidence behind the interval:
            - "measured": one measured clique contains all attributes of the query.
            - "dependence": no measured clique does. Unmeasured dependence was taken to be as strong as that of measured
              cliques. The level then holds on average over pairs, not for the strongest pair, which no measurement
              shows.
            - "model": the structure of a model; the interval does not cover dependence that the model lacks.
            - "tables": all compatible tables.
            - "replicates": repetitions of the noise.
        rows_counted: a sentence on the rows that are counted, if a limit of the schema leaves others out: these are in
            no interval.
    """

    low: Factor
    high: Factor
    level: float
    kind: str
    about: str = "table"
    basis: str = "model"
    rows_counted: str = ""

    def __iter__(self) -> Iterator[Factor]:
        return iter((self.low, self.high))

    def reshaped(self, domain: Domain) -> Interval:
        """Return the same ends with other axes."""
        return replace(self, low=self.low.reshaped(domain), high=self.high.reshaped(domain))

    @property
    def width(self) -> Factor:
        """The distance between the ends."""
        return self.high - self.low


def check_level(level: Any) -> None:
    """Check that the level is a probability.

    Raises:
        ArgumentError: the level is not strictly between 0 and 1.
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise ArgumentError.of("level", level, "a number between 0 and 1, such as 0.95")
