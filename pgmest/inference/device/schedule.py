"""A schedule: a plan as a list of passes over its tables, for a device that runs thousands of threads at once.

A pass is one loop over the cells of one table. The axes of the table are *kept* or *reduced*: for each entry of the
kept axes, the cells of the reduced axes are reduced to one number. On the upward sweep, a clique's separator is kept,
and the other axes are reduced by log-sum-exp in one reading (peak and sum at once). On the downward sweep, each child's
separator is kept, and the marginals of the cells are summed. The pass for the first child also writes the marginals of
a measured clique, which reads the potentials once and writes the marginals once.

The log potential of a cell is the sum of its own potential and its children's messages. These are the *operands*:
tables over some of the axes. The address in an operand is `START` plus an offset for the entry plus an offset for the
cell. An offset is a multiple of a stride if the operand's axes lie as those of the loop. Otherwise it is the sum of two
short index maps, one for the high and one for the low part of the number.

Passes that do not depend on each other form a *step*. Nothing is compiled here: a schedule is data, like a plan.

If many small tables meet in one large clique, a table over the axes of several of them is put in between
(`_Builder.group`). Its message is the sum of their messages. Its marginal is taken from the clique once, and their
marginals from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pgmest.errors import ModelTooLarge, count_text
from pgmest.inference.device import columns as f
from pgmest.inference.exact import plan_columns
from pgmest.inference.exact.propagation_plan import MapAxes, PropagationPlan, index_map

GROUP_RATIO = 64
"""The smallest ratio of a clique's cells to a group's cells. A group saves one pass over the clique and adds two over
the group's table.
"""

LOW_CELLS = 4096
"""The largest number of cells that the low part of an entry's or a cell's number counts, unless one axis alone has
more. It bounds the length of the index maps.
"""

CELLS_A_THREAD = 4, 16
"""The number of cells of an entry that one thread takes, in a small and in a large table. More cells per thread make
the lookup before them a smaller part of the work.
"""

BUSY_THREADS = 1 << 18
"""The number of threads that keep a large device busy. With fewer, the device waits for its memory."""

LEAST_CHUNK = 32
"""The smallest number of an entry's cells per thread for which several blocks share the entry."""

LARGEST_CLIQUE = 2**31
"""The largest number of cells in a clique: the kernels number cells by 32 bits."""


@dataclass
class _Node:
    """A node of the plan, without the axes of size 1."""

    axes: tuple[str, ...]
    separator: tuple[str, ...]
    parent: int
    slot: bool
    base: int = -1  # start of its potentials and marginals in the flat arrays
    children: list[int] = field(default_factory=list)
    message: int = -1  # start in the workspace, or in the potentials (as `base`) if message_in_theta
    peak: int = -1
    inverse: int = -1
    weight: int = -1  # of a clique
    marginal: int = -1  # of a slot that is not measured

    @property
    def message_in_theta(self) -> bool:
        """True if the node's message is its unchanged potential."""
        return self.slot and not self.children


@dataclass(frozen=True)
class _Operand:
    """A table over some axes, row-major."""

    start: int
    space: int
    axes: tuple[str, ...]


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
    """Builds a schedule: groups the tables, places them in the workspace, and lists the passes of both sweeps."""

    def __init__(self, plan: PropagationPlan, threads: int):
        self.threads = threads
        self.sizes: dict[str, int] = dict(plan.layout.domain.items())
        self.nodes = _nodes_of(plan)
        self.work = self.roots = self.maps_length = 0
        self.passes: list[list[int]] = []
        self.operands: list[list[int]] = []
        self.maps: list[np.ndarray] = []
        self.map_starts: dict[MapAxes, int] = {}
        self.steps: list[list[int]] = []

    def build(self) -> Schedule:
        for index in range(len(self.nodes)):
            self.check_size(self.nodes[index])
            self.group(index)
        self.place()
        self.upward()
        upward = len(self.steps)
        self.downward()
        blocks = [self.blocks_of(step) for step in self.steps]
        arrays = (
            np.array(self.passes, dtype=np.int64).reshape(-1, f.N_PASS_FIELDS),
            np.array(self.operands, dtype=np.int64).reshape(-1, f.N_OPERAND_FIELDS),
            np.concatenate([np.zeros(1, dtype=np.int32), *self.maps]),
            np.concatenate([np.zeros((0, f.N_BLOCK_FIELDS), dtype=np.int32), *blocks]),
            np.cumsum([0, *map(len, blocks)], dtype=np.int64),
        )
        return Schedule(*arrays, upward, max(self.work, 1), self.roots, self.threads)

    def cells(self, axes: Iterable[str]) -> int:
        return math.prod([self.sizes[name] for name in axes])

    # -- nodes ------------------------------------------------------------------------------------------------------

    def check_size(self, node: _Node) -> None:
        if self.cells(node.axes) > LARGEST_CLIQUE:
            raise ModelTooLarge(
                f"a clique of the junction tree, {node.axes}, has {count_text(self.cells(node.axes))} cells; the GPU's "
                f'kernels number at most 2^31 of one. Measure smaller cliques there, or use oracle="exact".'
            )

    def group(self, index: int) -> None:
        """Put tables between a node and its children, each over the axes of several children."""
        node = self.nodes[index]
        limit = self.cells(node.axes) // GROUP_RATIO
        groups: list[tuple[set[str], list[int]]] = []
        for child in sorted(node.children, key=lambda c: -self.cells(self.nodes[c].separator)):
            axes = set(self.nodes[child].separator)
            options = [group for group in groups if self.cells(group[0] | axes) <= limit]
            if options:
                best = min(options, key=lambda group: self.cells(group[0] | axes) / self.cells(group[0]))
                best[0].update(axes)
                best[1].append(child)
            else:
                groups.append((axes, [child]))
        node.children = []
        for axes, members in groups:
            if len(members) > 1 and len(axes) < len(node.axes):
                ordered = tuple(name for name in node.axes if name in axes)
                node.children.append(len(self.nodes))
                for child in members:
                    self.nodes[child].parent = len(self.nodes)
                self.nodes.append(_Node(ordered, ordered, index, slot=True, children=members))
                self.group(len(self.nodes) - 1)
            else:
                node.children.extend(members)

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
        for index in reversed(self.parents_first()):
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
        for index in self.parents_first():
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

    def parents_first(self) -> list[int]:
        order = [index for index, node in enumerate(self.nodes) if node.parent < 0]
        for index in order:  # the list grows during the loop
            order.extend(self.nodes[index].children)
        return order

    # -- passes -----------------------------------------------------------------------------------------------------

    def message_pass(self, node: _Node) -> int:
        if node.slot:
            return self.add(f.TABLE, node.axes, (), self.terms(node), _Operand(node.message, f.WORK, node.axes))
        reduced = tuple(name for name in node.axes if name not in node.separator)
        out = _Operand(node.message, f.WORK, node.separator)
        found = self.add(f.LOG_SUM, node.separator, reduced, self.terms(node), out, last=node.axes[-1:])
        row = self.passes[found]
        row[f.PEAK], row[f.INVERSE] = node.peak, node.inverse
        if node.parent < 0:
            row[f.ROOT] = self.roots
            self.roots += 1
        return found

    def first_passes(self, node: _Node) -> list[int]:
        """Return the passes that do not need the node's own marginals to be written first.

        For a slot, one pass per child sums the slot's marginal. For an unmeasured clique, one pass per child computes
        from the potentials. For a measured clique, one pass writes its marginals and those of its largest child.
        """
        if node.slot:
            return [self.sum_pass(node, child) for child in node.children]
        if node.base < 0:
            return [self.spread_pass(node, child) for child in node.children]
        return [self.spread_pass(node, self.largest_child(node))]

    def further_passes(self, node: _Node) -> list[int]:
        """Return the passes for the other children of a measured clique, which sum its marginals once these are
        written.
        """
        if node.slot or node.base < 0:
            return []
        return [self.sum_pass(node, child) for child in node.children if child != self.largest_child(node)]

    def largest_child(self, node: _Node) -> int:
        return max(node.children, key=lambda child: self.cells(self.nodes[child].separator), default=-1)

    def spread_pass(self, node: _Node, child: int) -> int:
        kept = set(self.nodes[child].separator if child >= 0 else node.separator)
        inside = tuple(name for name in node.axes if name in kept)
        reduced = tuple(name for name in node.axes if name not in kept)
        out = self.received(self.nodes[child]) if child >= 0 else None
        found = self.add(f.SPREAD, inside, reduced, self.terms(node), out, last=node.axes[-1:])
        row = self.passes[found]
        row[f.PEAK], row[f.INVERSE], row[f.WEIGHT] = node.peak, node.inverse, node.weight
        row[f.OWN] = self.operand(_Operand(0, f.WORK, node.separator), inside, reduced, row)
        if node.base >= 0:
            row[f.WRITE] = self.operand(_Operand(node.base, f.MU, node.axes), inside, reduced, row)
        if child >= 0:
            row[f.FACTOR] = self.factor(self.nodes[child])
        return found

    def sum_pass(self, node: _Node, child: int) -> int:
        kept = set(self.nodes[child].separator)
        inside = tuple(name for name in node.axes if name in kept)
        reduced = tuple(name for name in node.axes if name not in kept)
        space, start = (f.MU, node.base) if node.base >= 0 else (f.WORK, node.marginal)
        source, out = _Operand(start, space, node.axes), self.received(self.nodes[child])
        found = self.add(f.SUM, inside, reduced, [source], out, last=node.axes[-1:])
        self.passes[found][f.FACTOR] = self.factor(self.nodes[child])
        return found

    def received(self, child: _Node) -> _Operand:
        """Return the table that receives the marginal of a child's separator.

        A measured slot's table is in the output, another slot's in the workspace. A clique receives its weight.
        """
        if not child.slot:
            return _Operand(child.weight, f.WORK, child.separator)
        return (
            _Operand(child.base, f.MU, child.axes) if child.base >= 0 else _Operand(child.marginal, f.WORK, child.axes)
        )

    def factor(self, child: _Node) -> int:
        """Return the distance from a clique's weight (its separator's marginal / Z) to its 1 / Z."""
        return 0 if child.slot else child.inverse - child.weight

    def terms(self, node: _Node) -> list[_Operand]:
        """Return the operands whose sum is the log potential of a cell."""
        own = [_Operand(node.base, f.THETA, node.axes)] if node.base >= 0 else []
        children = [self.nodes[child] for child in node.children]
        return own + [_Operand(c.message, f.THETA if c.message_in_theta else f.WORK, c.separator) for c in children]

    def merge_of_messages(self, partial: int) -> int:
        row = list(self.passes[partial])
        row[f.KIND], row[f.REDUCED], row[f.REDUCED_LOW] = f.MERGE, row[f.PARTS], row[f.PARTS]
        self.share(row, strided=True, parts=1)
        self.passes.append(row)
        return len(self.passes) - 1

    def merge_of_sums(self, partial: int) -> int:
        row = list(self.passes[partial])
        row[f.KIND], row[f.REDUCED], row[f.REDUCED_LOW] = f.SUM, row[f.PARTS], row[f.PARTS]
        row[f.FIRST], row[f.LAST] = len(self.operands), len(self.operands) + 1
        row[f.WRITE] = row[f.OWN] = -1
        self.operands.append([row[f.PARTIAL], f.WORK, 1, -1, -1, row[f.KEPT], -1, -1])
        self.share(row, strided=True, parts=1)
        self.passes.append(row)
        return len(self.passes) - 1

    def add(
        self,
        kind: int,
        kept: tuple[str, ...],
        reduced: tuple[str, ...],
        terms: list[_Operand],
        out: _Operand | None,
        last: Sequence[str] = (),
    ) -> int:
        """Add a pass over `kept` and `reduced`; `last` is the axis along which the table's cells are neighbors in
        memory.
        """
        row = [-1] * f.N_PASS_FIELDS
        row[f.KIND], row[f.KEPT], row[f.REDUCED] = kind, self.cells(kept), self.cells(reduced)
        row[f.LOOKUP] = row[f.FACTOR] = 0
        row[f.KEPT_LOW], row[f.REDUCED_LOW] = self.cells(self.low(kept)), self.cells(self.low(reduced))
        row[f.FIRST] = len(self.operands)
        for term in terms:
            self.operand(term, kept, reduced, row)
        row[f.LAST] = len(self.operands)
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

    # -- operands ---------------------------------------------------------------------------------------------------

    def operand(self, table: _Operand, kept: tuple[str, ...], reduced: tuple[str, ...], row: list[int]) -> int:
        strides, stride = dict.fromkeys((*kept, *reduced), 0), 1
        for name in reversed(table.axes):
            strides[name] = stride
            stride *= self.sizes[name]
        over_kept, over_reduced = self.offsets(kept, strides), self.offsets(reduced, strides)
        row[f.LOOKUP] |= int(over_kept[0] < 0)
        self.operands.append([table.start, table.space, *over_kept, *over_reduced])
        return len(self.operands) - 1

    def offsets(self, axes: tuple[str, ...], strides: dict[str, int]) -> tuple[int, int, int]:
        """Return (stride, -1, -1), or -1 and the starts of the high and the low map."""
        key = [(self.sizes[name], strides[name]) for name in axes]
        if all(here == size * after for (_, here), (size, after) in pairwise(key)):
            return (key[-1][1] if key else 0), -1, -1
        split = len(axes) - len(self.low(axes))
        return -1, self.index_map(tuple(key[:split])), self.index_map(tuple(key[split:]))

    def low(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the last axes whose cells the low part counts: as many as fit into LOW_CELLS, at least one."""
        count = min(1, len(axes))
        while count < len(axes) and self.cells(axes[len(axes) - count - 1 :]) <= LOW_CELLS:
            count += 1
        return axes[len(axes) - count :]

    def index_map(self, key: MapAxes) -> int:
        """Return the start of the map from cells to offsets; equal maps are stored once."""
        if key not in self.map_starts:
            offsets = index_map(key)
            self.map_starts[key] = 1 + self.maps_length  # one unused entry comes before all maps
            self.maps.append(offsets)
            self.maps_length += len(offsets)
        return self.map_starts[key]

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


def _nodes_of(plan: PropagationPlan) -> list[_Node]:
    sizes = plan.layout.domain
    axes = [tuple(name for name in names if sizes[name] > 1) for names in plan.axes]
    nodes: list[_Node] = []
    for own, row in zip(axes, plan.nodes, strict=True):
        slot, parent = bool(row[plan_columns.SLOT]), int(row[plan_columns.PARENT])
        above = axes[parent] if parent >= 0 else ()
        separator = own if slot else tuple(name for name in own if name in above)
        nodes.append(_Node(own, separator, parent, slot, int(row[plan_columns.BASE])))
        if parent >= 0:
            nodes[parent].children.append(len(nodes) - 1)
    return nodes
