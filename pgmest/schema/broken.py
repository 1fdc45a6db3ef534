"""The rows of a raw table that break a constraint of its schema, counted without noise for their owner."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.frames import collected
from pgmest.data.values import Values
from pgmest.schema.encoding import read_in_engine
from pgmest.schema.engine import EngineColumn
from pgmest.schema.engine_frames import kept_apart, within_limits
from pgmest.schema.grid import Grid
from pgmest.schema.impossible_rows import BrokenRule, ImpossibleRows, count_impossible_in_engine, impossible_rows
from pgmest.schema.orders import Order, order_text
from pgmest.schema.sums import Sum

if TYPE_CHECKING:
    import narwhals as nw

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
        """Return where a total is not the sum of its parts; arrays or expressions of an engine."""
        column = self.columns[0]
        if column.decimals is not None:
            return _absolute(total - summed) > 0.5 / column.units_of_one
        return _absolute(total - summed) > (_absolute(total) + _absolute(summed)) * ROUNDING

    def expressions(self, numbers: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[nw.Expr, nw.Expr]:
        """Return which rows it says something about, and which of them break it, as expressions of an engine."""
        import narwhals as nw

        names = [column.name for column in self.columns]
        if self.total:
            rows = nw.all_horizontal(*(there[name] for name in names), ignore_nulls=False)
            first, *rest = (numbers[name] for name in names)
            summed = rest[0]
            for number in rest[1:]:
                summed = summed + number
            return rows, rows & self._differs(first, summed)
        pairs = [(there[names[a]] & there[names[b]], numbers[names[a]] > numbers[names[b]]) for a, b in self._pairs]
        claims = nw.any_horizontal(*(both for both, _ in pairs), ignore_nulls=False)
        return claims, nw.any_horizontal(*(both & wrong for both, wrong in pairs), ignore_nulls=False)


def _absolute(numbers: Any) -> Any:
    """Return the absolute values of an array or of an expression of an engine."""
    return np.abs(numbers) if isinstance(numbers, np.ndarray) else numbers.abs()


BrokenConstraint = Broken | ImpossibleRows
"""A constraint of any kind, and how many rows break it."""


def constraints_to_check(schema: Schema) -> list[BrokenConstraint]:
    """Return the constraints of a schema, nothing counted yet."""
    columns = {column.name: column for column in schema.described if isinstance(column, Grid)}
    chains = [Broken.of_chain(schema.order, chain) for chain in schema.order.chains]
    return [*chains, *(Broken.of_sum(one, columns) for one in schema.sums), *impossible_rows(schema)]


def count_in_engine(found: Sequence[BrokenConstraint], frame: nw.LazyFrame[Any]) -> None:
    """Count the rows that break constraints, by the engine that holds them."""
    count_impossible_in_engine([one for one in found if isinstance(one, ImpossibleRows)], frame.to_native())
    _count_related([one for one in found if isinstance(one, Broken)], frame)


def _count_related(found: Sequence[Broken], frame: nw.LazyFrame[Any]) -> None:
    """Count the rows that break orders and sums, by the engine that holds them."""
    import narwhals as nw

    frame = within_limits(frame)
    kinds = frame.collect_schema()
    grids = {column.name: column for one in found for column in one.columns}
    if not grids:
        return
    readings, expressions, numbers, there = [], [], {}, {}
    for position, column in enumerate(grids.values()):
        held = EngineColumn(frame, column.name, kinds[column.name])
        expressions_of_column, read = read_in_engine(column, held, f"{position} ")
        readings += expressions_of_column
        gap = read.null | read.marked | read.reading.unreadable
        number = nw.when(gap).then(nw.lit(0)).otherwise(read.reading.number)
        known = nw.when(gap).then(nw.lit(False)).otherwise(nw.lit(True))
        expressions += [number.alias(read.name("value")), known.alias(read.name("known"))]
        numbers[column.name], there[column.name] = nw.col(read.name("value")), nw.col(read.name("known"))
    frame = kept_apart(kept_apart(frame.select(*readings)).select(*expressions))
    asked = {}
    for position, one in enumerate(found):
        for name, condition in zip(("rows", "broken"), one.expressions(numbers, there), strict=True):
            asked[f"{name} {position}"] = nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0)).sum()
    row = collected(frame.select(*(question.alias(name) for name, question in asked.items())))
    for position, one in enumerate(found):
        one.rows, one.broken = (int(row[f"{name} {position}"].to_list()[0] or 0) for name in ("rows", "broken"))
