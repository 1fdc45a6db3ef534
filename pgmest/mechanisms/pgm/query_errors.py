"""The errors of queries about a marginal, from the errors of its cells: what noise, groups and shrinkage do to them.

A query about a pair, such as a prefix sum, is the product of a row for each attribute. Independent noise in the cells
adds up in it as the root of the sum of squares, what groups of codes hide shows only where the query cuts through a
group, and what is systematic in larger parts of the table stays. So queries over ranges are best answered by coarser
groups than single cells are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from pgmest.mechanisms.pgm.groups import kinds
from pgmest.mechanisms.pgm.interest import evenly

MOST_ROWS = 64
"""Queries about a marginal that stand for all; fewer for each attribute where there are several."""


@dataclass(frozen=True, eq=False)
class Side:
    """The queries about one attribute, and its groups of codes on each level.

    Attributes:
        rows: of each level the queries, shape (rows, codes); by codes: the counts of groups.
        counts: of each code.
        levels: of each level the group of each code.
    """

    rows: tuple[np.ndarray, ...]
    counts: np.ndarray
    levels: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, factor: np.ndarray | None, counts: np.ndarray, levels: Sequence[np.ndarray], most: int) -> Side:
        """Of the rows asked for, or of the codes themselves, with at most `most` rows."""
        if factor is not None:
            chosen = evenly(len(factor), most)
            rows = (factor[chosen] * (len(factor) / len(chosen)),) * len(levels)
        else:
            rows = tuple(_groups(labels, counts, most) for labels in levels)
        return cls(rows, counts, tuple(levels))

    def fraction(self) -> float:
        """The sum of the answers' sizes, over the number of records: 1 for codes."""
        return float(np.abs(self.rows[-1] @ self.counts).sum() / max(float(self.counts.sum()), 1e-300))

    def answers(self, queries: int, level: int) -> np.ndarray:
        """What a record in a group adds to each query of a level on average, less the average over all records.

        Shape (rows, codes); level -1 has one group.
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
        return (sums / np.add.reduceat(self.counts, starts))[:, labels] - mean


def _groups(labels: np.ndarray, counts: np.ndarray, most: int) -> np.ndarray:
    """The counts of groups as queries; of many some that stand for all, spread over the sizes that there are."""
    size = int(labels[-1]) + 1
    order = np.argsort(np.bincount(labels, counts), kind="stable")
    chosen = order[evenly(size, most)]
    return (chosen[:, None] == labels[None, :]).astype(np.float64) * (size / len(chosen))


@dataclass(frozen=True, eq=False)
class QueryErrors:
    """The errors of queries about a marginal; all are sums of absolute values, in counts.

    Attributes:
        sides: the queries about each attribute.
        total: the number of records.
    """

    sides: tuple[Side, ...]
    total: float

    @classmethod
    def of(
        cls,
        factors: Sequence[np.ndarray | None],
        counts: Sequence[np.ndarray],
        levels: Sequence[Sequence[np.ndarray]],
    ) -> QueryErrors:
        """The queries about the attributes, None for codes; their estimated counts; and the groups on each level."""
        most = max(2, int(MOST_ROWS ** (1 / len(factors))))
        sides = tuple(Side.of(f, c, g, most) for f, c, g in zip(factors, counts, levels, strict=True))
        return cls(sides, float(counts[0].sum()))

    def cell_weights(self, level: int) -> np.ndarray:
        """By kind of cell (`kinds`) the sum of squares with which its noise enters each query, shape (queries, kinds).

        Noise that moves rows or columns is left out, since these are known.

        Args:
            level: of the groups measured.
        """
        found = []
        for side in self.sides:
            starts = np.flatnonzero(np.diff(side.levels[level], prepend=-1))
            labels = kinds(np.add.reduceat(side.counts, starts))
            rows = side.answers(level, level)[:, starts]
            rows = rows - rows.mean(axis=1, keepdims=True)
            squares = np.zeros((len(rows), int(labels.max()) + 1))
            np.add.at(squares.T, labels, np.square(rows).T)
            found.append(squares)
        return reduce(np.kron, found)

    def systematic(self, amounts: Sequence[float]) -> list[float]:
        r"""The errors of what is systematic in a table, level by level.

        Dependence at level m, hidden in the groups of level m - 1, is of groups of level m of one attribute and of this
        or a coarser level of the others: the product of a Haar-like detail of level $m_j$ along each attribute j, with
        $\max_j m_j = m$. Each detail has the less variance the finer it is, by a factor of 4 a level, as `Dependence`
        takes it; its signs are independent. So what is fine along one attribute does not cancel along the others.

        Args:
            amounts: of each level the l1 size by codes.
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
    def _detail(side: Side, level: int) -> float | None:
        """How much the queries about an attribute see of a detail of a level: 1 of codes; None if there is no such."""
        groups, before = (int(side.levels[at][-1]) + 1 if at >= 0 else 1 for at in (level, level - 1))
        if groups == before:
            return None
        starts = np.flatnonzero(np.diff(side.levels[level], prepend=-1))
        counts = np.add.reduceat(side.counts, starts)
        seen = (side.answers(level, level) - side.answers(level, level - 1))[:, starts]
        parent = np.zeros(groups, dtype=np.int64) if level == 0 else side.levels[level - 1][starts]
        inside = counts / np.bincount(parent, counts)[parent]
        together = np.bincount(parent, np.square(counts))[parent]
        of_codes = np.square(counts) * (1 - 2 * inside) + np.square(inside) * together  # of the query for a group
        return float(np.sqrt(np.square(seen) @ np.square(counts)).sum() / np.sqrt(np.maximum(of_codes, 0.0)).sum())

    def chance(self, level: int) -> float:
        """The error where counts of codes vary as drawn ones do, inside the groups of a level; -1 for all of it."""
        sums: list[list[np.ndarray]] = [[], [], []]
        for side in self.sides:
            finest = len(side.levels) - 1
            one, other = side.answers(finest, finest), side.answers(finest, level)
            for place, both in enumerate((one * one, one * other, other * other)):
                sums[place].append(both @ side.counts)
        whole, mixed, grouped = (reduce(np.kron, found) for found in sums)
        squares = np.maximum(whole - 2 * mixed + grouped, 0.0) * self.total ** (1 - len(self.sides))
        return float(np.sqrt(squares).sum())


def mean_fraction(factors: Mapping[str, np.ndarray], counts: Mapping[str, np.ndarray]) -> float:
    """How much of an error in a marginal is seen by queries that have other attributes, too: the part they ask for."""
    return math.prod(
        float(np.abs(rows @ counts[name]).sum() / max(float(counts[name].sum()), 1e-300))
        for name, rows in factors.items()
    )
