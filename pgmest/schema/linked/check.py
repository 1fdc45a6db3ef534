"""The check of linked tables by their schema: each table by itself, how they join, and what breaks a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.html import html_text
from pgmest._base.printable import on_one_line
from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import DataError, percent_text, plural
from pgmest.schema.broken import Counted
from pgmest.schema.check import PRIVATE, TableCheck, skipped_text, warn_of_place
from pgmest.schema.check import check as check_table
from pgmest.schema.column_check import ALARMING
from pgmest.schema.keyed_hash import checked_key, place_within
from pgmest.schema.linked.encoding import ReadTables, read_tables
from pgmest.schema.linked.linking import DOUBLED, KEYLESS, ORPHAN, LinkedRows, link_rows
from pgmest.schema.numerals import numbers_or_nan

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import LinkedSchema

SHOWN_SIZES = 12
"""The most numbers of children that are listed one by one; more are listed in ranges."""
SHARES_OF_SIZES = (*np.arange(0.1, 1.0, 0.1), 0.99, 1.0)
"""The shares of the parents up to which the ranges reach."""


@dataclass(frozen=True)
class JoinCheck:
    """The join of one table with its parent. **Not private**: it is counted from the records without noise.

    Attributes:
        table: the table.
        parent: its parent; None for the root.
        at_most: how many rows of one parent row count.
        rows: the number of rows.
        keyless: the rows without a key.
        orphans: the rows whose parent is not there.
        doubled: the rows of the root that are left out since several have their key.
        sizes: how many rows of the parent have 0, 1, 2, ... rows of the table.
        skipped: the numbers of rows that the file's `skip_rows` leaves out, by the text for which.
    """

    table: str
    parent: str | None
    at_most: int
    rows: int
    keyless: int
    orphans: int
    doubled: int
    sizes: tuple[int, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def crowded(self) -> int:
        """The rows of the parent that have more rows than count."""
        return sum(self.sizes[self.at_most + 1 :])

    @property
    def beyond(self) -> int:
        """The rows that do not count as their parent has more than `at_most`."""
        return sum(max(size - self.at_most, 0) * number for size, number in enumerate(self.sizes))

    def remarks(self) -> Iterator[tuple[str, bool]]:
        """Yield what needs attention, and whether it is alarming."""
        reasons = {"without a key": self.keyless, f"whose '{self.parent}' is not there": self.orphans}
        reasons["whose key another row has, too"] = self.doubled
        for reason, lost in reasons.items():
            if lost:
                share = percent_text(lost, self.rows)
                yield f"{plural(lost, 'row')} ({share}) {reason}: left out", lost >= ALARMING * self.rows
        if self.parent is not None and self.crowded:
            yield (
                f"{self.crowded:,} of {plural(sum(self.sizes), 'row')} of {self.parent} have more than "
                f"at_most: {self.at_most} (up to {len(self.sizes) - 1}): {plural(self.beyond, 'row')} "
                f"({percent_text(self.beyond, self.rows)}) left out",
                self.beyond >= ALARMING * self.rows,
            )

    def __str__(self) -> str:
        skipped = f"; {skipped_text(self.skipped)} left out, as no records" if self.skipped else ""
        if self.parent is None:
            return f"{self.table}: {plural(self.rows, 'row')}{skipped}"
        shares = [f"{size}: {share}" for size, share in _size_shares(self.sizes)]
        return f"{self.table} of a row of {self.parent}: {', '.join(shares) or 'none'}{skipped}"


def _size_shares(sizes: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield sizes that occur, or ranges of many sizes such as 14 to 19, with the share of the parents that have them.

    Args:
        sizes: the number of parents of each size, from 0 on.
    """
    parents = np.asarray(sizes)
    ends = occurring = np.flatnonzero(parents)
    total = max(int(parents.sum()), 1)
    if len(parents) > SHOWN_SIZES:
        ends = np.unique(np.searchsorted(np.cumsum(parents) / total, np.asarray(SHARES_OF_SIZES) - 1e-9))
        ends = np.unique([*(occurring[occurring == 0]), *ends])
    start = 0
    for end in ends.tolist():
        first = int(occurring[np.searchsorted(occurring, start)])
        yield str(end) if first == end else f"{first} to {end}", percent_text(parents[start : end + 1].sum(), total)
        start = end + 1


@dataclass(frozen=True, eq=False)
class LinkedCheck:
    """The check of linked tables. **Not private**: it is counted from the records without noise.

    Attributes:
        checks: the check of each table with columns.
        joins: how each table joins its parent.
        rules: the rules within parents, and the computed columns, with the rows of a parent, or of the table itself for
            a count, that break them.
        source: the schema's file.
        limits: what synthetic tables of the schema do not keep (`LinkedSchema.limits`).
    """

    checks: Mapping[str, TableCheck]
    joins: Mapping[str, JoinCheck]
    rules: tuple[Counted, ...]
    source: str
    limits: tuple[str, ...] = ()

    @property
    def alarming(self) -> tuple[str, ...]:
        """The columns, tables and rules that the schema hardly describes."""
        return tuple(dict.fromkeys(name for name, _, alarm in self.remarks() if alarm))

    def remarks(self) -> list[tuple[str, str, bool]]:
        """Return what needs attention: the column, table or rule, the remark, and whether it is alarming."""
        found = [
            (f"{name}.{column}", remark, alarm)
            for name, check in self.checks.items()
            for column, remark, alarm in check.remarks()
        ]
        return found + self.remarks_on_links()

    def remarks_on_links(self) -> list[tuple[str, str, bool]]:
        """Return those of `remarks` that are about several tables."""
        found = [(name, text, alarm) for name, join in self.joins.items() for text, alarm in join.remarks()]
        broken = [rule for rule in self.rules if rule.broken]
        return found + [(f"{rule.table}: {rule.text}", rule.remark, rule.alarming) for rule in broken]

    def to_json(self) -> dict[str, Any]:
        """Return the check as values of JSON."""
        joins = {
            name: {
                "parent": join.parent,
                "rows": join.rows,
                "rows_without_key": join.keyless,
                "rows_without_parent": join.orphans,
                "rows_with_double_key": join.doubled,
                "at_most": join.at_most,
                "parents_with_more": join.crowded,
                "rows_beyond_at_most": join.beyond,
                "parents_by_size": list(join.sizes),
                "rows_skipped": dict(join.skipped),
            }
            for name, join in self.joins.items()
        }
        rules = [
            {"table": rule.table, "rule": rule.text, "rows": rule.rows, "broken": rule.broken} for rule in self.rules
        ]
        tables = {name: check.to_json() for name, check in self.checks.items()}
        facts = {"private": True, "schema": self.source, "alarming": list(self.alarming)}
        return {**facts, "tables": tables, "joins": joins, "within": rules, "not_kept": list(self.limits)}

    def __str__(self) -> str:
        lines = [PRIVATE]
        for name, check in self.checks.items():
            lines += ["", f"table {name}", *str(check).split("\n")[1:]]
        lines += ["", "how the tables join", *(f"  {join}" for join in self.joins.values())]
        notes = [f"{'!!' if alarm else '! '} {name}: {text}" for name, text, alarm in self.remarks_on_links()]
        lines += map(on_one_line, notes or ["  All rows join, and no rule is broken."])
        if self.limits:
            lines += ["", "what synthetic tables will not keep", *(f"  {on_one_line(limit)}." for limit in self.limits)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_text(self)

    __repr__ = __str__


def check(schema: LinkedSchema, tables: Mapping[str, Any]) -> LinkedCheck:
    """Check linked tables by their schema; see `LinkedSchema.check`."""
    checks = {}
    for name, table in tables.items():
        warn_of_place(table)
        part = schema.parts[name]
        if part.schema.described:
            try:
                found = check_table(part.schema, table)
            except DataError as error:
                raise DataError(f"table '{name}': {error}") from None
            known = {*part.keys, *part.computed}
            checks[name] = replace(found, left_out=tuple(column for column in found.left_out if column not in known))
    read = read_tables(schema, tables, computed=True)
    uncut = {name: replace(rows, at_most=max(rows.rows, 1)) for name, rows in read.rows.items()}
    found = link_rows(uncut, read.hashes(checked_key(None)))
    joins = {name: _join(schema, name, found[name], read.skipped.get(name, {})) for name in schema.parts}
    rules = (*_rules(schema, read, found), *_computed(schema, read, found))
    return LinkedCheck(checks, joins, rules, schema.source, schema.limits)


def _join(schema: LinkedSchema, name: str, rows: LinkedRows, skipped: Mapping[str, int]) -> JoinCheck:
    part = schema.parts[name]
    lost = np.bincount(rows.fates, minlength=DOUBLED + 1).tolist()
    sizes = tuple(np.bincount(rows.sizes).tolist()) if part.parent else ()
    fates = (lost[KEYLESS], lost[ORPHAN], lost[DOUBLED])
    return JoinCheck(name, part.parent, part.at_most, len(rows.fates), *fates, sizes, dict(skipped))


def _rules(schema: LinkedSchema, read: ReadTables, found: Mapping[str, LinkedRows]) -> Iterator[Counted]:
    """Yield the rules with the rows that break them, those beyond `at_most` included."""
    made = {}
    for name, part in schema.parts.items():
        rows = found[name]
        codes = [column[rows.rows] for column in read.codes[name]] or np.empty((len(rows.rows), 0), dtype=np.int64)
        data = Dataset.from_codes(codes, part.schema.domain, trusted=True)
        most = max(part.at_most, int(rows.sizes.max(initial=0)))
        parent_rows, at_most = (rows.parent_rows, most) if part.parent else (None, None)
        made[name] = LinkedTable(data, part.parent, parent_rows, at_most)
    linked = LinkedDataset(made, schema.rules)
    broken: dict[tuple[str, str], np.ndarray] = {}  # an order with the parent is several rules
    for rule in linked.rules:
        key = str(rule), rule.table
        broken[key] = rule.broken(linked) | broken.get(key, False)
    for (text, table), rows in broken.items():
        yield Counted(text, len(rows), int(rows.sum()), table)


def _computed(schema: LinkedSchema, read: ReadTables, found: Mapping[str, LinkedRows]) -> Iterator[Counted]:
    """Yield the columns that count rows or number them, with the rows that state something else."""
    for name, part in schema.parts.items():
        rows = found[name]
        for column, pieces in read.computed[name].items():
            stated = np.concatenate([np.empty(0), *map(numbers_or_nan, pieces)])[rows.rows]
            of = part.computed[column]
            if of is None:
                text, wrong = f"{column} numbers the rows of one row of {part.parent}", _misnumbered(stated, rows)
            else:
                text, wrong = f"{column} is the number of {of}", stated != found[of].sizes
            yield Counted(text, len(stated), int(wrong.sum()), name)


def _misnumbered(stated: np.ndarray, rows: LinkedRows) -> np.ndarray:
    """Return which rows are of a parent whose rows are not numbered 1, 2, ... in some order, shape (counted,)."""
    order = np.lexsort((stated, rows.parent_rows))
    wrong = stated[order] != place_within(rows.parent_rows[order]) + 1
    parents = np.zeros(int(rows.parent_rows.max(initial=-1)) + 1, dtype=bool)
    parents[rows.parent_rows[order][wrong]] = True
    return parents[rows.parent_rows]
