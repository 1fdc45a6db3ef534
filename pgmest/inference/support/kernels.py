"""The compiled kernels of the support model: potentials gathered for each record, weights scattered into tables.

A record is a row of codes. What it meets in the tables is described by numbers alone, a *table* being a set of
attributes with a stretch of one flat array:

    first[t] .. first[t + 1]    the entries of `axis` and `size` that belong to table t
    axis, size                  which row of `codes` an attribute is, and how many values it has
    offset[t]                   where the table starts in the flat array, row-major

Records are taken in blocks that stay in cache. For each the cells of a block are computed once from the codes, one byte
each in the common case, instead of being read from an index array four times as wide per table: `cells[t, i]` is where
record i of the block falls in table t. The potentials of these cells are gathered and summed to the record's score.
Then its weight, the exponential of the score, is scattered to the same cells, record by record so that neighboring
records, which are often alike, do not wait for each other's additions.

One pass is enough: weights are relative to the largest score so far, and what was scattered before is rescaled when a
larger one turns up. Each kernel serves a stretch of records, so that threads can share them.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined

RECORDS_AT_ONCE = 512
"""Records at a time."""


@inlined
def _score_block(codes, first, axis, size, offset, theta, logs, start, count, cells, scores):
    """Fill cells[t, i] and scores[i] for records start .. start + count; the largest score, -inf for none."""
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
    """Weights exp(score - shift), scattered into `mass`; peak[0] = shift, peak[1] = their sum (shift -inf: none)."""
    shift, total = -np.inf, 0.0
    for i in range(len(mass)):
        mass[i] = 0.0
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        largest = _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        if largest == -np.inf:
            continue
        if largest > shift:
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
    """The score of each record, written to `out`."""
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        for i in range(count):
            out[low + i] = scores[i]


@compiled
def spread(codes, first, axis, size, offset, theta, logs, weights, start, stop, cells, scores, mass):
    """Given weights (theta and logs are not used but to find the cells), scattered into `mass`."""
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
    """peak[0] = the largest score of a record."""
    best = -np.inf
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        best = max(best, _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores))
    peak[0] = best


@compiled
def largest_by_cell(codes, first, axis, size, offset, theta, logs, start, stop, cells, scores, best):
    """The largest score of a record in each cell, -inf where no record falls."""
    for i in range(len(best)):
        best[i] = -np.inf
    for low in range(start, stop, RECORDS_AT_ONCE):
        count = min(RECORDS_AT_ONCE, stop - low)
        _score_block(codes, first, axis, size, offset, theta, logs, low, count, cells, scores)
        for i in range(count):
            for t in range(len(offset)):
                if scores[i] > best[cells[t, i]]:
                    best[cells[t, i]] = scores[i]
