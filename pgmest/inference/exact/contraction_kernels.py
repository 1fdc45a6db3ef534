"""The compiled kernels of products of two tables that sum over few cells, where BLAS has nothing to gain.

Tables are read as they lie. A cell of the result is (i, j), and s numbers what is summed out; where the factors of it
lie is given by maps: left[outer_left[i] + inner_left[j] + summed_left[s]], and likewise on the right.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled


@compiled
def multiply(left, right, outer_left, outer_right, inner_left, inner_right, summed_left, summed_right, result):
    """The product: result[i, j] = sum over s of left[i, j, s] * right[i, j, s]."""
    at = 0
    for i in range(len(outer_left)):
        for j in range(len(inner_left)):
            a, b = outer_left[i] + inner_left[j], outer_right[i] + inner_right[j]
            total = left[a + summed_left[0]] * right[b + summed_right[0]]
            for s in range(1, len(summed_left)):
                total += left[a + summed_left[s]] * right[b + summed_right[s]]
            result[at] = total
            at += 1


@compiled
def differentiate(
    left,
    right,
    outer_left,
    outer_right,
    inner_left,
    inner_right,
    summed_left,
    summed_right,
    gradient,
    of_left,
    of_right,
):
    """The gradients of both factors from that of the result."""
    of_left[:] = 0
    of_right[:] = 0
    at = 0
    for i in range(len(outer_left)):
        for j in range(len(inner_left)):
            a, b, slope = outer_left[i] + inner_left[j], outer_right[i] + inner_right[j], gradient[at]
            for s in range(len(summed_left)):
                x, y = a + summed_left[s], b + summed_right[s]
                of_left[x] += slope * right[y]
                of_right[y] += slope * left[x]
            at += 1
