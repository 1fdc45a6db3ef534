"""Numbers drawn within their bins so that the rules `older` hold among the rows of each parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked_rules import Older
from pgmest.schema.bins import uniform
from pgmest.schema.grid import Grid
from pgmest.schema.joint_draws import values_left
from pgmest.schema.writing import off_markers

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import TableSchema

ROUNDS = 30
"""The most times that the numbers of a parent's rows are drawn until they keep the rules; then they are moved."""


def draw_older(
    part: TableSchema, data: Dataset, parent_rows: np.ndarray, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return for each column that a rule `older` compares the numbers of the rows that a rule is about.

    All rows of a parent are drawn again while they break a rule, so that those who keep it are uniform within their
    bins, given that they do. What breaks it after `ROUNDS` draws is placed between the lowest and the highest solution
    of the rules, or where the bins have none, as near above them as the column allows.

    Args:
        part: the table and its rules.
        data: its codes.
        parent_rows: the parent row of each row, shape (rows,).
        generator: of the draws.

    Returns:
        Column -> numbers in the units of `Grid.points`, shape (rows,); NaN for rows that no rule is about.
    """
    rules = [rule for rule in part.rules if isinstance(rule, Older)]
    return {
        name: _Draw(part, data, parent_rows, [rule for rule in rules if rule.column == name]).numbers(generator)
        for name in dict.fromkeys(rule.column for rule in rules)
    }


class _Draw:
    """One column: its rules, and the ends of the bins of the rows that they are about."""

    def __init__(self, part: TableSchema, data: Dataset, parent_rows: np.ndarray, rules: Sequence[Older]):
        column = part.schema.column(rules[0].column)
        assert isinstance(column, Grid)
        codes = {name: data.column(name).astype(np.int64) for name in data.domain}
        ends = values_left(part.schema.order, column, codes)
        role = codes[rules[0].attribute]
        about = np.unique([code for rule in rules for code in (*rule.codes, *rule.than)])
        self.column, self.size = column, data.records
        self.rows = np.flatnonzero(np.isin(role, about) & ends.there)
        self.parent = np.unique(parent_rows[self.rows], return_inverse=True)[1].reshape(-1)
        self.parents = int(self.parent.max(initial=-1)) + 1
        self.first, self.last = ends.first[self.rows], ends.last[self.rows]
        whole = self.first.dtype.kind == "i"
        self.rules = []
        for rule in rules:
            by = rule.by * column.units_of_one
            higher, lower = (np.isin(role[self.rows], side) for side in (rule.codes, rule.than))
            self.rules.append((higher, lower, np.ceil(by - 1e-9) if whole else by))

    def numbers(self, generator: np.random.Generator) -> np.ndarray:
        drawn = self._uniform(np.ones(len(self.rows), dtype=bool), generator)
        again = self._broken(drawn)[self.parent]
        for _ in range(ROUNDS):
            if not again.any():
                break
            drawn[again] = self._uniform(again, generator)
            again = self._broken(drawn)[self.parent]
        if again.any():
            drawn[again] = self._placed(generator)[again]
        found = np.full(self.size, np.nan)
        found[self.rows] = drawn
        return found

    def _uniform(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        first, last = self.first[rows], self.last[rows]
        return off_markers(self.column, first, last, uniform(first, last, generator)).astype(np.float64)

    def _broken(self, numbers: np.ndarray) -> np.ndarray:
        """Return which parents break a rule, shape (parents,)."""
        broken = np.zeros(self.parents, dtype=bool)
        for higher, lower, by in self.rules:
            broken |= -self._largest(-numbers, higher) - self._largest(numbers, lower) < by
        return broken

    def _placed(self, generator: np.random.Generator) -> np.ndarray:
        """Return numbers between the lowest and the highest that keep the rules: both are solutions, so this is one."""
        lowest, highest = self._lowest(self.first), self._highest(self.last)
        share = generator.random(self.parents)[self.parent]
        between = lowest + share * (highest - lowest)
        between = np.floor(between) if self.first.dtype.kind == "i" else between
        ends = self.column.points
        within = np.minimum(lowest, self._highest(np.full(len(self.rows), ends[1].max())))
        without = np.zeros(self.parents, dtype=bool)
        without[self.parent[lowest > highest]] = True
        return np.where(without[self.parent], within, between)

    def _lowest(self, numbers: np.ndarray, sign: int = 1) -> np.ndarray:
        """Return the lowest numbers that keep the rules, none below those given; with sign -1 of negative numbers."""
        numbers = numbers.astype(np.float64)
        for _ in range(len(self.rules) + 1):
            for *sides, by in self.rules:
                higher, lower = sides[::sign]
                least = (self._largest(numbers, lower) + by)[self.parent]
                numbers = np.where(higher, np.maximum(numbers, least), numbers)
        return numbers

    def _highest(self, numbers: np.ndarray) -> np.ndarray:
        """Return the highest numbers that keep the rules, none above those given."""
        return -self._lowest(-numbers, -1)

    def _largest(self, numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        found = np.full(self.parents, -np.inf)
        np.maximum.at(found, self.parent[rows], numbers[rows])
        return found
