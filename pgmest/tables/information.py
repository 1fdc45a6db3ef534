"""Mutual information of the attributes of one table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


def mutual_information(joint: Factor, a: Clique, b: Clique) -> float:
    """Return the mutual information I(a; b) = E[log p(a, b) - log p(a) - log p(b)], in nats.

    >>> round(mutual_information(Factor({"a": 2, "b": 2}, [[3.0, 0.0], [0.0, 3.0]]), ("a",), ("b",)), 6)
    0.693147

    Args:
        joint: the table over the attributes of `a` and `b`, in counts or fractions.
        a: some attributes.
        b: the other attributes.
    """
    p = joint.normalize()
    logs = p.log() - p.project(a).log() - p.project(b).log()
    possible = p.values > 0
    return max(0.0, float(p.values[possible] @ logs.values[possible]))


PAIRS_AT_ONCE = 1 << 12
"""Tables of one shape are computed together, at most this many at a time, which bounds the memory used."""


def pair_information(tables: Sequence[Factor]) -> list[float]:
    """Return the mutual information, in nats, of the two attributes of each table; 0 for a table without counts.

    >>> [round(value, 6) for value in pair_information([Factor({"a": 2, "b": 2}, [[3.0, 0.0], [0.0, 3.0]])])]
    [0.693147]
    """
    found, by_shape = [0.0] * len(tables), defaultdict(list)
    for position, table in enumerate(tables):
        by_shape[table.values.shape].append(position)
    for positions in by_shape.values():
        for start in range(0, len(positions), PAIRS_AT_ONCE):
            chosen = positions[start : start + PAIRS_AT_ONCE]
            joint = np.stack([tables[position].values for position in chosen])
            for position, value in zip(chosen, _information(joint).tolist(), strict=True):
                found[position] = value
    return found


def _information(joint: np.ndarray) -> np.ndarray:
    """Return the mutual information of each table of an array of shape (tables, a, b)."""
    totals = joint.sum(axis=(1, 2), keepdims=True)
    shares = np.divide(joint, totals, out=np.zeros_like(joint), where=totals > 0)
    product = shares.sum(axis=2, keepdims=True) * shares.sum(axis=1, keepdims=True)
    ratio = np.divide(shares, product, out=np.ones_like(shares), where=(shares > 0) & (product > 0))
    return np.maximum((shares * np.log(ratio)).sum(axis=(1, 2)), 0.0)
