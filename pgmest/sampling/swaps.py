"""Replacements of records of a list by other records of it, until their counts hold facts.

A random record of a group with too many records is replaced by the record that then misses the facts least.
Replacements that miss as much as before are made, too, so what is missed wanders until it meets its opposite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STEPS = 4000
"""The most replacements that are tried, which bounds the time."""

CANDIDATES = 1 << 14
"""The records among which a replacement is chosen at a time, at most."""

TIE = 0.01
"""The weight of the distance of a count from its expectation, in records by which facts are missed."""

Family = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Disjoint groups of records: the group of each record, or -1, and the least and the largest sum of each group."""


def replace_records(
    counts: np.ndarray, expected: np.ndarray, families: Sequence[Family], generator: np.random.Generator
) -> None:
    """Change how often records occur, until the groups have their sums or `STEPS` replacements were tried.

    Args:
        counts: how often each record occurs; it is changed, but not its sum.
        expected: how often each should occur, on average; a record of 0 is never added.
        families: the groups.
        generator: the source of randomness.
    """
    possible = np.flatnonzero(expected > 0.0)
    labels = [np.where(groups < 0, len(low), groups) for groups, low, _ in families]  # the last group is the rest
    ends = [(np.append(low, -np.inf), np.append(high, np.inf)) for _, low, high in families]
    sums = [np.bincount(label, counts, minlength=len(low)) for label, (low, _) in zip(labels, ends, strict=True)]
    for _ in range(STEPS):
        source = _source(counts, labels, sums, ends, generator)
        if source is None:
            return
        goals = possible if len(possible) <= CANDIDATES else generator.choice(possible, CANDIDATES)
        change = np.zeros(len(goals))
        for label, sum_of, end in zip(labels, sums, ends, strict=True):
            group, now = label[source], _missed(sum_of, *end)
            costs = _missed(sum_of + 1.0, *end) - now
            costs += _missed(sum_of - 1.0, *end)[group] - now[group]
            costs[group] = 0.0
            change += costs[label[goals]]
        further = np.abs(counts[goals] + 1.0 - expected[goals]) - np.abs(counts[goals] - expected[goals])
        choice = int(np.argmin(change + TIE * (further + generator.random(len(goals)))))
        if change[choice] <= 0.0:
            for place, amount in ((source, -1.0), (goals[choice], 1.0)):
                counts[place] += amount
                for label, sum_of in zip(labels, sums, strict=True):
                    sum_of[label[place]] += amount


def _missed(sums: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(low - sums, sums - high), 0.0)


def _source(
    counts: np.ndarray,
    labels: Sequence[np.ndarray],
    sums: Sequence[np.ndarray],
    ends: Sequence[tuple[np.ndarray, np.ndarray]],
    generator: np.random.Generator,
) -> int | None:
    """Return a random record of a random group with too many records, or of any group; None if no facts are missed."""
    places = range(len(labels))
    if not any(_missed(sums[place], *ends[place]).any() for place in places):
        return None
    over = [(place, group) for place in places for group in np.flatnonzero(sums[place] > ends[place][1])]
    occurs = counts > 0.0
    if over:
        place, group = over[generator.integers(len(over))]
        occurs &= labels[place] == group
    rows = np.flatnonzero(occurs)
    return int(generator.choice(rows)) if len(rows) else None
