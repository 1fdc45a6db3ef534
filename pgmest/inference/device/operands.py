"""The operands of the passes of a schedule: tables over some axes of a loop, and where an entry of the loop finds them.

The address in an operand is `START` plus an offset for the entry plus an offset for the cell. An offset is a multiple
of a stride if the operand's axes lie as those of the loop. Otherwise it is the sum of two short index maps, one for the
high and one for the low part of the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmest.inference.exact.propagation_plan import MapAxes, index_map

LOW_CELLS = 4096
"""The largest number of cells that the low part of an entry's or a cell's number counts, unless one axis alone has
more. It bounds the length of the index maps.
"""


@dataclass(frozen=True)
class Operand:
    """A table over some axes, row-major."""

    start: int
    space: int
    axes: tuple[str, ...]


class OperandTables:
    """The operands of all passes, as rows of N_OPERAND_FIELDS, and their index maps.

    Args:
        sizes: the size of each axis.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes: Mapping[str, int] = sizes
        self.rows: list[list[int]] = []
        self._maps: list[np.ndarray] = [np.zeros(1, dtype=np.int32)]  # one unused entry comes before all maps
        self._map_starts: dict[MapAxes, int] = {}
        self._maps_length = 1

    @property
    def maps(self) -> np.ndarray:
        """All index maps, concatenated."""
        return np.concatenate(self._maps)

    def cells(self, axes: Iterable[str]) -> int:
        """Return the number of cells of a table over these axes."""
        return math.prod([self.sizes[name] for name in axes])

    def add(self, table: Operand, kept: tuple[str, ...], reduced: tuple[str, ...]) -> bool:
        """Add the operand of a loop over `kept` and `reduced` axes; return whether its entries are looked up."""
        strides, stride = dict.fromkeys((*kept, *reduced), 0), 1
        for name in reversed(table.axes):
            strides[name] = stride
            stride *= self.sizes[name]
        over_kept, over_reduced = self._offsets(kept, strides), self._offsets(reduced, strides)
        self.rows.append([table.start, table.space, *over_kept, *over_reduced])
        return over_kept[0] < 0

    def low(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the last axes whose cells the low part counts: as many as fit into LOW_CELLS, at least one."""
        count = min(1, len(axes))
        while count < len(axes) and self.cells(axes[len(axes) - count - 1 :]) <= LOW_CELLS:
            count += 1
        return axes[len(axes) - count :]

    def _offsets(self, axes: tuple[str, ...], strides: dict[str, int]) -> tuple[int, int, int]:
        """Return (stride, -1, -1), or -1 and the starts of the high and the low map."""
        key = [(self.sizes[name], strides[name]) for name in axes]
        if all(here == size * after for (_, here), (size, after) in pairwise(key)):
            return (key[-1][1] if key else 0), -1, -1
        split = len(axes) - len(self.low(axes))
        return -1, self._index_map(tuple(key[:split])), self._index_map(tuple(key[split:]))

    def _index_map(self, key: MapAxes) -> int:
        """Return the start of the map from cells to offsets; equal maps are stored once."""
        if key not in self._map_starts:
            offsets = index_map(key)
            self._map_starts[key] = self._maps_length
            self._maps.append(offsets)
            self._maps_length += len(offsets)
        return self._map_starts[key]
