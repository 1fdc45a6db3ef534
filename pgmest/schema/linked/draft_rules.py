"""Rules between rows that hold in linked tables, for drafts: numbers of a value, differences, orders, combinations.

They are read from the records, like everything in a draft. What holds by accident is left out as far as the numbers of
parents and rows can tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.categorical import Boolean, Categorical
from pgmest.schema.column import SchemaColumn
from pgmest.schema.draft import label_of, listed_numbers, numbers_of
from pgmest.schema.grid import Grid
from pgmest.schema.linked.joins import Join
from pgmest.schema.notation import quoted
from pgmest.schema.proposals import orders_in

FEWEST_PARENTS = 20
"""The least number of parents from which rules are proposed."""
NEARLY_ALL = 0.99
"""The least share of the parents in which a proposed number of rows holds."""
COMMON = 0.02
"""The least share of the parents with a value from which on a rule `at_most` is proposed for it."""
EXPECTED = 20.0
"""The least number of rows that a combination without any row would have, were its values independent."""
MOST_CELLS = 10_000_000
"""The largest number of parents by values of a column that are compared."""
SCREENED = 1000
"""The number of parents in which a relation is looked for before all are."""
MOST_RULES = 10
"""The largest number of rules of each form."""


class Side(NamedTuple):
    """A table as rules see it: its described columns, their values, and its columns that count the rows of others."""

    columns: Sequence[SchemaColumn]
    values: Mapping[str, np.ndarray]
    counted: Mapping[str, str]


def counts_in(join: Join, side: Side) -> Iterator[str]:
    """Yield rules on how many rows of a parent have a value, of columns with a value that each parent has once."""
    parents = len(join.sizes)
    if parents < FEWEST_PARENTS:
        return
    for column, codes in _lists(side):
        counts, labels = _per_parent(join, column, codes), column.labels()
        once = (counts == 1).mean(axis=0) >= NEARLY_ALL
        if not once[: len(labels)].any() or column.size < 2:
            continue
        seldom = ((counts <= 1).mean(axis=0) >= NEARLY_ALL) & ((counts > 0).mean(axis=0) >= COMMON)
        for code in range(len(labels)):
            if once[code] or seldom[code]:
                form = "exactly" if once[code] else "at_most"
                yield f"{form}: {{{quoted(column.name)}: {label_of(column, code)}, count: 1}}"


def older_in(join: Join, side: Side) -> Iterator[str]:
    """Yield rules that rows of a value have greater numbers than rows of another value of the same parent."""
    found = []
    parents = len(join.sizes)
    grids = [column for column in side.columns if isinstance(column, Grid) and column.numeric]
    numbers = {column.name: numbers_of(column, side.values[column.name]) for column in grids}
    for (column, codes), (name, values) in itertools.product(_lists(side), numbers.items()):
        labels = column.labels()
        if parents * len(labels) > MOST_CELLS:
            continue
        held = (join.parent_rows >= 0) & ~np.isnan(values) & (codes < len(labels))
        cells = join.parent_rows[held], codes[held]
        least, most = _extremes((parents, len(labels)), cells, values[held])
        for higher, lower in itertools.permutations(range(len(labels)), 2):
            both = np.isfinite(least[:, higher]) & np.isfinite(most[:, lower])
            by = np.floor((least[both, higher] - most[both, lower]).min(initial=np.inf))
            if both.sum() >= FEWEST_PARENTS and 1 <= by < np.inf:
                sides = (f"{quoted(column.name)}: {label_of(column, code)}" for code in (higher, lower))
                text = "older: {{{}, than: {{{}}}, by: {:.0f}, column: {}}}".format(*sides, by, quoted(name))
                found.append((int(both.sum()), text))
    yield from _commonest(found)


def impossible_in(join: Join, side: Side, above: Side) -> Iterator[str]:
    """Yield combinations of a value of a row and one of its parent row that would be frequent, and are in no row."""
    held = np.flatnonzero(join.parent_rows >= 0)
    theirs = []
    for column, codes in _lists(above):
        theirs.append((column.name, [label_of(column, code) for code in range(len(column.labels()))], codes))
    for name, child in above.counted.items():
        if child == join.child:
            theirs.append((name, list(map(str, range(int(join.sizes.max(initial=0)) + 1))), join.sizes))
    found = []
    for (column, own), (name, labels, of_parents) in itertools.product(_lists(side), theirs):
        size, codes = len(column.labels()), of_parents[join.parent_rows[held]]
        both = (own[held] < size) & (codes < len(labels))
        cells = np.bincount(codes[both] * size + own[held][both], minlength=len(labels) * size)
        table = cells.reshape(len(labels), size).astype(float)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.sum(), 1.0)
        for place, code in zip(*np.nonzero((table == 0) & (expected >= EXPECTED)), strict=True):
            parent, own_name = quoted(f"{join.parent}.{name}"), quoted(f"{join.child}.{column.name}")
            text = f"impossible: {{{parent}: {labels[place]}, {own_name}: {label_of(column, code)}}}"
            found.append((expected[place, code], text))
    yield from _commonest(found)


def orders_with_parent(join: Join, side: Side, above: Side) -> Iterator[str]:
    """Yield orders of dates and times of a row and of its parent row that hold in all rows."""
    held = np.flatnonzero(join.parent_rows >= 0)
    kinds: dict[str, dict[str, np.ndarray]] = {}
    for (columns, values, _), rows, start in ((above, join.parent_rows[held], f"{join.parent}."), (side, held, "")):
        for column in columns:
            if isinstance(column, Grid) and not column.numeric:
                numbers = numbers_of(column, values[column.name])[rows]
                kinds.setdefault(column.kind, {})[start + column.name] = numbers
    for alike in kinds.values():
        for chain in orders_in(alike, shared=0.0):
            if len({name.startswith(f"{join.parent}.") for name in chain}) == 2:
                yield f"ordered: [{', '.join(map(quoted, chain))}]"


def following_in(join: Join, side: Side, above: Side) -> Iterator[tuple[str, str]]:
    """Yield columns of the parent that follow from the rows of a table, with how, in all parents."""
    held = join.parent_rows >= 0
    rows, parents = join.parent_rows[held], len(join.sizes)
    there = join.sizes > 0
    if there.sum() < FEWEST_PARENTS:
        return
    ways: list[tuple[str, np.ndarray]] = []
    for name, values in _amounts(side).items():
        least, most = _extremes((parents,), rows, values[held])
        total = np.bincount(rows, values[held], minlength=parents)
        ways += [(f"THE SUM OF {name}", total), (f"THE GREATEST {name}", most), (f"THE LEAST {name}", least)]
    lists = [(column, codes) for column, codes in _lists(side) if parents * column.size <= MOST_CELLS]
    counts = [_per_parent(join, column, codes)[there] for column, codes in lists]
    for name, numbers in _amounts(above).items():
        known = numbers[there]
        if not np.isfinite(known).all() or np.ptp(known) == 0 or name in above.counted:
            continue
        found = [text for text, values in ways if np.allclose(values[there], known)]
        for (column, _), cells in zip(lists, counts, strict=True) if not found else ():
            chosen = np.linalg.lstsq(cells[:SCREENED], known[:SCREENED], rcond=None)[0].round() > 0
            some = np.flatnonzero(((cells[:SCREENED] > 0) == (known[:SCREENED, None] == 1)).all(axis=0))
            if chosen.any() and np.array_equal(cells[:, chosen].sum(axis=1), known):
                labels = [column.labels()[code] for code in np.flatnonzero(chosen[: len(column.labels())])]
                found.append(f"THE NUMBER OF ROWS WITH {column.name} {', '.join(labels)}")
            elif len(some) and some[0] < len(column.labels()) and np.array_equal(cells[:, some[0]] > 0, known):
                found.append(f"WHETHER A ROW HAS {column.name} {column.labels()[some[0]]}")
        if found:
            yield name, found[0]


def _extremes(shape: tuple[int, ...], cells: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest value in each cell of a table, gaps aside; infinite in cells without one."""
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    np.fmin.at(least, cells, values)
    np.fmax.at(most, cells, values)
    return least, most


def _commonest(found: list[tuple[float, str]]) -> Iterator[str]:
    """Yield the texts with the greatest numbers, at most `MOST_RULES`."""
    yield from (text for _, text in sorted(found, key=lambda one: -one[0])[:MOST_RULES])


def _per_parent(join: Join, column: Categorical, codes: np.ndarray) -> np.ndarray:
    """Return how many rows of each parent have each code, shape (parents, codes)."""
    held, size = join.parent_rows >= 0, column.size
    cells = np.bincount(join.parent_rows[held] * size + codes[held], minlength=len(join.sizes) * size)
    return cells.reshape(len(join.sizes), size)


def _amounts(side: Side) -> dict[str, np.ndarray]:
    """Return the numbers of the rows in columns of numbers, listed numbers and truth values; NaN for none."""
    found = {}
    for column in side.columns:
        if isinstance(column, Grid) and column.numeric:
            found[column.name] = numbers_of(column, side.values[column.name])
    for column, codes in _lists(side):
        if isinstance(column, Boolean):
            found[column.name] = np.where(codes < 2, codes, np.nan)
        elif all(isinstance(value, int | float) for value in column.values):
            found[column.name] = listed_numbers(column, side.values[column.name])
    return found


def _lists(side: Side) -> list[tuple[Categorical, np.ndarray]]:
    """Return the columns of listed values with the codes of the rows."""
    lists = [column for column in side.columns if isinstance(column, Categorical)]
    return [(column, column.judged(Values.of(side.values[column.name]))[0].astype(np.int64)) for column in lists]
