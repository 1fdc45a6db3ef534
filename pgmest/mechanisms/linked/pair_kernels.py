"""Functions of the kernels of linked tables: the children of a family with which a child is paired."""

from __future__ import annotations

from pgmest._base.compiled import inlined
from pgmest.mechanisms.linked.pairing import MOST_ALL, NEAR


@inlined
def partners(size):
    """Return with how many others each child of a family of this size is paired."""
    return size - 1 if size <= MOST_ALL else 2 * NEAR


@inlined
def partner(first, size, i, turn):
    """Return a partner of child i of a family: the one of this number."""
    place = i - first
    step = 1 + turn if size <= MOST_ALL or turn < NEAR else size - 1 - (turn - NEAR)
    return first + (place + step) % size
