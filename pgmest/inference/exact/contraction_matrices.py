"""Matrix products of contractions, by BLAS or in the max-product, divided between threads.

Kernels of other files may call these functions, as they may call elementary_kernels.py.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.blas_kernels import multiply_matrices
from pgmest._base.compiled import inlined
from pgmest._base.row_kernels import on_rows
from pgmest._base.team_kernels import (
    PARTS,
    TABLE,
    address_of,
    finish,
    offer,
    parts_of,
    table_at,
    take,
    wait_for_all,
    wait_for_work,
)
from pgmest.inference.exact.contraction_columns import (
    AT,
    COLUMNS,
    FIRST,
    GRADIENT,
    KEPT,
    MEASURED,
    ROWS,
    STARTS,
    STRIDE,
    SUMMED,
    TRANSPOSED,
)
from pgmest.inference.exact.contraction_products import MAX_PRODUCT, clear, largest_sum, raise_to_sum

LONG_ROW = 8
"""The least length of a row for which a vector operation per row pays off."""


@on_rows
def _raise_to_four(target, one, two, three, four, a, b, c, d):
    return {"target": target.larger((one + a).larger(two + b)).larger((three + c).larger(four + d))}


@inlined
def _share(units, part, parts):
    """Return the range of units of one of several parts."""
    return units * part // parts, units * (part + 1) // parts


@inlined
def _multiply_part(
    blas, begin, some, rows, summed, columns,
    a, a_start, a_step, a_transposed, b, b_start, b_step, b_transposed, c, c_start, c_step,
):  # fmt: skip
    """Compute some of the rows of c = a b, or some of its columns if there are more columns than rows.

    Dividing the longer side means that each part reads less of the undivided factor.
    """
    if columns > rows:
        b_start, c_start, columns = b_start + begin * (b_step if b_transposed else 1), c_start + begin, some
    else:
        a_start, c_start, rows = a_start + begin * (1 if a_transposed else a_step), c_start + begin * c_step, some
    _multiply(
        blas, rows, summed, columns,
        a, a_start, a_step, a_transposed, b, b_start, b_step, b_transposed, c, c_start, c_step,
    )  # fmt: skip


@inlined
def _multiply(
    blas, rows, summed, columns, a, a_start, a_step, a_transposed, b, b_start, b_step, b_transposed, c, c_start, c_step
):
    """Compute c = a b by BLAS; in the max-product, c(r, j) is the maximum over s of a(r, s) + b(s, j)."""
    if blas != MAX_PRODUCT:
        multiply_matrices(
            blas, rows, summed, columns,
            a, a_start, a_step, a_transposed, b, b_start, b_step, b_transposed, c, c_start, c_step,
        )  # fmt: skip
    elif not b_transposed:
        _raise_rows(rows, summed, columns, a, a_start, a_step, a_transposed, b, b_start, b_step, c, c_start, c_step)
    else:
        down, across = (1, a_step) if a_transposed else (a_step, 1)
        for r in range(rows):
            for j in range(columns):
                one, other = a_start + r * down, b_start + j * b_step
                if across == 1 and summed >= LONG_ROW:
                    c[c_start + r * c_step + j] = largest_sum(a[one : one + summed], b[other : other + summed])
                    continue
                largest = -np.inf
                for s in range(summed):
                    largest = max(largest, a[one + s * across] + b[other + s])
                c[c_start + r * c_step + j] = largest


@inlined
def _raise_rows(rows, summed, columns, a, a_start, a_step, a_transposed, b, b_start, b_step, c, c_start, c_step):
    """Set c to the maximum over s of a(r, s) + b(s, j).

    Four rows of b are combined at a time, so that each row of c is read and written a quarter as often.
    """
    down, across = (1, a_step) if a_transposed else (a_step, 1)
    for r in range(rows):
        row = c[c_start + r * c_step : c_start + r * c_step + columns]
        clear(row, -np.inf)
        cell, s = a_start + r * down, 0
        while s + 4 <= summed:
            at = b_start + s * b_step
            _raise_to_four(
                row, b[at : at + columns], b[at + b_step : at + b_step + columns],
                b[at + 2 * b_step : at + 2 * b_step + columns], b[at + 3 * b_step : at + 3 * b_step + columns],
                a[cell], a[cell + across], a[cell + 2 * across], a[cell + 3 * across],
            )  # fmt: skip
            cell, s = cell + 4 * across, s + 4
        while s < summed:
            at = b_start + s * b_step
            raise_to_sum(row, b[at : at + columns], a[cell])
            cell, s = cell + across, s + 1


@inlined
def matrices_up(blas, step, sides, maps, mu, work, part, parts):
    """Compute one part of the matrix products of a step, one product for each kept cell."""
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    a, b = mu if left[MEASURED] else work, mu if right[MEASURED] else work
    rows, summed, columns = step[ROWS], step[SUMMED], step[COLUMNS]
    lines = max(rows, columns)
    begin, end = _share(step[KEPT] * lines, part, parts)
    while begin < end:
        k, some = begin // lines, min(lines - begin % lines, end - begin)
        _multiply_part(
            blas, begin % lines, some, rows, summed, columns,
            a, left[AT] + maps[left[STARTS] + k], left[STRIDE], left[TRANSPOSED],
            b, right[AT] + maps[right[STARTS] + k], right[STRIDE], right[TRANSPOSED],
            work, made[AT] + k * rows * columns, columns,
        )  # fmt: skip
        begin += some


@inlined
def matrices_down(blas, step, sides, maps, mu, work, part, parts):
    """Compute one part of the gradients of both factors of a step."""
    for gradient_of in range(2):
        _gradient_of_factor(blas, step, sides, maps, mu, work, gradient_of, part, parts)


@inlined
def _gradient_of_factor(blas, step, sides, maps, mu, work, number, part, parts):
    """Compute the gradient of factor a (number 0), which is c b^T, or of factor b (number 1), which is a^T c.

    A gradient has the layout of its factor. So for a transposed factor it is the transpose: b c^T, or c^T a.
    """
    own, other, made = sides[step[FIRST] + number], sides[step[FIRST] + 1 - number], sides[step[FIRST] + 2]
    rows, summed, columns = step[ROWS], step[SUMMED], step[COLUMNS]
    table, size = mu if other[MEASURED] else work, rows * columns
    ends, inner = (columns, rows) if number else (rows, columns)
    gradient_first = number == own[TRANSPOSED]
    over, under = (ends, summed) if gradient_first else (summed, ends)  # rows and columns of the gradient in memory
    lines = max(over, under)
    begin, end = _share(step[KEPT] * lines, part, parts)
    while begin < end:
        k, some = begin // lines, min(lines - begin % lines, end - begin)
        start, gradient = other[AT] + maps[other[STARTS] + k], made[GRADIENT] + k * size
        target = own[GRADIENT] + maps[own[STARTS] + k]
        if gradient_first:  # c b^T or c^T a
            first, first_at, first_step, first_transposed = work, gradient, columns, number
            second, second_at, second_step = table, start, other[STRIDE]
            second_transposed = other[TRANSPOSED] ^ (1 - number)
        else:  # b c^T or a^T c
            first, first_at, first_step, first_transposed = table, start, other[STRIDE], other[TRANSPOSED] ^ number
            second, second_at, second_step, second_transposed = work, gradient, columns, 1 - number
        _multiply_part(
            blas, begin % lines, some, over, inner, under,
            first, first_at, first_step, first_transposed, second, second_at, second_step, second_transposed,
            work, target, own[STRIDE],
        )  # fmt: skip
        begin += some


@inlined
def matrices_together(blas, steps, sides, maps, i, down, mu, work, team):
    """Run step i of the upward or downward sweep; helper threads take parts of a large step."""
    step = steps[i]
    parts = parts_of(team, step[ROWS] * step[SUMMED] * step[COLUMNS] * step[KEPT])
    if parts < 2:
        _matrices(blas, step, sides, maps, down, mu, work, 0, 1)
        return
    offer(team, 2 * i + down, parts, address_of(mu))
    part = take(team)
    while part >= 0:
        _matrices(blas, step, sides, maps, down, mu, work, part, parts)
        finish(team)
        part = take(team)
    wait_for_all(team)


@inlined
def help_with_matrices(blas, steps, sides, maps, work, team):
    """Run parts of matrix products that another thread offers, until the team ends."""
    offered, part = wait_for_work(team)
    while part >= 0:
        mu = table_at(team[TABLE], work)
        _matrices(blas, steps[offered >> 1], sides, maps, offered & 1, mu, work, part, team[PARTS])
        finish(team)
        offered, part = wait_for_work(team)


@inlined
def _matrices(blas, step, sides, maps, down, mu, work, part, parts):
    if down:
        matrices_down(blas, step, sides, maps, mu, work, part, parts)
    else:
        matrices_up(blas, step, sides, maps, mu, work, part, parts)
