"""The output arrays that oracles write their results to."""

from __future__ import annotations

import numpy as np

from pgmest.errors import ArgumentError, ShapeError


def checked_output(out: np.ndarray | None, cells: int) -> np.ndarray:
    """Return a flat array to write to: `out` if it has this number of contiguous cells, a new array if it is None.

    Kernels do not check bounds: they write all the cells of a layout, even beyond the end of an array.

    Raises:
        ShapeError: `out` has another size, type or memory layout.
        ArgumentError: `out` is read-only.
    """
    if out is None:
        return np.empty(cells)
    if out.shape != (cells,) or out.dtype != np.float64 or not out.flags.c_contiguous:
        raise ShapeError.of("out", f"({cells},) of contiguous float64", f"{out.shape} of {out.dtype}")
    if not out.flags.writeable:
        raise ArgumentError("out is read-only, but the result is written to it: pass a writable array.")
    return out
