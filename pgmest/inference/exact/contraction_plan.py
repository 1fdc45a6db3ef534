"""The plan of a contraction: the steps for a layout and a junction tree, which contraction_kernels.py runs.

For each clique of the tree, children first, the measured tables in the clique and the messages from below are
multiplied pair by pair. Each attribute that no other table needs is summed out as early as possible; the last table is
the message to the parent. opt_einsum finds the order of the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import contraction_columns as f
from pgmest.inference.exact.axes import Axes
from pgmest.inference.exact.contraction_arrays import ONE_CELL, PlanArrays, PlannedStep, PlannedTable
from pgmest.inference.exact.subtrees import Subtrees
from pgmest.inference.exact.workspace import Buffer
from pgmest.inference.marginals.contraction import Labels, contraction_order
from pgmest.tables.clique_vector import Layout

FEW_OPERATIONS = 256
"""The least number of multiplications per matrix product, one for each cell of the axes that both tables keep, for
which a call of BLAS pays off."""

LONG_ROW = 8
"""The least length of a row for which a vector operation per row pays off."""

SHARED_CELLS = 1 << 17
"""The fewest measured cells for which waking threads pays off."""


@dataclass(frozen=True, eq=False)
class ContractionPlan:
    """The steps of both sweeps for one layout and tree, as the kernels read them.

    Attributes:
        layout: the measured cliques.
        steps, sides: a row for each step and for each of its operands, with the columns of contraction_columns.py; the
            operands of a step follow one another.
        maps: the index maps, one after the other.
        cells: the cells of the workspace.
        scales: the number of messages, each of which has a scale.
        log_free: the log of the number of joint values of the attributes that no clique has.
        shares: the ranges (low, high) of the steps of each thread's subtrees, empty if one thread runs all steps; the
            remaining steps follow.
    """

    layout: Layout
    steps: np.ndarray
    sides: np.ndarray
    maps: np.ndarray
    cells: int
    scales: int
    log_free: float
    shares: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree, threads: int = 1) -> ContractionPlan:
        """Return the steps on a tree that holds all cliques of the layout, divided between the threads."""
        return _Builder(layout, tree).build(threads)


class _Builder:
    """Plans the steps, clique by clique of the tree."""

    def __init__(self, layout: Layout, tree: JunctionTree):
        self.layout, self.tree = layout, tree
        self.axes = Axes(dict(layout.domain.items()))
        self.steps: list[PlannedStep] = []
        self.inputs: list[list[PlannedTable]] = [[] for _ in tree.cliques]
        self.parents: tuple[int, ...] = ()
        self.scales = 0
        self.one = PlannedTable((), values=Buffer(1, start=ONE_CELL))

    def build(self, threads: int) -> ContractionPlan:
        self._assign_cliques()
        subtrees = self._subtrees(threads)
        self.parents, shares = subtrees.parents, []
        for cliques in (*subtrees.shares, subtrees.above):
            low = len(self.steps) if shares else 0
            for position in cliques:
                self._eliminate(position)
            shares.append((low, len(self.steps)))
        seen = {name for clique in self.layout.cliques for name in clique}
        log_free = math.fsum(math.log(size) for name, size in self.axes.sizes.items() if name not in seen)
        arrays = PlanArrays(self.steps, shares, self.one)
        steps, sides = arrays.rows(self.axes)
        maps, divided = self.axes.maps(), tuple(shares[:-1])
        return ContractionPlan(self.layout, steps, sides, maps, arrays.cells, self.scales, log_free, divided)

    def _subtrees(self, threads: int) -> Subtrees:
        """Return the division of the tree between threads; small models are left to one thread."""
        weights = [float(sum(self.axes.cells(table.labels) for table in tables)) for tables in self.inputs]
        return Subtrees.of(self.tree.parents, weights, 1 if sum(weights) < SHARED_CELLS else threads)

    def _assign_cliques(self) -> None:
        """Assign each measured clique to the smallest clique of the tree that holds it."""
        holding: dict[Any, list[int]] = {name: [] for name in self.axes.sizes}
        for position, names in enumerate(self.tree.cliques):
            for name in names:
                holding[name].append(position)
        for number, clique in enumerate(self.layout.cliques):
            table = PlannedTable(clique, start=int(self.layout.offsets[number]))
            if not clique:
                self._add_step({f.KIND: f.POTENTIAL}, [(table, {})])
                continue
            wanted = set(clique)
            rarest = min((holding[name] for name in clique), key=len)
            holders = [position for position in rarest if wanted <= set(self.tree.cliques[position])]
            self.inputs[min(holders, key=self.tree.sizes.__getitem__)].append(table)

    def _eliminate(self, position: int) -> None:
        """Add the steps that multiply the tables of one clique, and those of its message."""
        tables = self.inputs[position]
        if not tables:
            return
        parent = self.parents[position]
        above = set(self.tree.cliques[parent]) if parent >= 0 else set()
        alone = len(tables) == 1
        for left, right in contraction_order([table.labels for table in tables], tuple(above), self.axes.sizes):
            second, first = tables.pop(right), tables.pop(left)
            tables.append(self._product(first, second, above.union(*(table.labels for table in tables))))
        (table,) = tables
        kept = tuple(label for label in table.labels if label in above)
        if alone and kept == table.labels:  # the only table lies in the parent entirely: pass it on as it is
            self.inputs[parent].append(table)
            return
        if table.measured:
            table = self._weighted(table, self.one, above, f.WEIGHT)
        elif kept != table.labels:
            table = self._packed(table, kept)
        self._scaled(table, root=not kept)
        if kept:
            self.inputs[parent].append(table)

    def _scaled(self, table: PlannedTable, root: bool) -> None:
        """Add the step that divides a message by its maximum; a WEIGHT step that made the message records its scale."""
        if self.steps[-1].columns[f.KIND] == f.WEIGHT:
            self.steps[-1].columns[f.SCALE] = self.scales
        self._add_step({f.KIND: f.SCALE_BY_MAXIMUM, f.SCALE: self.scales, f.ROOT: int(root)}, [(table, {})])
        self.scales += 1

    # -- products -----------------------------------------------------------------------------------------------------

    def _product(self, left: PlannedTable, right: PlannedTable, wanted: set[Any]) -> PlannedTable:
        """Add the steps of the product of two tables, summed over the axes that are not wanted, and return it."""
        for table, other in sorted(((left, right), (right, left)), key=lambda pair: -self.axes.cells(pair[0].labels)):
            if table.measured and set(other.labels) <= set(table.labels):
                return self._weighted(table, other, wanted, f.WEIGHT)
        left, right = (self._sum_out_unshared(*pair, wanted) for pair in ((left, right), (right, left)))
        both = set(left.labels).intersection(right.labels)
        kept = tuple(label for label in left.labels if label in both and label in wanted)
        rows = tuple(label for label in left.labels if label not in both)
        columns = tuple(label for label in right.labels if label not in both)
        larger = max(left, right, key=lambda table: self.axes.cells(table.labels))
        summed = tuple(label for label in larger.labels if label in both and label not in wanted)
        kept = tuple(label for label in larger.labels if label in kept)
        few = kept and self.axes.cells((*rows, *summed, *columns)) < FEW_OPERATIONS
        smaller, own = (right, rows) if larger is left else (left, columns)
        if few or self.axes.matrix(larger.labels, kept, own, summed) is None:
            _, split = self._inner_axes(larger, smaller, wanted)
            if self.axes.cells(larger.labels[split:]) >= LONG_ROW and set(smaller.labels) <= set(larger.labels):
                return self._weighted(larger, smaller, wanted, f.TIMES)
        if few:
            return self._small(left, right, (rows, summed, columns), kept)
        return self._matrices(left, right, (rows, summed, columns), kept)

    def _sum_out_unshared(self, table: PlannedTable, other: PlannedTable, wanted: set[Any]) -> PlannedTable:
        """Return the table summed over the axes that are neither wanted nor in the other table."""
        used = tuple(label for label in table.labels if label in wanted or label in other.labels)
        if used == table.labels:
            return self._exponentiated(table)
        return self._packed(table, used)

    def _exponentiated(self, table: PlannedTable) -> PlannedTable:
        """Return the table; a measured clique gets a POTENTIAL step, so that other steps can read its exponentials."""
        if table.measured and table.gradient is None:
            table.gradient = Buffer(self.axes.cells(table.labels))
            self._add_step({f.KIND: f.POTENTIAL}, [(table, {})])
        return table

    def _weighted(self, table: PlannedTable, other: PlannedTable, wanted: set[Any], step: int) -> PlannedTable:
        """Add a WEIGHT or TIMES step: a table times another with some of its axes, summed; return the product."""
        other = self._in_order(self._exponentiated(other), [label for label in table.labels if label in other.labels])
        inner, split = self._inner_axes(table, other, wanted)
        made = self._new(label for label in table.labels if label in wanted)
        rows = table.labels[:split]
        columns = {
            f.KIND: step,
            f.INNER: inner,
            f.N_OUT: self.axes.cells(rows),
            f.N_IN: self.axes.cells(table.labels[split:]),
            f.OUTER: self.axes.map(rows, self.axes.strides(made.labels)),
            f.OTHER: self.axes.map(rows, self.axes.strides(other.labels)),
            f.SCALE: -1,
        }
        self._add_step(columns, [(table, {}), (other, {}), (made, {})])
        return made

    def _inner_axes(self, table: PlannedTable, other: PlannedTable, wanted: set[Any]) -> tuple[int, int]:
        """Return the class of the last axes of a table that are all of one class, and the first of these axes."""
        kind = (f.ALONE, f.OWN, f.SHARED, f.COMMON)
        of = [kind[(label in wanted) + 2 * (label in other.labels)] for label in table.labels]
        split = len(of)
        while split and of[split - 1] == of[-1]:
            split -= 1
        return of[-1], split

    def _small(
        self, left: PlannedTable, right: PlannedTable, groups: tuple[Labels, Labels, Labels], kept: Labels
    ) -> PlannedTable:
        """Add a SMALL step, whose kept axes come last so that it works on rows of kept cells; return the product."""
        rows, summed, columns = groups
        made = self._new((*rows, *columns, *kept))
        split = self.axes.split(kept)
        sides = []
        for table, own in ((left, (*rows, *summed)), (right, (*summed, *columns))):
            strides, inner = self.axes.strides(table.labels), kept[split:]
            side = {
                f.STARTS: self.axes.map(own, strides),
                f.N_STARTS: self.axes.cells(own),
                f.KEPT_OUTER: self.axes.map(kept[:split], strides),
                f.N_KEPT_OUTER: self.axes.cells(kept[:split]),
                f.KEPT_INNER: self.axes.inner_map(inner, strides),
                f.N_KEPT_INNER: self.axes.cells(inner),
            }
            side[f.PIECES] = sum(2 * one[f.N_STARTS] * one[f.N_KEPT_INNER] for _, one in sides)  # relative to the share
            sides.append((table, side))
        self._add_step({f.KIND: f.SMALL, **self._counts(groups, kept)}, [*sides, (made, {})])
        return made

    def _matrices(
        self, left: PlannedTable, right: PlannedTable, groups: tuple[Labels, Labels, Labels], kept: Labels
    ) -> PlannedTable:
        """Add a MATRICES step, with a PACK step before it for a factor that BLAS cannot read; return the product."""
        rows, summed, columns = groups
        sides = []
        for table, over, under in ((left, rows, summed), (right, summed, columns)):
            side = self.axes.matrix(table.labels, kept, over, under)
            if side is None:
                last = table.labels[-1]
                table = self._in_order(table, (*kept, *under, *over) if last in over else (*kept, *over, *under))
                side = self.axes.matrix(table.labels, kept, over, under)
            sides.append((table, side))
        if all(side[f.TRANSPOSED] for _, side in sides):  # the max-product is slow if both factors are transposed
            smaller = min((0, 1), key=lambda number: self.axes.cells(sides[number][0].labels))
            over, under = ((rows, summed), (summed, columns))[smaller]
            table = self._in_order(sides[smaller][0], (*kept, *over, *under))
            sides[smaller] = table, self.axes.matrix(table.labels, kept, over, under)
        made = self._new((*kept, *rows, *columns))
        self._add_step({f.KIND: f.MATRICES, **self._counts(groups, kept)}, [*sides, (made, {})])
        return made

    # -- other steps ---------------------------------------------------------------------------------------------------

    def _in_order(self, table: PlannedTable, labels: Sequence[Any]) -> PlannedTable:
        """Return the table with its axes in this order; axes of one value need no step."""
        long = [[label for label in some if self.axes.sizes[label] > 1] for some in (table.labels, labels)]
        if long[0] != long[1]:
            return self._packed(table, tuple(labels))
        if table.labels == tuple(labels):
            return table
        return PlannedTable(tuple(labels), table.start, table.values, table.gradient)

    def _packed(self, table: PlannedTable, labels: Labels) -> PlannedTable:
        """Add a PACK step, which sums out all but these axes and brings them into this order; return the result."""
        self._exponentiated(table)
        strides, split, made = self.axes.strides(table.labels), self.axes.split(labels), self._new(labels)
        last = len(table.labels)
        while last and table.labels[last - 1] not in labels:
            last -= 1
        others = tuple(label for label in table.labels[:last] if label not in labels)
        columns = {
            f.KIND: f.PACK,
            f.N_OUT: self.axes.cells(labels[:split]),
            f.N_IN: self.axes.cells(labels[split:]),
            f.OUTER: self.axes.map(labels[:split], strides),
            f.COLUMN: self.axes.inner_map(labels[split:], strides),
            f.OTHER: self.axes.map(others, strides),
            f.OTHERS: self.axes.cells(others),
            f.RUN: self.axes.cells(table.labels[last:]),
        }
        self._add_step(columns, [(table, {}), (made, {})])
        return made

    def _new(self, labels: Iterable[Any]) -> PlannedTable:
        """Return a new table for the result of the next step."""
        labels = tuple(labels)
        cells = self.axes.cells(labels)
        return PlannedTable(labels, values=Buffer(cells), gradient=Buffer(cells))

    def _add_step(self, columns: dict[int, Any], sides: list[tuple[PlannedTable, dict[int, Any]]]) -> None:
        self.steps.append(PlannedStep(columns, sides))

    def _counts(self, groups: tuple[Labels, Labels, Labels], kept: Labels) -> dict[int, int]:
        return dict(zip((f.ROWS, f.SUMMED, f.COLUMNS, f.KEPT), map(self.axes.cells, (*groups, kept)), strict=True))
