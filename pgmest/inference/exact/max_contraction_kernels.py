"""The compiled kernels of the max-product by contraction: the steps of contraction_kernels.py on logarithms.

For each cell, a table holds the largest sum of the potentials below it, and its gradient the largest sum of all other
potentials. Potentials are read in place. Logarithms do not overflow, so nothing is scaled:

    POTENTIAL         a = potential                      max-marginal = a + c
    WEIGHT            r = max of (a + b)                 max-marginal = a + b + c; gradient of b: max of (a + c)
    MATRICES, SMALL   r = max of (a + b)                 gradients: max of (b + c), max of (a + c)
    PACK              r = max of a, in another order     gradient: c, in the order of a, repeated
    SCALE_BY_MAXIMUM  nothing; of a root: its value      of a root: c = the sum of the values of the other roots
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import largest_of
from pgmest._base.row_kernels import maximum_on_rows, on_rows
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
    SHARED,
    SMALL,
    TIMES,
    WEIGHT,
)
from pgmest.inference.exact.contraction_matrices import matrices_together
from pgmest.inference.exact.contraction_products import (
    MAX_PRODUCT,
    clear,
    pack_down,
    pack_up,
    small_down,
    small_up,
    times_down,
    times_up,
)


@on_rows
def _set_sum(row, one, other):
    return {"row": one + other}


@on_rows
def _inner_down(best, row, b, gradient, c):
    outside = row + c
    return {"best": outside + b, "gradient": gradient.larger(outside)}


@maximum_on_rows
def _own_down(best, row, c, b):
    outside = row + c
    return {"best": outside + b}, outside


@inlined
def _weight_down(step, sides, maps, theta, best, work):
    """Compute the max-marginal, and the gradient of the second factor, in one pass over the table."""
    table, other, made = sides[step[FIRST]], sides[step[FIRST] + 1], sides[step[FIRST] + 2]
    b, n, kind = theta if other[MEASURED] else work, step[N_IN], step[INNER]
    constant = other[GRADIENT] < 0
    if not constant:
        clear(work[other[GRADIENT] : other[GRADIENT] + other[CELLS]], -np.inf)
    for i in range(step[N_OUT]):
        begin, end = table[AT] + i * n, table[AT] + (i + 1) * n
        row, found = theta[begin:end], best[begin:end]
        place, there = made[GRADIENT] + maps[step[OUTER] + i], maps[step[OTHER] + i]
        start, back = other[AT] + there, other[GRADIENT] + there
        if constant and kind == OWN:
            _set_sum(found, row, work[place : place + n])
        elif constant:
            _set_sum(found, row, work[place])
        elif kind == SHARED:
            _inner_down(found, row, b[start : start + n], work[back : back + n], work[place])
        elif kind == COMMON:
            _inner_down(found, row, b[start : start + n], work[back : back + n], work[place : place + n])
        elif kind == OWN:
            work[back] = max(work[back], _own_down(found, row, work[place : place + n], b[start]))
        else:
            work[back] = max(work[back], largest_of(row) + work[place])
            _set_sum(found, row, work[place] + b[start])


@compiled
def upward_max(steps, sides, maps, low, high, theta, work, team):
    """Run steps low, ..., high - 1; return the sum over their roots of the largest total potential."""
    top = 0.0
    for i in range(low, high):
        step = steps[i]
        kind, side = step[KIND], sides[step[FIRST]]
        if kind == POTENTIAL:
            if side[GRADIENT] < 0:  # an empty clique
                top += theta[side[AT]]
        elif kind == SMALL:
            small_up(MAX_PRODUCT, step, sides, maps, theta, work)
        elif kind in (WEIGHT, TIMES):
            times_up(MAX_PRODUCT, step, sides, maps, theta, work)
        elif kind == MATRICES:
            matrices_together(MAX_PRODUCT, steps, sides, maps, i, 0, theta, work, team)
        elif kind == PACK:
            pack_up(MAX_PRODUCT, step, sides, maps, theta, work)
        elif step[ROOT]:
            top += work[side[AT]]
    return top


@compiled
def downward_max(steps, sides, maps, low, high, theta, best, work, top, team):
    """Run steps high - 1, ..., low backwards, with `top` the largest total potential of any record, finite."""
    for i in range(high - 1, low - 1, -1):
        step = steps[i]
        kind, side = step[KIND], sides[step[FIRST]]
        if kind == POTENTIAL:
            begin, end = side[AT], side[AT] + side[CELLS]
            if side[GRADIENT] < 0:
                best[begin] = top
            else:
                gradient = work[side[GRADIENT] : side[GRADIENT] + side[CELLS]]
                _set_sum(best[begin:end], theta[begin:end], gradient)
        elif kind == WEIGHT:
            _weight_down(step, sides, maps, theta, best, work)
        elif kind == SMALL:
            small_down(MAX_PRODUCT, step, sides, maps, theta, work)
        elif kind == TIMES:
            times_down(MAX_PRODUCT, step, sides, maps, theta, work)
        elif kind == MATRICES:
            matrices_together(MAX_PRODUCT, steps, sides, maps, i, 1, theta, work, team)
        elif kind == PACK:
            pack_down(step, sides, maps, work)
        elif step[ROOT]:
            work[side[GRADIENT]] = top - work[side[AT]]
