"""The check of a raw table by a schema: how much of it is unreadable, clipped, other, missing, or all in one bin.

A schema that does not fit its table crushes the values, and everything after it looks perfect: the synthetic table is
close to the encoded one, which is far from the raw one. So this looks at the raw table, value by value. What it says is
counted from the records without noise, and for their owner only.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pgmest._base.html import html_text
from pgmest._base.printable import on_one_line
from pgmest._base.widths import key_of_names, padded, short_names, shortened, width
from pgmest.data.batches import by_partition, engine_error, in_partitions, pieces_of
from pgmest.data.beginning import extent_of
from pgmest.data.chunked_reader import column_names
from pgmest.data.frames import ReadingWarning, collected, lazy_frame
from pgmest.data.names import index_note
from pgmest.data.table_file import TableFile, is_file
from pgmest.data.values import Values
from pgmest.errors import DataError, listed, percent_text, plural
from pgmest.schema.broken import CountedConstraint, constraints_to_check
from pgmest.schema.column import FORESEEN
from pgmest.schema.column_check import ALARMING, ColumnCheck
from pgmest.schema.dropped_rows import DroppedRows
from pgmest.schema.unit import Persons, persons_in_engine
from pgmest.schema.weight import WeightCheck

if TYPE_CHECKING:
    import narwhals as nw

    from pgmest.schema.schema import Schema

LONGEST_LABEL = 24
"""The most columns that the label of a value takes in the table."""

PRIVATE = "PRIVATE: counted from the records, without noise. For the owner of the table; do not publish it."


class Tally(Protocol):
    """Counts of the rows of a table, a piece of it at a time."""

    def count(self, piece: Mapping[str, Values], /) -> None:
        """Add the rows of a piece of the table."""
        ...

    def merge(self, other: Any, /) -> None:
        """Add the counts of other rows."""
        ...


@dataclass(frozen=True, eq=False)
class TableCheck:
    """The check of a raw table by a schema. **Not private**: it is counted from the records without noise.

    Attributes:
        columns: one check a column of the schema.
        left_out: the columns of the table that the schema does not name.
        source: the schema's file.
        broken: the constraints of the schema, and how many rows break each.
        dropped: the rows that the bound of the unit leaves out; None if the schema has no unit.
        weight: what the bound of the weights does to totals; None if the schema has no weight.
        skipped: the numbers of rows that the file's `skip_rows` leaves out, by the text for which.
    """

    columns: tuple[ColumnCheck, ...]
    left_out: tuple[str, ...]
    source: str
    broken: tuple[CountedConstraint, ...] = ()
    dropped: DroppedRows | None = None
    weight: WeightCheck | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)

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
        """The columns that the schema hardly describes, and the constraints and the unit that many rows break."""
        return tuple(dict.fromkeys(name for name, _, alarm in self.remarks() if alarm))

    @property
    def verdict(self) -> str:
        """The whole in a sentence."""
        if self.alarming:
            short = short_names(self.alarming)
            return (
                f"THE SCHEMA DOES NOT FIT THE TABLE in {listed(short.values(), 8)}: what is made with it says little "
                "about them, however small the errors of the release look."
            )
        if len(self.remarks()) > bool(self.skipped):  # that skip_rows leaves rows out is no fault
            return "The schema fits the table but for what is remarked below."
        return "The schema fits the table."

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the heading and a row for each column, as texts."""
        heading = ("column", "missing", "unreadable", "clipped", "other", "values used", "commonest")
        rows = []
        for column in self.columns:
            there = column.rows - column.missing
            parts = [percent_text(getattr(column, name), there) for name in ("unreadable", "clipped", "other")]
            label, crowd = column.commonest
            used = f"{column.used:,} of {column.codes:,}"
            common = f"{shortened(label, LONGEST_LABEL)} {percent_text(crowd, 1)}" if there else "-"
            rows.append((column.name, percent_text(column.missing, column.rows), *parts, used, common))
        return heading, rows

    def remarks(self) -> list[tuple[str, str, bool]]:
        """Return what needs attention: the column, constraint or unit, the remark, and whether it is alarming."""
        weight = self.weight.weight.column if self.weight is not None else None  # which has remarks and keys of its own
        others = [column for column in self.columns if column.column is not weight]
        found = [(column.name, remark, column.alarming) for column in others for remark in column.remarks]
        found += [(one.text, one.remark, one.alarming) for one in self.broken if one.broken]
        if self.dropped is not None and self.dropped.left_out:
            alarm = self.dropped.left_out >= ALARMING * self.dropped.rows
            found.append((f"unit {self.dropped.unit.column}", self.dropped.remark, alarm))
        if self.skipped:
            alarm = sum(self.skipped.values()) >= ALARMING * self.rows
            found.append(("file skip_rows", f"{skipped_text(self.skipped)} left out, as no records", alarm))
        if self.weight is not None:
            found += [(f"weight {self.weight.weight.name}", text, alarm) for text, alarm in self.weight.remarks]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the check as values of JSON."""
        columns = [column.to_json() for column in self.columns]
        facts = {"private": True, "schema": self.source, "rows": self.rows, "kept": self.kept}
        return {**facts, "alarming": list(self.alarming), "left_out": list(self.left_out), "columns": columns} | {
            "constraints": [one.to_json() for one in self.broken],
            "rows_skipped": dict(self.skipped),
            "unit": None if self.dropped is None else self.dropped.to_json(),
            "weight": None if self.weight is None else self.weight.to_json(),
        }

    def __str__(self) -> str:
        heading, rows = self.table()
        short = short_names(column.name for column in self.columns)
        rows = [tuple(map(on_one_line, (short[name], *cells))) for name, *cells in rows]
        widths = [max(map(width, cells)) for cells in zip(heading, *rows, strict=True)]
        lines = [
            f"{plural(self.rows, 'row')}, {plural(len(self.columns), 'column')}, "
            f"{percent_text(self.kept, 1)} of the values as foreseen",
            self.verdict,
            "",
        ]
        for cells in (heading, *rows):
            aligned = (padded(cell, most, right=True) for cell, most in zip(cells[1:-1], widths[1:-1], strict=True))
            lines.append("  ".join([padded(cells[0], widths[0]), *aligned, cells[-1]]).rstrip())
        notes = [f"{'!!' if alarm else '! '} {short.get(name, name)}: {text}" for name, text, alarm in self.remarks()]
        notes += [f"   not in the schema, so left out: {listed(self.left_out, 20)}"] if self.left_out else []
        notes += [f"   {text} = {name}" for text, name in key_of_names(short)]
        return "\n".join([PRIVATE, *lines, *([""] if notes else []), *map(on_one_line, notes)])

    def _repr_html_(self) -> str:
        return html_text(self)

    __repr__ = __str__


def check(schema: Schema, table: Any) -> TableCheck:
    """Check a raw table by a schema; see `Schema.check`."""
    present = column_names(table)
    lacking = {one.name for one in schema.sums} - set(present)  # tables need not have totals
    checks = [ColumnCheck.of(column) for column in schema.described if column.name not in lacking]
    broken = [one for one in constraints_to_check(schema) if lacking.isdisjoint(one.sources)]
    unit, weight = schema.unit, WeightCheck(schema.weight) if schema.weight else None
    counted: list[Tally] = [*checks, *broken, *([weight] if weight else [])]
    wanted = [*(one.name for one in checks), *([unit.column] if unit else [])]
    named, skipped, dropped = f"{table}: " if is_file(table) else "", Counter[str](), None
    lazy = None if is_file(table) else lazy_frame(table, wanted)
    if lazy is not None and in_partitions(lazy):
        try:
            _count_by_partition(lazy, counted)
            dropped = DroppedRows.in_engine(unit, persons_in_engine(lazy, unit)) if unit else None
        except Exception as error:
            raise engine_error(error) from error
    else:
        persons = Persons(unit.column) if unit else None
        try:
            for piece in pieces_of(table, wanted, skipped):
                for one in counted:
                    one.count(piece)
                if persons:
                    persons.add(piece[persons.column])
        except DataError as error:
            raise DataError(f"{named}{error}") from None
        dropped = DroppedRows.of(unit, *persons.counted()) if unit and persons else None
    if not checks[0].rows:
        raise DataError(f"{table if named else 'the table'} has no rows, so there is nothing to check.")
    left_out = tuple(name for name in present if name not in wanted)
    return TableCheck(tuple(checks), left_out, schema.source, tuple(broken), dropped, weight, dict(skipped))


def warn_of_place(table: Any) -> None:
    """Warn of what a file seems to have, such as titles or totals, that its schema does not say, or of an index."""
    if isinstance(table, TableFile):
        found = extent_of(table)
        if not found.decided or found.file.header == 0:
            return
        text = f"{table}: {'; '.join(found.decided)}: so it seems, but the schema does not say so (file:)"
    else:
        text = index_note(table)
    if text:
        warnings.warn(text, ReadingWarning, stacklevel=3)


def skipped_text(skipped: Mapping[str, int]) -> str:
    """Return how many rows `skip_rows` leaves out, and for which texts."""
    named = [f"{count:,} of {text}" if text else f"{count:,} without a value" for text, count in skipped.items()]
    return f"{plural(sum(skipped.values()), 'row')} ({', '.join(named)})"


def _count_by_partition(frame: nw.LazyFrame[Any], counted: Sequence[Tally]) -> None:
    """Count the rows of a frame where its partitions are."""

    def tallied(pieces: Iterator[Mapping[str, Values]]) -> Iterator[dict[str, Any]]:
        own = copy.deepcopy(list(counted))
        for piece in pieces:
            for one in own:
                one.count(piece)
        yield {"tally": [pickle.dumps(own)]}

    for tally in collected(by_partition(frame, tallied, {"tally": np.dtype("S")}))["tally"].to_list():
        for one, other in zip(counted, pickle.loads(tally), strict=True):
            one.merge(other)
