"""The compiled kernels of the support model: gather potentials for each record, scatter weights into tables.

A record is a row of codes. A *table* is a set of attributes with a range of one flat array; arrays describe the tables:

    first[t] .. first[t + 1]    the entries of `axis` and `size` that belong to table t
    axis, size                  the row of `codes` that holds an attribute, and its number of values
    offset[t]                   the start of the table in the flat array, row-major

The kernels process records in blocks that stay in cache. They compute the cells of a block once from the codes, which
take one byte each in the common case; an index array would be four times as wide per table. `cells[t, i]` is the cell
of record i of the block in table t. The potentials of these cells are gathered and summed to the score of the record.
Then its weight, the exponential of the score, is scattered to the same cells. The outer loop is over records, because
neighboring records are often similar and consecutive additions to one cell would wait for each other.

One pass is enough: weights are relative to the largest score so far, and the tables are rescaled when a larger score
appears. Each kernel processes a range of records, so that threads can share the work.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined

RECORDS_AT_ONCE = 512
"""The number of records in a block."""


@inlined
def _score_block(codes, first, axis, size, offset, theta, logs, start, count, cells, scores):
    """Fill cells[t, i] and scores[i] for records start .. start + count; return the largest score (-inf if empty)."""
    for i in range(count):
        scores[i] = logs[start + i]
    for t in range(len(offset)):
        row, base = cells[t], offset[t]
        for i in range(count):
            row[i] = 0
        for a in range(first[t], first[t + 1]):
            column, values = codes[axis[a]], size[a]
            for i in range(count):
                row[i] = row[i] * values + np.int32(column[start + i])
        for i in range(count):
            row[i] += base
            scores[i] += theta[row[i]]
    largest = -np.inf
    for i in range(count):
        largest = max(largest, scores[i])
    return largest


@compiled
def accumulate(codes, first, axis, size, offset, theta, logs, start, stop, cells, scores, mass, peak):
    """Scatter the weights exp(score - shift) into `mass`; peak[0] = shift (-inf if all are 0), peak[1] = their sum."""
    shift, total = -np.inf, 0.0
    for i in range(len(mass)):
        mass[i] = 0.0
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        largest = _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        if largest == -np.inf:
            continue
        if largest > shift:  # rescale the earlier weights, so that no exponential overflows
            factor = math.exp(shift - largest)
            total *= factor
            for i in range(len(mass)):
                mass[i] *= factor
            shift = largest
        for i in range(count):
            weight = math.exp(scores[i] - shift)
            total += weight
            for t in range(len(offset)):
                mass[cells[t, i]] += weight
    peak[0], peak[1] = shift, total


@compiled
def score(codes, first, axis, size, offset, theta, logs, start, stop, cells, scores, out):
    """Write the score of each record to `out`."""
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        for i in range(count):
            out[low + i] = scores[i]


@compiled
def scatter(codes, first, axis, size, offset, theta, logs, weights, start, stop, cells, scores, mass):
    """Scatter given weights into `mass`; theta and logs only serve to compute the cells."""
    for i in range(len(mass)):
        mass[i] = 0.0
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        for i in range(count):
            for t in range(len(offset)):
                mass[cells[t, i]] += weights[low + i]


@compiled
def largest(codes, first, axis, size, offset, theta, logs, start, stop, cells, scores, peak):
    """Write the largest score of a record to peak[0]."""
    best = -np.inf
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        best = max(best, _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores))
    peak[0] = best


@compiled
def largest_by_cell(codes, first, axis, size, offset, theta, logs, start, stop, cells, scores, best):
    """Write the largest score of a record in each cell to `best`, -inf for a cell without records."""
    for i in range(len(best)):
        best[i] = -np.inf
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        for i in range(count):
            for t in range(len(offset)):
                if scores[i] > best[cells[t, i]]:
                    best[cells[t, i]] = scores[i]
