"""The compiled kernels of both sweeps by contraction (contracted_sweeps.py), which run a list of steps.

A step is a row of numbers (contraction_columns.py), and so is each of its tables. The tables of measured cliques lie
in the output, `mu`, which first holds exp(potential - maximum) and at last the marginals; all others, and all
gradients, in one workspace. Where cells lie is given by maps: entries of one array of integers.

The kinds of steps, c the gradient of what a step makes, as it comes back on the way down:

    POTENTIAL         a = exp(potential - maximum)               marginal = a c, scaled
    WEIGHT            r = sum of exp(potential - maximum) b      marginal = a b c, scaled; gradient of b: sum of a c
    MATRICES, SMALL   r = sum of a b                             gradients: sum of b c, sum of a c
    PACK              r = sum of a, in another order             gradient: c, in the order of a, repeated
    SCALE_BY_MAXIMUM  r = r / max r; the log is kept             c = c / max c

WEIGHT is nearly all there is in chains and trees: neither the product nor its gradient is ever a table of its own.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.blas_kernels import multiply_matrices
from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import exp, largest_of, sum_of
from pgmest._base.lanes import on_rows, sum_on_rows
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
    KIND,
    MATRICES,
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
    PACK,
    PIECES,
    POTENTIAL,
    ROOT,
    ROWS,
    RUN,
    SCALE,
    SHARED,
    SMALL,
    STARTS,
    STRIDE,
    SUMMED,
    TRANSPOSED,
    WEIGHT,
)

LEAST, MOST = 1e-6, 1e6
"""Messages and gradients with a maximum in this range are not rescaled, if they have more cells than SHORT."""

SHORT = 4096
"""Rescaling a message of up to this many cells costs nothing, and a clique may have hundreds of them, whose maxima
multiply."""


# -- matrix products ----------------------------------------------------------------------------------------------


@inlined
def _share(units, part, parts):
    """The first and last of the units that one of some parts gets."""
    return units * part // parts, units * (part + 1) // parts


@inlined
def _matrices_up(blas, step, sides, maps, mu, work, part, parts):
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
        multiply_matrices(
            blas, some, summed, columns,
            a, start, left[STRIDE], turned, b, other, right[STRIDE], right[TRANSPOSED],
            work, made[AT] + begin * columns, columns,
        )  # fmt: skip
        begin += some


@inlined
def _matrices_down(blas, step, sides, maps, mu, work, part, parts):
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
        multiply_matrices(
            blas, some, inner, across,
            first, first_at, first_step, first_turned, second, second_at, second_step, second_turned,
            work, target, own[STRIDE],
        )  # fmt: skip
        begin += some


# -- measured cliques -----------------------------------------------------------------------------------------------


@inlined
def _exponentiate(theta, peak, row):
    for j in range(row.size):
        row[j] = exp(theta[j] - peak)


@sum_on_rows
def _inner_product(row, other):
    return row * other


@on_rows
def _add_multiple(target, row, weight):
    return {"target": target + row * weight}


@on_rows
def _add_product(target, row, other):
    return {"target": target + row * other}


@on_rows
def _multiply(row, weight):
    return {"row": row * weight}


@on_rows
def _multiply_cells(row, other):
    return {"row": row * other}


@inlined
def _clear(row):
    for j in range(row.size):
        row[j] = 0.0


@inlined
def _potential_up(side, theta, mu):
    """Exponentiate; the maximum, which is what is left out."""
    begin, end = side[AT], side[AT] + side[CELLS]
    peak = largest_of(theta[begin:end])
    if math.isfinite(peak):
        _exponentiate(theta[begin:end], peak, mu[begin:end])
    return peak


@inlined
def _potential_down(side, mu, work, total, smallest):
    """Make the marginal; False where its sum has become too small to be trusted."""
    row = mu[side[AT] : side[AT] + side[CELLS]]
    if side[GRADIENT] >= 0:
        gradient = work[side[GRADIENT] : side[GRADIENT] + side[CELLS]]
        _multiply_cells(row, gradient)
    mass = sum_of(row)
    if not smallest < mass < math.inf:
        return False
    _multiply(row, row.dtype.type(total / mass))
    return True


@inlined
def _weight_up(step, sides, maps, mu, work):
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    b, n, kind = mu if other[MEASURED] else work, step[N_IN], step[INNER]
    _clear(work[made[AT] : made[AT] + made[CELLS]])
    for i in range(step[N_OUT]):
        row = mu[table[AT] + i * n : table[AT] + (i + 1) * n]
        place, start = made[AT] + maps[step[OUTER] + i], other[AT] + maps[step[OTHER] + i]
        if kind == SHARED:
            work[place] += _inner_product(row, b[start : start + n])
        elif kind == OWN:
            _add_multiple(work[place : place + n], row, b[start])
        elif kind == COMMON:
            _add_product(work[place : place + n], row, b[start : start + n])
        else:
            work[place] += sum_of(row) * b[start]


@on_rows
def _inner_down(row, b, gradient, c, factor):
    weighed = row * c
    return {"row": weighed * (b * factor), "gradient": gradient + weighed}


@sum_on_rows
def _own_down(row, c, weight):
    weighed = row * c
    return {"row": weighed * weight}, weighed


@inlined
def _weight_down(step, sides, maps, mu, work, scales, total, smallest):
    """Make the marginal, and the gradient of the second factor; False as for a potential."""
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    b, n, kind = mu if other[MEASURED] else work, step[N_IN], step[INNER]
    made_end, gradient_end = made[AT] + made[CELLS], made[GRADIENT] + made[CELLS]
    mass = _inner_product(work[made[AT] : made_end], work[made[GRADIENT] : gradient_end])
    if step[SCALE] >= 0:
        mass *= scales[step[SCALE]]
    if not smallest < mass < math.inf:
        return False
    factor = mu.dtype.type(total / mass)
    _clear(work[other[GRADIENT] : other[GRADIENT] + other[CELLS]])
    for i in range(step[N_OUT]):
        row = mu[table[AT] + i * n : table[AT] + (i + 1) * n]
        place, there = made[GRADIENT] + maps[step[OUTER] + i], maps[step[OTHER] + i]
        start, back = other[AT] + there, other[GRADIENT] + there
        if kind == SHARED:
            _inner_down(row, b[start : start + n], work[back : back + n], work[place], factor)
        elif kind == COMMON:
            _inner_down(row, b[start : start + n], work[back : back + n], work[place : place + n], factor)
        elif kind == OWN:
            work[back] += _own_down(row, work[place : place + n], b[start] * factor)
        else:
            work[back] += sum_of(row) * work[place]
            _multiply(row, work[place] * b[start] * factor)
    return True


# -- other tables -----------------------------------------------------------------------------------------------------


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
def _small_up(step, sides, maps, mu, work):
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b = left[PIECES], right[PIECES]
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        for r in range(step[ROWS]):
            for c in range(columns):
                start = made[AT] + (r * columns + c) * kept + i * n
                row = work[start : start + n]
                _clear(row)
                for s in range(summed):
                    one, other = a + (r * summed + s) * n, b + (s * columns + c) * n
                    _add_product(row, work[one : one + n], work[other : other + n])


@inlined
def _small_down(step, sides, maps, mu, work):
    left, right, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    columns, summed, kept, n = step[COLUMNS], step[SUMMED], step[KEPT], left[N_KEPT_INNER]
    a, b, a_size, b_size = left[PIECES], right[PIECES], left[N_STARTS] * n, right[N_STARTS] * n
    for i in range(left[N_KEPT_OUTER]):
        _read_pieces(left, maps, i, mu if left[MEASURED] else work, work, a)
        _read_pieces(right, maps, i, mu if right[MEASURED] else work, work, b)
        _clear(work[a + a_size : a + 2 * a_size])
        _clear(work[b + b_size : b + 2 * b_size])
        for r in range(step[ROWS]):
            for c in range(columns):
                start = made[GRADIENT] + (r * columns + c) * kept + i * n
                row = work[start : start + n]
                for s in range(summed):
                    one, other = a + (r * summed + s) * n, b + (s * columns + c) * n
                    of_one, of_other = one + a_size, other + b_size
                    _add_product(work[of_one : of_one + n], row, work[other : other + n])
                    _add_product(work[of_other : of_other + n], row, work[one : one + n])
        _write_pieces(left, maps, i, work, a + a_size)
        _write_pieces(right, maps, i, work, b + b_size)


@inlined
def _pack_up(step, sides, maps, mu, work):
    source, made = sides[step[FIRST]], sides[step[FIRST] + 1]
    table, n, run = mu if source[MEASURED] else work, step[N_IN], step[RUN]
    for i in range(step[N_OUT]):
        start = source[AT] + maps[step[OUTER] + i]
        row = work[made[AT] + i * n : made[AT] + (i + 1) * n]
        if step[OTHERS] == 1 and run == 1:
            _read(table, start, maps, step[COLUMN], row)
            continue
        _clear(row)
        for k in range(step[OTHERS]):
            first = start + maps[step[OTHER] + k]
            for j in range(n):
                place = first + (maps[step[COLUMN] + j] if step[COLUMN] >= 0 else j)
                row[j] += sum_of(table[place : place + run]) if run > 1 else table[place]


@inlined
def _pack_down(step, sides, maps, work):
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


@inlined
def _scale(row, smallest):
    """Divide by the maximum, if it is far from 1, and return what was divided by; 0 where it cannot be trusted."""
    largest = largest_of(row)
    if not smallest < largest < math.inf:
        return 0.0
    if row.size > SHORT and LEAST < largest < MOST:
        return 1.0
    _multiply(row, row.dtype.type(1.0 / largest))
    return np.float64(largest)


# -- sweeps -----------------------------------------------------------------------------------------------------------


@compiled
def upward(blas, steps, sides, maps, low, high, theta, mu, work, scales, smallest):
    """Run steps low, ..., high - 1; the log of what all was divided by, NaN where linear numbers cannot hold it."""
    log_scale = 0.0
    for i in range(low, high):
        step = steps[i]
        kind, side = step[KIND], sides[step[FIRST]]
        if kind in (POTENTIAL, WEIGHT):
            peak = _potential_up(side, theta, mu)
            if not math.isfinite(peak):
                return math.nan
            log_scale += peak
            if kind == WEIGHT:
                _weight_up(step, sides, maps, mu, work)
        elif kind == SMALL:
            _small_up(step, sides, maps, mu, work)
        elif kind == MATRICES:
            _matrices_up(blas, step, sides, maps, mu, work, 0, 1)
        elif kind == PACK:
            _pack_up(step, sides, maps, mu, work)
        else:
            divided = _scale(work[side[AT] : side[AT] + side[CELLS]], smallest)
            if divided == 0.0:
                return math.nan
            scales[step[SCALE]] = divided
            if divided != 1.0:
                log_scale += math.log(divided)
    return log_scale


@compiled
def downward(blas, steps, sides, maps, low, high, mu, work, scales, smallest, total):
    """Run steps high - 1, ..., low backwards; False where linear numbers cannot hold what it takes."""
    for i in range(high - 1, low - 1, -1):
        step = steps[i]
        kind, side = step[KIND], sides[step[FIRST]]
        if kind == POTENTIAL:
            if not _potential_down(side, mu, work, total, smallest):
                return False
        elif kind == WEIGHT:
            if not _weight_down(step, sides, maps, mu, work, scales, total, smallest):
                return False
        elif kind == SMALL:
            _small_down(step, sides, maps, mu, work)
        elif kind == MATRICES:
            _matrices_down(blas, step, sides, maps, mu, work, 0, 1)
        elif kind == PACK:
            _pack_down(step, sides, maps, work)
        elif step[ROOT]:
            work[side[GRADIENT]] = 1.0
        elif _scale(work[side[GRADIENT] : side[GRADIENT] + side[CELLS]], smallest) == 0.0:
            return False
    return True


@compiled
def matrices_upward(blas, steps, sides, maps, i, mu, work, part, parts):
    """One share of a step of matrix products; several threads run the shares."""
    _matrices_up(blas, steps[i], sides, maps, mu, work, part, parts)


@compiled
def matrices_downward(blas, steps, sides, maps, i, mu, work, part, parts):
    """One share of the gradients of such a step."""
    _matrices_down(blas, steps[i], sides, maps, mu, work, part, parts)
