"""Interval: the ends of an answer, and what kind of statement they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmest._base.errors import ArgumentError
from pgmest.tables.factor import Factor

KINDS = ("auto", "noise", "posterior", "bounds")


@dataclass(frozen=True)
class Interval:
    """The ends of an answer, in its units; `low, high = interval` unpacks them.

    Attributes:
        low, high: the ends.
        level: the probability that goes with them: coverage for "noise", posterior probability for "posterior"; for
            "bounds" the probability that the measurements are as close to the truth as was assumed.
        kind: "noise", "posterior" or "bounds".
        about: "table" or "population".
        basis: what it rests on. "measured": one measured clique holds all that was asked about; sums of its
            cells were checked against unbiased answers. "dependence": none
            does, and dependence that was not measured was taken to be as strong as that of measured cliques. The level
            then holds over pairs, not for the strongest one: of n + 1 pairs any may be that. "model":
            the structure of a model, whose missing dependence the interval does not hold. "tables": all compatible
            tables. "replicates": repetitions of the noise.
    """

    low: Factor
    high: Factor
    level: float
    kind: str
    about: str = "table"
    basis: str = "model"

    def __iter__(self) -> Iterator[Factor]:
        return iter((self.low, self.high))

    @property
    def width(self) -> Factor:
        """The distance between the ends."""
        return self.high - self.low


def check_level(level: Any) -> None:
    """See that it is a probability.

    Raises:
        ArgumentError: it is not strictly between 0 and 1.
    """
    if isinstance(level, bool) or not 0 < level < 1:
        raise ArgumentError.of("level", level, "a number between 0 and 1, such as 0.95")


def check_kind(kind: Any) -> None:
    """See that it is a kind of interval.

    Raises:
        ArgumentError: it is not.
    """
    if kind not in KINDS:
        raise ArgumentError.of("kind", kind, KINDS)
