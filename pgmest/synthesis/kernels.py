"""The compiled kernels of record synthesis: which cell each record is in, and rewriting records.

Which records to take is drawn by `take_records` of `pgmest.sampling.kernels`: numba keeps machine code on disk and
looks only at the file of a kernel to see whether it is current, so a kernel calls none of another file.

Records are rows of codes, shape (records, attributes), so that a record copied is a few neighboring bytes.
"""

from __future__ import annotations

import numpy as np

from pgmest.inference.exact.kernels import _cached


@_cached
def count_cells(rows, axes, strides, cells, counts):
    """Fill cells[i] with the row-major cell of record i in a marginal, and counts with the number in each cell."""
    counts[:] = 0
    for i in range(len(rows)):
        cell = 0
        for a in range(len(axes)):
            cell += np.int64(rows[i, axes[a]]) * strides[a]
        cells[i] = cell
        counts[cell] += 1


@_cached
def copy_records(rows, victims, sources):
    """Each victim becomes a copy of a source; both are in record order, so memory is read and written in order."""
    for j in range(len(victims)):
        for a in range(rows.shape[1]):
            rows[victims[j], a] = rows[sources[j], a]


@_cached
def rewrite_records(rows, victims, filled, axes, strides, sizes):
    """Each victim moves to a cell of the marginal, and keeps its codes of other attributes."""
    for j in range(len(victims)):
        for a in range(len(axes)):
            rows[victims[j], axes[a]] = (filled[j] // strides[a]) % sizes[a]
