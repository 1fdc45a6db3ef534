"""A plan as a list of passes over its tables, for a processor that runs thousands of threads at once.

A pass is one loop over the cells of one table: the axes of the table are *kept* or *reduced*, and for each entry of
the kept axes the cells of the reduced axes are brought to one number. Upward, a clique's separator is kept and the
rest reduced by log-sum-exp, in one reading (peak and sum at once). Downward, each child's separator is kept and the
marginals of the cells are summed; the pass for the first child also writes the marginals of a measured clique, so that
its potentials are read once and its marginals written once. What a cell is the sum of, its own potential and its
children's messages, are *operands*: tables over some of the axes, each found at `START` plus an offset for the entry
plus an offset for the cell. An offset is a multiple where the operand's axes lie as those of the loop, else the sum of
two short index maps, one for the high and one for the low part of the number.

Passes that do not wait for each other make up a *step*. Nothing here is compiled: a schedule is data, as a plan is.

Where many small tables meet in one large clique, the table of a group of them comes between (`_Builder.group`): its
message is the sum of theirs, its marginal is taken from the clique once, and theirs from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pgmest._base.errors import ModelTooLarge, count_text
from pgmest.inference.device import columns as f
from pgmest.inference.exact import plan_columns
from pgmest.inference.exact.plan import MapAxes, Plan, index_map

GROUP_RATIO = 64
"""How many times larger than a group's table the clique must be: a pass over it less, two over the group more."""

LOW_CELLS = 4096
"""The low part of an entry's or a cell's number, at most, where several axes can share it."""

CELLS_A_THREAD = 4, 16
"""How many cells of an entry a thread takes, in a small table and in a large one, where what it looks up first is then
a small part."""

BUSY_THREADS = 1 << 18
"""With fewer threads a large device waits for its memory."""

LEAST_CHUNK = 32
"""Cells of an entry for each thread below which blocks do not share it."""

LARGEST_CLIQUE = 2**31
"""Cells of a clique: they are numbered by 32 bits."""


@dataclass
class _Node:
    """A node of the plan, without axes of one value."""

    axes: tuple[str, ...]
    separator: tuple[str, ...]
    parent: int
    slot: bool
    base: int = -1  # start of its potentials and marginals in the flat arrays
    children: list[int] = field(default_factory=list)
    message: int = -1  # start in the workspace, or in the potentials (as `base`) where it is these
    peak: int = -1
    inverse: int = -1
    weight: int = -1  # of a clique
    marginal: int = -1  # of a slot that is not measured

    @property
    def message_in_theta(self) -> bool:
        """Whether its message is its potential as it stands."""
        return self.slot and not self.children


@dataclass(frozen=True)
class _Operand:
    """A table over some axes, row-major."""

    start: int
    space: int
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Schedule:
    """What a device runs for one plan.

    Attributes:
        passes: shape (passes, N_PASS_FIELDS).
        operands: shape (operands, N_OPERAND_FIELDS).
        maps: the index maps of all operands.
        blocks: shape (blocks, N_BLOCK_FIELDS): what each block of threads does, step by step.
        steps: shape (steps + 1,): where the blocks of each step start.
        upward: how many of the steps are those of the upward sweep.
        work: cells of the workspace of one run.
        roots: how many messages sum to the log-partition function.
        threads: of a block.
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
    def of(cls, plan: Plan, threads: int = 256) -> Schedule:
        """The schedule of a plan, for blocks of `threads` threads, a power of two.

        Raises:
            ModelTooLarge: a clique has more than 2^31 cells.
        """
        return _Builder(plan, threads).build()

    @property
    def nbytes(self) -> int:
        """Of the tables."""
        return sum(array.nbytes for array in (self.passes, self.operands, self.maps, self.blocks, self.steps))

    def launches(self, first: int, last: int, fused_blocks: int) -> list[tuple[int, int, bool]]:
        """Steps [first, last) as launches (from step, to step, fused).

        Neighboring steps of at most `fused_blocks` blocks each are run by one block one after the other: a launch
        costs more than they do.
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
    """The steps of building, in order."""

    def __init__(self, plan: Plan, threads: int):
        self.threads = threads
        self.sizes: dict[str, int] = dict(plan.layout.domain.items())
        self.nodes = _nodes_of(plan)
        self.work = self.roots = self.maps_length = 0
        self.passes: list[list[int]] = []
        self.operands: list[list[int]] = []
        self.maps: list[np.ndarray] = []
        self.known_maps: dict[MapAxes, int] = {}
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
        """Where in the workspace each node's messages and marginals lie."""
        for node in self.nodes:
            entries = self.cells(node.separator)
            if node.message_in_theta:
                node.message = node.base
            else:
                node.message = self.room(entries)
            if not node.slot:
                node.peak, node.inverse = self.room(entries), self.room(entries)
                node.weight = self.room(entries) if node.parent >= 0 else -1
            elif node.base < 0:
                node.marginal = self.room(entries)

    def room(self, cells: int) -> int:
        start = self.work
        self.work += cells
        return start

    # -- sweeps -----------------------------------------------------------------------------------------------------

    def upward(self) -> None:
        """Messages, those first whose children have sent theirs."""
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
        """Marginals, parents first: from each table those of its children's separators."""
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
        """The passes, and those that merge what they leave in parts."""
        merges = [self.merge_of_sums(p) for p in step if self.passes[p][f.PARTS] > 1]
        self.steps.extend(each for each in (step, merges) if each)

    def parents_first(self) -> list[int]:
        order = [index for index, node in enumerate(self.nodes) if node.parent < 0]
        for index in order:  # it grows
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
        """A slot's children from its marginal; from a clique's potentials its own marginals if it is measured, with
        the largest of its children, and else all children."""
        if node.slot:
            return [self.sum_pass(node, child) for child in node.children]
        if node.base < 0:
            return [self.spread_pass(node, child) for child in node.children]
        return [self.spread_pass(node, self.largest_child(node))]

    def further_passes(self, node: _Node) -> list[int]:
        """The other children of a measured clique, from its marginals once these are written."""
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
        """Where the marginal of a child's separator goes: of a slot to the output, of a clique as its weight."""
        if not child.slot:
            return _Operand(child.weight, f.WORK, child.separator)
        return (
            _Operand(child.base, f.MU, child.axes) if child.base >= 0 else _Operand(child.marginal, f.WORK, child.axes)
        )

    def factor(self, child: _Node) -> int:
        """From the weight of a clique, which is its separator's marginal / Z, to 1 / Z."""
        return 0 if child.slot else child.inverse - child.weight

    def terms(self, node: _Node) -> list[_Operand]:
        """What the log potential of a cell is the sum of."""
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
        """A pass over `kept` and `reduced`; `last` is the axis along which the table's cells are neighbors."""
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
            row[f.PARTIAL] = self.room((2 if kind == f.LOG_SUM else 1) * row[f.PARTS] * row[f.KEPT])
        self.passes.append(row)
        return len(self.passes) - 1

    def share(self, row: list[int], strided: bool, parts: int) -> None:
        """How the threads share the entries of a pass and their cells."""
        lanes = self.lanes_log(row, strided)
        row[f.STRIDED], row[f.LANES_LOG] = int(strided), lanes
        row[f.ACROSS_LOG] = self.threads.bit_length() - 1 - lanes
        row[f.CHUNK] = -(-row[f.REDUCED] // parts)
        row[f.PARTS] = -(-row[f.REDUCED] // row[f.CHUNK])

    def lanes_log(self, row: list[int], strided: bool) -> int:
        """log2 of how many threads of a block share an entry."""
        most = self.threads.bit_length() - 1
        fewest, largest = CELLS_A_THREAD
        share = max(fewest, min(row[f.KEPT] * row[f.REDUCED] // BUSY_THREADS, largest))
        needed = max(0, -(-row[f.REDUCED] // share) - 1).bit_length()
        if strided:
            return min(needed, max(0, most - min(4, (row[f.KEPT] - 1).bit_length())))
        together = min(4, (row[f.REDUCED] - 1).bit_length())  # neighbors that read one stretch of memory
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
        """(stride, -1, -1), or -1 and the starts of the high and the low map."""
        key = [(self.sizes[name], strides[name]) for name in axes]
        if all(here == size * after for (_, here), (size, after) in pairwise(key)):
            return (key[-1][1] if key else 0), -1, -1
        split = len(axes) - len(self.low(axes))
        return -1, self.index_map(tuple(key[:split])), self.index_map(tuple(key[split:]))

    def low(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """As many of the last axes as number LOW_CELLS cells, at least one."""
        count = min(1, len(axes))
        while count < len(axes) and self.cells(axes[len(axes) - count - 1 :]) <= LOW_CELLS:
            count += 1
        return axes[len(axes) - count :]

    def index_map(self, key: MapAxes) -> int:
        """Start of the map from cells to offsets; equal maps are kept once."""
        if key not in self.known_maps:
            offsets = index_map(key)
            self.known_maps[key] = 1 + self.maps_length  # one unused entry comes before all maps
            self.maps.append(offsets)
            self.maps_length += len(offsets)
        return self.known_maps[key]

    def blocks_of(self, step: list[int]) -> np.ndarray:
        """(pass, tile, part) of each block of threads of a step."""
        found = []
        for p in step:
            row = self.passes[p]
            tiles, parts = -(-row[f.KEPT] // (1 << row[f.ACROSS_LOG])), row[f.PARTS]
            block = np.empty((tiles, parts, f.N_BLOCK_FIELDS), dtype=np.int32)
            block[..., 0], block[..., 1], block[..., 2] = p, np.arange(tiles)[:, None], np.arange(parts)
            found.append(block.reshape(-1, f.N_BLOCK_FIELDS))
        return np.concatenate(found)


def _nodes_of(plan: Plan) -> list[_Node]:
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
