"""Recycler: arrays that one run after another needs, without asking the system for memory each time."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

FEWEST_CELLS = 1 << 14
"""Smaller arrays are made anew: the memory allocator keeps these itself."""


def _references(arrays: Sequence[np.ndarray]) -> list[int]:
    """How often each array is referred to, by the list and by this function, too."""
    return [sys.getrefcount(array) for array in arrays]


UNUSED = _references([np.empty(1)])[0]
"""What that is of an array that only a list holds; versions of Python count differently."""


class Recycler:
    """Hands out arrays that were handed out before, once nobody holds them or a view of them any more.

    Fresh memory is cleared by the system page by page when it is first written to, which takes longer than a product
    of two tables; and a run that takes a dozen of tables of megabytes gives all of it back at its end.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, np.dtype[Any]], list[np.ndarray]] = defaultdict(list)

    def __reduce__(self) -> tuple[type[Recycler], tuple[()]]:
        return Recycler, ()

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """An array whose entries may be anything."""
        cells = math.prod(shape)
        if cells < FEWEST_CELLS:
            return np.empty(shape, dtype)
        arrays = self._arrays[cells, dtype]
        references = _references(arrays)
        if UNUSED in references:
            return arrays[references.index(UNUSED)].reshape(shape)
        arrays.append(np.empty(cells, dtype))
        return arrays[-1].reshape(shape)

    def contiguous(self, array: np.ndarray) -> np.ndarray:
        """The array itself where its cells lie in row-major order, else a copy where they do."""
        if array.flags.c_contiguous:
            return array
        copy = self.empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return copy
