"""QueryErrors: the errors of queries about a marginal, computed from the errors of its cells.

A query about a pair, such as a prefix sum, is the product of a row for each attribute. Independent noise in the cells
adds up in squares. The error from grouping codes matters only if the query cuts through a group. Systematic errors in
larger parts of the table do not cancel. So queries over ranges are best answered from coarser groups than cells are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from pgmest.mechanisms.lamp.workload_demand import evenly_spaced
from pgmest.tables.groups import magnitude_classes

MOST_ROWS = 64
"""The largest number of queries about a marginal; if there are more, a sample represents them."""
LEAST = 1e-300
"""Counts of groups are at least this where they divide: groups without records have any mean."""


@dataclass(frozen=True, eq=False)
class AttributeQueries:
    """The queries about one attribute, and its groups of codes at each level.

    Attributes:
        rows: For each level, the queries, shape (rows, codes). If codes are asked for, they are the counts of groups.
        counts: The count of each code.
        levels: For each level, the group of each code.
    """

    rows: tuple[np.ndarray, ...]
    counts: np.ndarray
    levels: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, factor: np.ndarray | None, counts: np.ndarray, levels: Sequence[np.ndarray], most: int
    ) -> AttributeQueries:
        """Create the queries from a matrix, or from codes if `factor` is None, with at most `most` rows."""
        if factor is not None:
            chosen = evenly_spaced(len(factor), most)
            rows = (factor[chosen] * (len(factor) / len(chosen)),) * len(levels)
        else:
            rows = tuple(_groups(labels, counts, most) for labels in levels)
        return cls(rows, counts, tuple(levels))

    def answers(self, queries: int, level: int) -> np.ndarray:
        """Return the mean contribution of a record in a group to each query, minus that of all records.

        The shape is (rows, codes). Level -1 has a single group.

        Args:
            queries: The level whose queries are asked.
            level: The level of the groups.
        """
        rows = self.rows[queries]
        mean = (rows @ self.counts / self.counts.sum())[:, None]
        if level < 0:
            return np.zeros_like(rows)
        labels = self.levels[level]
        if len(labels) == int(labels[-1]) + 1:
            return rows - mean
        starts = np.flatnonzero(np.diff(labels, prepend=-1))
        sums = np.add.reduceat(rows * self.counts, starts, axis=1)
        return (sums / np.maximum(np.add.reduceat(self.counts, starts), LEAST))[:, labels] - mean


def _groups(labels: np.ndarray, counts: np.ndarray, most: int) -> np.ndarray:
    """Return the counts of groups as queries; at most `most` of them, spread over the sizes of groups."""
    size = int(labels[-1]) + 1
    order = np.argsort(np.bincount(labels, counts), kind="stable")
    chosen = order[evenly_spaced(size, most)]
    return (chosen[:, None] == labels[None, :]).astype(np.float64) * (size / len(chosen))


@dataclass(frozen=True, eq=False)
class QueryErrors:
    """The errors of queries about a marginal, as sums of absolute values in counts.

    Attributes:
        sides: The queries about each attribute.
        total: The number of records.
    """

    sides: tuple[AttributeQueries, ...]
    total: float

    @classmethod
    def of(
        cls,
        factors: Sequence[np.ndarray | None],
        counts: Sequence[np.ndarray],
        levels: Sequence[Sequence[np.ndarray]],
    ) -> QueryErrors:
        """Create the errors from each attribute's queries (None for codes), estimated counts, and groups by level."""
        most = max(2, int(MOST_ROWS ** (1 / len(factors))))
        sides = tuple(AttributeQueries.of(f, c, g, most) for f, c, g in zip(factors, counts, levels, strict=True))
        return cls(sides, float(counts[0].sum()))

    def noise_weights(self, level: int) -> np.ndarray:
        """Return the sum of squared coefficients of each kind of cell in each query, shape (queries, kinds).

        The part of the noise that changes the margins is removed, since these are known.

        Args:
            level: The level of the measured groups.
        """
        found = []
        for side in self.sides:
            starts = np.flatnonzero(np.diff(side.levels[level], prepend=-1))
            labels = magnitude_classes(np.add.reduceat(side.counts, starts))
            rows = side.answers(level, level)[:, starts]
            rows = rows - rows.mean(axis=1, keepdims=True)
            squares = np.zeros((len(rows), int(labels.max()) + 1))
            np.add.at(squares.T, labels, np.square(rows).T)
            found.append(squares)
        return reduce(np.kron, found)

    def systematic(self, amounts: Sequence[float]) -> list[float]:
        r"""Return the errors from the systematic dependence of each level.

        The dependence of level m is hidden by the groups of level m - 1. It is modeled by products of a Haar-like
        detail of level $m_j$ along each attribute j, where $\max_j m_j = m$. The variance of a detail falls by a factor
        of 4 per level, as in `Dependence`; the signs are independent. So a detail that is fine along one attribute need
        not cancel along the others.

        Args:
            amounts: The l1 size of the dependence of each level, over codes.
        """
        sizes = [[self._detail(side, level) for level in range(len(side.levels))] for side in self.sides]
        squares, shares = np.zeros(len(amounts)), np.zeros(len(amounts))
        for details in product(range(len(amounts)), repeat=len(self.sides)):
            entries = [own[level] for own, level in zip(sizes, details, strict=True)]
            if all(entry is not None for entry in entries):
                share = 4.0 ** -sum(details)
                shares[max(details)] += share
                squares[max(details)] += share * math.prod(entry**2 for entry in entries if entry is not None)
        return [
            amount * math.sqrt(square / share) if share > 0 else 0.0
            for amount, square, share in zip(amounts, squares, shares, strict=True)
        ]

    @staticmethod
    def _detail(side: AttributeQueries, level: int) -> float | None:
        """Return the error of an attribute's queries from a detail, relative to codes; None without details."""
        groups, before = (int(side.levels[at][-1]) + 1 if at >= 0 else 1 for at in (level, level - 1))
        if groups == before:
            return None
        starts = np.flatnonzero(np.diff(side.levels[level], prepend=-1))
        counts = np.add.reduceat(side.counts, starts)
        seen = (side.answers(level, level) - side.answers(level, level - 1))[:, starts]
        parent = np.zeros(groups, dtype=np.int64) if level == 0 else side.levels[level - 1][starts]
        inside = counts / np.maximum(np.bincount(parent, counts)[parent], LEAST)
        together = np.bincount(parent, np.square(counts))[parent]
        # the squared answer of a query that counts one group
        of_codes = np.square(counts) * (1 - 2 * inside) + np.square(inside) * together
        size = float(np.sqrt(np.maximum(of_codes, 0.0)).sum())
        return float(np.sqrt(np.square(seen) @ np.square(counts)).sum()) / size if size > 0 else None

    def chance(self, level: int) -> float:
        """Return the sampling error inside the groups of a level; level -1 gives the whole sampling error."""
        sums: list[list[np.ndarray]] = [[], [], []]
        for side in self.sides:
            finest = len(side.levels) - 1
            one, other = side.answers(finest, finest), side.answers(finest, level)
            for place, both in enumerate((one * one, one * other, other * other)):
                sums[place].append(both @ side.counts)
        whole, mixed, grouped = (reduce(np.kron, found) for found in sums)
        squares = np.maximum(whole - 2 * mixed + grouped, 0.0) * self.total ** (1 - len(self.sides))
        return float(np.sqrt(squares).sum())


def answered_fraction(factors: Mapping[str, np.ndarray], counts: Mapping[str, np.ndarray]) -> float:
    """Return the fraction of the records, and so of an error in a marginal, that queries about others count."""
    return math.prod(
        float(np.abs(rows @ counts[name]).sum() / max(float(counts[name].sum()), 1e-300))
        for name, rows in factors.items()
    )
