"""Nested groups of neighboring codes with about equal mass, over which pairs and triples are measured."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from pgmest.tables.domain import Domain
from pgmest.tables.groups import group_starts

MOST_LEVELS = 6
"""The number of times that the codes of an attribute are halved, into at most 64 groups. At the next level, each code
is its own group."""


def nested_groups(mass: np.ndarray, branches: Sequence[np.ndarray] = ()) -> tuple[np.ndarray, ...]:
    """Return the group of each code at each level; a level halves the groups of the previous one.

    At the last level, each code is its own group. A group is a range of codes, which is cut where the masses of its two
    parts are closest. So frequent values soon are groups by themselves, and rare values stay together.

    >>> [level.tolist() for level in nested_groups(np.array([4.0, 1.0, 1.0, 2.0]))]
    [[0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 2, 3]]

    In a tree, the range with the largest mass is cut again and again until there are twice as many: between its
    branches, or inside its only one. So a group has whole branches, or lies inside one: frequent branches are measured
    finely, and rare ones as a whole.

    >>> [level.tolist() for level in nested_groups(np.array([4.0, 1.0, 1.0, 2.0]), [np.array([0, 0, 1, 1])])]
    [[0, 0, 1, 1], [0, 1, 2, 3]]

    Args:
        mass: The mass of each code, not negative, shape (n,).
        branches: The branch of each code at each level of a tree, from the coarsest, each a range of codes.
    """
    count = len(mass)
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    ranges, levels = [(0, count)], []
    while len(ranges) < count and len(levels) < MOST_LEVELS:
        if branches:
            ranges = _heaviest_halved(cumulative, ranges, branches)
        else:
            ranges = [part for start, end in ranges for part in _halves(cumulative, start, end, branches)]
        levels.append(np.repeat(np.arange(len(ranges)), [end - start for start, end in ranges]))
    if len(ranges) < count or not levels:
        levels.append(np.arange(count))
    return tuple(levels)


def _heaviest_halved(
    cumulative: np.ndarray, ranges: list[tuple[int, int]], branches: Sequence[np.ndarray]
) -> list[tuple[int, int]]:
    """Return about twice as many ranges: the one with the largest mass is cut again and again."""
    left = [(cumulative[start] - cumulative[end], start, end) for start, end in ranges]
    heapq.heapify(left)
    done, wanted = [], min(2 * len(ranges), len(cumulative) - 1)
    while left and len(left) + len(done) < wanted:
        _, start, end = heapq.heappop(left)
        if end - start == 1:
            done.append((start, end))
            continue
        for part in _halves(cumulative, start, end, branches):
            heapq.heappush(left, (cumulative[part[0]] - cumulative[part[1]], *part))
    return sorted([*done, *((start, end) for _, start, end in left)])


def branches(domain: Domain, name: str) -> tuple[np.ndarray, ...]:
    """Return the branch of each code of an attribute at each inner level of its tree; nothing without a tree."""
    tree = domain.hierarchies.get(name)
    return () if tree is None else tuple(tree.levels[level] for level in tree.inner)


def ranges_of_branches(domain: Domain, name: str) -> tuple[np.ndarray, ...]:
    """Return what `branches` does if the codes are in the order of the tree; otherwise nothing."""
    levels = branches(domain, name)
    return levels if all((np.diff(labels) >= 0).all() for labels in levels) else ()


def _halves(cumulative: np.ndarray, start: int, end: int, branches: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    if end - start == 1:
        return [(start, end)]
    inner = np.abs(cumulative[start + 1 : end] - (cumulative[start] + cumulative[end]) / 2)
    for labels in branches:
        if labels[start] != labels[end - 1]:
            inner = np.where(np.diff(labels[start:end]) != 0, inner, np.inf)
            break
    cut = start + 1 + int(np.argmin(inner))
    return [(start, cut), (cut, end)]


def common_refinement(groups: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Return the coarsest grouping into ranges that refines all given ones."""
    cuts = np.zeros(count, dtype=np.int64)
    for labels in groups:
        cuts |= np.diff(labels, prepend=0) > 0
    return np.cumsum(cuts)


def disaggregated(
    table: np.ndarray, coarse: Sequence[np.ndarray], fine: Sequence[np.ndarray], mass: Sequence[np.ndarray]
) -> np.ndarray:
    """Return a table over finer groups, among which each coarse group is divided in proportion to their mass."""
    for axis, (labels, finer, weights) in enumerate(zip(coarse, fine, mass, strict=True)):
        if int(finer[-1]) != int(labels[-1]):
            starts = group_starts(finer)
            inside, parent = np.add.reduceat(weights, starts), labels[starts]
            share = inside / np.maximum(np.bincount(parent, inside), 1e-300)[parent]
            shape = [1] * table.ndim
            shape[axis] = len(starts)
            table = np.take(table, parent, axis=axis) * share.reshape(shape)
    return table
