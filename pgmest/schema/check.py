"""The check of a raw table by a schema: how much of it is unreadable, clipped, other, missing, or all in one bin.

A schema that does not fit its table crushes the values, and everything after it looks perfect: the synthetic table is
close to the encoded one, which is far from the raw one. So this looks at the raw table, value by value. What it says is
counted from the records without noise, and for their owner only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.html import html_text
from pgmest._base.widths import padded, width
from pgmest.data.chunked_reader import column_names, read_pieces
from pgmest.data.frames import collected, lazy_frame
from pgmest.data.table_file import is_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError, listed, percent_text
from pgmest.schema.broken import Broken, constraints_to_check, count_in_engine
from pgmest.schema.categorical import Boolean, Categorical
from pgmest.schema.column import FATES, FORESEEN, MISSING, OUTSIDE, UNREADABLE, SchemaColumn, shown_value
from pgmest.schema.encoding import read_in_engine
from pgmest.schema.engine import EngineColumn, within_limits
from pgmest.schema.grid import Grid

if TYPE_CHECKING:
    import narwhals as nw

    from pgmest.schema.schema import Schema

NOTICED = 0.01
"""The share of values that are unreadable or clipped from which on it is said in words."""

ALARMING = 0.2
"""The share of values that are lost from which on a schema hardly describes its table."""

MANY_OTHER, MOSTLY_OTHER = 0.1, 0.5
MOSTLY_MISSING = 0.5
CROWDED = 0.9
FEW_BINS = 4
EXAMPLES, SEARCHED = 3, 1000

PRIVATE = "PRIVATE: counted from the records, without noise. For the owner of the table; do not publish it."


@dataclass(frozen=True, eq=False)
class ColumnCheck:
    """The fates of the values of one column.

    Attributes:
        column: its description in the schema.
        counts: shape (len(FATES), codes): how many values of each fate got each code.
        examples: a few values of each fate that loses values, as the table has them.
    """

    column: SchemaColumn
    counts: np.ndarray
    examples: Mapping[int, Sequence[str]]

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def rows(self) -> int:
        """The number of values, missing ones included."""
        return int(self.counts.sum())

    @property
    def missing(self) -> int:
        """The number of values that are empty, or a marker of missing values."""
        return int(self.counts[MISSING].sum())

    @property
    def unreadable(self) -> int:
        """The number of values that cannot be read as the type of the column."""
        unread = int(self.counts[UNREADABLE].sum())
        return unread + (int(self.counts[OUTSIDE].sum()) if isinstance(self.column, Boolean) else 0)

    @property
    def clipped(self) -> int:
        """The number of numbers or dates beyond the bounds."""
        return int(self.counts[OUTSIDE].sum()) if isinstance(self.column, Grid) else 0

    @property
    def other(self) -> int:
        """The number of values that are not listed."""
        named = isinstance(self.column, Categorical) and not isinstance(self.column, Boolean)
        return int(self.counts[OUTSIDE].sum()) if named else 0

    @property
    def kept(self) -> float:
        """The share of the values that are there that the schema foresees; 1 where none are there."""
        there = self.rows - self.missing
        return float(self.counts[FORESEEN].sum()) / there if there else 1.0

    @property
    def codes(self) -> int:
        """The number of values or bins of the column in the schema, without those for other and missing values."""
        named = isinstance(self.column, Categorical) and self.column.other is not None
        return self.column.regular - named

    @property
    def used(self) -> int:
        """The number of values or bins that occur."""
        return int(np.count_nonzero(self.counts[FORESEEN]))

    @property
    def commonest(self) -> tuple[str, float]:
        """The value or bin that most of the values that are there are coded as, and their share."""
        coded = self.counts.sum(axis=0) - self.counts[MISSING]
        code = int(coded.argmax())
        return self._label(code), float(coded[code]) / max(self.rows - self.missing, 1)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on what needs attention; empty if the schema fits."""
        return tuple(self._remarks())

    @property
    def alarming(self) -> bool:
        """Return whether the coded column says little about the table, as too many values are lost or share one bin."""
        there = max(self.rows - self.missing, 1)
        lost = self.unreadable + self.clipped >= ALARMING * there or self.other >= MOSTLY_OTHER * there
        return lost or self._crowded or (self.rows > 0 and self.missing == self.rows)

    @property
    def _crowded(self) -> bool:
        """Return whether nearly all readable values are in one of several bins."""
        read = self.counts[[FORESEEN, OUTSIDE]].sum(axis=0)
        bins = isinstance(self.column, Grid) and self.codes >= FEW_BINS
        return bins and 0 < CROWDED * read.sum() <= read.max() and self.kept > 1 - ALARMING

    def _remarks(self) -> Iterator[str]:
        there = max(self.rows - self.missing, 1)
        if self.unreadable / there >= NOTICED:
            fate = OUTSIDE if isinstance(self.column, Boolean) else UNREADABLE
            text = f"{percent_text(self.unreadable, there)} cannot be read as {self.column.expected()}"
            yield text + self._become(fate)
        if self.clipped / there >= NOTICED:
            yield f"{percent_text(self.clipped, there)} are not {self.column.expected()}" + self._become(OUTSIDE)
        if self.other / there >= MANY_OTHER:
            yield f"{percent_text(self.other, there)} are not listed" + self._become(OUTSIDE)
        if self._crowded:
            label, crowd = self.commonest
            yield f"{percent_text(crowd, 1)} are in one of {self.codes:,} bins, {label}: make bins where the values are"
        if self.rows and self.missing == self.rows:
            yield "all values are missing"
        elif self.missing >= MOSTLY_MISSING * self.rows > 0:
            yield f"{percent_text(self.missing, self.rows)} of the rows have no value"

    def _become(self, fate: int) -> str:
        """A few values of this fate, and the codes that they have, the commonest first."""
        counts = self.counts[fate]
        codes = [int(code) for code in np.argsort(-counts, kind="stable") if counts[code]]
        examples = f" (such as {', '.join(self.examples[fate])})" if self.examples.get(fate) else ""
        return f"{examples}, and become {listed([self._label(code) for code in codes], 3)}"

    def _label(self, code: int) -> str:
        return "missing" if self.column.missing and code == self.column.gap_code else self.column.labels()[code]

    def to_json(self) -> dict[str, Any]:
        """Return the counts of values and the remarks as values of JSON."""
        label, crowd = self.commonest
        return {
            "column": self.name,
            "rows": self.rows,
            **{name: getattr(self, name) for name in ("missing", "unreadable", "clipped", "other")},
            "values_used": self.used,
            "values_listed": self.codes,
            "commonest": label,
            "commonest_share": crowd,
            "remarks": list(self.remarks),
            "alarming": self.alarming,
        }


@dataclass(frozen=True, eq=False)
class TableCheck:
    """The check of a raw table by a schema. **Not private**: it is counted from the records without noise.

    Attributes:
        columns: one check a column of the schema.
        left_out: the columns of the table that the schema does not name.
        source: the schema's file.
        broken: the orders and sums of the schema, and how many rows break each.
    """

    columns: tuple[ColumnCheck, ...]
    left_out: tuple[str, ...]
    source: str
    broken: tuple[Broken, ...] = ()

    @property
    def rows(self) -> int:
        return self.columns[0].rows

    @property
    def kept(self) -> float:
        """The share of all values that are there that the schema foresees."""
        there = sum(column.rows - column.missing for column in self.columns)
        return sum(int(column.counts[FORESEEN].sum()) for column in self.columns) / there if there else 1.0

    @property
    def alarming(self) -> tuple[str, ...]:
        """The columns that the schema hardly describes."""
        return tuple(column.name for column in self.columns if column.alarming)

    @property
    def verdict(self) -> str:
        """The whole in a sentence."""
        if self.alarming:
            return (
                f"THE SCHEMA DOES NOT FIT THE TABLE in {listed(self.alarming, 8)}: what is made with it says little "
                "about these columns, however small the errors of the release look."
            )
        if self.remarks():
            return "The schema fits the table but for what is remarked below."
        return "The schema fits the table."

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The heading and a row for each column, as texts."""
        heading = ("column", "missing", "unreadable", "clipped", "other", "values used", "commonest")
        rows = []
        for column in self.columns:
            there = column.rows - column.missing
            parts = [percent_text(getattr(column, name), there) for name in ("unreadable", "clipped", "other")]
            label, crowd = column.commonest
            used = f"{column.used:,} of {column.codes:,}"
            common = f"{_short(label)} {percent_text(crowd, 1)}" if there else "-"
            rows.append((column.name, percent_text(column.missing, column.rows), *parts, used, common))
        return heading, rows

    def remarks(self) -> list[tuple[str, str, bool]]:
        """Return what needs attention: the column or constraint, the remark, and whether it is alarming."""
        found = [(column.name, remark, column.alarming) for column in self.columns for remark in column.remarks]
        return [*found, *((one.text, one.remark, False) for one in self.broken if one.broken)]

    def to_json(self) -> dict[str, Any]:
        """Return the check as values of JSON."""
        columns = [column.to_json() for column in self.columns]
        facts = {"private": True, "schema": self.source, "rows": self.rows, "kept": self.kept}
        return {**facts, "alarming": list(self.alarming), "left_out": list(self.left_out), "columns": columns} | {
            "constraints": [one.to_json() for one in self.broken]
        }

    def __str__(self) -> str:
        heading, rows = self.table()
        widths = [max(map(width, cells)) for cells in zip(heading, *rows, strict=True)]
        lines = [
            f"{self.rows:,} rows, {len(self.columns)} columns, {percent_text(self.kept, 1)} of the values as foreseen",
            self.verdict,
            "",
        ]
        for cells in (heading, *rows):
            aligned = (padded(cell, most, right=True) for cell, most in zip(cells[1:-1], widths[1:-1], strict=True))
            lines.append("  ".join([padded(cells[0], widths[0]), *aligned, cells[-1]]).rstrip())
        remarks = [f"{'!!' if alarm else '! '} {name}: {text}" for name, text, alarm in self.remarks()]
        left = [f"   not in the schema, so left out: {listed(self.left_out, 20)}"] if self.left_out else []
        return "\n".join([PRIVATE, *lines, *([""] if remarks or left else []), *remarks, *left])

    def _repr_html_(self) -> str:
        return html_text(self)

    __repr__ = __str__


def check(schema: Schema, table: Any) -> TableCheck:
    """Check a raw table by a schema; see `Schema.check`."""
    present = column_names(table)
    lacking = {one.name for one in schema.sums} - set(present)  # tables need not have totals
    described = [column for column in schema.described if column.name not in lacking]
    broken = [one for one in constraints_to_check(schema) if lacking.isdisjoint(column.name for column in one.columns)]
    names = [column.name for column in described]
    path = is_file(table)
    lazy = None if path else lazy_frame(table, names)
    if lazy is not None:
        checks = tuple(_counted_in_engine(column, lazy) for column in described)
        count_in_engine(broken, lazy)
    else:
        pieces = read_pieces(table, names) if path else iter([read_values(table, names)])
        try:
            checks = _counted(described, pieces, broken)
        except DataError as error:
            raise DataError(f"{table}: {error}" if path else str(error)) from None
    if not checks[0].rows:
        raise DataError(f"{table if path else 'the table'} has no rows, so there is nothing to check.")
    used = {*names, *([schema.unit.column] if schema.unit else [])}
    left_out = tuple(name for name in present if name not in used)
    return TableCheck(checks, left_out, schema.source, tuple(broken))


def _counted(
    columns: Sequence[SchemaColumn], pieces: Iterator[dict[str, Values]], broken: Sequence[Broken]
) -> tuple[ColumnCheck, ...]:
    counts = [np.zeros((len(FATES), column.size), dtype=np.int64) for column in columns]
    examples: list[dict[int, list[str]]] = [{UNREADABLE: [], OUTSIDE: []} for _ in columns]
    for piece in pieces:
        for constraint in broken:
            constraint.count(piece)
        for column, found, shown in zip(columns, counts, examples, strict=True):
            values = piece[column.name]
            codes, fates = column.fates(values)
            cells = np.bincount(fates.astype(np.int64) * column.size + codes, minlength=found.size)
            found += cells.reshape(found.shape)
            for fate, few in shown.items():
                if len(few) < EXAMPLES and cells.reshape(found.shape)[fate].any():
                    few[:] = _few([*few, *map(shown_value, values.where(fates == fate).array[:SEARCHED])])
    return tuple(ColumnCheck(*found) for found in zip(columns, counts, examples, strict=True))


def _few(shown: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(shown))[:EXAMPLES]


def _counted_in_engine(column: SchemaColumn, frame: nw.LazyFrame[Any]) -> ColumnCheck:
    """The check of one column, by the engine that holds it."""
    import narwhals as nw

    frame = within_limits(frame)
    held = EngineColumn(frame, column.name, frame.collect_schema()[column.name])
    expressions, read = read_in_engine(column, held, "0 ")
    codes, outside = column.place_in_engine(read.reading)
    gap, unreadable = read.null | read.marked, read.reading.unreadable
    to_gap = gap | unreadable | outside if column.outside == "missing" else gap | unreadable
    code = nw.when(to_gap).then(nw.lit(column.gap_code)).otherwise(codes.cast(nw.Int64))
    fate = nw.when(outside).then(nw.lit(OUTSIDE)).otherwise(nw.lit(FORESEEN))
    fate = nw.when(unreadable).then(nw.lit(UNREADABLE)).otherwise(fate)
    fate = nw.when(gap).then(nw.lit(MISSING)).otherwise(fate)
    read_frame = frame.select(column.name, *expressions)  # as columns first: what follows refers to them many times
    cells = read_frame.select(code.alias("code"), fate.alias("fate"))
    found = collected(cells.group_by("code", "fate").agg(nw.len().alias("count")))
    counts = np.zeros((len(FATES), column.size), dtype=np.int64)
    for place, of_fate, number in zip(*(found[name].to_list() for name in ("code", "fate", "count")), strict=True):
        empty = of_fate is None or place is None
        counts[MISSING if empty else of_fate, column.gap_code if empty else place] += number
    examples = {}
    for one in (UNREADABLE, OUTSIDE):
        if counts[one].any():
            lost = replace(held, frame=read_frame).samples(fate == one, SEARCHED)
            examples[one] = _few(map(shown_value, lost))
    return ColumnCheck(column, counts, examples)


def _short(label: str, longest: int = 24) -> str:
    return label if len(label) <= longest else f"{label[: longest - 3]}..."
