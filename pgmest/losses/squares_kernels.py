"""The compiled kernels of weighted squares (l2.py); each is one pass over the cells."""

from __future__ import annotations

from pgmest._base.compiled import compiled
from pgmest._base.row_kernels import BLOCK, sum_on_rows


@sum_on_rows
def _weigh(gradient, flat, target, precision):
    difference = flat - target
    weighed = difference * precision
    return {"gradient": weighed}, difference * weighed


@sum_on_rows
def _weighed_square(direction, precision):
    return direction * direction * precision


@compiled
def value_and_gradient(flat, target, precision, gradient):
    """Write gradient = precision (flat - target); return its product with flat - target."""
    total = 0.0
    for start in range(0, gradient.size, BLOCK):
        some = slice(start, min(start + BLOCK, gradient.size))
        total += _weigh(gradient[some], flat[some], target[some], precision[some])
    return total


@compiled
def square(direction, precision):
    """Return the sum over cells of precision direction^2."""
    total = 0.0
    for start in range(0, direction.size, BLOCK):
        some = slice(start, min(start + BLOCK, direction.size))
        total += _weighed_square(direction[some], precision[some])
    return total
