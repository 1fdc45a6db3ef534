"""Neighboring relations: which datasets must be hard to distinguish, and so how far one individual moves an answer.

An individual contributes up to `records` records (Delta in DPSyn section 2). Under `Replace`, one individual's records
are replaced by as many others, and the number of records is public (PGM section 2 and its experiments). Under
`AddRemove`, neighbors differ by one individual more or less, and the number of records is private (PGM section E.1).
Under `Change`, one individual's records become any others, or none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import rounded_up
from pgmest.privacy.sensitivity import l1_diameter, l2_squared_diameter
from pgmest.queries.norms import largest_l1, largest_l2_squared


@dataclass(frozen=True)
class Neighbors(ABC):
    """A neighboring relation, with the sensitivities of answers Q mu to an (r, n) query Q about a marginal of counts.

    Args:
        records: the largest number of records of one individual.

    Raises:
        ArgumentError: if `records` is not a positive integer.
    """

    records: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.records, bool) or not isinstance(self.records, int) or self.records < 1:
            raise ArgumentError.of("records", self.records, "a positive integer")

    @property
    @abstractmethod
    def count_sensitivity(self) -> int:
        """The largest change of the number of records by one individual."""

    @abstractmethod
    def exact_l1(self, query: Any = None) -> Fraction:
        """Return the largest l1 distance between the answers of neighbors; None is the identity query."""

    @abstractmethod
    def exact_l2_squared(self, query: Any = None) -> Fraction:
        """Return the largest squared l2 distance between the answers of neighbors; None is the identity query."""

    def l1_sensitivity(self, query: Any = None) -> float:
        """Return the largest l1 distance between the answers of neighbors, rounded up; None is the identity query."""
        return rounded_up(self.exact_l1(query))

    def l2_sensitivity(self, query: Any = None) -> float:
        """Return the largest l2 distance between the answers of neighbors, rounded up; None is the identity query."""
        return root_up(self.exact_l2_squared(query))


@dataclass(frozen=True)
class AddRemove(Neighbors):
    """One individual added or removed. Sensitivities are the largest norm of a column of Q, times `records`.

    >>> AddRemove().l2_sensitivity(), AddRemove(records=3).l1_sensitivity([[1, 1], [0, 1]])
    (1.0, 6.0)
    """

    @property
    def count_sensitivity(self) -> int:
        return self.records

    def exact_l1(self, query: Any = None) -> Fraction:
        return self.records * largest_l1(query)

    def exact_l2_squared(self, query: Any = None) -> Fraction:
        return self.records**2 * largest_l2_squared(query)


@dataclass(frozen=True)
class Replace(Neighbors):
    """One individual's records replaced. Sensitivities are the largest distance of two columns of Q, times `records`.

    For matrices that are too large to be materialized a bound is used: in l1 twice the largest norm of a column; in l2
    sqrt(2) times the largest norm if no entry is negative, and twice the largest norm otherwise.

    >>> round(Replace().l2_sensitivity(), 4), Replace().l1_sensitivity(), Replace().l1_sensitivity([[1, 1], [0, 1]])
    (1.4142, 2.0, 1.0)
    """

    @property
    def count_sensitivity(self) -> int:
        return 0

    def exact_l1(self, query: Any = None) -> Fraction:
        return self.records * l1_diameter(query)

    def exact_l2_squared(self, query: Any = None) -> Fraction:
        return self.records**2 * l2_squared_diameter(query)


@dataclass(frozen=True)
class Change(Neighbors):
    """One individual's records changed, removed or added; the number of records is private.

    Sensitivities are the largest distance of two columns of Q, or of a column from 0, times `records`.

    >>> round(Change().l2_sensitivity(), 4), Change().l1_sensitivity(), Change().l1_sensitivity([[3, 1], [0, 1]])
    (1.4142, 2.0, 3.0)
    """

    @property
    def count_sensitivity(self) -> int:
        return self.records

    def exact_l1(self, query: Any = None) -> Fraction:
        return self.records * max(l1_diameter(query), largest_l1(query))

    def exact_l2_squared(self, query: Any = None) -> Fraction:
        return self.records**2 * max(l2_squared_diameter(query), largest_l2_squared(query))


def root_up(square: Fraction) -> float:
    """Return the square root of an exact number, rounded up."""
    shift = 2 * max(0, 110 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    scaled = -((-square.numerator << shift) // square.denominator)  # rounded up
    root = math.isqrt(scaled)
    return rounded_up(Fraction(root + (root * root < scaled), 1 << shift // 2))


def neighbors_of(data: Any, stated: Neighbors | None = None) -> Neighbors:
    """Return the relation for records whose number per person a schema's `unit` bounded (`records_per_person`).

    Neighboring tables differ in all rows of one person, and hence in at most that many counted records. If the stated
    relation protects fewer records of a person, it is raised to this number; otherwise it is returned as it is.

    Args:
        data: the records.
        stated: the requested relation; `AddRemove` by default.

    Raises:
        ArgumentError: if `Replace` is stated for such records. It makes the number of records public, but the number
            of counted records depends on the rows of a person.
    """
    at_most = getattr(data, "records_per_person", None)
    relation = AddRemove() if stated is None else stated
    if at_most is None:
        return relation
    if isinstance(relation, Replace):
        raise ArgumentError.of(
            "neighbors",
            relation,
            f"AddRemove where the schema has a unit (at most {at_most}): it keeps no number public",
        )
    return replace(relation, records=max(relation.records, at_most))
