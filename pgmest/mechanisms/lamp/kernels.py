"""The compiled kernels that move the weights of records to match tables, and find priors by iteration."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled
from pgmest._base.row_kernels import on_rows, sum_on_rows


@on_rows
def _add_multiple(target, row, weight):
    return {"target": target + row * weight}


@sum_on_rows
def _dot(row, other):
    return row * other


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


@compiled
def maximize_likelihood(likelihood, weights, sums, rounds):
    """Write the weights of a mixture after iterations of expectation maximization, with half a value spread evenly.

    likelihood: That of each value (row) under each atom. weights: The result. sums: A work array of the same size.
    """
    values, atoms = likelihood.shape
    weights[:] = 1.0 / atoms
    for _ in range(rounds):
        sums[:] = 0.0
        for i in range(values):
            _add_multiple(sums, likelihood[i], 1.0 / _dot(likelihood[i], weights))
        for j in range(atoms):
            weights[j] = (weights[j] * sums[j] + 0.5 / atoms) / (values + 0.5)
