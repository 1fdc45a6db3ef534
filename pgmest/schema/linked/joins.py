"""Guesses of which tables hang on which, by which columns, from the values of columns: for drafts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.linked import tree_order
from pgmest.data.values import Values
from pgmest.errors import DataError, listed
from pgmest.schema.identifiers import named_as_identifier
from pgmest.schema.linked.keys import KeyColumn

UNIQUE, CONTAINED = 0.99, 0.9
"""The least share of the rows of a parent that a key tells apart, and of the children's keys that the parent has."""
MOST_SHARED = 8
"""Keys of two columns are looked for among this many columns that two tables share."""
FEWEST_KEYS = 10
"""The least number of different values of a key whose name is no evidence."""


@dataclass(frozen=True)
class Join:
    """A guess that the rows of one table hang on those of another.

    Attributes:
        parent, child: the two tables.
        key: the columns of the parent that tell its rows apart.
        link: the columns of the child with the key of its parent.
        sizes: how many rows of the child each row of the parent has.
        parent_rows: the row of the parent of each row of the child, -1 for none.
    """

    parent: str
    child: str
    key: tuple[str, ...]
    link: tuple[str, ...]
    sizes: np.ndarray
    parent_rows: np.ndarray


Numbers = Mapping[str, Mapping[str, np.ndarray]]
"""Table -> column -> the number of the text of each value, -1 for a gap; equal texts have equal numbers everywhere."""


def joins_of(numbers: Numbers) -> dict[str, Join]:
    """Return for each table but one how it hangs on another.

    Args:
        numbers: the values of the tables, as `numbered` returns them.

    Raises:
        DataError: the tables do not form one tree, or the rows of a table do not name their row of the root.
    """
    tables = list(numbers)
    found: list[tuple[tuple[float, ...], Join]] = []
    for parent, child in itertools.permutations(tables, 2):
        found += _candidates(parent, child, numbers[parent], numbers[child])
    joins: dict[str, Join] = {}
    for _, join in sorted(found, key=lambda one: one[0], reverse=True):
        if join.child in joins or join.child in _above(joins, join.parent) or not _agree(joins, join):
            continue
        joins[join.child] = join
    roots = [name for name in tables if name not in joins]
    if len(roots) != 1:
        _check_one_parent(roots, joins, [join for _, join in found])
        raise DataError(
            f"{listed(roots)} share no column whose values tell the rows of one apart and stand in the other: give "
            "tables that join by a key, rename the key where it has another name, or write a schema in which each of "
            "these tables but one has one parent."
        )
    return _within_parents(joins, numbers)


def _check_one_parent(roots: Sequence[str], joins: Mapping[str, Join], allowed: Sequence[Join]) -> None:
    """Raise DataError if a table would hang on a table without parent, had it no other parent."""
    for other in allowed:
        chosen = joins.get(other.child)
        if other.parent in roots and chosen is not None and chosen.parent != other.parent:
            child, first = other.child, chosen.parent
            merged = f"{child}.merge({other.parent}, left_on={list(other.link)}, right_on={list(other.key)})"
            raise DataError(
                f"the rows of '{child}' name rows of two tables, '{first}' (by {listed(chosen.link)}) and "
                f"'{other.parent}' (by {listed(other.link)}), but a table has one parent, as linked tables form one "
                f"tree. Keep the table whose rows are to be protected as its parent, join the columns of the other one "
                f"into '{child}', and leave that table and its key out; with '{first}' as the parent: {merged} in "
                "pandas."
            )


def _within_parents(joins: Mapping[str, Join], numbers: Numbers) -> dict[str, Join]:
    """Return the joins with keys that contain the key of the parent."""
    made: dict[str, Join] = {}
    for name in tree_order({name: joins[name].parent if name in joins else None for name in numbers})[1:]:
        join = joins[name]
        above = made[join.parent].link if join.parent in made else ()
        lacking = tuple(column for column in above if column not in join.key)
        if lacking:
            key, link = (*lacking, *join.key), (*lacking, *join.link)
            theirs, mine = numbers[join.parent], numbers[name]
            sizes = _sizes([theirs[c] for c in key], [mine[c] for c in link]) if set(lacking) <= set(mine) else None
            if sizes is None:
                raise DataError(
                    f"the rows of '{name}' name their row of '{join.parent}' by {listed(join.link)} alone, which rows "
                    f"of several {made[join.parent].parent} could share: add {listed(lacking)} of '{join.parent}' to "
                    f"'{name}'."
                )
            join = Join(join.parent, name, key, link, *sizes)
        made[name] = join
    return made


def numbered(tables: Mapping[str, Mapping[str, np.ndarray]]) -> Numbers:
    """Return the numbers of the columns of tables, in which None, NaN or NaT marks a gap."""
    texts: dict[str, int] = {}
    numbers: dict[str, dict[str, np.ndarray]] = {}
    for table, columns in tables.items():
        numbers[table] = {}
        for name, array in columns.items():
            reader = KeyColumn(name, texts)
            reader.add(Values.of(array))
            numbers[table][name] = reader.rows
    return numbers


def _candidates(
    parent: str, child: str, theirs: Mapping[str, np.ndarray], mine: Mapping[str, np.ndarray]
) -> list[tuple[tuple[float, ...], Join]]:
    """Return the joins of two tables that the values allow, each with how likely it is."""
    found = []
    pairs = [
        ((a,), (b,)) for a in theirs for b in mine if a == b or (named_as_identifier(a) and named_as_identifier(b))
    ]
    shared = [name for name in theirs if name in mine][:MOST_SHARED]
    pairs += [(both, both) for both in itertools.combinations(shared, 2)]
    for key, link in pairs:
        sizes = _sizes([theirs[name] for name in key], [mine[name] for name in link])
        if sizes is None:
            continue
        counts, parent_rows = sizes
        repeated = counts.max(initial=0) > 1
        named = all(map(named_as_identifier, key))
        if not repeated and not (named and key == link):
            continue  # such as row numbers of both
        if not named and len(counts) < FEWEST_KEYS:
            continue
        score = (float(repeated), float(key == link), len(counts), float(named), -float(len(key)))
        found.append((score, Join(parent, child, key, link, counts, parent_rows)))
    return found


def _sizes(key: Sequence[np.ndarray], link: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return how many children each parent has, and the parent of each; None if the values are no keys."""
    rows = len(key[0])
    whole = np.concatenate([np.stack(key, axis=1), np.stack(link, axis=1)])
    there = (whole >= 0).all(axis=1)
    if len(key) == 1:
        number = whole[:, 0]
    else:
        number = np.full(len(whole), -1)
        number[there] = np.unique(whole[there], axis=0, return_inverse=True)[1].reshape(-1)
    of_parents, of_children = number[:rows], number[rows:]
    distinct = np.unique(of_parents[of_parents >= 0])
    if len(distinct) < UNIQUE * rows or not len(distinct):
        return None
    children = np.unique(of_children[of_children >= 0])
    if not len(children) or np.isin(children, distinct).mean() < CONTAINED:
        return None
    row_of = np.full(int(number.max()) + 1, -1)
    row_of[of_parents[of_parents >= 0]] = np.flatnonzero(of_parents >= 0)
    parent_rows = np.where(of_children >= 0, row_of[of_children], -1)
    return np.bincount(parent_rows[parent_rows >= 0], minlength=rows), parent_rows


def _above(joins: Mapping[str, Join], name: str) -> list[str]:
    """Return a table and those that it hangs on."""
    return [name, *(_above(joins, joins[name].parent) if name in joins else ())]


def _agree(joins: Mapping[str, Join], join: Join) -> bool:
    """Return whether the other children of a parent have the same key of it."""
    return all(other.key == join.key for other in joins.values() if other.parent == join.parent)


def repeated(join: Join, numbers: Numbers) -> dict[str, str]:
    """Return the columns of a child that repeat a column of its parent in nearly all rows, with that column."""
    held = np.flatnonzero(join.parent_rows >= 0)
    found: dict[str, str] = {}
    for name, mine in numbers[join.child].items():
        for other, theirs in numbers[join.parent].items():
            several = len(np.unique(theirs)) >= (2 if name == other else FEWEST_KEYS)
            if name in join.link or other in join.key or not several:
                continue
            if np.mean(mine[held] == theirs[join.parent_rows[held]]) >= UNIQUE:
                found.setdefault(name, other)
    return found
