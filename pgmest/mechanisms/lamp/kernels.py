"""The compiled kernel that finds the weights of a mixture by iteration."""

from __future__ import annotations

from pgmest._base.compiled import compiled
from pgmest._base.row_kernels import on_rows, sum_on_rows


@on_rows
def _add_multiple(target, row, weight):
    return {"target": target + row * weight}


@sum_on_rows
def _dot(row, other):
    return row * other


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
