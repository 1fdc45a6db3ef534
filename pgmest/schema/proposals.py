"""Orders and sums that hold in all rows of a table, for a draft of its schema, whose owner decides what to keep.

They are read from the records, like everything in a draft. Only numbers and dates are compared, at most `MOST_COLUMNS`
of each kind, and what holds by accident is left out as far as bounds can tell: an order of two columns that hardly
share a range, and a sum with a part that is always zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

FEWEST_ROWS = 20
"""The least number of rows in which something must hold to be no accident."""
MOST_COLUMNS = 40
"""The largest number of columns of one kind that are compared."""
LOOKED_AT = 1000
"""The number of rows, evenly spaced, in which a relation is looked for before all are."""
SHARED = 0.25
"""The share of the wider range that two columns of numbers in an order must have in common; dates need not."""
ROUNDING = 1e-9
MOST_PARTS = 4
"""The largest number of parts of a sum whose parts stand side by side; other sums have two."""


def orders_in(columns: Mapping[str, np.ndarray], shared: float = SHARED) -> list[list[str]]:
    """Return chains of columns of one kind whose values ascend in all rows where they are there.

    Args:
        columns: floats of shape (rows,), NaN where there is no value.
        shared: the share of the wider range that two columns must have in common.
    """
    names = list(columns)[:MOST_COLUMNS]
    before = {name: {other for other in names if _ascends(columns[other], columns[name], shared)} for name in names}
    used: set[tuple[str, str]] = set()
    chains = []
    for name in names:
        chain = [name]
        while following := [other for other in names if chain[-1] in before[other] and set(chain) <= before[other]]:
            chain.append(min(following, key=lambda other: len(before[other])))
        pairs = set(itertools.combinations(chain, 2))
        if not before[name] and pairs - used:
            chains.append(chain)
            used |= pairs
    return chains


def _ascends(earlier: np.ndarray, later: np.ndarray, shared: float) -> bool:
    """Return whether one column is at most another, in enough rows, not always equal, and with a common range."""
    if earlier is later:
        return False
    for step in (max(len(earlier) // LOOKED_AT, 1), 1):
        a, b = earlier[::step], later[::step]
        both = ~(np.isnan(a) | np.isnan(b))
        if (a[both] > b[both]).any():
            return False
    if both.sum() < FEWEST_ROWS or not (a[both] < b[both]).any():
        return False
    a, b = a[both], b[both]
    common = min(a.max(), b.max()) - max(a.min(), b.min())
    return bool(min(np.ptp(a), np.ptp(b)) > 0 and common >= shared * max(np.ptp(a), np.ptp(b)))


def sums_in(columns: Mapping[str, np.ndarray]) -> list[tuple[str, list[str]]]:
    """Return totals with their parts, no column a part of two; the argument is that of `orders_in`."""
    names = list(columns)[:MOST_COLUMNS]
    step = max(len(next(iter(columns.values()), ())) // LOOKED_AT, 1)
    few = {name: columns[name][::step] for name in names}
    found: dict[str, list[str]] = {}
    under: dict[str, set[str]] = {name: {name} for name in names}  # what a column is the sum of, itself included
    taken: set[str] = set()
    for total in names:
        for parts in _candidates(names, total):
            if taken & set(parts) or any(total in under[part] for part in parts):
                continue
            if all(_adds_up(table, total, parts) for table in (few, columns)):
                found[total] = list(parts)
                taken |= set(parts)
                for name in names:
                    if total in under[name]:
                        under[name] |= set(parts).union(*(under[part] for part in parts))
                break
    return list(found.items())


def _candidates(names: list[str], total: str) -> Iterator[tuple[str, ...]]:
    """Yield sets of parts: the columns side by side before or after the total, most first; then all pairs."""
    place = names.index(total)
    for count in range(MOST_PARTS, 1, -1):
        for start in (place - count, place + 1):
            if start >= 0 and start + count <= len(names):
                yield tuple(names[start : start + count])
    yield from itertools.combinations([name for name in names if name != total], 2)


def _adds_up(columns: Mapping[str, np.ndarray], total: str, parts: tuple[str, ...]) -> bool:
    there = ~np.logical_or.reduce([np.isnan(columns[name]) for name in (total, *parts)])
    if there.sum() < min(FEWEST_ROWS, len(there)) or not there.any():
        return False
    whole, each = columns[total][there], [columns[name][there] for name in parts]
    size = np.abs(whole) + sum(np.abs(part) for part in each)
    return bool((np.abs(whole - sum(each)) <= ROUNDING * size).all()) and all(part.any() for part in each)
