"""Orders, sums and functional dependencies that hold in all rows of a table, for a draft of its schema.

They are read from the records, like everything in a draft, and its owner decides what to keep. What holds by accident
is left out as far as the numbers of rows and the bounds can tell: an order of two columns that hardly share a range, a
sum with a part that is always zero, and a dependency of what hardly varies, or on what hardly repeats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_ROWS = 20
"""The least number of rows in which something must hold to be no accident."""
MOST_COLUMNS = 200
"""The largest number of columns of one kind that are compared."""
SCREENED, LOOKED_AT = 24, 1000
"""The numbers of rows, evenly spaced, in which a relation is looked for, one after the other, before all are."""
SHARED = 0.25
"""The share of the wider range that two columns of numbers in an order must have in common; dates need not."""
ROUNDING = 1e-9
MOST_PARTS = 4
"""The largest number of parts of a sum whose parts stand side by side; other sums have two."""
ROWS_EACH = 3
"""The least number of rows, on average, of the values that determine others."""
SURPRISE = 20.0
"""The least log-likelihood ratio, plus that of the number of pairs, of a dependency that is no accident."""

Columns = Mapping[str, np.ndarray]


def _rows(columns: Columns, names: Sequence[str], count: int) -> np.ndarray:
    """Return some rows of columns, evenly spaced, shape (rows, columns)."""
    step = max(len(columns[names[0]]) // count, 1)
    return np.stack([columns[name][::step] for name in names], axis=1)


# -- orders -----------------------------------------------------------------------------------------------------------


def orders_in(columns: Columns, shared: float = SHARED) -> list[list[str]]:
    """Return chains of columns of one kind whose values ascend in all rows where they are there.

    Args:
        columns: floats of shape (rows,), NaN where there is no value.
        shared: the share of the wider range that two columns must have in common.
    """
    names = list(columns)[:MOST_COLUMNS]
    if len(names) < 2:
        return []
    few = _rows(columns, names, SCREENED)
    before: dict[str, set[str]] = {}
    for place, name in enumerate(names):
        maybe = ~np.any(few > few[:, [place]], axis=0)
        others = [names[other] for other in np.flatnonzero(maybe)]
        before[name] = {other for other in others if _ascends(columns[other], columns[name], shared)}
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


# -- sums -------------------------------------------------------------------------------------------------------------


def sums_in(columns: Columns) -> dict[str, list[str]]:
    """Return totals with their parts, no column a part of two; the argument is that of `orders_in`."""
    names = list(columns)[:MOST_COLUMNS]
    if len(names) < 3:
        return {}
    screened, step = _rows(columns, names, SCREENED), max(len(columns[names[0]]) // LOOKED_AT, 1)
    few = {name: columns[name][::step] for name in names}
    found: dict[str, list[str]] = {}
    under: dict[str, set[str]] = {name: {name} for name in names}  # what a column is the sum of, itself included
    taken: set[str] = set()
    for total in names:
        for parts in _candidates(names, total, screened):
            if taken & set(parts) or any(total in under[part] for part in parts):
                continue
            if all(_adds_up(table, total, parts) for table in (few, columns)):
                found[total] = list(parts)
                taken |= set(parts)
                for name in names:
                    if total in under[name]:
                        under[name] |= set(parts).union(*(under[part] for part in parts))
                break
    return found


def _candidates(names: list[str], total: str, rows: np.ndarray) -> Iterator[tuple[str, ...]]:
    """Yield sets of parts: the columns side by side before or after the total, most first; then pairs that may be."""
    place = names.index(total)
    for count in range(MOST_PARTS, 1, -1):
        for start in (place - count, place + 1):
            if start >= 0 and start + count <= len(names):
                yield tuple(names[start : start + count])
    sizes = np.abs(rows)
    for first in range(len(names)):
        rest = rows[:, place] - rows[:, first]
        allowed = ROUNDING * (sizes[:, [place]] + sizes[:, [first]] + sizes)
        maybe = np.flatnonzero(~np.any(np.abs(rest[:, None] - rows) > allowed, axis=0))
        for second in maybe[maybe > first]:
            if place not in (first, second):
                yield names[first], names[second]


def _adds_up(columns: Columns, total: str, parts: tuple[str, ...]) -> bool:
    there = ~np.logical_or.reduce([np.isnan(columns[name]) for name in (total, *parts)])
    if there.sum() < min(FEWEST_ROWS, len(there)) or not there.any():
        return False
    whole, each = columns[total][there], [columns[name][there] for name in parts]
    size = np.abs(whole) + sum(np.abs(part) for part in each)
    held = (np.abs(whole - sum(each)) <= ROUNDING * size).all()
    return bool(held and np.ptp(whole) > 0 and all(part.any() for part in each))


# -- functional dependencies ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coded:
    """The codes of a column of listed values.

    Attributes:
        codes: shape (rows,); -1 where there is no value.
        size: the number of codes.
        unlisted: the code of all values that are not listed, or None.
    """

    codes: np.ndarray
    size: int
    unlisted: int | None


def dependencies_in(columns: Mapping[str, Coded]) -> list[tuple[str, str, dict[int, int]]]:
    """Return pairs of columns of which the first determines the second, with the table of their codes.

    Of columns that determine each other the first one represents all. What follows from other dependencies is left out.
    """
    names = [name for name, column in columns.items() if len(np.unique(column.codes[column.codes >= 0])) > 1]
    names = names[:MOST_COLUMNS]
    tables: dict[tuple[str, str], dict[int, int]] = {}
    for source, target in itertools.permutations(names, 2):
        found = _table(columns[source], columns[target], len(names))
        if found is not None:
            tables[source, target] = found
    equal = {a: [b for b in names if a == b or ((a, b) in tables and (b, a) in tables)] for a in names}
    first = {name: equal[name][0] for name in names}
    kept = []
    for (source, target), table in tables.items():
        stands = first[source] == source and (first[target] == target or first[target] == source)
        between = (m for m in names if (source, m) in tables and (m, target) in tables and (m, source) not in tables)
        through = any((target, m) not in tables for m in between)
        if stands and not through:
            kept.append((source, target, table))
    return kept


def _table(source: Coded, target: Coded, columns: int) -> dict[int, int] | None:
    """Return the value of the target for each listed value of the source; None if that is not one, or by accident."""
    for step in (max(len(source.codes) // LOOKED_AT, 1), 1):
        a, b = source.codes[::step], target.codes[::step]
        both = (a >= 0) & (b >= 0) & (a != (-1 if source.unlisted is None else source.unlisted))
        a, b = a[both], b[both]
        table = np.full(source.size, -1)
        table[a] = b
        if (table[a] != b).any():
            return None
    counts = np.bincount(a, minlength=source.size)
    used = np.flatnonzero(counts)
    if len(a) < max(FEWEST_ROWS, ROWS_EACH * len(used)) or len(set(table[used].tolist())) < 2:
        return None
    shares = np.bincount(b, minlength=target.size) / len(b)
    surprise = -((counts[used] - 1) * np.log(shares[table[used]])).sum()
    if surprise < SURPRISE + 2 * math.log(columns):
        return None
    return dict(zip(used.tolist(), table[used].tolist(), strict=True))
