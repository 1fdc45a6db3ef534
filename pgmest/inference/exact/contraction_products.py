"""What kernels of contractions call for steps that make a table of two others, or of one in another order.

In the sum-product c = sum of a b, in the max-product c = max of (a + b), of logarithms. Gradients are of the same kind:
what is best, or the sum of all, outside. As elementary_kernels.py, a file that kernels of others may call.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.blas_kernels import multiply_matrices
from pgmest._base.compiled import inlined
from pgmest._base.elementary_kernels import largest_of, sum_of
from pgmest._base.row_kernels import maximum_on_rows, on_rows
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
    COLUMN,
    COLUMNS,
    FIRST,
    GRADIENT,
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
    PIECES,
    ROWS,
    RUN,
    STARTS,
    STRIDE,
    SUMMED,
    TRANSPOSED,
)

MAX_PRODUCT = 0
"""In place of the address of BLAS: the max-product is asked for."""


@on_rows
def add_product(target, row, other):
    return {"target": target + row * other}


@on_rows
def raise_to_sum(target, row, other):
    return {"target": target.larger(row + other)}


@maximum_on_rows
def largest_sum(row, other):
    return row + other


@on_rows
def clear(row, value):
    return {"row": value}


@on_rows
def _raise_to_four(target, one, two, three, four, a, b, c, d):
    return {"target": target.larger((one + a).larger(two + b)).larger((three + c).larger(four + d))}


# -- matrix products ----------------------------------------------------------------------------------------------


@inlined
def _share(units, part, parts):
    """The first and last of the units that one of some parts gets."""
    return units * part // parts, units * (part + 1) // parts


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
        for r in range(rows):
            for j in range(columns):
                other = b[b_start + j * b_step : b_start + j * b_step + summed]
                if a_turned:
                    largest = -np.inf
                    for s in range(summed):
                        largest = max(largest, a[a_start + s * a_step + r] + other[s])
                else:
                    largest = largest_sum(a[a_start + r * a_step : a_start + r * a_step + summed], other)
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
    begin, end = _share(step[KEPT] * rows, part, parts)
    while begin < end:
        k, r = begin // rows, begin % rows
        some = min(rows - r, end - begin)
        turned = left[TRANSPOSED]
        start = left[AT] + maps[left[STARTS] + k] + (r if turned else r * left[STRIDE])
        other = right[AT] + maps[right[STARTS] + k]
        _multiply(
            blas, some, summed, columns,
            a, start, left[STRIDE], turned, b, other, right[STRIDE], right[TRANSPOSED],
            work, made[AT] + begin * columns, columns,
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
    lines, across = (ends, summed) if gradient_first else (summed, ends)  # of the gradient as it lies
    begin, end = _share(step[KEPT] * lines, part, parts)
    while begin < end:
        k, r = begin // lines, begin % lines
        some = min(lines - r, end - begin)
        start = other[AT] + maps[other[STARTS] + k]
        gradient = made[GRADIENT] + k * size
        target = own[GRADIENT] + maps[own[STARTS] + k] + r * own[STRIDE]
        if gradient_first:  # c b^T or c^T a
            first, second = work, table
            first_at, first_step, first_turned = gradient + (r if number else r * columns), columns, number
            second_at, second_step, second_turned = start, other[STRIDE], other[TRANSPOSED] ^ (1 - number)
        else:  # b c^T or a^T c
            first, second = table, work
            first_turned = other[TRANSPOSED] ^ number
            first_at = start + (r if first_turned else r * other[STRIDE])
            first_step = other[STRIDE]
            second_at, second_step, second_turned = gradient, columns, 1 - number
        _multiply(
            blas, some, inner, across,
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


# -- small products and other orders -----------------------------------------------------------------------------------


@inlined
def _nothing(blas):
    """What a sum, or a maximum, begins with."""
    return -np.inf if blas == MAX_PRODUCT else 0.0


@inlined
def _read(table, start, maps, inner, row):
    """Some cells of a table, consecutive where `inner` is -1, into a row."""
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
    """Some kept cells of each group of a factor's cells, a row each."""
    start, n = side[AT] + maps[side[KEPT_OUTER] + i], side[N_KEPT_INNER]
    for g in range(side[N_STARTS]):
        row = work[piece + g * n : piece + (g + 1) * n]
        _read(table, start + maps[side[STARTS] + g], maps, side[KEPT_INNER], row)


@inlined
def _write_pieces(side, maps, i, work, piece):
    start, n = side[GRADIENT] + maps[side[KEPT_OUTER] + i], side[N_KEPT_INNER]
    for g in range(side[N_STARTS]):
        row = work[piece + g * n : piece + (g + 1) * n]
        _write(row, maps, side[KEPT_INNER], start + maps[side[STARTS] + g], work)


@inlined
def small_up(blas, step, sides, maps, mu, work):
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b, nothing = left[PIECES], right[PIECES], _nothing(blas)
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        for r in range(step[ROWS]):
            for c in range(columns):
                start = made[AT] + (r * columns + c) * kept + i * n
                row = work[start : start + n]
                clear(row, nothing)
                for s in range(summed):
                    one, other = a + (r * summed + s) * n, b + (s * columns + c) * n
                    if blas == MAX_PRODUCT:
                        raise_to_sum(row, work[one : one + n], work[other : other + n])
                    else:
                        add_product(row, work[one : one + n], work[other : other + n])


@inlined
def small_down(blas, step, sides, maps, mu, work):
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b, a_size, b_size = left[PIECES], right[PIECES], left[N_STARTS] * n, right[N_STARTS] * n
    nothing = _nothing(blas)
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        clear(work[a + a_size : a + 2 * a_size], nothing)
        clear(work[b + b_size : b + 2 * b_size], nothing)
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
    source, made = sides[step[FIRST]], sides[step[FIRST] + 1]
    table, n, run = mu if source[MEASURED] else work, step[N_IN], step[RUN]
    for i in range(step[N_OUT]):
        start = source[AT] + maps[step[OUTER] + i]
        row = work[made[AT] + i * n : made[AT] + (i + 1) * n]
        if step[OTHERS] == 1 and run == 1:
            _read(table, start, maps, step[COLUMN], row)
            continue
        clear(row, _nothing(blas))
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
