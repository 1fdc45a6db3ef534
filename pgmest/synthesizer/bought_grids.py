"""Public grids for bounds that are to be bought: edges at powers of four, and then steps of equal width between two."""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pgmest.schema.bought import BoughtColumn
from pgmest.schema.column import SchemaColumn

Edge = int | float
STEPS = 200
"""The largest number of steps of equal width of a fine grid, about."""
POWERS = {"integer": range(0, 60, 2), "real": range(-20, 61, 2)}
EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY, AFTER_LAST_DAY = (datetime.date.min - EPOCH).days, (datetime.date.max - EPOCH).days + 1
YEARS = (500, 1000, 1500, 1700, 1800, 1850, *range(1900, 2101, 25), 2150, 2200, 2500, 3000, 5000)
"""The years at which the widest grid of dates has its edges."""


@dataclass(frozen=True)
class Scale:
    """Edges of numbers of a kind: bins begin at an edge, and end before the next one.

    Attributes:
        kind: "integer", "real" or "date"; dates are days since 1970-01-01.
        low, high: ends that are public, as edges; None where they are to be bought.
    """

    kind: str
    low: Edge | None = None
    high: Edge | None = None

    @property
    def whole(self) -> bool:
        """Return whether the numbers are whole."""
        return self.kind != "real"

    def wide(self) -> list[Edge]:
        """Edges at powers of four and their negatives, or at years, within the public ends."""
        if self.kind == "date":
            edges: list[Edge] = [(datetime.date(year, 1, 1) - EPOCH).days for year in YEARS]
            first, last = FIRST_DAY, AFTER_LAST_DAY
        else:
            powers = [2**power if self.whole else math.ldexp(1.0, power) for power in POWERS[self.kind]]
            edges = [-power for power in reversed(powers)] + [0] + powers
            first, last = edges[0], edges[-1]
        low, high = first if self.low is None else self.low, last if self.high is None else self.high
        if not low < high:  # a public end beyond the grid
            low, high = (low, low + 1) if self.high is None else (high - 1, high)
        return [low, *(edge for edge in edges if low < edge < high), high]

    def fine(self, low: Edge, high: Edge) -> list[Edge]:
        """Edges a step of 1, 2 or 5 times a power of ten apart from about `low` to `high`, at most `STEPS` + 2."""
        step = nice_step(Fraction(high) - Fraction(low), self.whole)
        start = math.floor(Fraction(low) / step)
        inner = [step * place for place in range(start, start + STEPS + 3)]
        edges: list[Edge] = [int(edge) if self.whole else float(edge) for edge in inner]
        first = 0 if self.low is None else max(bisect_right(edges, low) - 1, 0)
        last = min(bisect_left(edges, high), len(edges) - 1)
        edges = edges[first : last + 1]
        if self.low is not None:
            edges = [low, *(edge for edge in edges if edge > low)]
        if self.high is not None or self.kind == "date":
            most = high if self.high is not None else min(edges[-1], AFTER_LAST_DAY)
            edges = [*(edge for edge in edges if edge < most), most]
        if self.kind == "date" and edges[0] < FIRST_DAY:
            edges = [FIRST_DAY, *(edge for edge in edges if edge > FIRST_DAY)]
        return sorted(set(edges))

    def even(self, low: Edge, high: Edge, cells: int) -> list[Edge]:
        """Edges of at most `cells` cells of equal width."""
        if self.whole:
            count = int(high) - int(low)
            cells = min(cells, count)
            return [int(low) + place * count // cells for place in range(cells + 1)]
        width = (Fraction(high) - Fraction(low)) / cells
        return sorted({float(Fraction(low) + width * place) for place in range(cells)} | {float(high)})

    def written(self, edge: Edge) -> Any:
        """Return an edge as a schema writes it."""
        if self.kind != "date":
            return edge
        return (EPOCH + datetime.timedelta(days=min(int(edge), AFTER_LAST_DAY - 1))).isoformat()

    def last(self, edge: Edge) -> Edge:
        """Return the greatest whole number before an edge; for real numbers, the edge."""
        return edge - 1 if self.whole else edge


def scale_of(column: BoughtColumn) -> Scale:
    """Return the scale of a column of numbers or dates, with the ends that its description has."""
    low, high = column.plain("min"), column.plain("max")
    if column.kind == "date":
        low, high = (None if end is None else (datetime.date.fromisoformat(end) - EPOCH).days for end in (low, high))
    elif column.kind == "real":
        low, high = (None if end is None else float(end) for end in (low, high))
    return Scale(column.kind, low, high if high is None or column.kind == "real" else int(high) + 1)


def nice_step(span: Fraction, whole: bool) -> Fraction:
    """Return the least of 1, 2, 5 times a power of ten with at most `STEPS` in the span; at least 1 if whole."""
    power = math.floor(math.log10(max(float(span / STEPS), 1e-300)))
    for exponent in range(power - 1, power + 3):
        for digit in (1, 2, 5):
            step = digit * Fraction(10) ** exponent
            if step * STEPS >= span and (not whole or step >= 1):
                return step
    return Fraction(1) if whole else span / STEPS


def on_grid(column: BoughtColumn, scale: Scale, edges: Sequence[Edge]) -> SchemaColumn:
    """Return the column coded by cells of a grid; values without a number are missing."""
    less = dict.fromkeys(("min", "max", "bins", "width", "decimals", "unit", "outside"))
    missing = column.plain("missing") or True
    return column.column(**less, missing=missing, edges=[scale.written(edge) for edge in edges])
