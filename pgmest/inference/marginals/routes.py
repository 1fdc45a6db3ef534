"""The work list of propagation.py: the clique at which each of many marginals is computed, and the messages it needs.

The work list depends on the tree and on the attribute sets asked for, not on any probabilities, so it is cached.
Sets of attributes are bit masks here: bit i is the attribute at rank i of the domain.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from pgmest._base.memory import LARGEST_TABLE
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.triangulation import bits
from pgmest.inference.marginals.blocks import Block, Pairing, Part, Routes
from pgmest.tables.domain import Clique

MARGINAL_BLOCK = 1 << 20
"""The approximate number of cells of a block of marginals, which fits into a cache."""

LARGEST_LOCAL = 1 << 22
"""The most cells of a table of a clique that joins messages; larger joins are left to variable elimination."""

MESSAGE_RATIO = 8
"""The largest ratio of the cells of an upward message to those of the marginal that needs it; a marginal with larger
messages is left to variable elimination."""

LEAST_PAIRED = 0.1
"""The least number of attribute sets per pair of children for which a pairing computes the sets of two branches."""

SMALL_MESSAGE = 1 << 16
"""The number of cells below which an upward message is sent whatever its ratio."""


@lru_cache(maxsize=32)
def find_routes(tree: JunctionTree, asked: tuple[frozenset[str], ...]) -> Routes:
    """Return the work list for these attribute sets, each of which is computed once."""
    return _Router(tree).routes(asked)


class _Source(NamedTuple):
    """The parts of an attribute set at a clique: the clique's own attributes, and sets from some of its children."""

    own: int
    branches: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Rows:
    """The rows of one attribute set in the upward message of a clique."""

    start: int
    stop: int
    labels: Clique


class _Router:
    """Builds the work list; clique -1 is a root above all trees of the forest, without attributes."""

    def __init__(self, tree: JunctionTree):
        self.tree = tree
        self.names = tree.domain.attributes
        self.sizes = dict(tree.domain.items())
        self.cells_of_mask: dict[int, int] = {}
        self.rank = {name: position for position, name in enumerate(self.names)}
        self.cliques = {position: self.mask(clique) for position, clique in enumerate(tree.cliques)} | {-1: 0}
        self.separators = {
            position: self.cliques[position] & self.cliques[parent] for position, parent in enumerate(tree.parents)
        }
        self.below = {position: self.cliques[position] & ~shared for position, shared in self.separators.items()}
        self.home = {name: position for position, own in self.below.items() for name in bits(own)}
        for position in reversed(range(len(tree.cliques))):
            if tree.parents[position] >= 0:
                self.below[tree.parents[position]] |= self.below[position]
        self.paths: dict[int, tuple[int, ...]] = {-1: (-1,)}
        for position, parent in enumerate(tree.parents):
            self.paths[position] = (*self.paths[parent], position)
        self.sources: dict[tuple[int, int], _Source] = {}
        self.largest_message: dict[tuple[int, int], float] = {}
        self.rows: dict[tuple[int, int], _Rows] = {}

    def mask(self, names: Iterable[str]) -> int:
        """Return names as a mask."""
        return sum([1 << self.rank[name] for name in names])

    def labels(self, mask: int) -> Clique:
        """Return a mask as names, in domain order."""
        return tuple(self.names[position] for position in bits(mask))

    def cells(self, mask: int) -> int:
        """Return the cells of the table over these attributes."""
        found = self.cells_of_mask.get(mask)
        if found is None:
            found = self.cells_of_mask[mask] = math.prod([self.tree.domain.shape[position] for position in bits(mask)])
        return found

    def routes(self, asked: Iterable[frozenset[str]]) -> Routes:
        """Return the work list for these attribute sets."""
        inside, by_elimination = [], []
        tops: dict[tuple[int, int], None] = {}
        widest = max(map(self.cells, self.separators.values()), default=1)  # no message has more columns
        if max(self.tree.sizes, default=1) > LARGEST_LOCAL:
            widest = LARGEST_TABLE
        for names in dict.fromkeys(asked):
            position = self.tree.containing(names) if self.tree.holds(names) else None
            if position is not None:
                inside.append((names, position))
                continue
            mask = self.mask(names)
            top = self.lowest_cover(mask)
            cells = self.cells(mask)
            most = max(SMALL_MESSAGE, MESSAGE_RATIO * cells)
            if cells > LARGEST_TABLE or (cells * widest > most and self.message_cells(top, mask) > most):
                by_elimination.append(names)
            else:
                tops[top, mask] = None
        needed = self.needed(tops)
        children_first = sorted(needed)[::-1]
        upward = tuple(
            (position, tuple(self.upward_message(position, needed[position]))) for position in children_first
        )
        joined: list[Block] = []
        paired: list[Pairing] = []
        for position, masks in _by_clique(tops).items():
            single, by_separator = self.divide(position, masks)
            joined += self.join(position, single)
            paired += [pairing for pairs in by_separator for pairing in self.pairings(position, pairs)]
        return Routes(tuple(inside), tuple(by_elimination), upward, tuple(joined), tuple(paired))

    # -- the attribute sets that each clique needs ------------------------------------------------------------------

    def lowest_cover(self, mask: int) -> int:
        """Return the lowest clique that has each attribute in itself or below; -1 if no tree has them all."""
        path = max((self.paths[self.home[attribute]] for attribute in bits(mask)), key=len)
        low, high = (
            0,
            len(path),
        )  # bisection: path[low] covers the set, and the covered attributes shrink along the path
        while high - low > 1:
            middle = (low + high) // 2
            covered = self.below[path[middle]] | self.separators[path[middle]]
            low, high = (middle, high) if not mask & ~covered else (low, middle)
        return path[low]

    def source(self, position: int, mask: int) -> _Source:
        """Return the parts of an attribute set at a clique that has all other attributes of the set below it."""
        found = self.sources.get((position, mask))
        if found is None:
            depth = len(self.paths[position])
            below: dict[int, int] = defaultdict(int)
            for attribute in bits(mask & ~self.cliques[position]):
                below[self.paths[self.home[attribute]][depth]] |= 1 << attribute
            found = _Source(mask & self.cliques[position], tuple(sorted(below.items())))
            self.sources[position, mask] = found
        return found

    def message_cells(self, position: int, mask: int) -> float:
        """Return the cells of the largest message for a set at this clique; inf if a joining table is too large."""
        source = self.source(position, mask)
        stack, order = list(source.branches), []
        while stack:  # an explicit stack, because trees can be deeper than Python's recursion limit
            pair = stack.pop()
            if pair not in self.largest_message:
                order.append(pair)
                stack += self.source(*pair).branches
        for child, below in reversed(order):
            self.largest_message[child, below] = max(
                self.cells(below) * self.cells(self.separators[child]),
                self.largest_below(self.source(child, below), self.separators[child]),
            )
        return self.largest_below(source, 0)

    def largest_below(self, source: _Source, up: int) -> float:
        """Return the cells of the largest message in the branches; inf if the table that joins them is too large."""
        if self.cells(self.local(source, up)) > LARGEST_LOCAL:
            return math.inf
        return max((self.largest_message[pair] for pair in source.branches), default=0)

    def local(self, source: _Source, up: int) -> int:
        """Return the attributes of a clique that take part in a product."""
        mask = source.own | up
        for child, _ in source.branches:
            mask |= self.separators[child]
        return mask

    def needed(self, tops: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
        """Return the attribute sets in the upward message of each clique."""
        needed: dict[int, dict[int, None]] = defaultdict(dict)
        stack = [pair for top in tops for pair in self.source(*top).branches]
        while stack:
            child, mask = stack.pop()
            if mask not in needed[child]:
                needed[child][mask] = None
                stack += self.source(child, mask).branches
        return {position: sorted(masks) for position, masks in needed.items()}

    # -- blocks -----------------------------------------------------------------------------------------------------

    def upward_message(self, position: int, masks: Iterable[int]) -> Iterator[Block]:
        """Yield the blocks that a clique stacks for its parent, and record the rows of each attribute set."""
        start = 0
        for own, chosen in self.products(position, masks):
            block = self.block(position, own, chosen, self.separators[position])
            for names, part in block.parts:
                mask = self.mask(names)
                self.rows[position, mask] = _Rows(start, start + self.cells(mask), part.labels)
                start += self.cells(mask)
            yield block

    def join(self, position: int, masks: Iterable[int]) -> Iterator[Block]:
        """Yield the blocks of results at a clique."""
        for own, chosen in self.products(position, masks):
            for fewer in self.split(chosen, self.cells(own)):
                yield self.block(position, own, fewer, 0)

    def divide(self, position: int, masks: Iterable[int]) -> tuple[list[int], list[dict[int, _Source]]]:
        """Divide the sets of a clique into those computed by blocks, and those computed by pairings, by separator.

        Blocks share the work of sets with the same children. If many children have one separator (a star, or trees that
        are not connected), there would be as many blocks as pairs of children; a pairing computes them all at once.
        """
        single: list[int] = []
        by_separator: dict[int, dict[int, _Source]] = defaultdict(dict)
        for mask in masks:
            source = self.source(position, mask)
            separators = {self.separators[child] for child, _ in source.branches}
            if len(source.branches) == 2 and not source.own and len(separators) == 1:
                by_separator[separators.pop()][mask] = source
            else:
                single.append(mask)
        paired: list[dict[int, _Source]] = []
        for pairs in by_separator.values():
            children = len({child for source in pairs.values() for child, _ in source.branches})
            if children > 2 and len(pairs) >= children * children * LEAST_PAIRED:
                paired.append(pairs)
            else:
                single += pairs
        return single, paired

    def pairings(self, position: int, pairs: dict[int, _Source]) -> Iterator[Pairing]:
        """Yield pairings that compute these sets, each of at most MARGINAL_BLOCK cells if possible."""
        partners: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for source in pairs.values():
            partners[source.branches[0]].append(source.branches[1])
        separator = self.labels(self.separators[next(iter(partners))[0]])
        left: list[tuple[int, int]] = []
        right: dict[tuple[int, int], None] = {}
        rows = columns = 0
        for one in sorted(partners):
            new = [other for other in partners[one] if other not in right]
            rows += self.cells(one[1])
            columns += sum(self.cells(below) for _, below in new)
            if left and rows * columns > MARGINAL_BLOCK:
                yield self.pairing(position, separator, left, list(right), partners)
                left, right, new = [], {}, partners[one]
                rows, columns = self.cells(one[1]), sum(self.cells(below) for _, below in new)
            left.append(one)
            right.update(dict.fromkeys(new))
        yield self.pairing(position, separator, left, list(right), partners)

    def pairing(
        self,
        position: int,
        separator: Clique,
        left: list[tuple[int, int]],
        right: list[tuple[int, int]],
        partners: dict[tuple[int, int], list[tuple[int, int]]],
    ) -> Pairing:
        """Return the pairing of the sets of two sides, for the pairs of sets in `partners`."""
        index = dict(zip(right, self.slices(right), strict=True))
        parts: list[tuple[frozenset[str], Part]] = []
        for one, rows in zip(left, self.slices(left), strict=True):
            first = self.rows[one].labels
            for other in partners[one]:
                labels = (*first, *self.rows[other].labels)
                shape = tuple([self.sizes[name] for name in labels])
                parts.append((frozenset(labels), Part((rows, index[other]), shape, labels)))
        stacked = [
            tuple((pair[0], slice(self.rows[pair].start, self.rows[pair].stop)) for pair in pairs)
            for pairs in (left, right)
        ]
        return Pairing(position, separator, stacked[0], stacked[1], tuple(parts))

    def slices(self, pairs: Iterable[tuple[int, int]]) -> list[slice]:
        """Return the slice of the rows of each set in a stack of these sets."""
        ends = np.cumsum([0, *(self.cells(below) for _, below in pairs)]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    def products(self, position: int, masks: Iterable[int]) -> Iterator[tuple[int, dict[int, list[int]]]]:
        """Yield groups of attribute sets: an own part, with all combinations of chosen sets of some children."""
        groups: dict[tuple[int, tuple[int, ...]], list[tuple[int, ...]]] = defaultdict(list)
        for mask in masks:
            source = self.source(position, mask)
            children = tuple(child for child, _ in source.branches)
            groups[source.own, children].append(tuple(below for _, below in source.branches))
        for (own, children), combinations in groups.items():
            for chosen in full_products(combinations):
                yield own, dict(zip(children, chosen, strict=True))

    def split(self, chosen: dict[int, list[int]], cells: int) -> Iterator[dict[int, list[int]]]:
        """Yield the combinations in parts of at most MARGINAL_BLOCK cells if they can be split."""
        sizes = {child: sum(map(self.cells, masks)) for child, masks in chosen.items()}
        child = max(chosen, key=lambda child: (len(chosen[child]) > 1, sizes[child]))
        masks = chosen[child]
        if cells * math.prod(sizes.values()) <= MARGINAL_BLOCK or len(masks) == 1:
            yield chosen
            return
        for half in (masks[: len(masks) // 2], masks[len(masks) // 2 :]):
            yield from self.split({**chosen, child: half}, cells)

    def block(self, position: int, own: int, chosen: dict[int, list[int]], up: int) -> Block:
        """Return the block of all combinations of the chosen sets of the children with the clique's own attributes."""
        branches, options = [], []
        for child, masks in chosen.items():
            rows = [self.rows[child, mask] for mask in sorted(masks, key=lambda mask: self.rows[child, mask].start)]
            branches.append((child, _selection(rows)))
            ends = np.cumsum([0] + [row.stop - row.start for row in rows]).tolist()
            options.append([(slice(*pair), row.labels) for pair, row in zip(pairwise(ends), rows, strict=True)])
        own_labels = self.labels(own)
        parts = []
        for combination in product(*options):
            labels = (*(name for _, names in combination for name in names), *own_labels)
            shape = tuple(self.sizes[name] for name in labels)
            parts.append((frozenset(labels), Part(tuple(index for index, _ in combination), shape, labels)))
        local = self.labels(self.local(_Source(own, tuple((child, 0) for child in chosen)), up))
        return Block(position, own_labels, local, tuple(branches), tuple(parts))


def full_products(combinations: Iterable[tuple[int, ...]]) -> Iterator[tuple[list[int], ...]]:
    """Yield tuples of lists whose Cartesian products together give each combination exactly once.

    >>> list(full_products([(1, 5), (1, 6), (2, 5), (2, 6), (3, 6)]))
    [([1, 2], [5, 6]), ([3], [6])]
    """
    rest_of: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for combination in combinations:
        if not combination:
            yield ()
            return
        rest_of[combination[0]].append(combination[1:])
    first_of: dict[tuple[tuple[int, ...], ...], list[int]] = defaultdict(list)
    for first, rest in rest_of.items():
        first_of[tuple(sorted(rest))].append(first)
    for rest, firsts in first_of.items():
        for lists in full_products(rest):
            yield (firsts, *lists)


def _selection(rows: Sequence[_Rows]) -> slice | np.ndarray:
    """Return the index of these rows in a stack, a slice if they are consecutive."""
    if all(before.stop == after.start for before, after in pairwise(rows)):
        return slice(rows[0].start, rows[-1].stop)
    return np.concatenate([np.arange(row.start, row.stop) for row in rows])


def _by_clique(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for position, mask in pairs:
        found[position].append(mask)
    return found
