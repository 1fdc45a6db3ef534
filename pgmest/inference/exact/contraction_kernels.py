"""The compiled kernels of both sweeps by contraction (contracted_sweeps.py), which run a list of steps.

A step is a row of numbers (contraction_columns.py), and so is each of its tables. The tables of measured cliques lie in
the output `mu`, which first holds exp(potential - maximum) and in the end the marginals. All other tables, and all
gradients, lie in one workspace. Index maps, ranges of one array of integers, give the offsets of cells.

The kinds of steps, where c is the gradient of the result of a step in the downward sweep:

    POTENTIAL         a = exp(potential - maximum)               marginal = a c, scaled
    WEIGHT            r = sum of exp(potential - maximum) b      marginal = a b c, scaled; gradient of b: sum of a c,
                                                                 unless b is the constant 1
    MATRICES, SMALL   r = sum of a b                             gradients: sum of b c, sum of a c
    TIMES             r = sum of a b, b of axes of a             gradients: b c, sum of a c
    PACK              r = sum of a, in another order             gradient: c, in the order of a, repeated
    SCALE_BY_MAXIMUM  r = r / max r; the log is kept             c = c / max c

Chains and trees consist almost entirely of WEIGHT steps, which never materialize the product or its gradient.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import exp_of, largest_of, sum_of
from pgmest._base.row_kernels import fetch, on_rows, sum_on_rows
from pgmest.inference.exact.contraction_columns import (
    AT,
    CELLS,
    COMMON,
    FIRST,
    GRADIENT,
    INNER,
    KIND,
    MATRICES,
    MEASURED,
    N_IN,
    N_OUT,
    OTHER,
    OUTER,
    OWN,
    PACK,
    POTENTIAL,
    ROOT,
    SCALE,
    SHARED,
    SMALL,
    TIMES,
    WEIGHT,
)
from pgmest.inference.exact.contraction_matrices import help_with_matrices, matrices_together
from pgmest.inference.exact.contraction_products import (
    add_product,
    clear,
    inner_product,
    pack_down,
    pack_up,
    small_down,
    small_up,
    times_down,
    times_up,
)

LEAST, MOST = 1e-6, 1e6
"""The range of the maximum of a message or gradient of more than SHORT cells in which it is not rescaled."""

SHORT = 4096
"""The most cells of a message that is always rescaled: this costs almost nothing, and a clique may have hundreds of
messages, whose maxima multiply. For a longer message, the first SHORT cells are checked: if their maximum is in the
range above, the maximum of all cells is at least as large. It may be larger by the number of cells that are summed; a
result that overflows is refused in the end."""

FAR = 1 << 17
"""The number of measured cells from which they exceed the cache of a core. Then, with each row of a clique, the kernel
prefetches the same row of the next clique, which lies elsewhere in memory, where the processor does not expect it."""


# -- measured cliques -----------------------------------------------------------------------------------------------


@on_rows
def _exponentiate(theta, peak, row):
    return {"row": exp_of(theta - peak)}


@on_rows
def _multiply(row, weight):
    return {"row": row * weight}


@inlined
def _next_table(steps, sides, i, end, by, mu):
    """Return the start of the next measured table after step i in this direction, -1 if no prefetch is needed."""
    if mu.size < FAR:
        return -1
    k = i + by
    while k != end:
        if steps[k, KIND] == POTENTIAL or steps[k, KIND] == WEIGHT:
            return sides[steps[k, FIRST], AT]
        k += by
    return -1


@inlined
def _potential_up(side, theta, mu):
    """Write exp(potential - maximum) of a measured clique to `mu` and return the maximum."""
    begin, end = side[AT], side[AT] + side[CELLS]
    peak = largest_of(theta[begin:end])
    if math.isfinite(peak):
        _exponentiate(theta[begin:end], peak, mu[begin:end])
    return peak


@inlined
def _potential_down(side, mu, work, total, smallest):
    """Compute the marginal of a clique; return False if its sum is too small to be accurate."""
    row = mu[side[AT] : side[AT] + side[CELLS]]
    if side[GRADIENT] >= 0:
        gradient = work[side[GRADIENT] : side[GRADIENT] + side[CELLS]]
        _multiply(row, gradient)
    mass = sum_of(row)
    if not smallest < mass < math.inf:
        return False
    _multiply(row, row.dtype.type(total / mass))
    return True


@inlined
def _weight_up(step, sides, maps, theta, mu, work, ahead):
    """Multiply a measured table by the second factor and sum, row by row, without a table of the product."""
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    b, n, kind = mu if other[MEASURED] else work, step[N_IN], step[INNER]
    clear(work[made[AT] : made[AT] + made[CELLS]], 0.0)
    for i in range(step[N_OUT]):
        if ahead >= 0:
            fetch(theta, ahead + i * n)
            fetch(mu, ahead + i * n)
        row = mu[table[AT] + i * n : table[AT] + (i + 1) * n]
        place, start = made[AT] + maps[step[OUTER] + i], other[AT] + maps[step[OTHER] + i]
        if kind == SHARED:
            work[place] += inner_product(row, b[start : start + n])
        elif kind == OWN:
            add_product(work[place : place + n], row, b[start])
        elif kind == COMMON:
            add_product(work[place : place + n], row, b[start : start + n])
        else:
            work[place] += sum_of(row) * b[start]


@on_rows
def _multiply_row(row, c, weight):
    return {"row": row * (c * weight)}


@on_rows
def _inner_down(row, b, gradient, c, factor):
    weighed = row * c
    return {"row": weighed * (b * factor), "gradient": gradient + weighed}


@sum_on_rows
def _own_down(row, c, weight):
    weighed = row * c
    return {"row": weighed * weight}, weighed


@inlined
def _weight_down(step, sides, maps, mu, work, scales, total, smallest, ahead):
    """Compute the marginal, and the gradient of the second factor, in one pass; return False as `_potential_down`.

    The sum of the marginal is the inner product of the result and its gradient, so that it is known before the pass and
    the marginal is scaled as it is written.
    """
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    b, n, kind = mu if other[MEASURED] else work, step[N_IN], step[INNER]
    made_end, gradient_end = made[AT] + made[CELLS], made[GRADIENT] + made[CELLS]
    mass = inner_product(work[made[AT] : made_end], work[made[GRADIENT] : gradient_end])
    if step[SCALE] >= 0:  # the result was divided by its scale after this step
        mass *= scales[step[SCALE]]
    if not smallest < mass < math.inf:
        return False
    factor, constant = mu.dtype.type(total / mass), other[GRADIENT] < 0
    if not constant:
        clear(work[other[GRADIENT] : other[GRADIENT] + other[CELLS]], 0.0)
    for i in range(step[N_OUT]):
        if ahead >= 0:
            fetch(mu, ahead + i * n)
        row = mu[table[AT] + i * n : table[AT] + (i + 1) * n]
        place, there = made[GRADIENT] + maps[step[OUTER] + i], maps[step[OTHER] + i]
        start, back = other[AT] + there, other[GRADIENT] + there
        if constant and kind == OWN:
            _multiply_row(row, work[place : place + n], factor)
        elif constant:
            _multiply(row, work[place] * factor)
        elif kind == SHARED:
            _inner_down(row, b[start : start + n], work[back : back + n], work[place], factor)
        elif kind == COMMON:
            _inner_down(row, b[start : start + n], work[back : back + n], work[place : place + n], factor)
        elif kind == OWN:
            work[back] += _own_down(row, work[place : place + n], b[start] * factor)
        else:
            work[back] += sum_of(row) * work[place]
            _multiply(row, work[place] * b[start] * factor)
    return True


@inlined
def _scale(row, smallest):
    """Divide a row by its maximum if that is far from 1; return the divisor, 0 if the row is not accurate."""
    if row.size > SHORT and LEAST < largest_of(row[:SHORT]) < MOST:
        return 1.0
    largest = largest_of(row)
    if not smallest < largest < math.inf:
        return 0.0
    if row.size > SHORT and LEAST < largest < MOST:
        return 1.0
    _multiply(row, row.dtype.type(1.0 / largest))
    return np.float64(largest)


# -- sweeps -----------------------------------------------------------------------------------------------------------


@compiled
def upward(blas, steps, sides, maps, low, high, theta, mu, work, scales, smallest, team):
    """Run steps low, ..., high - 1; return the log of the product of all scales, NaN on overflow or underflow."""
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
                _weight_up(step, sides, maps, theta, mu, work, _next_table(steps, sides, i, high, 1, mu))
        elif kind == SMALL:
            small_up(blas, step, sides, maps, mu, work)
        elif kind == TIMES:
            times_up(blas, step, sides, maps, mu, work)
        elif kind == MATRICES:
            matrices_together(blas, steps, sides, maps, i, 0, mu, work, team)
        elif kind == PACK:
            pack_up(blas, step, sides, maps, mu, work)
        else:
            divided = _scale(work[side[AT] : side[AT] + side[CELLS]], smallest)
            if divided == 0.0:
                return math.nan
            scales[step[SCALE]] = divided
            if divided != 1.0:
                log_scale += math.log(divided)
    return log_scale


@compiled
def downward(blas, steps, sides, maps, low, high, mu, work, scales, smallest, total, team):
    """Run steps high - 1, ..., low backwards; return False on overflow or underflow."""
    for i in range(high - 1, low - 1, -1):
        step = steps[i]
        kind, side = step[KIND], sides[step[FIRST]]
        if kind == POTENTIAL:
            if not _potential_down(side, mu, work, total, smallest):
                return False
        elif kind == WEIGHT:
            ahead = _next_table(steps, sides, i, low - 1, -1, mu)
            if not _weight_down(step, sides, maps, mu, work, scales, total, smallest, ahead):
                return False
        elif kind == SMALL:
            small_down(blas, step, sides, maps, mu, work)
        elif kind == TIMES:
            times_down(blas, step, sides, maps, mu, work)
        elif kind == MATRICES:
            matrices_together(blas, steps, sides, maps, i, 1, mu, work, team)
        elif kind == PACK:
            pack_down(step, sides, maps, work)
        elif step[ROOT]:  # the derivative of a root with respect to its own sum
            work[side[GRADIENT]] = 1.0
        elif _scale(work[side[GRADIENT] : side[GRADIENT] + side[CELLS]], smallest) == 0.0:
            return False
    return True


@compiled
def both_sweeps(blas, steps, sides, maps, theta, mu, work, scales, smallest, total, team):
    """Run both sweeps over all steps; return the result of `upward`, or NaN if `downward` returns False."""
    found = upward(blas, steps, sides, maps, 0, len(steps), theta, mu, work, scales, smallest, team)
    if math.isnan(found):
        return found
    ended = downward(blas, steps, sides, maps, 0, len(steps), mu, work, scales, smallest, total, team)
    return found if ended else math.nan


@compiled
def assist(blas, steps, sides, maps, work, team):
    """Help another thread with its matrix products, in the sum-product or the max-product."""
    help_with_matrices(blas, steps, sides, maps, work, team)
