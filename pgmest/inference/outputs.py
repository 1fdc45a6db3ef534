"""What an oracle writes its result to."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, ShapeError


def checked_output(out: np.ndarray | None, cells: int, dtype: Any = np.float64) -> np.ndarray:
    """A flat array to write to: `out`, if it holds this number of cells contiguously, or a new one.

    Kernels write as many cells as a layout has, wherever an array ends.

    Raises:
        ShapeError: another size, precision or memory layout.
        ArgumentError: a read-only array.
    """
    if out is None:
        return np.empty(cells, dtype)
    if out.shape != (cells,) or out.dtype != dtype or not out.flags.c_contiguous:
        raise ShapeError.of("out", f"({cells},) of contiguous {np.dtype(dtype)}", f"{out.shape} of {out.dtype}")
    if not out.flags.writeable:
        raise ArgumentError("out is read-only, and the result is to be written to it: give an array of your own.")
    return out
