"""Allocation of tables in one workspace: large tables that are never needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LARGE = 4096
"""The fewest cells of a table that shares memory; a search for shared memory would cost more than smaller tables."""


@dataclass(eq=False)
class Buffer:
    """The memory of a table, which is needed from its first use to its last.

    Attributes:
        cells: the number of cells.
        first, last: the times of the first and the last use; inf and -inf before any use.
        start: its first cell in the workspace, -1 before it is placed.
    """

    cells: int
    first: float = float("inf")
    last: float = float("-inf")
    start: int = -1

    def use(self, time: int) -> None:
        """Extend the lifetime to include this time."""
        self.first, self.last = min(self.first, time), max(self.last, time)


def place(buffers: Iterable[Buffer], begin: int = 0) -> int:
    """Place each buffer from cell `begin` on, and return the end of all of them.

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
    """Return the lowest position from `start` on with this many free cells."""
    for one in taken:
        if start + cells <= one.start:
            break
        start = max(start, one.start + one.cells)
    return start
