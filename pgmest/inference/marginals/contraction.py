"""Sums of products of labeled tables, contracted pair by pair in an order that opt_einsum finds.

An axis is labeled by any hashable value, and a label that two tables share is the same variable. Each pair is
brought to (shared and kept, own, summed) axes and multiplied by BLAS, which numpy's einsum does not do when some
shared axes are kept. The order depends only on the labels and sizes, so it is found once and cached.
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
"""Up to this many tables the best order is searched for by dynamic programming, in a millisecond; beyond, a greedy one
is taken. Of twelve the search takes longer than what it saves, on average over the pairs of wide tables."""

UNSHARED_PRODUCT = 1 << 18
"""OpenBLAS uses one thread for a product of at most this many multiplications."""

_LEAST_ROWS = 16
"""Pieces of fewer rows would leave BLAS little to work with."""

_LONG_ROW = 32
"""Rows at least this long are added at the speed of memory."""

_TINY_PRODUCT = 256
"""Below this many multiplications per entry of the kept axes, calling BLAS for each entry costs more than it saves."""


class Table(NamedTuple):
    """An array with a label per axis."""

    labels: Labels
    values: np.ndarray

    def sizes(self) -> dict[Label, int]:
        """The length of each axis."""
        return dict(zip(self.labels, self.values.shape, strict=True))


def contract(tables: Sequence[Table], output: Iterable[Label]) -> np.ndarray:
    """The product of the tables, summed over every label that is not in `output`; axes in the order of `output`.

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
    """The steps of a contraction, worked out for tables of given labels and shapes.

    Attributes:
        steps: which two tables each step takes off the list, and how it multiplies them; the result is appended.
        last: the transposition of the last table into the output's order.
        operations: multiplications in all.
        largest: cells of the largest table on the way.
    """

    steps: tuple[_Step, ...]
    lone_sum: tuple[int, ...]
    last: tuple[int, ...]
    operations: int
    largest: int

    def run(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The result for arrays of those shapes."""
        stack = list(arrays)
        for step in self.steps:
            right = stack.pop(step.right)
            left = stack.pop(step.left)
            stack.append(step.multiply(left, right))
        result = sum_axes(stack[0], self.lone_sum) if stack else np.ones(())
        return result.transpose(self.last)


@dataclass(frozen=True)
class _Side:
    """How one of two tables is brought into three groups of axes."""

    summed: tuple[int, ...]  # axes that only this table has and nobody wants
    order: tuple[int, ...]
    shape: tuple[int, int, int]

    def arrange(self, array: np.ndarray) -> np.ndarray:
        if self.summed:
            array = sum_axes(array, self.summed)
        return array.transpose(self.order).reshape(self.shape)


@dataclass(frozen=True)
class _Step:
    """One product of two tables: positions left < right on the list, left as (kept, own, summed), right as
    (kept, summed, own)."""

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
    """a @ b in pieces that BLAS does not share between threads, unless it is a long piece of work.

    Waking threads for a product of a millisecond saves little, and where other processes keep the processors busy it
    costs many milliseconds, as each thread waits for its turn.
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
    """The array itself where its matrices have consecutive rows or columns, as BLAS needs, else a copy."""
    step = array.itemsize
    return array if step in array.strides[1:] else np.ascontiguousarray(array)


@lru_cache(maxsize=4096)
def contraction(labels: tuple[Labels, ...], shapes: tuple[tuple[int, ...], ...], output: Labels) -> Contraction:
    """The contraction of tables with these labels and shapes: cheap to ask for again."""
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
    """Pairs (left < right) of positions to contract, each result going to the end of the list."""
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
    for step in found:  # a lone step sums a table's own axes, which the next pair does anyway
        while len(step) > 1:
            pairs.append((step[0], step[1]))
            count -= 1
            step = [position - (position > step[0]) - (position > step[1]) for position in step[2:]] + [count - 1]
    return pairs


_PAIRS_OF_THREE = ((0, 1), (0, 2), (1, 2))


def _work_of_three(
    labels: Sequence[Labels], pair: tuple[int, int], output: Labels, sizes: Mapping[Label, int]
) -> tuple[int, int]:
    """Multiplications when this pair of three tables is contracted first, and the cells of what it leaves."""
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
    """The sum over some axes: outer ones first, where numpy adds whole rows; for short inner ones einsum is faster."""
    left = sorted(axes)
    while left and array[(0,) * (left[0] + 1)].size >= _LONG_ROW:
        array = np.add.reduce(array, axis=left.pop(0))
        left = [axis - 1 for axis in left]
    if not left:
        return array
    labels = list(range(array.ndim))
    return np.asarray(np.einsum(array, labels, [label for label in labels if label not in left]))
