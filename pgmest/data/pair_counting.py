"""Counting the tables of many pairs of attributes together: each increment serves several pairs.

Attributes of few values are packed into groups, so that one byte holds the codes of a whole group. Counted is the joint
table of two groups, small enough for the nearest caches, and the tables of all pairs across the two are its marginals:
two groups of two attributes of ten values give four tables for one increment a record, two of eight binary ones 64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgmest._base.threads import get_threads, run_together

GROUP_CELLS = 1 << 8
"""The codes of a group fit into a byte, and the joint table of two groups (256 KB at most) into a near cache."""

ROWS_AT_ONCE = 1 << 17
"""The number of records after which joint tables are split into tables of pairs."""

LEAST_PAIRS = 2
"""The least number of pairs across two groups for which the groups are counted together; fewer are counted singly."""


@dataclass(frozen=True)
class PairTasks:
    """The groups that are counted together, and the pairs that are read off their tables.

    Attributes:
        groups: the attributes packed into each group.
        tasks: shape (tasks, 4): two groups (one and the same where a pair lies within it), and the first of their
            pairs, and the one after the last.
        pairs: shape (pairs, 3): the position among the pairs that were asked for, an attribute of the first group, and
            one of the second.
    """

    groups: list[list[int]]
    tasks: np.ndarray
    pairs: np.ndarray

    @classmethod
    def of(cls, shape: Sequence[int], pairs: np.ndarray) -> PairTasks:
        """Return the tasks for those pairs that lie in one group, or that share their two groups with other pairs.

        Args:
            shape: the number of codes of each attribute.
            pairs: shape (pairs, 2), different attributes.
        """
        groups = packed(shape, np.unique(pairs).tolist())
        group_of = np.full(len(shape), -1, dtype=np.int64)
        for number, members in enumerate(groups):
            group_of[members] = number
        across = group_of[pairs]
        order = np.where((across[:, 0] <= across[:, 1])[:, None], [0, 1], [1, 0])
        across, members = (np.take_along_axis(array, order, axis=1) for array in (across, pairs))
        kept = np.flatnonzero((across >= 0).all(axis=1))
        kept = kept[np.lexsort((members[kept, 1], members[kept, 0], across[kept, 1], across[kept, 0]))]
        both, first, count = np.unique(across[kept], axis=0, return_index=True, return_counts=True)
        enough = (count >= LEAST_PAIRS) | (both[:, 0] == both[:, 1])
        tasks = np.column_stack([both, first, first + count])[enough]
        return cls(groups, tasks, np.column_stack([kept, members[kept]]))

    @property
    def positions(self) -> np.ndarray:
        """The positions of the pairs that the tasks count."""
        parts = [self.pairs[first:last, 0] for *_, first, last in self.tasks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def packed(shape: Sequence[int], attributes: Sequence[int]) -> list[list[int]]:
    """Attributes in groups of at most `GROUP_CELLS` joint codes, those of few codes first; larger ones are in none."""
    groups: list[list[int]] = []
    cells = GROUP_CELLS + 1
    for attribute in sorted(attributes, key=lambda attribute: (shape[attribute], attribute)):
        size = shape[attribute]
        if size > GROUP_CELLS:
            break
        if cells * size > GROUP_CELLS:
            groups.append([])
            cells = 1
        groups[-1].append(attribute)
        cells *= size
    return groups


def count_pairs(
    columns: Sequence[np.ndarray],
    shape: Sequence[int],
    work: PairTasks,
    pairs: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add the records to the tables of the pairs that `work` has, on all threads.

    Args:
        columns: the codes of each attribute, each of shape (records,).
        shape: the number of codes of each.
        work: the tasks.
        pairs: shape (pairs, 2): the attributes of all that were asked for, in the order of their table's axes.
        starts: where the table of each lies in `counts`, row-major.
        counts: float64.
    """
    from pgmest.data.kernels import count_groups

    digits = _digits(shape, work.groups)
    sizes = np.array([math.prod(shape[a] for a in members) for members in work.groups], dtype=np.int64)
    places = _places(shape, work.pairs, pairs, starts)
    parts = np.array_split(work.tasks, max(1, min(get_threads(), len(work.tasks))))
    room = [np.empty((2, GROUP_CELLS**2), dtype=np.uint32) for _ in parts]
    widths = np.array(shape, dtype=np.int64)
    for begin in range(0, len(columns[0]), ROWS_AT_ONCE):
        codes = _group_codes(columns, shape, work.groups, slice(begin, begin + ROWS_AT_ONCE))
        run_together(
            partial(count_groups, codes, part, sizes, places, widths, digits, table, rows, counts)
            for part, (table, rows) in zip(parts, room, strict=True)
        )


def _digits(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> np.ndarray:
    """(attributes, joint codes): the code of an attribute in each joint code of its group."""
    digits = np.zeros((len(shape), GROUP_CELLS), dtype=np.uint8)
    for members in groups:
        sides = [shape[attribute] for attribute in members]
        cells = math.prod(sides)
        digits[members, :cells] = np.indices(sides).reshape(len(members), cells)
    return digits


def _places(shape: Sequence[int], members: np.ndarray, pairs: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return for each pair its attributes, the start of its table, and the strides of both codes in the table."""
    asked = pairs[members[:, 0]]
    sizes, first = np.array(shape, dtype=np.int64), asked[:, 0] == members[:, 1]
    steps = [np.where(first, sizes[asked[:, 1]], 1), np.where(first, 1, sizes[asked[:, 1]])]
    return np.column_stack([members[:, 1:], starts[members[:, 0]].astype(np.int64), *steps])


def _group_codes(
    columns: Sequence[np.ndarray], shape: Sequence[int], groups: Sequence[Sequence[int]], rows: slice
) -> np.ndarray:
    """(groups, records): the joint codes of some records, row-major in the order of a group's attributes."""
    codes = np.empty((len(groups), len(columns[0][rows])), dtype=np.uint8)
    for joint, members in zip(codes, groups, strict=True):
        joint[:] = columns[members[0]][rows]
        for attribute in members[1:]:
            joint *= np.uint8(shape[attribute])
            joint += columns[attribute][rows].astype(np.uint8, copy=False)
    return codes
