"""The compiled kernels of weighted squares (l2.py): one pass over the cells each."""

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
    """gradient = precision (flat - target), by cell; the sum of its product with flat - target."""
    total = 0.0
    for start in range(0, gradient.size, BLOCK):
        some = slice(start, min(start + BLOCK, gradient.size))
        total += _weigh(gradient[some], flat[some], target[some], precision[some])
    return total


@compiled
def square(direction, precision):
    """The sum of precision direction^2, by cell."""
    total = 0.0
    for start in range(0, direction.size, BLOCK):
        some = slice(start, min(start + BLOCK, direction.size))
        total += _weighed_square(direction[some], precision[some])
    return total
