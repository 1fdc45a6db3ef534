"""Public grids for bounds that are to be bought: one for the median, and one for the ends around it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from pgmest.schema.bought import BoughtColumn
from pgmest.schema.column import SchemaColumn

Edge = int | float
"""A number, or the days from 1970-01-01 to a date. Bins begin at an edge, and end before the next one."""
EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY, AFTER_LAST_DAY = (datetime.date.min - EPOCH).days, (datetime.date.max - EPOCH).days + 1
YEARS = (500, 1000, 1500, 1700, *range(1800, 1900, 10), *range(1900, 2101), 2150, 2200, 2500, 3000, 5000)
"""The years among which that of the median is chosen."""
EXPONENTS = {"integer": range(-2, 16), "real": range(-8, 13), "date": range(-2, 5)}
"""The powers of ten of the grids: whole numbers up to 10^18, real ones from 10^-6 to 10^15, and days."""
DIGITS = (*range(100, 300, 5), *range(300, 1000, 20))
"""The first digits of the numbers among which the median is looked for: 1 to 7 % apart, as years need it."""
STEPS = (100, 120, 160, 200, 250, 320, 400, 500, 630, 800)
"""The first digits of the distances from the median at which ends are looked for (Renard numbers, R10)."""


def median_edges(kind: str) -> list[Edge]:
    """Return the edges between which the median is looked for: any number, or any date."""
    if kind == "date":
        return [FIRST_DAY, *((datetime.date(year, 1, 1) - EPOCH).days for year in YEARS), AFTER_LAST_DAY]
    sizes = _sizes(kind, DIGITS)
    return [*(-size for size in reversed(sizes)), 0, *sizes]


def end_edges(kind: str, median: Edge) -> list[Edge]:
    """Return the median edge and ones on both sides of it, ever further away, up to the ends of `median_edges`."""
    first, *_, last = median_edges(kind)
    away = (median + sign * size for size in _sizes(kind, STEPS) for sign in (-1, 1))
    return sorted({first, median, last, *(edge for edge in away if first < edge < last)})


def _sizes(kind: str, digits: Sequence[int]) -> list[Edge]:
    """Return the numbers with these first digits, each once, ascending."""
    sizes = (float(f"{digit}e{power}") for power in EXPONENTS[kind] for digit in digits)
    return sorted(set(sizes) if kind == "real" else {int(size) for size in sizes})


def written(kind: str, edge: Edge) -> Any:
    """Return an edge as a schema writes it."""
    if kind != "date":
        return edge
    return (EPOCH + datetime.timedelta(days=min(int(edge), AFTER_LAST_DAY - 1))).isoformat()


def last_before(kind: str, edge: Edge) -> Edge:
    """Return the greatest whole number before an edge; for real numbers, the edge."""
    return edge if kind == "real" else edge - 1


def on_grid(column: BoughtColumn, edges: Sequence[Edge]) -> SchemaColumn:
    """Return the column coded by cells of a grid; values without a number are missing."""
    less = dict.fromkeys(("bins", "width", "decimals", "unit", "outside"))
    missing = column.plain("missing") or True
    return column.column(**less, missing=missing, edges=[written(column.kind, edge) for edge in edges])
