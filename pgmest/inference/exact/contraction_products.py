"""Steps of contractions that multiply two tables, or sum out and transpose the axes of one.

In the sum-product c = sum of a b; in the max-product, on logarithms, c = max of (a + b). A gradient is the same kind of
table: the sum, or the maximum, over everything outside the table. Kernels of other files may call these functions, as
they may call elementary_kernels.py.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import inlined
from pgmest._base.elementary_kernels import largest_of, sum_of
from pgmest._base.row_kernels import maximum_on_rows, on_rows, sum_on_rows
from pgmest.inference.exact.contraction_columns import (
    AT,
    CELLS,
    COLUMN,
    COLUMNS,
    COMMON,
    FIRST,
    GRADIENT,
    INNER,
    KEPT,
    KEPT_INNER,
    KEPT_OUTER,
    MEASURED,
    N_IN,
    N_KEPT_INNER,
    N_KEPT_OUTER,
    N_OUT,
    N_STARTS,
    OTHER,
    OTHERS,
    OUTER,
    OWN,
    PIECES,
    ROWS,
    RUN,
    SHARED,
    STARTS,
    SUMMED,
)

MAX_PRODUCT = 0
"""The value of the argument `blas`, else the address of BLAS, that selects the max-product."""


@on_rows
def add_product(target, row, other):
    return {"target": target + row * other}


@sum_on_rows
def inner_product(row, other):
    return row * other


@on_rows
def raise_to_sum(target, row, other):
    return {"target": target.larger(row + other)}


@maximum_on_rows
def largest_sum(row, other):
    return row + other


@on_rows
def clear(row, value):
    return {"row": value}


@inlined
def _identity(blas):
    """Return the identity element of the sum, or of the maximum."""
    return -np.inf if blas == MAX_PRODUCT else 0.0


# -- products with a table of fewer axes -------------------------------------------------------------------------------


@on_rows
def _common_down(row, gradient, other, other_gradient, c):
    return {"gradient": c * other, "other_gradient": other_gradient + row * c}


@sum_on_rows
def _own_down(row, gradient, other, c):
    return {"gradient": c * other}, row * c


@on_rows
def _common_down_max(row, gradient, other, other_gradient, c):
    return {"gradient": c + other, "other_gradient": other_gradient.larger(row + c)}


@maximum_on_rows
def _own_down_max(row, gradient, other, c):
    return {"gradient": c + other}, row + c


@inlined
def times_up(blas, step, sides, maps, mu, work):
    """Multiply a table by another with some of its axes, row by row, summed over the axes that are not kept.

    The max-product uses this for WEIGHT steps, too; only these have rows that are summed out whole (ALONE).
    """
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    a, b = mu if table[MEASURED] else work, mu if other[MEASURED] else work
    n, kind = step[N_IN], step[INNER]
    clear(work[made[AT] : made[AT] + made[CELLS]], _identity(blas))
    for i in range(step[N_OUT]):
        row = a[table[AT] + i * n : table[AT] + (i + 1) * n]
        place, start = made[AT] + maps[step[OUTER] + i], other[AT] + maps[step[OTHER] + i]
        same, cells = work[place : place + n], b[start : start + n]
        if blas == MAX_PRODUCT:
            if kind == SHARED:
                work[place] = max(work[place], largest_sum(row, cells))
            elif kind == OWN:
                raise_to_sum(same, row, b[start])
            elif kind == COMMON:
                raise_to_sum(same, row, cells)
            else:
                work[place] = max(work[place], largest_of(row) + b[start])
        elif kind == SHARED:
            work[place] += inner_product(row, cells)
        elif kind == OWN:
            add_product(same, row, b[start])
        else:
            add_product(same, row, cells)


@inlined
def times_down(blas, step, sides, maps, mu, work):
    """Compute the gradients of both factors of `times_up` in one pass over the table."""
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    a, b = mu if table[MEASURED] else work, mu if other[MEASURED] else work
    n, kind = step[N_IN], step[INNER]
    clear(work[other[GRADIENT] : other[GRADIENT] + other[CELLS]], _identity(blas))
    for i in range(step[N_OUT]):
        row = a[table[AT] + i * n : table[AT] + (i + 1) * n]
        gradient = work[table[GRADIENT] + i * n : table[GRADIENT] + (i + 1) * n]
        place, there = made[GRADIENT] + maps[step[OUTER] + i], maps[step[OTHER] + i]
        start, back = other[AT] + there, other[GRADIENT] + there
        c, cells, its_gradient = work[place : place + n], b[start : start + n], work[back : back + n]
        if blas == MAX_PRODUCT:
            if kind == SHARED:
                _common_down_max(row, gradient, cells, its_gradient, work[place])
            elif kind == OWN:
                work[back] = max(work[back], _own_down_max(row, gradient, b[start], c))
            else:
                _common_down_max(row, gradient, cells, its_gradient, c)
        elif kind == SHARED:
            _common_down(row, gradient, cells, its_gradient, work[place])
        elif kind == OWN:
            work[back] += _own_down(row, gradient, b[start], c)
        else:
            _common_down(row, gradient, cells, its_gradient, c)


# -- small products and transpositions ---------------------------------------------------------------------------------


@inlined
def _read(table, start, maps, inner, row):
    """Copy cells of a table, consecutive if `inner` is -1, into a row."""
    if inner < 0:
        cells = table[start : start + row.size]
        for j in range(row.size):
            row[j] = cells[j]
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            row[j] = table[start + places[j]]


@inlined
def _write(row, maps, inner, start, table):
    """Copy a row to cells of a table, consecutive if `inner` is -1."""
    if inner < 0:
        cells = table[start : start + row.size]
        for j in range(row.size):
            cells[j] = row[j]
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            table[start + places[j]] = row[j]


@inlined
def _read_pieces(side, maps, i, table, work, piece):
    """Copy one block of kept cells of a factor to `piece`, a row for each group of its other cells.

    The products then work on contiguous rows, whatever the layout of the factor.
    """
    start, n = side[AT] + maps[side[KEPT_OUTER] + i], side[N_KEPT_INNER]
    for g in range(side[N_STARTS]):
        row = work[piece + g * n : piece + (g + 1) * n]
        _read(table, start + maps[side[STARTS] + g], maps, side[KEPT_INNER], row)


@inlined
def _write_pieces(side, maps, i, work, piece):
    """Copy the rows at `piece` to the gradient of a factor."""
    start, n = side[GRADIENT] + maps[side[KEPT_OUTER] + i], side[N_KEPT_INNER]
    for g in range(side[N_STARTS]):
        row = work[piece + g * n : piece + (g + 1) * n]
        _write(row, maps, side[KEPT_INNER], start + maps[side[STARTS] + g], work)


@inlined
def small_up(blas, step, sides, maps, mu, work):
    """Multiply two tables and sum over few cells, with vector operations along the kept cells."""
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b, identity = left[PIECES], right[PIECES], _identity(blas)
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        for r in range(step[ROWS]):
            for c in range(columns):
                start = made[AT] + (r * columns + c) * kept + i * n
                row = work[start : start + n]
                clear(row, identity)
                for s in range(summed):
                    one, other = a + (r * summed + s) * n, b + (s * columns + c) * n
                    if blas == MAX_PRODUCT:
                        raise_to_sum(row, work[one : one + n], work[other : other + n])
                    else:
                        add_product(row, work[one : one + n], work[other : other + n])


@inlined
def small_down(blas, step, sides, maps, mu, work):
    """Compute the gradients of both factors of `small_up`."""
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b, a_size, b_size = left[PIECES], right[PIECES], left[N_STARTS] * n, right[N_STARTS] * n
    identity = _identity(blas)
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        clear(work[a + a_size : a + 2 * a_size], identity)
        clear(work[b + b_size : b + 2 * b_size], identity)
        for r in range(step[ROWS]):
            for c in range(columns):
                start = made[GRADIENT] + (r * columns + c) * kept + i * n
                row = work[start : start + n]
                for s in range(summed):
                    one, other = a + (r * summed + s) * n, b + (s * columns + c) * n
                    of_one, of_other = one + a_size, other + b_size
                    if blas == MAX_PRODUCT:
                        raise_to_sum(work[of_one : of_one + n], row, work[other : other + n])
                        raise_to_sum(work[of_other : of_other + n], row, work[one : one + n])
                    else:
                        add_product(work[of_one : of_one + n], row, work[other : other + n])
                        add_product(work[of_other : of_other + n], row, work[one : one + n])
        _write_pieces(left, maps, i, work, a + a_size)
        _write_pieces(right, maps, i, work, b + b_size)


@inlined
def pack_up(blas, step, sides, maps, mu, work):
    """Sum a table over some axes and write the others in another order."""
    source, made = sides[step[FIRST]], sides[step[FIRST] + 1]
    table, n, run = mu if source[MEASURED] else work, step[N_IN], step[RUN]
    for i in range(step[N_OUT]):
        start = source[AT] + maps[step[OUTER] + i]
        row = work[made[AT] + i * n : made[AT] + (i + 1) * n]
        if step[OTHERS] == 1 and run == 1:
            _read(table, start, maps, step[COLUMN], row)
            continue
        clear(row, _identity(blas))
        for k in range(step[OTHERS]):
            first = start + maps[step[OTHER] + k]
            for j in range(n):
                place = first + (maps[step[COLUMN] + j] if step[COLUMN] >= 0 else j)
                if blas == MAX_PRODUCT:
                    row[j] = max(row[j], largest_of(table[place : place + run]))
                else:
                    row[j] += sum_of(table[place : place + run]) if run > 1 else table[place]


@inlined
def pack_down(step, sides, maps, work):
    """Copy the gradient of the result of `pack_up` to every cell of the source that contributed to it."""
    source, made = sides[step[FIRST]], sides[step[FIRST] + 1]
    n, run = step[N_IN], step[RUN]
    for i in range(step[N_OUT]):
        start = source[GRADIENT] + maps[step[OUTER] + i]
        row = work[made[GRADIENT] + i * n : made[GRADIENT] + (i + 1) * n]
        for k in range(step[OTHERS]):
            first = start + maps[step[OTHER] + k]
            if run == 1:
                _write(row, maps, step[COLUMN], first, work)
                continue
            for j in range(n):
                place = first + (maps[step[COLUMN] + j] if step[COLUMN] >= 0 else j)
                cells = work[place : place + run]
                for one in range(run):
                    cells[one] = row[j]
