"""Where tables lie in one workspace: large ones that are never needed at the same time share their place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LARGE = 4096
"""Smaller tables each get a place of their own; finding one to share would take longer than it is worth."""


@dataclass(eq=False)
class Buffer:
    """Room for a table, from the first time that it is used to the last.

    Attributes:
        cells: how many.
        first, last: these times; at first there are none.
        start: its place, once it has one.
    """

    cells: int
    first: float = float("inf")
    last: float = float("-inf")
    start: int = -1

    def use(self, time: int) -> None:
        """It is needed at this time, and so between this and all others."""
        self.first, self.last = min(self.first, time), max(self.last, time)


def place(buffers: Iterable[Buffer], begin: int = 0) -> int:
    """Give each buffer its place from cell `begin` on; the end of all places.

    >>> a, b, c = Buffer(5000, 0, 1), Buffer(6000, 1, 2), Buffer(4500, 2, 3)
    >>> place([a, b, c]), a.start, b.start, c.start
    (11000, 0, 5000, 0)
    """
    taken: list[Buffer] = []  # in the order of their starts
    end = begin
    waiting = sorted(buffers, key=lambda one: (one.cells < LARGE, one.first, -one.cells))
    for buffer in waiting:
        if buffer.cells >= LARGE:
            taken = [one for one in taken if one.last >= buffer.first]
            buffer.start = _first_gap(taken, buffer.cells, begin)
            taken = sorted([*taken, buffer], key=lambda one: one.start)
        else:
            buffer.start = end
        end = max(end, buffer.start + buffer.cells)
    return end


def _first_gap(taken: list[Buffer], cells: int, start: int) -> int:
    """The lowest place from `start` on with this many free cells."""
    for one in taken:
        if start + cells <= one.start:
            break
        start = max(start, one.start + one.cells)
    return start
