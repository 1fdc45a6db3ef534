"""The compiled kernels of products of two tables that sum over few cells, where BLAS has nothing to gain.

Left is (rows, summed, kept), right (summed, columns, kept) and the result (rows, columns, kept), where the axes that
both tables have and that stay are kept. The factors are read as they lie, some kept cells at a time, into pieces that
stay in the nearest cache and in which all loops run along these cells. Where they lie is given by maps: the factor for
(r, s, k) by left[groups[r, s] + kept_outer[i] + kept_inner[j]] with k = (i, j), and likewise on the right.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined


@inlined
def _read(table, groups, start, inner, piece):
    """Read a piece: a row for each group of cells."""
    for g in range(len(groups)):
        first = groups[g] + start
        for j in range(len(inner)):
            piece[g, j] = table[first + inner[j]]


@inlined
def _write(piece, groups, start, inner, table):
    for g in range(len(groups)):
        first = groups[g] + start
        for j in range(len(inner)):
            table[first + inner[j]] = piece[g, j]


@compiled
def multiply(left, left_groups, left_outer, left_inner, right, right_groups, right_outer, right_inner, a, b, result):
    """The product: result[r, c, k] = sum over s of left[r, s, k] * right[s, c, k].

    a, b: room for the pieces of both, a row for each of their groups.
    """
    rows, columns = result.shape[0], result.shape[1]
    summed, width = len(left_groups) // rows, len(left_inner)
    for i in range(len(left_outer)):
        _read(left, left_groups, left_outer[i], left_inner, a)
        _read(right, right_groups, right_outer[i], right_inner, b)
        start = i * width
        for r in range(rows):
            for c in range(columns):
                for j in range(width):
                    result[r, c, start + j] = a[r * summed, j] * b[c, j]
                for s in range(1, summed):
                    for j in range(width):
                        result[r, c, start + j] += a[r * summed + s, j] * b[s * columns + c, j]


@compiled
def differentiate(
    left,
    left_groups,
    left_outer,
    left_inner,
    right,
    right_groups,
    right_outer,
    right_inner,
    a,
    b,
    gradient,
    of_a,
    of_b,
    of_left,
    of_right,
):
    """The gradients of both factors from that of the result; of_a, of_b: room for pieces of them."""
    rows, columns = gradient.shape[0], gradient.shape[1]
    summed, width = len(left_groups) // rows, len(left_inner)
    for i in range(len(left_outer)):
        _read(left, left_groups, left_outer[i], left_inner, a)
        _read(right, right_groups, right_outer[i], right_inner, b)
        start = i * width
        of_a[:] = 0
        of_b[:] = 0
        for r in range(rows):
            for c in range(columns):
                for s in range(summed):
                    one, other = r * summed + s, s * columns + c
                    for j in range(width):
                        of_a[one, j] += gradient[r, c, start + j] * b[other, j]
                    for j in range(width):
                        of_b[other, j] += gradient[r, c, start + j] * a[one, j]
        _write(of_a, left_groups, left_outer[i], left_inner, of_left)
        _write(of_b, right_groups, right_outer[i], right_inner, of_right)
