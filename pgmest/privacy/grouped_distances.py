"""Scores that are distances over groups of codes, for tables that are too sparse to be compared code by code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.privacy.scores import Scores, check_finite
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import summed


@dataclass(frozen=True, eq=False)
class GroupedDistance:
    """The l1 distance of the counts of a marginal from expected counts, over groups of codes.

    Attributes:
        clique: the attributes of the marginal.
        groups: for each attribute, the group number of each code; groups are ranges, numbered in order.
        expected: the expected counts, with an axis for each attribute and an entry for each group.
        expected_error: a public constant that is subtracted from the distance, in counts.
        orders: for each attribute, the order in which `groups` has its codes; None for their own order. Empty if all
            are in their own order.
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    expected: np.ndarray
    expected_error: float = 0.0
    orders: tuple[np.ndarray | None, ...] = ()

    def score(self, counts: np.ndarray) -> float:
        """Return the distance less `expected_error`; its sensitivity is at most that of the counts in l1 (triangle
        inequality)."""
        for axis, order in enumerate(self.orders):
            if order is not None:
                counts = np.take(counts, order, axis=axis)
        return float(np.abs(summed(counts, self.groups) - self.expected).sum()) - self.expected_error


@dataclass(frozen=True, eq=False)
class GroupedDistances(Scores[int]):
    """Distances over groups of codes. The candidates are their positions.

    Attributes:
        of: the distances.
    """

    of: tuple[GroupedDistance, ...]

    def evaluate(self, data: Dataset, candidates: Sequence[int]) -> list[float]:
        """Return the distances; the marginals are counted together."""
        asked = [self.of[position] for position in candidates]
        tables = data.project_many([distance.clique for distance in asked])
        return [distance.score(table.values) for distance, table in zip(asked, tables, strict=True)]

    def check(self, domain: Domain, candidates: Sequence[int]) -> None:
        """Raise ArgumentError if an expected count is not finite."""
        for position in candidates:
            check_finite(position, self.of[position].expected, self.of[position].expected_error)
