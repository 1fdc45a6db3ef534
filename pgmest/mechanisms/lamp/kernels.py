"""The compiled kernel that moves the weights of records to match tables."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled


@compiled
def rake(rows, columns, width, weights, target, counts, power, most):
    """Multiply each record's weight by (target / counts)^power of its cell; return the l1 distance before.

    rows, columns: The row and the column of each record's cell in a table with `width` columns.
    target: The target of each cell. counts: A work array of the same size. most: The largest ratio; its inverse is the
    smallest.
    """
    counts[:] = 0.0
    for i in range(len(weights)):
        counts[np.int64(rows[i]) * width + columns[i]] += weights[i]
    distance = 0.0
    for c in range(len(counts)):
        distance += abs(target[c] - counts[c])
        if counts[c] > 0:
            counts[c] = min(most, max(1.0 / most, target[c] / counts[c])) ** power
    for i in range(len(weights)):
        weights[i] *= counts[np.int64(rows[i]) * width + columns[i]]
    return distance
