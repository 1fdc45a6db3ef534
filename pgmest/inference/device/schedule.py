"""A schedule: a plan as a list of passes over its tables, for a device that runs thousands of threads at once.

A pass is one loop over the cells of one table. The axes of the table are *kept* or *reduced*: for each entry of the
kept axes, the cells of the reduced axes are reduced to one number. On the upward sweep, a clique's separator is kept,
and the other axes are reduced by log-sum-exp in one reading (peak and sum at once). On the downward sweep, each child's
separator is kept, and the marginals of the cells are summed. The pass for the first child also writes the marginals of
a measured clique, which reads the potentials once and writes the marginals once.

The log potential of a cell is the sum of the cell's potential and its children's messages (operands.py).

Passes that do not depend on each other form a *step*. Nothing is compiled here: a schedule is data, like a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.inference.device import columns as f
from pgmest.inference.device.operands import Operand, OperandTables
from pgmest.inference.device.schedule_nodes import Node, nodes_of, parents_first
from pgmest.inference.exact.propagation_plan import PropagationPlan

CELLS_A_THREAD = 4, 16
"""The number of cells of an entry that one thread takes, in a small and in a large table. More cells per thread make
the lookup before them a smaller part of the work.
"""

BUSY_THREADS = 1 << 18
"""The number of threads that keep a large device busy. With fewer, the device waits for its memory."""

LEAST_CHUNK = 32
"""The smallest number of an entry's cells per thread for which several blocks share the entry."""


@dataclass(frozen=True)
class Schedule:
    """The passes of a device for one plan.

    Attributes:
        passes: shape (passes, N_PASS_FIELDS).
        operands: shape (operands, N_OPERAND_FIELDS).
        maps: the index maps of all operands, concatenated.
        blocks: shape (blocks, N_BLOCK_FIELDS): the work of each block of threads, step by step.
        steps: shape (steps + 1,): the position in `blocks` where each step starts.
        upward: the number of steps in the upward sweep; they come first.
        work: the cells of the workspace of one run.
        roots: the number of messages whose sum is the log-partition function.
        threads: the number of threads in a block.
    """

    passes: np.ndarray
    operands: np.ndarray
    maps: np.ndarray
    blocks: np.ndarray
    steps: np.ndarray
    upward: int
    work: int
    roots: int
    threads: int

    @classmethod
    def of(cls, plan: PropagationPlan, threads: int = 256) -> Schedule:
        """Return the schedule of a plan, for blocks of `threads` threads, a power of two.

        Raises:
            ModelTooLarge: a clique has more than 2^31 cells.
        """
        return _Builder(plan, threads).build()

    @property
    def nbytes(self) -> int:
        """The size of the tables in bytes."""
        return sum(array.nbytes for array in (self.passes, self.operands, self.maps, self.blocks, self.steps))

    def launches(self, first: int, last: int, fused_blocks: int) -> list[tuple[int, int, bool]]:
        """Return the steps [first, last) as launches (from step, to step, fused).

        One block runs neighboring steps of at most `fused_blocks` blocks each, one after the other, because a launch
        costs more than such a step.
        """
        sizes = np.diff(self.steps)
        found: list[tuple[int, int, bool]] = []
        for step in range(first, last):
            small = bool(sizes[step] <= fused_blocks)
            if small and found and found[-1][2]:
                found[-1] = (found[-1][0], step + 1, True)
            else:
                found.append((step, step + 1, small))
        return found


class _Builder:
    """Builds a schedule: places the tables in the workspace, and lists the passes of both sweeps."""

    def __init__(self, plan: PropagationPlan, threads: int):
        self.threads = threads
        self.nodes = nodes_of(plan)
        self.operands = OperandTables(dict(plan.layout.domain.items()))
        self.cells = self.operands.cells
        self.work = self.roots = 0
        self.passes: list[list[int]] = []
        self.steps: list[list[int]] = []

    def build(self) -> Schedule:
        self.place()
        self.upward()
        upward = len(self.steps)
        self.downward()
        blocks = [self.blocks_of(step) for step in self.steps]
        arrays = (
            np.array(self.passes, dtype=np.int64).reshape(-1, f.N_PASS_FIELDS),
            np.array(self.operands.rows, dtype=np.int64).reshape(-1, f.N_OPERAND_FIELDS),
            self.operands.maps,
            np.concatenate([np.zeros((0, f.N_BLOCK_FIELDS), dtype=np.int32), *blocks]),
            np.cumsum([0, *map(len, blocks)], dtype=np.int64),
        )
        return Schedule(*arrays, upward, max(self.work, 1), self.roots, self.threads)

    def place(self) -> None:
        """Place each node's messages and marginals in the workspace."""
        for node in self.nodes:
            entries = self.cells(node.separator)
            if node.message_in_theta:
                node.message = node.base
            else:
                node.message = self.allocate(entries)
            if not node.slot:
                node.peak, node.inverse = self.allocate(entries), self.allocate(entries)
                node.weight = self.allocate(entries) if node.parent >= 0 else -1
            elif node.base < 0:
                node.marginal = self.allocate(entries)

    def allocate(self, cells: int) -> int:
        """Return the start of new cells in the workspace."""
        start = self.work
        self.work += cells
        return start

    # -- sweeps -----------------------------------------------------------------------------------------------------

    def upward(self) -> None:
        """Add the steps that send the messages; a node comes after all its children."""
        heights = [0] * len(self.nodes)
        for index in reversed(parents_first(self.nodes)):
            node = self.nodes[index]
            ready = 0 if node.message_in_theta else heights[index] + 1
            if node.parent >= 0:
                heights[node.parent] = max(heights[node.parent], ready)
        waves: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes):
            if not node.message_in_theta:
                waves.setdefault(heights[index], []).append(index)
        for height in sorted(waves):
            step = [self.message_pass(self.nodes[index]) for index in waves[height]]
            self.steps.append(step)
            merges = [self.merge_of_messages(p) for p in step if self.passes[p][f.PARTS] > 1]
            if merges:
                self.steps.append(merges)

    def downward(self) -> None:
        """Add the steps of the marginals, parents first: each table gives its children's separators their marginals."""
        depths = [0] * len(self.nodes)
        waves: dict[int, list[int]] = {}
        for index in parents_first(self.nodes):
            node = self.nodes[index]
            depths[index] = depths[node.parent] + 1 if node.parent >= 0 else 0
            waves.setdefault(depths[index], []).append(index)
        for depth in sorted(waves):
            nodes = [self.nodes[index] for index in waves[depth]]
            self.add_step([p for node in nodes for p in self.first_passes(node)])
            self.add_step([p for node in nodes for p in self.further_passes(node)])

    def add_step(self, step: list[int]) -> None:
        """Add the passes, and the passes that merge their partial results."""
        merges = [self.merge_of_sums(p) for p in step if self.passes[p][f.PARTS] > 1]
        self.steps.extend(each for each in (step, merges) if each)

    # -- passes -----------------------------------------------------------------------------------------------------

    def message_pass(self, node: Node) -> int:
        if node.slot:
            return self.add(f.TABLE, node.axes, (), self.terms(node), Operand(node.message, f.WORK, node.axes))
        reduced = tuple(name for name in node.axes if name not in node.separator)
        out = Operand(node.message, f.WORK, node.separator)
        found = self.add(f.LOG_SUM, node.separator, reduced, self.terms(node), out, last=node.axes[-1:])
        row = self.passes[found]
        row[f.PEAK], row[f.INVERSE] = node.peak, node.inverse
        if node.parent < 0:
            row[f.ROOT] = self.roots
            self.roots += 1
        return found

    def first_passes(self, node: Node) -> list[int]:
        """Return the passes that do not need the node's own marginals to be written first.

        For a slot, one pass per child sums the slot's marginal. For an unmeasured clique, one pass per child computes
        from the potentials. For a measured clique, one pass writes its marginals and those of its largest child.
        """
        if node.slot:
            return [self.sum_pass(node, child) for child in node.children]
        if node.base < 0:
            return [self.spread_pass(node, child) for child in node.children]
        return [self.spread_pass(node, self.largest_child(node))]

    def further_passes(self, node: Node) -> list[int]:
        """Return the passes for the other children of a measured clique, which sum its marginals once these are
        written.
        """
        if node.slot or node.base < 0:
            return []
        return [self.sum_pass(node, child) for child in node.children if child != self.largest_child(node)]

    def largest_child(self, node: Node) -> int:
        return max(node.children, key=lambda child: self.cells(self.nodes[child].separator), default=-1)

    def spread_pass(self, node: Node, child: int) -> int:
        kept = set(self.nodes[child].separator if child >= 0 else node.separator)
        inside = tuple(name for name in node.axes if name in kept)
        reduced = tuple(name for name in node.axes if name not in kept)
        out = self.received(self.nodes[child]) if child >= 0 else None
        found = self.add(f.SPREAD, inside, reduced, self.terms(node), out, last=node.axes[-1:])
        row = self.passes[found]
        row[f.PEAK], row[f.INVERSE], row[f.WEIGHT] = node.peak, node.inverse, node.weight
        row[f.OWN] = self.operand(Operand(0, f.WORK, node.separator), inside, reduced, row)
        if node.base >= 0:
            row[f.WRITE] = self.operand(Operand(node.base, f.MU, node.axes), inside, reduced, row)
        if child >= 0:
            row[f.FACTOR] = self.factor(self.nodes[child])
        return found

    def sum_pass(self, node: Node, child: int) -> int:
        kept = set(self.nodes[child].separator)
        inside = tuple(name for name in node.axes if name in kept)
        reduced = tuple(name for name in node.axes if name not in kept)
        space, start = (f.MU, node.base) if node.base >= 0 else (f.WORK, node.marginal)
        source, out = Operand(start, space, node.axes), self.received(self.nodes[child])
        found = self.add(f.SUM, inside, reduced, [source], out, last=node.axes[-1:])
        self.passes[found][f.FACTOR] = self.factor(self.nodes[child])
        return found

    def received(self, child: Node) -> Operand:
        """Return the table that receives the marginal of a child's separator.

        A measured slot's table is in the output, another slot's in the workspace. A clique receives its weight.
        """
        if not child.slot:
            return Operand(child.weight, f.WORK, child.separator)
        return Operand(child.base, f.MU, child.axes) if child.base >= 0 else Operand(child.marginal, f.WORK, child.axes)

    def factor(self, child: Node) -> int:
        """Return the distance from a clique's weight (its separator's marginal / Z) to its 1 / Z."""
        return 0 if child.slot else child.inverse - child.weight

    def terms(self, node: Node) -> list[Operand]:
        """Return the operands whose sum is the log potential of a cell."""
        own = [Operand(node.base, f.THETA, node.axes)] if node.base >= 0 else []
        children = [self.nodes[child] for child in node.children]
        return own + [Operand(c.message, f.THETA if c.message_in_theta else f.WORK, c.separator) for c in children]

    def merge_of_messages(self, partial: int) -> int:
        row = list(self.passes[partial])
        row[f.KIND], row[f.REDUCED], row[f.REDUCED_LOW] = f.MERGE, row[f.PARTS], row[f.PARTS]
        self.share(row, strided=True, parts=1)
        self.passes.append(row)
        return len(self.passes) - 1

    def merge_of_sums(self, partial: int) -> int:
        row = list(self.passes[partial])
        row[f.KIND], row[f.REDUCED], row[f.REDUCED_LOW] = f.SUM, row[f.PARTS], row[f.PARTS]
        row[f.FIRST], row[f.LAST] = len(self.operands.rows), len(self.operands.rows) + 1
        row[f.WRITE] = row[f.OWN] = -1
        self.operands.rows.append([row[f.PARTIAL], f.WORK, 1, -1, -1, row[f.KEPT], -1, -1])
        self.share(row, strided=True, parts=1)
        self.passes.append(row)
        return len(self.passes) - 1

    def add(
        self,
        kind: int,
        kept: tuple[str, ...],
        reduced: tuple[str, ...],
        terms: list[Operand],
        out: Operand | None,
        last: Sequence[str] = (),
    ) -> int:
        """Add a pass over `kept` and `reduced`; `last` is the axis along which the table's cells are neighbors in
        memory.
        """
        row = [-1] * f.N_PASS_FIELDS
        row[f.KIND], row[f.KEPT], row[f.REDUCED] = kind, self.cells(kept), self.cells(reduced)
        row[f.LOOKUP] = row[f.FACTOR] = 0
        row[f.KEPT_LOW], row[f.REDUCED_LOW] = (
            self.cells(self.operands.low(kept)),
            self.cells(self.operands.low(reduced)),
        )
        row[f.FIRST] = len(self.operands.rows)
        for term in terms:
            self.operand(term, kept, reduced, row)
        row[f.LAST] = len(self.operands.rows)
        if out is not None:
            row[f.OUT] = self.operand(out, kept, (), row)
        parts = 1
        strided = not reduced or bool(set(last) & set(kept))
        if kind != f.TABLE:
            lanes = 1 << self.lanes_log(row, strided)
            wanted = BUSY_THREADS // max(1, row[f.KEPT] * lanes)
            parts = max(1, min(wanted, row[f.REDUCED] // (lanes * LEAST_CHUNK)))
        self.share(row, strided, parts)
        if row[f.PARTS] > 1:
            row[f.PARTIAL] = self.allocate((2 if kind == f.LOG_SUM else 1) * row[f.PARTS] * row[f.KEPT])
        self.passes.append(row)
        return len(self.passes) - 1

    def share(self, row: list[int], strided: bool, parts: int) -> None:
        """Set how the threads share the entries of a pass and their cells."""
        lanes = self.lanes_log(row, strided)
        row[f.STRIDED], row[f.LANES_LOG] = int(strided), lanes
        row[f.ACROSS_LOG] = self.threads.bit_length() - 1 - lanes
        row[f.CHUNK] = -(-row[f.REDUCED] // parts)
        row[f.PARTS] = -(-row[f.REDUCED] // row[f.CHUNK])

    def lanes_log(self, row: list[int], strided: bool) -> int:
        """Return log2 of the number of threads of a block that share an entry."""
        most = self.threads.bit_length() - 1
        fewest, largest = CELLS_A_THREAD
        share = max(fewest, min(row[f.KEPT] * row[f.REDUCED] // BUSY_THREADS, largest))
        needed = max(0, -(-row[f.REDUCED] // share) - 1).bit_length()
        if strided:
            return min(needed, max(0, most - min(4, (row[f.KEPT] - 1).bit_length())))
        together = min(4, (row[f.REDUCED] - 1).bit_length())  # neighboring threads read consecutive memory
        return min(max(needed, together), most)

    def operand(self, table: Operand, kept: tuple[str, ...], reduced: tuple[str, ...], row: list[int]) -> int:
        """Add an operand of a pass and return its position."""
        row[f.LOOKUP] |= int(self.operands.add(table, kept, reduced))
        return len(self.operands.rows) - 1

    def blocks_of(self, step: list[int]) -> np.ndarray:
        """Return (pass, tile, part) for each block of threads of a step."""
        found = []
        for p in step:
            row = self.passes[p]
            tiles, parts = -(-row[f.KEPT] // (1 << row[f.ACROSS_LOG])), row[f.PARTS]
            block = np.empty((tiles, parts, f.N_BLOCK_FIELDS), dtype=np.int32)
            block[..., 0], block[..., 1], block[..., 2] = p, np.arange(tiles)[:, None], np.arange(parts)
            found.append(block.reshape(-1, f.N_BLOCK_FIELDS))
        return np.concatenate(found)
