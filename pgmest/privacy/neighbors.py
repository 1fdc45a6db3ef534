"""Neighboring relations: which datasets must be hard to tell apart, and hence how far one individual moves an answer.

An individual contributes up to `records` records (Delta of DPSyn section 2). `Replace`: one individual's records are
replaced by as many others (the number of records is public; PGM section 2, whose experiments have it). `AddRemove`:
neighbors differ by one individual more or less (the number of records is private; PGM E.1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pgmest._base.errors import ArgumentError
from pgmest.privacy.budgets import rounded_up
from pgmest.privacy.sensitivity import l1_diameter, l2_squared_diameter
from pgmest.queries.norms import largest_l1, largest_l2_squared


@dataclass(frozen=True)
class Neighbors(ABC):
    """A neighboring relation; sensitivities are of answers Q mu to an (r, n) query Q about a marginal of counts.

    Args:
        records: the most records that one individual contributes.

    Raises:
        ArgumentError: `records` is not a positive integer.
    """

    records: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.records, bool) or not isinstance(self.records, int) or self.records < 1:
            raise ArgumentError.of("records", self.records, "a positive integer")

    @property
    @abstractmethod
    def count_sensitivity(self) -> int:
        """How far one individual moves the number of records."""

    @abstractmethod
    def exact_l1(self, query: Any = None) -> Fraction:
        """The largest l1 distance between the answers of neighbors; None is identity."""

    @abstractmethod
    def exact_l2_squared(self, query: Any = None) -> Fraction:
        """The largest squared l2 distance between the answers of neighbors; None is identity."""

    def l1_sensitivity(self, query: Any = None) -> float:
        """The largest l1 distance between the answers of neighbors, rounded up; None is identity."""
        return rounded_up(self.exact_l1(query))

    def l2_sensitivity(self, query: Any = None) -> float:
        """The largest l2 distance between the answers of neighbors, rounded up; None is identity."""
        return root_up(self.exact_l2_squared(query))


@dataclass(frozen=True)
class AddRemove(Neighbors):
    """One individual more or less: the largest norm of a column of Q, times `records`.

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
    """One individual's records replaced: the largest distance between two columns of Q, times `records`.

    Of matrices too large to be materialized a bound is used: twice the largest l1 norm; in l2, sqrt(2) times the
    largest norm for matrices without negative entries and twice that for others.

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


def root_up(square: Fraction) -> float:
    """The root of an exact number, rounded up."""
    shift = 2 * max(0, 110 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    scaled = -((-square.numerator << shift) // square.denominator)  # rounded up
    root = math.isqrt(scaled)
    return rounded_up(Fraction(root + (root * root < scaled), 1 << shift // 2))


def neighbors_of(data: Any, stated: Neighbors | None = None) -> Neighbors:
    """The relation for records of which a schema's `unit` bounded how many one person has (`records_per_person`).

    Neighboring tables differ in all rows of one person, hence in at most that many of the records that are counted. A
    relation that is stated and protects fewer records of a person is raised to it; one that protects more stays.

    Args:
        data: the records.
        stated: the relation asked for; `AddRemove` by default.

    Raises:
        ArgumentError: `Replace`, by which the number of records is public: how many records persons are left with
            depends on their rows.
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
