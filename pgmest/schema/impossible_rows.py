"""The rows of a raw table with a combination of values that a schema calls impossible, counted for their owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.widths import short_names
from pgmest.data.values import Values
from pgmest.errors import percent_text, plural
from pgmest.schema.column import SchemaColumn
from pgmest.schema.column_check import ALARMING
from pgmest.schema.orders import order_zeros
from pgmest.tables.domain import Clique

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema


@dataclass
class BrokenRule:
    """A rule, and how many rows break it. **Not private**: they are counted from the records without noise.

    Attributes:
        text: the rule in words, or as the schema writes it.
        rows: the number of rows about which it says something.
        broken: the number of those that break it.
    """

    text: str
    rows: int = field(default=0, kw_only=True)
    broken: int = field(default=0, kw_only=True)

    def merge(self, other: Any) -> None:
        """Add the counts of other rows, by the same rule."""
        self.rows += other.rows
        self.broken += other.broken

    @property
    def alarming(self) -> bool:
        """Return whether many rows break it."""
        return self.broken >= ALARMING * self.rows

    @property
    def share(self) -> str:
        """The number and the share of the rows that break it, in words."""
        return f"{self.broken:,} of {plural(self.rows, 'row')} ({percent_text(self.broken, self.rows)})"

    @property
    def remark(self) -> str:
        """The result in words."""
        return f"{self.share} break it, and a synthetic table none"

    def to_json(self) -> dict[str, Any]:
        """Return the counts as values of JSON."""
        return {"constraint": self.text, "rows": self.rows, "broken": self.broken}


@dataclass
class ImpossibleRows(BrokenRule):
    """The impossible combinations of some columns, and how many rows have one.

    Attributes:
        columns: the columns as they are coded; none of them raises an error for a value.
        impossible: a boolean table over their codes, True where impossible.
        cells: the number of rows with each impossible combination, in row-major order.
    """

    columns: Sequence[SchemaColumn]
    impossible: np.ndarray
    cells: dict[int, int] = field(default_factory=dict)

    @property
    def sources(self) -> Clique:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def count(self, table: Mapping[str, Values]) -> None:
        """Add the rows of a piece of the table."""
        codes = tuple(column.encode(table[column.name]).astype(np.intp) for column in self.columns)
        cells = np.ravel_multi_index(codes, self.impossible.shape)
        self._add(len(cells), *np.unique(cells[self.impossible.reshape(-1)[cells]], return_counts=True))

    def count_in(self, counts: np.ndarray) -> None:
        """Add rows by the number of rows with each combination, an array of the shape of `impossible`."""
        flat = np.where(self.impossible, counts, 0.0).reshape(-1)
        cells = np.flatnonzero(flat)
        self._add(round(float(counts.sum())), cells, flat[cells])

    def merge(self, other: ImpossibleRows) -> None:
        cells = np.array(list(other.cells), dtype=np.int64)
        self._add(other.rows, cells, np.array(list(other.cells.values()), dtype=np.int64))

    def _add(self, rows: int, cells: np.ndarray, counts: np.ndarray) -> None:
        self.rows += rows
        self.broken += int(counts.sum())
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            self.cells[cell] = self.cells.get(cell, 0) + int(count)

    @property
    def remark(self) -> str:
        """The result in words, with the most frequent combination."""
        cell = max(self.cells, key=lambda one: self.cells[one])
        codes = np.unravel_index(cell, self.impossible.shape)
        short = short_names(self.sources)
        values = ", ".join(
            f"{short[c.name]} = {_label(c, int(code))}" for c, code in zip(self.columns, codes, strict=True)
        )
        return (
            f"{self.share} have an impossible combination, most often {values} ({self.cells[cell]:,}), and a synthetic "
            "table none"
        )


def impossible_rows(schema: Schema) -> list[ImpossibleRows]:
    """Return the impossible combinations of a schema, no row counted yet.

    Combinations that orders rule out are left aside: `Broken` counts these rows by their values.
    """
    columns = {column.name: _lenient(column) for column in schema.columns}
    ordered = dict(order_zeros(schema.order))
    zeros = {clique: table & ~ordered.get(clique, np.False_) for clique, table in schema.structural_zeros.items()}
    return [
        ImpossibleRows(f"constraint on {', '.join(short_names(clique).values())}", [columns[n] for n in clique], table)
        for clique, table in zeros.items()
        if table.any()
    ]


def _lenient(column: SchemaColumn) -> SchemaColumn:
    """Return a column with the same codes that raises no error for a value."""
    return replace(column, outside="clip") if column.outside == "error" else column


def _label(column: SchemaColumn, code: int) -> str:
    return "missing" if column.missing and code == column.gap_code else column.labels()[code]
