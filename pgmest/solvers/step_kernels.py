"""The compiled kernels of one step of accelerated mirror descent (acceleration.py); each is one pass over the cells.

Long sums are computed block by block, which keeps their rounding errors small.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, reduction
from pgmest._base.row_kernels import BLOCK, on_rows, sum_on_rows


@on_rows
def _between(point, start, end, share):
    return {"point": start + (end - start) * share}


@on_rows
def _moved(theta, move, start, gradient, factor):
    step = gradient * factor
    return {"move": step, "theta": start + step}


@on_rows
def _added(point, start, change, share):
    return {"point": start + change * share}


@sum_on_rows
def _changed(change, after, before, move):
    return {"change": after - before}, move * after


@compiled
def between(start, end, share, point):
    """Write point = start + share (end - start)."""
    _between(point, start, end, share)


@compiled
def step_by(start, gradient, factor, move, theta):
    """Write move = factor gradient and theta = start + move."""
    _moved(theta, move, start, gradient, factor)


@compiled
def add_share(start, change, share, point):
    """Write point = start + share change."""
    _added(point, start, change, share)


@compiled
def change_and_product(before, after, move, change):
    """Write change = after - before; return <move, after>."""
    total = 0.0
    for start in range(0, after.size, BLOCK):
        some = slice(start, min(start + BLOCK, after.size))
        total += _changed(change[some], after[some], before[some], move[some])
    return total


@on_rows
def _stepped(theta, start, average, before, target, precision, share, factor):
    residual = average + (before - average) * share - target
    return {"theta": start + residual * precision * factor}


@reduction
def _compared(average, before, after, target, precision, share, moved):
    product = symmetric = square = 0.0
    for c in range(after.size):
        gradient = precision[c] * (average[c] + share * (before[c] - average[c]) - target[c])
        change = after[c] - before[c]
        product += gradient * after[c]
        symmetric += gradient * change
        square += precision[c] * change * change
        moved[c] = average[c] + share * (after[c] - average[c])
    return product, symmetric, square


@compiled
def step_of_squares(start, average, before, target, precision, share, factor, theta):
    """Write theta = start + factor g, where g = precision (y - target) at y = average + share (before - average)."""
    _stepped(theta, start, average, before, target, precision, share, factor)


@compiled
def compare_squares(average, before, after, target, precision, share, moved):
    """Return <g, after>, <g, after - before> and sum precision (after - before)^2, with g as in `step_of_squares`.

    The new average, average + share (after - average), is written to `moved`.
    """
    product = symmetric = square = 0.0
    for start in range(0, after.size, BLOCK):
        some = slice(start, min(start + BLOCK, after.size))
        found = _compared(average[some], before[some], after[some], target[some], precision[some], share, moved[some])
        product, symmetric, square = product + found[0], symmetric + found[1], square + found[2]
    return product, symmetric, square
