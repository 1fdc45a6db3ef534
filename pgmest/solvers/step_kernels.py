"""The compiled kernels of one step of accelerated mirror descent (acceleration.py), a pass over the cells each."""

from __future__ import annotations

from pgmest._base.compiled import compiled
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
    """point = start + share (end - start)."""
    _between(point, start, end, share)


@compiled
def step_by(start, gradient, factor, move, theta):
    """move = factor gradient, theta = start + move."""
    _moved(theta, move, start, gradient, factor)


@compiled
def add_share(start, change, share, point):
    """point = start + share change."""
    _added(point, start, change, share)


@compiled
def change_and_product(before, after, move, change):
    """change = after - before; <move, after>."""
    total = 0.0
    for start in range(0, after.size, BLOCK):
        some = slice(start, min(start + BLOCK, after.size))
        total += _changed(change[some], after[some], before[some], move[some])
    return total
