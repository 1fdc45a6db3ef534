"""The check of one column of a raw table: the fates of its values, and remarks on what its codes lose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import listed, percent_text
from pgmest.schema.column import FATES, FORESEEN, MISSING, OUTSIDE, UNREADABLE, SchemaColumn, shown_value
from pgmest.schema.detail import Detail, unused_between
from pgmest.schema.grid import Grid

NOTICED = 0.01
"""The share of values that lose something from which on it is said in words."""

ALARMING = 0.2
"""The share of values that are lost from which on a schema hardly describes its table."""

MOSTLY_OTHER = 0.5
"""The share of values that become the label for others from which on that is alarming."""

MANY_MISSING = 0.2
"""The share of rows without a value from which on it is said in words."""

CROWDED = 0.9
FEW_BINS = 4
"""A column is crowded if at least this share of its values are in one of at least this many bins."""

SWALLOWED, FEWEST_SWALLOWED = 0.1, 5
"""The share and the number of values that are one number inside a wide bin from which on it is said in words."""

EXAMPLES, SEARCHED = 3, 1000
"""The number of values of each fate that are shown, and the number of those of a piece that are looked at."""

FEW_USED = 0.5
MANY_NUMBERS = 20
"""Whole numbers may be labels if at most this share of at least this many numbers occur."""


@dataclass(frozen=True, eq=False)
class ColumnCheck:
    """The fates of the values of one column.

    Attributes:
        column: its description in the schema.
        counts: shape (len(FATES), codes): how many values of each fate got each code.
        examples: a few values of each fate that loses values, as the table has them.
        detail: the counts of values that are kept, but of which the codes lose something.
    """

    column: SchemaColumn
    counts: np.ndarray
    examples: Mapping[int, list[str]]
    detail: Detail

    @classmethod
    def of(cls, column: SchemaColumn) -> ColumnCheck:
        """Return the check of a column, nothing counted yet."""
        counts = np.zeros((len(FATES), column.size), dtype=np.int64)
        return cls(column, counts, {UNREADABLE: [], OUTSIDE: []}, Detail(column))

    def count(self, piece: Mapping[str, Values]) -> None:
        """Add the rows of a piece of the table."""
        values = piece[self.name]
        codes, fates = self.column.fates(values)
        self.detail.count(values, fates)
        cells = np.bincount(np.ravel_multi_index((fates, codes), self.counts.shape), minlength=self.counts.size)
        cells = cells.reshape(self.counts.shape)
        self.counts[:] += cells
        for fate, few in self.examples.items():
            if len(few) < EXAMPLES and cells[fate].any():
                lost = values.where(fates == fate).array[:SEARCHED]
                few[:] = _few([*few, *map(shown_value, lost)])
                self.detail.compare_case(lost)

    def merge(self, other: ColumnCheck) -> None:
        """Add the counts of other rows."""
        self.counts[:] += other.counts
        for fate, few in self.examples.items():
            few[:] = _few([*few, *other.examples[fate]])
        self.detail.merge(other.detail)

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
        return int(self.counts[UNREADABLE].sum()) + self._outside("unreadable")

    def _outside(self, word: str) -> int:
        """Return the number of values that are outside, if these are called so; else 0."""
        return int(self.counts[OUTSIDE].sum()) if self.column.beyond == word else 0

    @property
    def clipped(self) -> int:
        """The number of numbers or dates beyond the bounds."""
        return self._outside("clipped")

    @property
    def other(self) -> int:
        """The number of values that are not listed."""
        return self._outside("other")

    @property
    def kept(self) -> float:
        """The share of the values that are there that the schema foresees; 1 where none are there."""
        there = self.rows - self.missing
        return float(self.counts[FORESEEN].sum()) / there if there else 1.0

    @property
    def codes(self) -> int:
        """The number of values or bins of the column in the schema, without those for other and missing values."""
        return self.column.listed

    @property
    def used(self) -> int:
        """The number of values or bins that occur."""
        return int(np.count_nonzero(self.counts[FORESEEN, : self.codes]))

    @property
    def commonest(self) -> tuple[str, float]:
        """The value or bin that most of the values that are there are coded as, and their share."""
        coded = self.counts.sum(axis=0) - self.counts[MISSING]
        code = int(coded.argmax())
        return self.column.label_of(code), float(coded[code]) / max(self.rows - self.missing, 1)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on what needs attention; empty if the schema fits."""
        return tuple(self._remarks())

    @property
    def alarming(self) -> bool:
        """Return whether the coded column says little about the table, as too many values are lost or share one bin."""
        there = max(self.rows - self.missing, 1)
        lost = self.unreadable + self.clipped >= ALARMING * there
        unlisted = self.other >= (MOSTLY_OTHER if self.codes < self.column.regular else ALARMING) * there
        return lost or unlisted or self._crowded or self._crushed or (self.rows > 0 and self.missing == self.rows)

    @property
    def _crowded(self) -> bool:
        """Return whether nearly all readable values are in one of several bins, and not because they are equal."""
        read = self.counts[[FORESEEN, OUTSIDE]].sum(axis=0)
        if not isinstance(self.column, Grid) or self.codes < FEW_BINS or self.kept <= 1 - ALARMING:
            return False
        first, last = (ends[min(int(read.argmax()), self.codes - 1)] for ends in self.column.points)
        return bool(first < last and 0 < CROWDED * read.sum() <= read.max())

    @property
    def _crushed(self) -> bool:
        """Return whether all numbers are in one bin although they differ."""
        return self.used == 1 and len(self.detail.common) > 1

    def _remarks(self) -> Iterator[str]:
        there = max(self.rows - self.missing, 1)
        if self.unreadable / there >= NOTICED:
            fate = OUTSIDE if self.column.beyond == "unreadable" else UNREADABLE
            text = f"{percent_text(self.unreadable, there)} cannot be read as {self.column.expected()}"
            yield text + self._become(fate)
        if self.clipped / there >= NOTICED:
            yield f"{percent_text(self.clipped, there)} are not {self.column.expected()}" + self._become(OUTSIDE)
        if self.other / there >= NOTICED:
            capitals = "; some differ from listed values in capitals only: add ignore_case: true"
            hint = capitals if self.detail.unlike_in_case else ""
            yield f"{percent_text(self.other, there)} are not listed" + self._become(OUTSIDE) + hint
        yield from self._crowding()
        yield from self._swallowed()
        yield from self._detail_lost(there)
        yield from self._unused()
        yield from self._gaps()

    def _crowding(self) -> Iterator[str]:
        """Remark that all or nearly all values have one code."""
        label, crowd = self.commonest
        if self._crushed:
            place = f"the only bin, {label}" if self.codes == 1 else f"one of {self.codes:,} bins, {label}"
            yield f"{percent_text(crowd, 1)} are in {place}, although they differ: make bins where the values are"
        elif self._crowded:
            yield f"{percent_text(crowd, 1)} are in one of {self.codes:,} bins, {label}: make bins where the values are"
        elif np.count_nonzero(self.counts[FORESEEN]) == 1 and self.kept == 1 and self.codes > 1:
            yield f"all values are {label}, one of {self.codes:,} codes: the column says nothing"

    def _swallowed(self) -> Iterator[str]:
        """Remark on single numbers that many rows have, inside bins whose values are drawn evenly."""
        if not isinstance(self.column, Grid):
            return
        read = max(int(self.counts[FORESEEN].sum()), 1)
        first, last = self.column.points
        for number, count in sorted(self.detail.common.items(), key=lambda item: -item[1])[:3]:
            code = int(self.column.bins_of(np.array([number]))[0])
            ends = np.array([first[code], last[code]])
            if len(set(self.column.texts(self.column.from_units(ends)).tolist())) == 1:
                continue
            points = np.inf if ends.dtype.kind == "f" else float(last[code] - first[code] + 1)
            if (
                count >= max(FEWEST_SWALLOWED, SWALLOWED * read)
                and count >= 2 * int(self.counts[FORESEEN, code]) / points
            ):
                yield (
                    f"{percent_text(count, read)} are {self.column.written(number)}, in the bin "
                    f"{self.column.labels()[code]}, of which values are drawn evenly: give it its own bin (points:)"
                )

    def _detail_lost(self, there: int) -> Iterator[str]:
        """Remark on times of day, decimals and leading zeros, which the codes lose."""
        if self.detail.timed / there >= NOTICED:
            yield f"{percent_text(self.detail.timed, there)} have a time of day, which is lost: say unit: hour"
        if self.detail.fractional / there >= NOTICED:
            share = percent_text(self.detail.fractional, there)
            if self.column.kind == "real":
                yield f"{share} have more decimals than decimals: {self.column.decimals} keeps"
            else:
                yield f"{share} have decimals, which whole numbers lose: use type: real to keep them"
        if self.detail.padded / there >= NOTICED:
            share = percent_text(self.detail.padded, there)
            yield f"{share} are written with leading zeros, which numbers lose: labels are type: categorical"

    def _unused(self) -> Iterator[str]:
        """Remark on codes that nobody has, between others or as most of them."""
        if not isinstance(self.column, Grid) or not self.used or self._crowded or self._crushed:
            return
        have = self.counts[FORESEEN, : self.column.regular]
        sides = unused_between(np.flatnonzero(have).tolist(), self.codes)
        shares = [have[side.start : side.stop].sum() / have.sum() for side in sides or ()]
        for side, share in zip(sides or (), shares, strict=True):
            if NOTICED <= share < 0.5 and len(side) <= 2:
                named = " and ".join(self.column.label_of(code) for code in side if have[code])
                text = f"{percent_text(share, 1)} are in {named}, far from all others: if that means no value, list it"
                yield f"{text} under missing:"
        single = self.column.kind == "integer" and self.codes == self.column.high - self.column.low + 1
        if single and self.codes >= MANY_NUMBERS and self.used <= FEW_USED * self.codes:
            yield (
                f"only {self.used:,} of its {self.codes:,} numbers occur, but a synthetic table may have all of them: "
                "if they are labels, list them (type: categorical); else make wider bins"
            )

    def _gaps(self) -> Iterator[str]:
        """Remark on missing values, and on those for which the column has no code."""
        marked = f", {percent_text(self.detail.marked, self.rows)} by a marker of missing values"
        marker = marked if self.detail.marked else ""
        if not self.column.missing and self.missing >= NOTICED * self.rows > 0:
            become = (
                "stop the run"
                if self.column.outside == "error"
                else f"count as {self.column.label_of(self.column.gap_code)}"
            )
            yield f"{percent_text(self.missing, self.rows)} have no value, and {become}: say missing: true"
        if self.rows and self.missing == self.rows:
            yield f"all values are missing{marker}"
        elif self.missing >= MANY_MISSING * self.rows > 0:
            yield f"{percent_text(self.missing, self.rows)} of the rows have no value{marker}"

    def _become(self, fate: int) -> str:
        """Return a few values of this fate, and the codes that they get, the commonest first."""
        counts = self.counts[fate]
        codes = [int(code) for code in np.argsort(-counts, kind="stable") if counts[code]]
        examples = f" (such as {', '.join(self.examples[fate])})" if self.examples.get(fate) else ""
        return f"{examples}, and become {listed([self.column.label_of(code) for code in codes], 3)}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts of values and the remarks as values of JSON."""
        label, crowd = self.commonest
        return {
            "column": self.name,
            "rows": self.rows,
            **{name: getattr(self, name) for name in ("missing", "unreadable", "clipped", "other")},
            **{name: getattr(self.detail, name) for name in ("marked", "timed", "fractional", "padded")},
            "values_used": self.used,
            "values_listed": self.codes,
            "commonest": label,
            "commonest_share": crowd,
            "remarks": list(self.remarks),
            "alarming": self.alarming,
        }


def _few(shown: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(shown))[:EXAMPLES]
