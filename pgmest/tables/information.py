"""Mutual information of the attributes of one table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


def mutual_information(joint: Factor, a: Clique, b: Clique) -> float:
    """I(a; b) = E[log p(a, b) - log p(a) - log p(b)], in nats, of the joint table of `a` and `b` (counts or shares).

    >>> round(mutual_information(Factor({"a": 2, "b": 2}, [[3.0, 0.0], [0.0, 3.0]]), ("a",), ("b",)), 6)
    0.693147
    """
    p = joint.normalize()
    logs = p.log() - p.project(a).log() - p.project(b).log()
    possible = p.values > 0
    return max(0.0, float(p.values[possible] @ logs.values[possible]))


PAIRS_AT_ONCE = 1 << 12


def pair_information(tables: Sequence[Factor]) -> list[float]:
    """The mutual information of the two attributes of each table; that of a table without counts is 0.

    >>> [round(value, 6) for value in pair_information([Factor({"a": 2, "b": 2}, [[3.0, 0.0], [0.0, 3.0]])])]
    [0.693147]
    """
    found, alike = [0.0] * len(tables), defaultdict(list)
    for position, table in enumerate(tables):
        alike[table.values.shape].append(position)
    for positions in alike.values():
        for start in range(0, len(positions), PAIRS_AT_ONCE):
            chosen = positions[start : start + PAIRS_AT_ONCE]
            joint = np.stack([tables[position].values for position in chosen])
            for position, value in zip(chosen, _information(joint).tolist(), strict=True):
                found[position] = value
    return found


def _information(joint: np.ndarray) -> np.ndarray:
    """Of each table of an array (tables, a, b)."""
    totals = joint.sum(axis=(1, 2), keepdims=True)
    shares = np.divide(joint, totals, out=np.zeros_like(joint), where=totals > 0)
    product = shares.sum(axis=2, keepdims=True) * shares.sum(axis=1, keepdims=True)
    ratio = np.divide(shares, product, out=np.ones_like(shares), where=(shares > 0) & (product > 0))
    return np.maximum((shares * np.log(ratio)).sum(axis=(1, 2)), 0.0)
