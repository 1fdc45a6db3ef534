"""Counts of the rows of raw tables that break a constraint or a rule, without noise, for their owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.widths import short_names
from pgmest.data.values import Values
from pgmest.errors import percent_text, plural
from pgmest.schema.column import SchemaColumn
from pgmest.schema.column_check import ALARMING
from pgmest.schema.grid import Grid
from pgmest.schema.orders import order_text, order_zeros

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

ROUNDING = 1e-9
"""The relative difference up to which sums of numbers with all decimals are equal."""


@dataclass
class Counted:
    """The rows that something holds of, among some rows. **Not private**: they are counted from the records.

    Attributes:
        text: what the rows break, in words or as the schema writes it.
        rows: the number of rows about which it says something.
        broken: the number of those that break it.
        table: the table whose rows these are, if there are several.
        fate: what becomes of rows that break it, in words.
    """

    text: str
    rows: int = 0
    broken: int = 0
    table: str = ""
    fate: str = "break it, and a synthetic table none"

    @property
    def alarming(self) -> bool:
        """Return whether many rows break it."""
        return self.broken >= ALARMING * self.rows

    @property
    def remark(self) -> str:
        """The result in words."""
        share = percent_text(self.broken, self.rows)
        return f"{self.broken:,} of {plural(self.rows, 'row')} ({share}) {self.fate}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts as values of JSON."""
        return {"constraint": self.text, "rows": self.rows, "broken": self.broken}


@dataclass
class CountedConstraint(Counted):
    """A constraint of a schema, and how many rows break it.

    Attributes:
        columns: the columns of an order; or a total, then its parts; or those of impossible combinations, as they are
            coded, none of which raises an error for a value.
        total: whether the first column is the sum of the others.
        impossible: a boolean table over their codes, True where impossible; None for an order or a sum.
        cells: the number of rows with each impossible combination, in row-major order.
    """

    columns: Sequence[SchemaColumn] = ()
    total: bool = False
    impossible: np.ndarray | None = None
    cells: Counter[int] = field(default_factory=Counter)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the raw table that are read."""
        return tuple(column.name for column in self.columns)

    def count(self, table: Mapping[str, Values]) -> None:
        """Add the rows of a piece of the table."""
        about, wrong = self._judged([table[name] for name in self.sources])
        self.rows += int(about.sum())
        self.broken += int((about & wrong).sum())

    def merge(self, other: CountedConstraint) -> None:
        """Add the counts of other rows."""
        self.rows, self.broken = self.rows + other.rows, self.broken + other.broken
        self.cells.update(other.cells)

    def _judged(self, values: Sequence[Values]) -> tuple[Any, Any]:
        """Return about which rows the constraint says something, and which of these break it; shapes (rows,)."""
        read = [c.raw_numbers(v) for c, v in zip(self.columns, values, strict=True) if isinstance(c, Grid)]
        if self.impossible is not None:
            codes = [column.encode(one).astype(np.intp) for column, one in zip(self.columns, values, strict=True)]
            cells = np.ravel_multi_index(tuple(codes), self.impossible.shape)
            wrong = self.impossible.reshape(-1)[cells]
            kinds, counts = np.unique(cells[wrong], return_counts=True)
            self.cells.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
            return np.ones(len(cells), dtype=bool), wrong
        numbers, there = (np.stack(parts) for parts in zip(*read, strict=True))
        if self.total:
            return np.all(there, axis=0), self._differs(numbers[0], numbers[1:].sum(axis=0))
        held = np.where(there, numbers, np.min(numbers, where=there, initial=0))
        return there.sum(axis=0) > 1, (there & (np.maximum.accumulate(held) > held)).any(axis=0)

    def _differs(self, total: np.ndarray, summed: np.ndarray) -> np.ndarray:
        """Return where a total is not the sum of its parts."""
        column = self.columns[0]
        assert isinstance(column, Grid)
        near = (np.abs(total) + np.abs(summed)) * ROUNDING
        return np.abs(total - summed) > (near if column.decimals is None else 0.5 / column.units_of_one)

    @property
    def remark(self) -> str:
        """The result in words, with the most frequent impossible combination."""
        if self.impossible is None:
            return super().remark
        ((cell, count),) = self.cells.most_common(1)
        codes, short = np.unravel_index(cell, self.impossible.shape), short_names(self.sources)
        named = zip(self.columns, codes, strict=True)
        values = ", ".join(f"{short[column.name]} = {column.label_of(int(code))}" for column, code in named)
        often = f"have an impossible combination, most often {values} ({count:,}), and a synthetic table none"
        return replace(self, impossible=None, fate=often).remark


def constraints_to_check(schema: Schema) -> list[CountedConstraint]:
    """Return the constraints of a schema, nothing counted yet.

    Combinations that orders rule out are left aside: the orders count these rows by their values.
    """
    grids = {column.name: column for column in schema.described if isinstance(column, Grid)}
    chains = [
        CountedConstraint(order_text(chain), columns=[schema.order.columns[name] for name in chain])
        for chain in schema.order.chains
    ]
    sums = [
        CountedConstraint(str(one), columns=[one.total, *(grids[name] for name in one.parts)], total=True)
        for one in schema.sums
    ]
    coded = {c.name: replace(c, outside="clip") if c.outside == "error" else c for c in schema.columns}
    ordered, tables = dict(order_zeros(schema.order)), []
    for clique, table in schema.structural_zeros.items():
        left = table & ~ordered.get(clique, np.False_)
        if left.any():
            text = f"constraint on {', '.join(short_names(clique).values())}"
            tables.append(CountedConstraint(text, columns=[coded[name] for name in clique], impossible=left))
    return [*chains, *sums, *tables]
