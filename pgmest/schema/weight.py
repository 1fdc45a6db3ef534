"""Weight: the survey weight of each row of a raw table, which its record carries as an attribute.

    weight: {column: PWGTP, max: 500}

The bound is public. Larger weights count as the bound, so that no row counts for more; rows without a weight count for
nothing. The attribute has a code for each of `bins` ranges of equal width, and one for 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import percent_text, plural
from pgmest.schema.grid import Grid
from pgmest.schema.kinds import KINDS
from pgmest.schema.notation import SchemaNode, node_of
from pgmest.surveys.weighted import WeightAttribute

BINS = 40
"""The default number of ranges: their middles change weighted shares by less than 0.5 % (`experiments.weights`), and
fewer ranges do not lower the error of the noise."""

MOST_BINS = 1000
"""The most ranges."""

ALARMING = 0.05
"""A bound that takes more than this share off the sum of all weights is alarming."""

COARSE = 0.02
"""A check remarks on the ranges if they change the sum of all weights by more than this share."""


@dataclass(frozen=True)
class Weight:
    """The weight of each row.

    Attributes:
        column: its column, as it is coded.
    """

    column: Grid

    @classmethod
    def from_node(cls, node: SchemaNode, taken: Collection[str]) -> Weight:
        """Read `weight:` of a schema with these columns.

        Raises:
            SchemaError: it is no weight, or its column is described among the columns.
        """
        fields = node.fields(("column", "max", "bins", "decimals"), ("column", "max"))
        name, most = fields["column"].text(), float(fields["max"].number())
        if name in taken:
            fields["column"].fail(f"is '{name}', which must not be among the columns, too.")
        if not 0.0 < most < math.inf:
            fields["max"].fail(f"must be a positive number, the largest weight that counts, not {fields['max'].shown}.")
        bins = fields["bins"].integer(1) if "bins" in fields else BINS
        if bins > MOST_BINS:
            fields["bins"].fail(f"must be at most {MOST_BINS:,}, not {bins:,}.")
        described: dict[str, Any] = {"min": 0, "max": most, "bins": bins, "points": [0]}
        decimals = fields["decimals"].integer(0) if "decimals" in fields else None
        kind = "integer" if decimals == 0 else "real"
        if decimals == 0:
            if most % 1:
                fields["max"].fail(f"must be a whole number, as weights without decimals are, not {most:g}.")
            described |= {"max": int(most), "bins": min(bins, int(most))}
        elif decimals is not None:
            described["decimals"] = decimals
        column = Grid.from_node(name, node_of({"type": kind, **described}, node.source), KINDS[kind])
        return cls(replace(column, place=node.place))

    @property
    def name(self) -> str:
        """The name of the column and of the attribute."""
        return self.column.name

    @property
    def most(self) -> float:
        """The largest weight that counts."""
        return self.column.high

    @property
    def attribute(self) -> WeightAttribute:
        """The attribute with the weight of each code: the middle of its range."""
        first, last = (self.column.from_units(ends.astype(float)) for ends in self.column.points)
        return WeightAttribute(self.name, 0.5 * (first + last), last - first)


@dataclass
class WeightCheck:
    """The effect of a schema's weight on totals. **Not private**: it is counted from the records without noise.

    Attributes:
        weight: the weight of the schema.
        clipped: the number of rows whose weight is above the bound.
        unweighted: the number of rows without a weight, or with one that is not above 0.
        whole: the sum of the weights that are above 0.
        bounded: the sum of these weights with the bound.
        coded: the sum of the weights of the codes.
    """

    weight: Weight
    rows: int = 0
    clipped: int = 0
    unweighted: int = 0
    whole: float = 0.0
    bounded: float = 0.0
    coded: float = 0.0

    def count(self, piece: Mapping[str, Values]) -> None:
        """Add a piece of the table."""
        values = piece[self.weight.name]
        numbers, read = self.weight.column.raw_numbers(values)
        numbers = np.where(read & np.isfinite(numbers), numbers, 0.0)
        self.rows += len(values)
        self.clipped += int((numbers > self.weight.most).sum())
        self.unweighted += int((numbers <= 0.0).sum())
        self.whole += float(np.maximum(numbers, 0.0).sum())
        self.bounded += float(np.clip(numbers, 0.0, self.weight.most).sum())
        self.coded += float(self.weight.attribute.values[self.weight.column.encode(values)].sum())

    def merge(self, other: WeightCheck) -> None:
        """Add the counts of other rows."""
        for name in ("rows", "clipped", "unweighted", "whole", "bounded", "coded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def remarks(self) -> list[tuple[str, bool]]:
        """The effect of the bound and the ranges on totals, in words, and whether it is alarming."""
        found, most = [], self.weight.most
        if self.clipped:
            lost = self.whole - self.bounded
            text = (
                f"{self.clipped:,} of {plural(self.rows, 'weight')} are above {most:g} and count as that, which takes "
                f"{percent_text(lost, self.whole)} off the sum of all weights ({self.whole:,.6g} becomes "
                f"{self.bounded:,.6g})"
            )
            found.append((text, lost > ALARMING * self.whole))
        if self.unweighted:
            count = "counts" if self.unweighted == 1 else "count"
            text = f"{plural(self.unweighted, 'row')} without a weight above 0 {count} for nothing"
            found.append((text, 2 * self.unweighted > self.rows))
        off = self.coded / self.bounded - 1.0 if self.bounded else 0.0
        if abs(off) > COARSE:
            width = most / (self.weight.column.regular - 1)
            text = f"ranges of {width:.4g} change the sum of all weights by {100 * off:+.1f} %"
            found.append((f"{text}: take a smaller max, or more bins", False))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the counts as values of JSON."""
        return {
            "column": self.weight.name,
            "max": self.weight.most,
            "clipped": self.clipped,
            "rows_without_weight": self.unweighted,
            "sum": self.whole,
            "sum_within_max": self.bounded,
            "sum_of_codes": self.coded,
        }
