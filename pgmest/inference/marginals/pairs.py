"""The marginals of very many pairs of attributes, all written into one flat array.

This is propagation.py specialized to pairs, for which cliques send up only single attributes. A compiled kernel finds
the clique at which each pair is computed (by the rules of routes.py). Then one product for each two separators of a
clique computes all pairs of attributes below them:

- *Stacks.* The children of a clique with one separator S form a *branch*. Its stack has the rows P(x | S) of all
  attributes x below it that are needed above it.
- *Joins.* For attributes below one branch, the product is stack diag(P(S)) stack^T; below two branches, it is
  stack P(S, S') stack'^T; for an attribute x of the clique itself and one below a branch, it is P(x, S) stack^T. A
  kernel copies the table of each pair out of the product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pgmest._base.memory import LARGEST_TABLE
from pgmest.inference.marginals import routes
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.contraction import Table, contract
from pgmest.inference.marginals.rooted_tree import Branch, RootedTree, rooted
from pgmest.inference.marginals.variable_elimination import eliminate
from pgmest.tables.domain import Clique

MANY_PAIRS = 64
"""The fewest pairs for which loading the kernels pays off."""

LARGEST_PAIR = 1 << 20
"""The most cells of a pair that is computed here; larger tables are long enough to be computed one by one."""

WASTED = 4
"""The largest ratio of the cells of a product to those asked for with which whole stacks are multiplied."""

ROWS, COLUMNS = -1, -2
"""The labels of the axes of the rows of a left and of a right stack."""


def small_pairs(calibrated: CalibratedTree, cliques: Iterable[Clique]) -> dict[Clique, tuple[int, int]]:
    """Return the pairs to compute here, as positions in the domain; {} if they are few, or a clique is too large."""
    if max(calibrated.tree.sizes, default=1) > routes.LARGEST_LOCAL:
        return {}
    rank, shape = calibrated.rank, calibrated.domain.shape
    pairs = {clique: (rank[clique[0]], rank[clique[1]]) for clique in cliques if len(clique) == 2}
    if len(pairs) < MANY_PAIRS:
        return {}
    if max(shape) ** 2 <= LARGEST_PAIR:
        return pairs
    return {clique: pair for clique, pair in pairs.items() if shape[pair[0]] * shape[pair[1]] <= LARGEST_PAIR}


def propagate_pairs(calibrated: CalibratedTree, pairs: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the marginals of pairs, scaled to `total`.

    Args:
        calibrated: the model, whose cliques are small enough for tables (`small_pairs`).
        pairs: positions in the domain, two different ones in each row.
        total: the sum of each marginal.

    Returns:
        all tables one after the other, row-major, and the start of each table, followed by the end of the last.

    Raises:
        ModelTooLarge: a marginal, or an intermediate table of every way to compute it, has too many cells.
    """
    return _Pairs(calibrated, pairs, total).run()


@dataclass(frozen=True)
class Stack:
    """The rows of some attributes, with a column for each cell of a separator.

    Attributes:
        values: the probabilities, shape (rows, cells).
        attributes: the attributes, in the order of their rows.
        starts: the first row of each attribute of the domain, -1 if it has no rows.
    """

    values: np.ndarray
    attributes: np.ndarray
    starts: np.ndarray

    def only(self, wanted: np.ndarray, sizes: np.ndarray) -> Stack:
        """Return the stack of some of its attributes."""
        if len(wanted) == len(self.attributes):
            return self
        rows = np.concatenate(
            [np.arange(start, start + size) for start, size in zip(*self.rows(wanted, sizes), strict=True)]
        )
        return Stack(self.values[rows], wanted, _starts(wanted, sizes))

    def rows(self, wanted: np.ndarray, sizes: np.ndarray) -> tuple[list[int], list[int]]:
        """Return the first row and the number of rows of each of these attributes."""
        return self.starts[wanted].tolist(), sizes[wanted].tolist()


class Asked(NamedTuple):
    """The pairs that one product of two stacks computes.

    Attributes:
        numbers: the numbers of the pairs.
        rows, columns: the attribute of each pair in the left and in the right stack.
        flipped: whether the pair names the attribute of the right stack first.
    """

    numbers: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    flipped: np.ndarray

    def only(self, some: np.ndarray) -> Asked:
        """Return some of the pairs."""
        return Asked(self.numbers[some], self.rows[some], self.columns[some], self.flipped[some])

    def sorted(self, starts: np.ndarray) -> Asked:
        """Return pairs of one stack with the attribute of the lower rows as the row attribute."""
        swap = starts[self.rows] > starts[self.columns]
        rows, columns = np.where(swap, self.columns, self.rows), np.where(swap, self.rows, self.columns)
        return Asked(self.numbers, rows, columns, self.flipped != swap)


@dataclass(frozen=True)
class _Pairs:
    calibrated: CalibratedTree
    pairs: np.ndarray
    total: float
    flat: np.ndarray = field(init=False)
    offsets: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        cells = self.sizes[self.pairs].prod(axis=1)
        object.__setattr__(self, "offsets", np.concatenate([[0], np.cumsum(cells)]))
        object.__setattr__(self, "flat", np.empty(self.offsets[-1]))

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of values of each attribute."""
        return np.array(self.calibrated.domain.shape, dtype=np.int64)

    @cached_property
    def names(self) -> Clique:
        """The attributes."""
        return self.calibrated.domain.attributes

    @cached_property
    def tree(self) -> RootedTree:
        """The junction tree."""
        return rooted(self.calibrated.tree)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat tables and their starts; `propagate_pairs` explains them."""
        from pgmest.inference.marginals.pair_kernels import ELIMINATED, INSIDE, JOINED, find

        tree, count = self.tree, len(self.pairs)
        way, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        branches, highest = np.empty((count, 2), dtype=np.int64), np.empty(len(self.sizes), dtype=np.int64)
        limits = np.array([routes.SMALL_MESSAGE, routes.MESSAGE_RATIO], dtype=np.float64)
        find(
            self.pairs, tree.home, tree.parents, tree.depth, tree.first, tree.last, tree.members, tree.cells,
            tree.separators, tree.sizes, float(LARGEST_TABLE), limits, way, place, branches, highest,
        )  # fmt: skip
        for number in np.flatnonzero(way == INSIDE).tolist():
            self.write(number, self.inside(int(place[number]), number))
        for number in np.flatnonzero(way == ELIMINATED).tolist():
            self.write(number, eliminate(self.calibrated, dict.fromkeys(self.pair(number))))
        joined = np.flatnonzero(way == JOINED)
        if len(joined):
            self.join_all(joined, tree.branch_of[branches[joined]], self.stacks(highest))
        return self.flat, self.offsets

    def pair(self, number: int) -> Clique:
        """Return a pair as names."""
        one, other = self.pairs[number].tolist()
        return self.names[one], self.names[other]

    def inside(self, clique: int, number: int) -> np.ndarray:
        """Return the marginal of a pair that a clique holds."""
        pair = self.pair(number)
        table = self.calibrated.marginal(clique, pair)
        return table.T if self.pairs[number, 0] > self.pairs[number, 1] else table

    def write(self, number: int, table: np.ndarray) -> None:
        """Write the marginal of one pair, scaled to the total."""
        np.multiply(
            table, self.total, out=self.flat[self.offsets[number] : self.offsets[number + 1]].reshape(table.shape)
        )

    # -- stacks ---------------------------------------------------------------------------------------------------

    def stacks(self, highest: np.ndarray) -> list[Stack | None]:
        """Return the stack of each branch, None without rows; `highest` is the highest clique of each attribute."""
        tree = self.tree
        top = np.where(highest >= 0, tree.depth[highest], len(tree.parents))
        at_home: dict[int, list[int]] = defaultdict(list)
        for attribute in np.flatnonzero(highest >= 0).tolist():
            at_home[int(tree.home[attribute])].append(attribute)
        sent: dict[int, Stack] = {}
        found: list[Stack | None] = [None] * len(tree.branches)
        for clique in [*reversed(range(len(tree.parents))), -1]:  # children first
            parts: list[Stack] = []
            for number in tree.branches_below.get(clique, ()):
                branch = tree.branches[number]
                stack = self.stacked([sent.pop(child) for child in branch.children if child in sent])
                found[number] = stack
                if stack is None or clique < 0:
                    continue
                higher = stack.attributes[top[stack.attributes] <= tree.depth[clique]]
                if len(higher):
                    parts.append(self.carried(stack.only(higher, self.sizes), branch, clique))
            if clique in at_home:
                parts.append(self.own(clique, at_home[clique], self.calibrated.separators[clique], above=True))
            stack = self.stacked(parts)
            if stack is not None:
                sent[clique] = stack
        return found

    def carried(self, stack: Stack, branch: Branch, clique: int) -> Stack:
        """Return the stack of a branch as rows over the separator of the clique from its parent."""
        separator = self.calibrated.separators[clique]
        local = self.calibrated.ordered({*branch.separator, *separator})
        conditional = Table(local, self.calibrated.conditional(clique, local, separator))
        values = contract([self.labeled(stack, branch, ROWS), conditional], (ROWS, *separator))
        return Stack(values.reshape(len(stack.values), -1), stack.attributes, stack.starts)

    def own(self, clique: int, attributes: Sequence[int], given: Clique, above: bool = False) -> Stack:
        """Return P(x, given) of attributes x of the clique itself, or P(x | given) if `above`."""
        rows = []
        for attribute in attributes:
            name = self.names[attribute]
            labels = self.calibrated.ordered((name, *given))
            if above:
                table = self.calibrated.conditional(clique, labels, given)
            else:
                table = self.calibrated.marginal(clique, labels)
            rows.append(np.moveaxis(table, labels.index(name), 0).reshape(self.sizes[attribute], -1))
        found = np.array(attributes, dtype=np.int64)
        return Stack(np.concatenate(rows), found, _starts(found, self.sizes))

    def stacked(self, parts: Sequence[Stack]) -> Stack | None:
        """Return stacks over one separator as one stack."""
        if len(parts) < 2:
            return parts[0] if parts else None
        attributes = np.concatenate([part.attributes for part in parts])
        return Stack(np.concatenate([part.values for part in parts]), attributes, _starts(attributes, self.sizes))

    def labeled(self, stack: Stack, branch: Branch, label: int) -> Table:
        """Return a stack as a table with an axis for its rows and one for each attribute of the separator."""
        shape = [self.calibrated.domain[name] for name in branch.separator]
        return Table((label, *branch.separator), stack.values.reshape(-1, *shape))

    # -- joins ----------------------------------------------------------------------------------------------------

    def join_all(self, numbers: np.ndarray, sides: np.ndarray, stacks: Sequence[Stack | None]) -> None:
        """Write the pairs with these numbers, whose attributes are below these branches."""
        flipped = sides[:, 0] > sides[:, 1]  # rows are below the branch of the lower number
        low, high = sides.min(axis=1), sides.max(axis=1)
        one, other = self.pairs[numbers].T
        asked = Asked(numbers, np.where(flipped, other, one), np.where(flipped, one, other), flipped)
        order = np.lexsort((high, low))
        cuts = np.flatnonzero((np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)) + 1
        for some in np.split(order, cuts):
            self.join(asked.only(some), int(low[some[0]]), int(high[some[0]]), stacks)

    def join(self, asked: Asked, one: int, other: int, stacks: Sequence[Stack | None]) -> None:
        """Write pairs of an attribute below one branch and one below another, or one of the clique itself."""
        left, branch = stacks[one], self.tree.branches[one]
        assert left is not None
        right = left
        if other == one:
            asked = asked.sorted(left.starts)
        elif other == len(self.tree.branches):
            right = self.own(branch.clique, np.unique(asked.columns).tolist(), branch.separator)
        else:
            found = stacks[other]
            assert found is not None
            right = found
        for some, upper, lower in self.blocks(asked, left, right):
            self.copy(self.product(upper, lower, one, other), some, upper, lower)

    def blocks(self, asked: Asked, left: Stack, right: Stack) -> Iterator[tuple[Asked, Stack, Stack]]:
        """Yield the pairs in parts whose products fit into a cache, with the rows of both stacks for each part."""
        whole = len(left.values) * len(right.values)
        wanted = int((self.sizes[asked.rows] * self.sizes[asked.columns]).sum())
        if whole <= min(WASTED * wanted, routes.MARGINAL_BLOCK):
            yield asked, left, right
            return
        waiting = [asked.only(np.argsort(left.starts[asked.rows], kind="stable"))]
        while waiting:
            some = waiting.pop()
            upper, lower = _distinct(some.rows), _distinct(some.columns)
            cells = int(self.sizes[upper].sum() * self.sizes[lower].sum())
            count = len(some.numbers)
            if cells <= routes.MARGINAL_BLOCK or count == 1:
                yield some, left.only(upper, self.sizes), right.only(lower, self.sizes)
                continue
            if len(upper) == 1:
                some = some.only(np.argsort(right.starts[some.columns], kind="stable"))
            waiting += [some.only(np.arange(count // 2)), some.only(np.arange(count // 2, count))]

    def product(self, left: Stack, right: Stack, one: int, other: int) -> np.ndarray:
        """Return the marginals of all rows of the left with all rows of the right stack."""
        branch = self.tree.branches[one]
        if other == len(self.tree.branches):
            return (left.values * self.total) @ right.values.T
        if other == one:
            weights = self.total
            if branch.clique >= 0:
                weights = self.calibrated.marginal(branch.clique, branch.separator).reshape(-1) * self.total
            return (left.values * weights) @ right.values.T
        second = self.tree.branches[other]
        local = self.calibrated.ordered({*branch.separator, *second.separator})
        joint = Table(local, self.calibrated.marginal(branch.clique, local) * self.total)
        return contract(
            [self.labeled(left, branch, ROWS), joint, self.labeled(right, second, COLUMNS)], (ROWS, COLUMNS)
        )

    def copy(self, product: np.ndarray, asked: Asked, left: Stack, right: Stack) -> None:
        """Write the tables of the pairs that a product contains."""
        from pgmest.inference.marginals.pair_kernels import copy_out

        copy_out(
            product, left.starts[asked.rows], right.starts[asked.columns], self.sizes[asked.rows],
            self.sizes[asked.columns], self.offsets[asked.numbers], asked.flipped, self.flat,
        )  # fmt: skip


def _starts(attributes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the first row of each attribute of the domain in a stack of these attributes, -1 if it has no rows."""
    starts = np.full(len(sizes), -1, dtype=np.int64)
    ends = np.cumsum(sizes[attributes])
    starts[attributes] = ends - sizes[attributes]
    return starts


def _distinct(attributes: np.ndarray) -> np.ndarray:
    """Return the distinct attributes, in order of appearance."""
    return np.array(list(dict.fromkeys(attributes.tolist())), dtype=np.int64)
