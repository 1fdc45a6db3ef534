"""Memory layouts of tables: strides of axes, index maps, and tables as matrices for BLAS."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.marginals.contraction import Labels

INNER_CELLS = 64
"""The least number of cells of the inner axes: an index map covers the last axes with at least this many cells, and
another map covers the outer axes, so that both maps are short."""


class Axes:
    """The lengths of axes, by their labels, and the index maps that steps need, without duplicates."""

    def __init__(self, sizes: dict[Any, int]):
        self.sizes: dict[Any, int] = sizes
        self._maps: list[np.ndarray] = []
        self._starts: dict[tuple[tuple[int, int], ...], int] = {}
        self._end = 0

    def cells(self, labels: Iterable[Any]) -> int:
        """Return the number of cells of a table with these axes."""
        return math.prod([self.sizes[label] for label in labels])

    def strides(self, labels: Labels) -> dict[Any, int]:
        """Return the distance from one value of each axis to the next, in row-major order."""
        found, stride = {}, 1
        for label in reversed(labels):
            found[label] = stride
            stride *= self.sizes[label]
        return found

    def split(self, labels: Labels) -> int:
        """Return the number of outer axes of a table."""
        split, cells = len(labels), 1
        while split and cells < INNER_CELLS:
            split -= 1
            cells *= self.sizes[labels[split]]
        return split

    def map(self, labels: Labels, strides: dict[Any, int]) -> int:
        """Return the start of the map from the cells of some axes to offsets; an axis without a stride adds nothing."""
        key = tuple((self.sizes[label], strides.get(label, 0)) for label in labels)
        if key not in self._starts:
            found = np.zeros(1, dtype=np.int64)
            for size, stride in key:
                found = np.add.outer(found, stride * np.arange(size)).reshape(-1)
            self._starts[key] = self._end
            self._maps.append(found)
            self._end += len(found)
        return self._starts[key]

    def inner_map(self, labels: Labels, strides: dict[Any, int]) -> int:
        """Return the start of the map of some cells, -1 if they are consecutive."""
        return -1 if self._common_stride(labels, strides) == 1 else self.map(labels, strides)

    def maps(self) -> np.ndarray:
        """Return the concatenation of all maps."""
        return np.concatenate(self._maps) if self._maps else np.zeros(0, dtype=np.int64)

    def matrix(self, labels: Labels, kept: Labels, rows: Labels, columns: Labels) -> dict[int, Any] | None:
        """Return the columns of a step's operand by which BLAS reads a table as one matrix for each kept cell.

        The result is None if the rows, or the columns, of the matrix are not evenly spaced in the table.
        """
        strides = self.strides(labels)
        over, under = (self._common_stride(group, strides) for group in (rows, columns))
        if over is None or under is None:
            return None
        n_rows, n_columns = self.cells(rows), self.cells(columns)
        if under == 1 or n_columns == 1:
            transposed, stride = 0, over if n_rows > 1 else n_columns
        elif over == 1 or n_rows == 1:
            transposed, stride = 1, under
        else:
            return None
        starts = self.map(kept, strides)
        return {f.STARTS: starts, f.N_STARTS: self.cells(kept), f.STRIDE: stride, f.TRANSPOSED: transposed}

    def _common_stride(self, group: Labels, strides: dict[Any, int]) -> int | None:
        """Return the stride of some axes merged into one axis, None if they cannot be merged."""
        long = [label for label in group if self.sizes[label] > 1]
        for label, following in pairwise(long):
            if strides[label] != strides[following] * self.sizes[following]:
                return None
        return strides[long[-1]] if long else 1
