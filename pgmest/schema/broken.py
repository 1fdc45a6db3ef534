"""The rows of a raw table that break a constraint of its schema, counted without noise for their owner."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.grid import Grid
from pgmest.schema.impossible_rows import BrokenRule, ImpossibleRows, impossible_rows
from pgmest.schema.orders import Order, order_text
from pgmest.schema.sums import Sum

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

ROUNDING = 1e-9
"""The relative difference up to which sums of numbers with all decimals are equal."""


@dataclass
class Broken(BrokenRule):
    """An order or a sum, and how many rows break it.

    Attributes:
        columns: the columns of a chain in their order; or the total, then its parts.
        total: whether the first is the sum of the others.
    """

    columns: Sequence[Grid]
    total: bool
    _pairs: Sequence[tuple[int, int]] = field(default=(), repr=False)

    @classmethod
    def of_chain(cls, order: Order, chain: Sequence[str]) -> Broken:
        columns = [order.columns[name] for name in chain]
        pairs = tuple(itertools.combinations(range(len(chain)), 2))
        return cls(order_text(chain), columns, False, pairs)

    @classmethod
    def of_sum(cls, one: Sum, columns: Mapping[str, Grid]) -> Broken:
        parts = [columns[name] for name in one.parts]
        return cls(str(one), [one.total, *parts], True)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the raw table that are read."""
        return tuple(column.name for column in self.columns)

    def count(self, table: Mapping[str, Values]) -> None:
        """Add the rows of a piece of the table."""
        read = [column.raw_numbers(table[column.name]) for column in self.columns]
        numbers, there = [number for number, _ in read], [known for _, known in read]
        if self.total:
            self._add(np.logical_and.reduce(there), self._differs(numbers[0], sum(numbers[1:])))
            return
        pairs = [(there[a] & there[b], numbers[a] > numbers[b]) for a, b in self._pairs]
        claims = np.logical_or.reduce([both for both, _ in pairs])
        self._add(claims, np.logical_or.reduce([both & wrong for both, wrong in pairs]))

    def _add(self, rows: np.ndarray, wrong: np.ndarray) -> None:
        self.rows += int(rows.sum())
        self.broken += int((rows & wrong).sum())

    def _differs(self, total: Any, summed: Any) -> Any:
        """Return where a total is not the sum of its parts."""
        column = self.columns[0]
        if column.decimals is not None:
            return np.abs(total - summed) > 0.5 / column.units_of_one
        return np.abs(total - summed) > (np.abs(total) + np.abs(summed)) * ROUNDING


BrokenConstraint = Broken | ImpossibleRows
"""A constraint of any kind, and how many rows break it."""


def constraints_to_check(schema: Schema) -> list[BrokenConstraint]:
    """Return the constraints of a schema, nothing counted yet."""
    columns = {column.name: column for column in schema.described if isinstance(column, Grid)}
    chains = [Broken.of_chain(schema.order, chain) for chain in schema.order.chains]
    return [*chains, *(Broken.of_sum(one, columns) for one in schema.sums), *impossible_rows(schema)]
