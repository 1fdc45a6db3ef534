"""The compiled kernels of record synthesis: which cell each record is in, which records to take, and rewriting them.

Records are rows of codes, shape (records, attributes), so that a record copied is a few neighboring bytes.
"""

from __future__ import annotations

import numpy as np

from pgmest.inference.exact.kernels import _cached
from pgmest.sampling.kernels import _uniform


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
def take_records(cells, wanted, left, over, state, victims, sources):
    """Choose wanted[c] records of each cell c at random, in one pass: those of cells with too many are victims.

    A record of a cell with `left` records not yet looked at, `wanted` of which are still to be chosen, is chosen with
    probability wanted / left, which makes every subset equally likely. Both arrays are used up.
    """
    n_victims, n_sources = 0, 0
    for i in range(len(cells)):
        cell = cells[i]
        if wanted[cell] > 0:
            if _uniform(state) * left[cell] < wanted[cell]:
                wanted[cell] -= 1
                if over[cell]:
                    victims[n_victims] = i
                    n_victims += 1
                else:
                    sources[n_sources] = i
                    n_sources += 1
            left[cell] -= 1


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
