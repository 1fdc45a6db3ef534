"""Both sweeps of belief propagation without the tables of the junction tree: sums of products, contracted.

Where many small measured cliques meet in one large clique of the tree, its table costs far more than what is asked
about it. A message is a sum of a product of small tables, so it can be computed pair by pair (contraction.py), mostly
as matrix products, without the table of the clique. The downward sweep is the derivative of the upward one: with
Z = sum_x prod_C f_C(x_C), the marginal on C is f_C dZ/df_C / Z, and each product c = a b of the way up gives
dZ/da = dZ/dc b^T and dZ/db = a^T dZ/dc on the way down (reverse-mode differentiation; Darwiche 2003).

Everything is linear here, not logarithmic. Potentials are shifted to a maximum of 0 and messages kept
near 1, so what underflows is below exp(-700) of the largest entry. That can matter only where the maxima of the cliques
exclude one another, and then the sums of the beliefs, which would be near 1 if they agreed, are tiny: `run` sees that
and gives up, and the caller falls back on the kernels, which compute with logarithms where they must.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.recycler import Recycler
from pgmest.inference.exact.small_products import Places, SmallProduct
from pgmest.inference.marginals.contraction import Labels, contraction_order, matrix_product
from pgmest.tables.clique_vector import Layout

SMALLEST_SUMS: dict[np.dtype[Any], float] = {
    np.dtype(np.float64): math.exp(-300.0),
    np.dtype(np.float32): math.exp(-50.0),
}
"""Beliefs whose scaled sum is smaller may have lost terms to underflow; above, those are below exp(-100) in all, in
float32 below exp(-30)."""

NANOSECONDS_A_STEP = 12_000.0
NANOSECONDS_AN_OPERATION = 0.4
"""What a product costs, up and down: to call it, and for each of its multiplications; for the choice of a way only."""

NANOSECONDS_A_MEASURED_CELL = 5.0
"""What a cell of the measured cliques costs: its exponential, and to read and scale it."""

NEAR_ONE = 1e-6, 1e6
"""Messages and gradients with a maximum in this range are not rescaled, which would be a pass over each."""

FEW_OPERATIONS = 256
"""Below this many multiplications for each entry of the axes that are kept in both tables, BLAS gains less than it
costs to bring the axes into the order that it needs."""


@dataclass(frozen=True)
class Side:
    """How one of two tables is brought into three groups of axes, and how a gradient is brought back.

    Attributes:
        value: which table.
        shape: its own shape.
        summed: axes that only it has and nobody wants.
        order, back: the permutation of the other axes into the groups, and its inverse.
        axes: the lengths of the axes in the groups.
        groups: the cells of each group.
    """

    value: int
    shape: tuple[int, ...]
    summed: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    axes: tuple[int, ...]
    groups: tuple[int, int, int]

    @classmethod
    def of(cls, value: int, labels: Labels, groups: Sequence[Labels], sizes: dict[Any, int]) -> Side:
        """Of a table with these labels, of which those in no group are summed out."""
        used = [label for group in groups for label in group]
        remaining = [label for label in labels if label in used]
        order = tuple(remaining.index(label) for label in used)
        return cls(
            value,
            tuple(sizes[label] for label in labels),
            tuple(axis for axis, label in enumerate(labels) if label not in used),
            order,
            tuple(order.index(axis) for axis in range(len(order))),
            tuple(sizes[label] for label in used),
            tuple(math.prod([sizes[label] for label in group]) for group in groups),  # type: ignore[arg-type]
        )

    def arrange(self, table: np.ndarray, room: Recycler) -> np.ndarray:
        if self.summed:
            table = table.sum(axis=self.summed)
        return room.contiguous(table.transpose(self.order)).reshape(self.groups)

    def restore(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient of what was arranged as one of the table itself."""
        gradient = gradient.reshape(self.axes).transpose(self.back)
        if not self.summed:
            return gradient
        return np.broadcast_to(np.expand_dims(gradient, self.summed), self.shape)


@dataclass(frozen=True)
class Product:
    """A product of two tables, summed: left as (kept, rows, summed), right as (kept, summed, columns)."""

    left: Side
    right: Side
    result: int
    shape: tuple[int, ...]

    @property
    def operations(self) -> int:
        """Multiplications."""
        return math.prod(self.left.groups) * self.right.groups[2]

    def up(self, values: list[Any], room: Recycler) -> None:
        """Compute the result; its arguments stay, arranged, for the way down."""
        sides = self.left, self.right
        a, b = (side.arrange(values[side.value], room) for side in sides)
        values[self.left.value], values[self.right.value] = a, b
        values[self.result] = _products(a, b, room).reshape(self.shape)

    def down(self, values: list[Any], gradients: list[Any], room: Recycler) -> None:
        """The gradients of the arguments from that of the result."""
        a, b = values[self.left.value], values[self.right.value]
        c = room.contiguous(gradients[self.result]).reshape(a.shape[0], a.shape[1], b.shape[2])
        gradients[self.left.value] = self.left.restore(_products(c, b.transpose(0, 2, 1), room))
        gradients[self.right.value] = self.right.restore(_products(a.transpose(0, 2, 1), c, room))
        gradients[self.result] = None


def _products(a: np.ndarray, b: np.ndarray, room: Recycler) -> np.ndarray:
    """a[k] @ b[k] for each k, each way of doing so where it is fastest."""
    kept, rows, summed = a.shape
    if kept == 1 and summed > 1:
        return matrix_product(a[0], b[0])[None]
    product = room.empty((kept, rows, b.shape[2]), a.dtype)
    return np.multiply(a, b, out=product) if summed == 1 else np.matmul(a, b, out=product)


@dataclass(frozen=True)
class Message:
    """What the products of one clique come to: a table on what it shares with its parent, or at a root its sum.

    Attributes:
        source: the table that the products leave.
        shape: its shape.
        summed: the axes that are summed out.
        target: the message; None at a root.
    """

    source: int
    shape: tuple[int, ...]
    summed: tuple[int, ...]
    target: int | None


@dataclass(frozen=True, eq=False)
class ContractedSweeps:
    """The steps of both sweeps for one layout and tree.

    Attributes:
        layout: the measured cliques.
        steps: products and messages, children first.
        values: how many tables there are, those of the layout's cliques first.
        log_free: the log of the number of joint values of the attributes that no clique has.
        operations: multiplications of the upward sweep.
        room: the memory of the runs, kept from one to the next.
    """

    layout: Layout
    steps: tuple[Product | SmallProduct | Message, ...]
    values: int
    log_free: float
    operations: int
    room: Recycler = field(default_factory=Recycler, repr=False)

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree) -> ContractedSweeps:
        """The steps on a tree that holds all cliques of the layout."""
        return _Builder(layout, tree).build()

    @property
    def nanoseconds(self) -> float:
        """About what both sweeps take."""
        products = sum(isinstance(step, Product | SmallProduct) for step in self.steps)
        measured = NANOSECONDS_A_MEASURED_CELL * self.layout.cells
        return NANOSECONDS_A_STEP * products + NANOSECONDS_AN_OPERATION * self.operations + measured

    def run(self, theta: np.ndarray, total: float, out: np.ndarray) -> float | None:
        """Write the marginals of flat potentials, scaled to `total`.

        Returns:
            the log-partition function; None where linear numbers cannot hold what it takes, and nothing is written.
        """
        offsets = self.layout.offsets
        starts = offsets[: len(self.layout.cliques)]
        peaks = np.maximum.reduceat(theta, starts)
        if not np.isfinite(peaks).all():
            return None
        linear = np.exp(theta - np.repeat(peaks, np.diff(offsets)))
        smallest = SMALLEST_SUMS[linear.dtype]
        values: list[Any] = [None] * self.values
        for number, domain in enumerate(self.layout.domains):
            values[number] = linear[offsets[number] : offsets[number + 1]].reshape(domain.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
            log_scale = self._upward(values, smallest)
            gradients = None if log_scale is None else self._downward(values, smallest)
            if gradients is None or log_scale is None or not self._scaled(linear, gradients, total, smallest):
                return None
        out[:] = linear
        return float(peaks.sum(dtype=np.float64)) + log_scale + self.log_free

    def _upward(self, values: list[Any], smallest: float) -> float | None:
        """Compute all messages; the log of what they were divided by."""
        log_scale = 0.0
        for step in self.steps:
            if isinstance(step, Product | SmallProduct):
                step.up(values, self.room)
                continue
            table = values[step.source]
            table = table.sum(axis=step.summed) if step.summed else table
            scale = float(table.max() if step.target is not None else table)
            if not smallest < scale < math.inf:
                return None
            if step.target is None:
                log_scale += math.log(scale)
            elif NEAR_ONE[0] < scale < NEAR_ONE[1]:
                values[step.target] = table
            else:
                log_scale += math.log(scale)
                values[step.target] = table / scale
        return log_scale

    def _downward(self, values: list[Any], smallest: float) -> list[Any] | None:
        """The gradient of log Z in each table of the layout, up to a factor for each."""
        gradients: list[Any] = [None] * self.values
        for step in reversed(self.steps):
            if isinstance(step, Product | SmallProduct):
                step.down(values, gradients, self.room)
                continue
            gradient = np.ones((), values[step.source].dtype) if step.target is None else gradients[step.target]
            scale = float(gradient.max())
            if not smallest < scale < math.inf:
                return None
            if not NEAR_ONE[0] < scale < NEAR_ONE[1]:
                gradient = gradient / scale
            if step.summed:
                gradient = np.broadcast_to(np.expand_dims(gradient, step.summed), step.shape)
            gradients[step.source] = gradient
        return gradients

    def _scaled(self, linear: np.ndarray, gradients: list[Any], total: float, smallest: float) -> bool:
        """Make of the linear potentials, in place, the marginals; False where their sums have become too small."""
        offsets = self.layout.offsets
        for number, domain in enumerate(self.layout.domains):
            marginal = linear[offsets[number] : offsets[number + 1]].reshape(domain.shape)
            if gradients[number] is not None:  # else an empty clique, whose only cell is everyone
                marginal *= gradients[number]
            mass = float(marginal.sum())
            if not smallest < mass < math.inf:
                return False
            marginal *= total / mass
        return True


class _Builder:
    """Finds the steps, clique by clique of the tree."""

    def __init__(self, layout: Layout, tree: JunctionTree):
        self.layout, self.tree = layout, tree
        self.sizes: dict[Any, int] = dict(layout.domain.items())
        self.labels: list[Labels] = list(layout.cliques)
        self.steps: list[Product | SmallProduct | Message] = []
        self.inputs: list[list[int]] = [[] for _ in tree.cliques]

    def build(self) -> ContractedSweeps:
        for number, clique in enumerate(self.layout.cliques):
            if clique:
                holders = [i for i, names in enumerate(self.tree.cliques) if set(clique) <= set(names)]
                self.inputs[min(holders, key=self.tree.sizes.__getitem__)].append(number)
        for position in self.children_first():
            self.eliminate(position)
        seen = {name for clique in self.layout.cliques for name in clique}
        log_free = math.fsum(math.log(size) for name, size in self.layout.domain.items() if name not in seen)
        operations = sum(step.operations for step in self.steps if isinstance(step, Product | SmallProduct))
        return ContractedSweeps(self.layout, tuple(self.steps), len(self.labels), log_free, operations)

    def children_first(self) -> list[int]:
        """The cliques of the tree, each after all below it."""
        depth: dict[int, int] = {}
        for position in range(len(self.tree.cliques)):
            path, at = [], position
            while at not in depth and at >= 0:
                path.append(at)
                at = self.tree.parents[at]
            start = depth[at] if at >= 0 else -1
            for steps, one in enumerate(reversed(path), 1):
                depth[one] = start + steps
        return sorted(depth, key=depth.__getitem__, reverse=True)

    def eliminate(self, position: int) -> None:
        """The products of one clique's tables, and its message."""
        numbers = list(self.inputs[position])
        if not numbers:
            return
        parent = self.tree.parents[position]
        above = set(self.tree.cliques[parent]) if parent >= 0 else set()
        wanted = tuple(name for name in self.tree.cliques[position] if name in above)
        tables = [self.labels[number] for number in numbers]
        for left, right in contraction_order(tables, wanted, self.sizes):
            second, first = numbers.pop(right), numbers.pop(left)
            others = set(wanted).union(*(self.labels[number] for number in numbers))
            numbers.append(self.product(first, second, others))
        (source,) = numbers
        labels = self.labels[source]
        kept = tuple(label for label in labels if label in wanted)
        target = self.add(kept) if kept else None
        summed = tuple(axis for axis, label in enumerate(labels) if label not in wanted)
        self.steps.append(Message(source, tuple(self.sizes[label] for label in labels), summed, target))
        if target is not None:
            self.inputs[parent].append(target)

    def product(self, left: int, right: int, wanted: set[Any]) -> int:
        a, b = self.labels[left], self.labels[right]
        both, either = set(a).intersection(b), self.in_order(set(a).union(b))
        kept = tuple(label for label in either if label in both and label in wanted)
        summed = tuple(label for label in either if label in both and label not in wanted)
        rows = tuple(label for label in either if label not in b and label in wanted)
        columns = tuple(label for label in either if label not in a and label in wanted)
        if kept and math.prod([self.sizes[label] for label in (*rows, *summed, *columns)]) < FEW_OPERATIONS:
            return self.small_product(left, right, (rows, summed, columns), set(kept))
        result = self.add((*kept, *rows, *columns))
        sides = (
            Side.of(left, a, (kept, rows, summed), self.sizes),
            Side.of(right, b, (kept, summed, columns), self.sizes),
        )
        shape = tuple(self.sizes[label] for label in self.labels[result])
        self.steps.append(Product(*sides, result, shape))
        return result

    def small_product(self, left: int, right: int, groups: tuple[Labels, Labels, Labels], common: set[Any]) -> int:
        rows, summed, columns = groups
        larger = max((left, right), key=lambda one: math.prod([self.sizes[label] for label in self.labels[one]]))
        kept = tuple(label for label in self.labels[larger] if label in common)  # so that it is read nearly as it lies
        result = self.add((*rows, *columns, *kept))
        sides = (
            Places.of(left, self.labels[left], (*rows, *summed), kept, self.sizes),
            Places.of(right, self.labels[right], (*summed, *columns), kept, self.sizes),
        )
        counts = tuple(math.prod([self.sizes[label] for label in group]) for group in (rows, columns, kept))
        shape = tuple(self.sizes[label] for label in self.labels[result])
        self.steps.append(SmallProduct(*sides, result, shape, counts))  # type: ignore[arg-type]
        return result

    def in_order(self, labels: set[Any]) -> Labels:
        """In domain order, so that what is near in one table is near in the others."""
        return tuple(label for label in self.layout.domain if label in labels)

    def add(self, labels: Labels) -> int:
        self.labels.append(labels)
        return len(self.labels) - 1
