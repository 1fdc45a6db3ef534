"""Neighboring relations: which datasets must be hard to tell apart, and hence how far one individual moves an answer.

An individual contributes up to `records` records (Delta of DPSyn section 2). `AddRemove`: neighbors differ by one
individual more or less (the number of records is private; PGM section 2). `Replace`: one individual's records are
replaced by as many others (the number of records is public).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from pgmest._base.errors import ArgumentError
from pgmest.queries import as_query
from pgmest.queries.norms import factors_of, largest_l1, largest_l2_squared, non_negative

MOST_ENTRIES, MOST_COLUMNS = 2**20, 1024
"""Query matrices up to this size are written down to find the largest distance of two columns."""


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
    def l1_sensitivity(self, query: Any = None) -> float:
        """The largest l1 distance between the answers of neighbors, rounded up; None is identity."""

    @abstractmethod
    def l2_sensitivity(self, query: Any = None) -> float:
        """The largest l2 distance between the answers of neighbors, rounded up; None is identity."""


@dataclass(frozen=True)
class AddRemove(Neighbors):
    """One individual more or less: the largest norm of a column of Q, times `records`.

    >>> AddRemove().l2_sensitivity(), AddRemove(records=3).l1_sensitivity([[1, 1], [0, 1]])
    (1.0, 6.0)
    """

    @property
    def count_sensitivity(self) -> int:
        return self.records

    def l1_sensitivity(self, query: Any = None) -> float:
        return _up(self.records * largest_l1(query))

    def l2_sensitivity(self, query: Any = None) -> float:
        return _root_up(self.records**2 * largest_l2_squared(query))


@dataclass(frozen=True)
class Replace(Neighbors):
    """One individual's records replaced: the largest distance between two columns of Q, times `records`.

    Of matrices too large to be written down a bound is used: twice the largest l1 norm; in l2, sqrt(2) times the
    largest norm for matrices without negative entries and twice that for others.

    >>> round(Replace().l2_sensitivity(), 4), Replace().l1_sensitivity(), Replace().l1_sensitivity([[1, 1], [0, 1]])
    (1.4142, 2.0, 1.0)
    """

    @property
    def count_sensitivity(self) -> int:
        return 0

    def l1_sensitivity(self, query: Any = None) -> float:
        return _up(self.records * _diameter(query, "cityblock", 2 * largest_l1(query)))

    def l2_sensitivity(self, query: Any = None) -> float:
        factor = 2 if all(map(non_negative, factors_of(query))) else 4  # such columns are at most at a right angle
        return _root_up(self.records**2 * _diameter(query, "sqeuclidean", factor * largest_l2_squared(query)))


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


def _diameter(query: Any, metric: Literal["cityblock", "sqeuclidean"], bound: float) -> float:
    """max_ij d(Q e_i, Q e_j) where Q is small enough, else the bound."""
    if query is None:
        return 2.0
    matrix = as_query(query)
    if matrix.cells > MOST_COLUMNS or matrix.cells * matrix.rows > MOST_ENTRIES:
        return bound
    from scipy.spatial import distance

    return float(distance.pdist(matrix.matrix().T, metric).max(initial=0.0))


def _up(value: float) -> float:
    """An upper bound on a sum that was added up in floats: sums of integers are exact, others get a margin."""
    return value if value.is_integer() and value < 2**53 else value * (1 + 1e-9)


def _root_up(square: float) -> float:
    """The root of such a sum, rounded up."""
    square = _up(square)
    root = math.sqrt(square)
    return root if Fraction(root) ** 2 >= Fraction(square) else math.nextafter(root, math.inf)
