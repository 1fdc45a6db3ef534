"""Products of two tables that sum over few cells, one step of the contracted sweeps, by compiled kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.inference.exact.recycler import Recycler
from pgmest.inference.marginals.contraction import Labels

INNER_CELLS = 64
"""One map places the last of the kept axes, at least this many cells of them; another one places the others."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where the cells of one of two tables lie for the kernels of contraction_kernels.py.

    Attributes:
        value: which table.
        shape: its own shape.
        alone: axes that only it has and nobody wants.
        groups: where each combination of rows (or columns) and of what is summed begins, without these axes.
        outer, inner: from there on, where the kept cells are.
    """

    value: int
    shape: tuple[int, ...]
    alone: tuple[int, ...]
    groups: np.ndarray
    outer: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(cls, value: int, labels: Labels, groups: Labels, kept: Labels, sizes: dict[Any, int]) -> Places:
        """Of a table with these labels; those that are in no group and not kept are summed out."""
        used = [label for label in labels if label in groups or label in kept]
        steps = {label: math.prod([sizes[name] for name in used[axis + 1 :]]) for axis, label in enumerate(used)}
        split = len(kept)
        while split and math.prod([sizes[label] for label in kept[split:]]) < INNER_CELLS:
            split -= 1
        return cls(
            value,
            tuple(sizes[label] for label in labels),
            tuple(axis for axis, label in enumerate(labels) if label not in used),
            *(_places(some, steps, sizes) for some in (groups, kept[:split], kept[split:])),
        )

    def flat(self, table: np.ndarray, room: Recycler) -> np.ndarray:
        """The table's cells in one row, the axes that are its own summed out."""
        return room.contiguous(table.sum(axis=self.alone) if self.alone else table).reshape(-1)

    def piece(self, kind: np.dtype[Any]) -> np.ndarray:
        """Room for some kept cells of each group."""
        return np.empty((len(self.groups), len(self.inner)), kind)

    def restore(self, flat: np.ndarray) -> np.ndarray:
        """The gradient of `flat` as one of the table."""
        table = flat.reshape([size for axis, size in enumerate(self.shape) if axis not in self.alone])
        return np.broadcast_to(np.expand_dims(table, self.alone), self.shape) if self.alone else table


def _places(labels: Sequence[Any], steps: Mapping[Any, int], sizes: Mapping[Any, int]) -> np.ndarray:
    """Where the entries of some axes lie in a table, from the first one on."""
    found = np.zeros(1, dtype=np.int64)
    for label in labels:
        found = np.add.outer(found, steps[label] * np.arange(sizes[label])).reshape(-1)
    return found


@dataclass(frozen=True, eq=False)
class SmallProduct:
    """A product that sums over few cells, by a kernel that reads both tables as they lie.

    Attributes:
        left, right: where the factors lie.
        result, shape: which table it makes, of rows, columns and kept cells.
        groups: how many of each.
    """

    left: Places
    right: Places
    result: int
    shape: tuple[int, ...]
    groups: tuple[int, int, int]

    @property
    def operations(self) -> int:
        """Multiplications."""
        return len(self.left.groups) * self.groups[1] * self.groups[2]

    def up(self, values: list[Any], room: Recycler) -> None:
        """Compute the result; its arguments stay, in one row each, for the way down."""
        from pgmest.inference.exact.contraction_kernels import multiply

        for side in (self.left, self.right):
            values[side.value] = side.flat(values[side.value], room)
        arguments, pieces = self._arguments(values)
        result = room.empty(self.groups, pieces[0].dtype)
        multiply(*arguments, *pieces, result)
        values[self.result] = result.reshape(self.shape)

    def down(self, values: list[Any], gradients: list[Any], room: Recycler) -> None:
        """The gradients of the arguments from that of the result."""
        from pgmest.inference.exact.contraction_kernels import differentiate

        arguments, pieces = self._arguments(values)
        of_pieces = [np.empty_like(piece) for piece in pieces]
        found = [
            room.empty(array.shape, array.dtype) for array in (values[side.value] for side in (self.left, self.right))
        ]
        gradient = room.contiguous(gradients[self.result]).reshape(self.groups)
        differentiate(*arguments, *pieces, gradient, *of_pieces, *found)
        gradients[self.result] = None
        for side, flat in zip((self.left, self.right), found, strict=True):
            gradients[side.value] = side.restore(flat)

    def _arguments(self, values: list[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What the kernels read, and room for pieces of it."""
        sides = self.left, self.right
        arguments = [array for s in sides for array in (values[s.value], s.groups, s.outer, s.inner)]
        return arguments, [side.piece(arguments[0].dtype) for side in sides]
