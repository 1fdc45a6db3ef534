"""What kernels of contractions call for products of matrices: by BLAS, or of the max-product, shared between threads.

As elementary_kernels.py, a file that kernels of others may call.
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
"""Rows of so many cells are worth a call each."""


@on_rows
def _raise_to_four(target, one, two, three, four, a, b, c, d):
    return {"target": target.larger((one + a).larger(two + b)).larger((three + c).larger(four + d))}


@inlined
def _share(units, part, parts):
    """The first and last of the units that one of some parts gets."""
    return units * part // parts, units * (part + 1) // parts


@inlined
def _multiply_part(
    blas, begin, some, rows, summed, columns,
    a, a_start, a_step, a_turned, b, b_start, b_step, b_turned, c, c_start, c_step,
):  # fmt: skip
    """Some of the rows of c = a b, or of its columns where these are more: then less is read for each part."""
    if columns > rows:
        b_start, c_start, columns = b_start + begin * (b_step if b_turned else 1), c_start + begin, some
    else:
        a_start, c_start, rows = a_start + begin * (1 if a_turned else a_step), c_start + begin * c_step, some
    _multiply(
        blas, rows, summed, columns, a, a_start, a_step, a_turned, b, b_start, b_step, b_turned, c, c_start, c_step
    )


@inlined
def _multiply(
    blas, rows, summed, columns, a, a_start, a_step, a_turned, b, b_start, b_step, b_turned, c, c_start, c_step
):
    """As `multiply_matrices`, or the same with the maximum for the sum and the sum for the product."""
    if blas != MAX_PRODUCT:
        multiply_matrices(
            blas, rows, summed, columns,
            a, a_start, a_step, a_turned, b, b_start, b_step, b_turned, c, c_start, c_step,
        )  # fmt: skip
    elif not b_turned:
        _raise_rows(rows, summed, columns, a, a_start, a_step, a_turned, b, b_start, b_step, c, c_start, c_step)
    else:
        down, across = (1, a_step) if a_turned else (a_step, 1)
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
def _raise_rows(rows, summed, columns, a, a_start, a_step, a_turned, b, b_start, b_step, c, c_start, c_step):
    """c = the maximum over s of a(r, s) + b(s, j): four rows of b at a time."""
    down, across = (1, a_step) if a_turned else (a_step, 1)
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
    for gradient_of in range(2):
        _gradient_of_factor(blas, step, sides, maps, mu, work, gradient_of, part, parts)


@inlined
def _gradient_of_factor(blas, step, sides, maps, mu, work, number, part, parts):
    """Of a it is c b^T, or b c^T where a lies transposed; of b it is a^T c, or c^T a."""
    own, other, made = sides[step[FIRST] + number], sides[step[FIRST] + 1 - number], sides[step[FIRST] + 2]
    rows, summed, columns = step[ROWS], step[SUMMED], step[COLUMNS]
    table, size = mu if other[MEASURED] else work, rows * columns
    ends, inner = (columns, rows) if number else (rows, columns)
    gradient_first = number == own[TRANSPOSED]
    over, under = (ends, summed) if gradient_first else (summed, ends)  # of the gradient as it lies
    lines = max(over, under)
    begin, end = _share(step[KEPT] * lines, part, parts)
    while begin < end:
        k, some = begin // lines, min(lines - begin % lines, end - begin)
        start, gradient = other[AT] + maps[other[STARTS] + k], made[GRADIENT] + k * size
        target = own[GRADIENT] + maps[own[STARTS] + k]
        if gradient_first:  # c b^T or c^T a
            first, first_at, first_step, first_turned = work, gradient, columns, number
            second, second_at, second_step = table, start, other[STRIDE]
            second_turned = other[TRANSPOSED] ^ (1 - number)
        else:  # b c^T or a^T c
            first, first_at, first_step, first_turned = table, start, other[STRIDE], other[TRANSPOSED] ^ number
            second, second_at, second_step, second_turned = work, gradient, columns, 1 - number
        _multiply_part(
            blas, begin % lines, some, over, inner, under,
            first, first_at, first_step, first_turned, second, second_at, second_step, second_turned,
            work, target, own[STRIDE],
        )  # fmt: skip
        begin += some


@inlined
def matrices_together(blas, steps, sides, maps, i, down, mu, work, team):
    """Step i on the way up or down, in parts that helpers take, too, where it is worth it."""
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
    """What helpers do until they are to leave."""
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
