"""The arrays of a contraction plan: where the tables of its steps lie in the workspace, and what the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.exact.axes import Axes
from pgmest.inference.exact.workspace import Buffer, place
from pgmest.inference.marginals.contraction import Labels

ONE_CELL, PIECES = 0, 1
"""The first cells of every workspace: a constant 1 for products without a second factor, then the space in which each
share gathers pieces of factors."""


@dataclass(eq=False)
class PlannedTable:
    """A table during planning.

    Attributes:
        labels: its axes, in row-major order.
        start: the start of a measured clique in the output; -1 for other tables.
        values, gradient: the memory of its values (unless it is measured) and of its gradient.
    """

    labels: Labels
    start: int = -1
    values: Buffer | None = None
    gradient: Buffer | None = None

    @property
    def measured(self) -> bool:
        """True for the table of a measured clique."""
        return self.start >= 0


@dataclass(eq=False)
class PlannedStep:
    """A step during planning: its columns, and its operands with theirs."""

    columns: dict[int, Any]
    sides: list[tuple[PlannedTable, dict[int, Any]]]

    @property
    def pieces(self) -> int:
        """The cells needed for pieces of its factors, and for their gradients."""
        return sum(2 * side[f.N_STARTS] * side[f.N_KEPT_INNER] for _, side in self.sides if f.PIECES in side)


class PlanArrays:
    """The arrays of planned steps.

    Args:
        steps: the steps, whose buffers get their places in the workspace.
        shares: the ranges (low, high) of the steps of each thread; the last one runs after the others.
        one: the constant table, which has a place already.

    Attributes:
        cells: the cells of the workspace.
        pieces: the start of each share's pieces in the workspace.
    """

    def __init__(self, steps: list[PlannedStep], shares: list[tuple[int, int]], one: PlannedTable):
        self.steps: list[PlannedStep] = steps
        self.shares: list[tuple[int, int]] = shares
        self.one: PlannedTable = one
        self.pieces: list[int] = []
        self.cells: int = self._place(shares)

    def _place(self, shares: list[tuple[int, int]]) -> int:
        """Place all buffers by their lifetimes, and return the cells of the workspace.

        Step i runs at time i in the upward sweep and at time last - i in the downward sweep. Shares run in parallel, so
        buffers that only one share uses lie apart from those of all others.
        """
        last, users = 2 * len(self.steps) - 1, dict[Buffer, set[int]]()
        for share, (low, high) in enumerate(shares):
            for number in range(low, high):
                for buffer, times in self._uses(number, last):
                    for time in times:
                        buffer.use(time)
                    users.setdefault(buffer, set()).add(share)
        end = PIECES
        for share, (low, high) in enumerate(shares):
            self.pieces.append(end)
            end += max((step.pieces for step in self.steps[low:high]), default=0)
            common = share == len(shares) - 1
            end = place((one for one, by in users.items() if by == {share} or (common and len(by) > 1)), end)
        return end

    def _uses(self, number: int, last: int) -> Iterator[tuple[Buffer, tuple[int, ...]]]:
        """Yield the buffers that a step uses, with the times of use."""
        step = self.steps[number]
        kind, made = step.columns[f.KIND], len(step.sides) - 1
        for position, (table, _) in enumerate(step.sides):
            if table is self.one:
                continue
            if table.values is not None:
                read_again = kind == f.WEIGHT or (kind in (f.MATRICES, f.SMALL, f.TIMES) and position != made)
                read_again |= bool(step.columns.get(f.ROOT))  # the max-product reads the sum of a root again
                yield table.values, (number, last - number) if read_again else (number,)
            if table.gradient is not None:
                yield table.gradient, (last - number,)

    def rows(self, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps and the sides of a ContractionPlan."""
        steps = np.zeros((len(self.steps), f.N_STEP), dtype=np.int64)
        sides: list[list[int]] = []
        for (low, high), pieces in zip(self.shares, self.pieces, strict=True):
            for number, step in enumerate(self.steps[low:high], low):
                steps[number, list(step.columns)] = list(step.columns.values())
                steps[number, f.FIRST] = len(sides)
                sides += [_side(table, columns, pieces, axes) for table, columns in step.sides]
        return steps, np.array(sides, dtype=np.int64).reshape(-1, f.N_SIDE)


def _side(table: PlannedTable, columns: dict[int, int], pieces: int, axes: Axes) -> list[int]:
    row = [0] * f.N_SIDE
    for column, value in columns.items():
        row[column] = value
    row[f.PIECES] += pieces
    row[f.AT] = table.start if table.measured else table.values.start  # type: ignore[union-attr]
    row[f.MEASURED], row[f.CELLS] = int(table.measured), axes.cells(table.labels)
    row[f.GRADIENT] = -1 if table.gradient is None else table.gradient.start
    return row
