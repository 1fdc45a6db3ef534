"""Mutual information of the attributes of one table."""

from __future__ import annotations

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
