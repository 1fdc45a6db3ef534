"""Sums of products of labeled tables, contracted pair by pair in an order that opt_einsum finds.

An axis is labeled by any hashable value; equal labels of two tables denote the same variable. Each pair is transposed
to axes (shared and kept, own, summed) and multiplied by BLAS, which numpy's einsum does not do when some shared axes
are kept. The order depends only on the labels and sizes, so it is found once and cached.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Label = Hashable
Labels = tuple[Label, ...]

EXACT_SEARCH = 8
"""The most tables for which dynamic programming finds the best order, in a millisecond; for more tables the order is
greedy. For twelve tables the search takes longer than the time it saves, on average over the pairs of wide tables."""

UNSHARED_PRODUCT = 1 << 18
"""The most multiplications of a product for which OpenBLAS uses one thread."""

_LEAST_ROWS = 16
"""The fewest rows of a piece of a product; with fewer, BLAS is slow."""

_LONG_ROW = 32
"""The least length of rows that numpy adds at the speed of memory."""

_TINY_PRODUCT = 256
"""The number of multiplications per entry of the kept axes below which calling BLAS for each entry does not pay off."""


class Table(NamedTuple):
    """An array with a label for each axis."""

    labels: Labels
    values: np.ndarray

    def sizes(self) -> dict[Label, int]:
        """Return the length of each axis."""
        return dict(zip(self.labels, self.values.shape, strict=True))


def contract(tables: Sequence[Table], output: Iterable[Label]) -> np.ndarray:
    """Return the product of the tables, summed over every label that is not in `output`, with axes as in `output`.

    >>> contract([Table(("a", "b"), np.eye(2)), Table(("b",), np.array([3.0, 4.0]))], ("b", "a"))
    array([[3., 0.],
           [0., 4.]])
    """
    program = contraction(
        tuple(table.labels for table in tables), tuple(table.values.shape for table in tables), tuple(output)
    )
    return program.run([table.values for table in tables])


@dataclass(frozen=True)
class Contraction:
    """The steps of a contraction of tables with given labels and shapes.

    Attributes:
        steps: the products. Each takes two tables off a list and appends its result.
        lone_sum: the axes of the last table that are summed out at the end.
        last: the transposition of the last table into the order of the output.
        operations: the number of multiplications.
        largest: the cells of the largest intermediate table.
    """

    steps: tuple[_Step, ...]
    lone_sum: tuple[int, ...]
    last: tuple[int, ...]
    operations: int
    largest: int

    def run(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the result for arrays of these shapes."""
        stack = list(arrays)
        for step in self.steps:
            right = stack.pop(step.right)
            left = stack.pop(step.left)
            stack.append(step.multiply(left, right))
        result = sum_axes(stack[0], self.lone_sum) if stack else np.ones(())
        return result.transpose(self.last)


@dataclass(frozen=True)
class _Side:
    """The rearrangement of one factor into three groups of axes."""

    summed: tuple[int, ...]  # axes that neither the other factor nor the result has
    order: tuple[int, ...]
    shape: tuple[int, int, int]

    def arrange(self, array: np.ndarray) -> np.ndarray:
        if self.summed:
            array = sum_axes(array, self.summed)
        return array.transpose(self.order).reshape(self.shape)


@dataclass(frozen=True)
class _Step:
    """A product of the tables at positions left < right of the list.

    The left table is rearranged to axes (kept, own, summed), the right table to (kept, summed, own).
    """

    left: int
    right: int
    left_side: _Side
    right_side: _Side
    shape: tuple[int, ...]

    def multiply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        a, b = self.left_side.arrange(left), self.right_side.arrange(right)
        kept, rows, summed = a.shape
        columns = b.shape[2]
        if summed == 1:
            product = a * b
        elif kept == 1:
            product = matrix_product(a[0], b[0])
        elif kept > rows * columns * summed < _TINY_PRODUCT:
            product = np.einsum("kij,kjl->kil", a, b)
        else:
            product = np.matmul(_for_blas(a), _for_blas(b))
        return product.reshape(self.shape)


def matrix_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b, computed in pieces for which BLAS uses one thread, unless the pieces would be too short.

    Waking threads for a product of a millisecond saves little, and costs many milliseconds if other processes keep the
    processors busy, because each thread waits for its turn.
    """
    rows, summed, columns = a.shape[0], a.shape[1], b.shape[1]
    if rows < columns:
        return matrix_product(b.T, a.T).T
    piece = UNSHARED_PRODUCT // (summed * columns)
    if rows <= piece or piece < _LEAST_ROWS:
        return np.dot(a, b)
    product = np.empty((rows, columns), np.result_type(a, b))
    whole = rows - rows % piece
    np.matmul(a[:whole].reshape(-1, piece, summed), b, out=product[:whole].reshape(-1, piece, columns))
    np.dot(a[whole:], b, out=product[whole:])
    return product


def _for_blas(array: np.ndarray) -> np.ndarray:
    """Return the array itself if its matrices have contiguous rows or columns, as BLAS needs, else a copy."""
    step = array.itemsize
    return array if step in array.strides[1:] else np.ascontiguousarray(array)


@lru_cache(maxsize=4096)
def contraction(labels: tuple[Labels, ...], shapes: tuple[tuple[int, ...], ...], output: Labels) -> Contraction:
    """Return the contraction of tables with these labels and shapes, from a cache if possible."""
    sizes = {
        label: size for axes, shape in zip(labels, shapes, strict=True) for label, size in zip(axes, shape, strict=True)
    }
    stack, steps, operations = list(labels), [], 0
    largest = max((_cells(axes, sizes) for axes in stack), default=1)
    for left, right in contraction_order(labels, output, sizes):
        b, a = stack.pop(right), stack.pop(left)
        wanted = set(output).union(*stack)
        step, result = _pair(left, right, a, b, wanted, sizes)
        operations += math.prod(step.left_side.shape) * step.right_side.shape[2]
        stack.append(result)
        largest = max(largest, _cells(result, sizes))
        steps.append(step)
    rest = stack[0] if stack else ()
    lone_sum = tuple(axis for axis, label in enumerate(rest) if label not in output)
    remaining = [label for label in rest if label in output]
    last = tuple(remaining.index(label) for label in output)
    return Contraction(tuple(steps), lone_sum, last, operations, largest)


def contraction_order(labels: Sequence[Labels], output: Labels, sizes: Mapping[Label, int]) -> list[tuple[int, int]]:
    """Return the pairs (left < right) of positions to contract; each result is appended to the list."""
    if len(labels) < 2:
        return []
    if len(labels) == 2:
        return [(0, 1)]
    if len(labels) == 3:  # so frequent that opt_einsum's search would take longer than the products
        return [min(_PAIRS_OF_THREE, key=lambda pair: _work_of_three(labels, pair, output, sizes)), (0, 1)]
    from opt_einsum import paths

    # opt_einsum wants letters; numbers as strings keep the order deterministic
    letters = {label: chr(192 + number) for number, label in enumerate(sizes)}
    inputs: Any = [frozenset(letters[label] for label in axes) for axes in labels]
    wanted: Any = frozenset(letters[label] for label in output)
    lengths = {letters[label]: size for label, size in sizes.items()}
    search = paths.dynamic_programming if len(labels) <= EXACT_SEARCH else paths.greedy
    found = [sorted(step) for step in search(inputs, wanted, lengths)]
    pairs: list[tuple[int, int]] = []
    count = len(labels)
    for step in found:  # a step of one table sums its unshared axes, which the next pair does anyway
        while len(step) > 1:
            pairs.append((step[0], step[1]))
            count -= 1
            step = [position - (position > step[0]) - (position > step[1]) for position in step[2:]] + [count - 1]
    return pairs


_PAIRS_OF_THREE = ((0, 1), (0, 2), (1, 2))


def _work_of_three(
    labels: Sequence[Labels], pair: tuple[int, int], output: Labels, sizes: Mapping[Label, int]
) -> tuple[int, int]:
    """Return the multiplications if this pair of three tables is contracted first, and the cells of its result."""
    (other,) = {0, 1, 2}.difference(pair)
    joined, third = set(labels[pair[0]]).union(labels[pair[1]]), set(labels[other])
    left = joined & third.union(output)
    return _cells(joined, sizes) + _cells(left | third, sizes), _cells(left, sizes)


def _pair(
    left: int, right: int, a: Labels, b: Labels, wanted: set[Label], sizes: Mapping[Label, int]
) -> tuple[_Step, Labels]:
    in_a, in_b = set(a), set(b)
    kept = [label for label in a if label in in_b and label in wanted]
    summed = [label for label in a if label in in_b and label not in wanted]
    rows = [label for label in a if label not in in_b and label in wanted]
    columns = [label for label in b if label not in in_a and label in wanted]
    result = (*kept, *rows, *columns)
    step = _Step(
        left,
        right,
        _side(a, (kept, rows, summed), sizes),
        _side(b, (kept, summed, columns), sizes),
        tuple(sizes[label] for label in result),
    )
    return step, result


def _side(axes: Labels, groups: tuple[list[Label], list[Label], list[Label]], sizes: Mapping[Label, int]) -> _Side:
    used = {label for group in groups for label in group}
    remaining = [label for label in axes if label in used]
    first, second, third = (_cells(group, sizes) for group in groups)
    return _Side(
        tuple(axis for axis, label in enumerate(axes) if label not in used),
        tuple(remaining.index(label) for group in groups for label in group),
        (first, second, third),
    )


def _cells(labels: Iterable[Label], sizes: Mapping[Label, int]) -> int:
    return math.prod([sizes[label] for label in labels])


def sum_axes(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return the sum over some axes.

    Outer axes go first, for which numpy adds whole rows; for the remaining axes with short rows einsum is faster.
    """
    left = sorted(axes)
    while left and array[(0,) * (left[0] + 1)].size >= _LONG_ROW:
        array = np.add.reduce(array, axis=left.pop(0))
        left = [axis - 1 for axis in left]
    if not left:
        return array
    labels = list(range(array.ndim))
    return np.asarray(np.einsum(array, labels, [label for label in labels if label not in left]))
