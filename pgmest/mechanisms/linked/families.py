"""Families: rows of a parent table with their rows of a child table, and what each family adds to a table.

A table of counts is either an average over members, to which each family adds a total of 1, or a sum of unit vectors,
to which each family adds its counts divided by their Euclidean length. Both have sensitivity 1: the first in l1, for
scores; the second in l2, for measurements under Gaussian noise, where it counts more of each family (`Families`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pgmest.data.linked_names import ANOTHER, NEXT, number_of
from pgmest.mechanisms.linked.kernel_arguments import Rows
from pgmest.mechanisms.linked.pairing import MOST_ALL, MOST_COUNTED, NEAR
from pgmest.tables.domain import Clique, Domain

PARENT, NUMBER, MEMBER, OTHER = range(4)
"""The kinds of attributes of a `Layout`: of a parent, the number of children, of a child, of another or next child."""

GRAIN = 2.0**-30
"""The unit of the weights of children and of pairs: they are multiples of it, so that sums of them are exact."""


@dataclass(frozen=True)
class Layout:
    """The attributes of a family: those of its parent, its number of children, and those of two of its children.

    Children without an order are paired with all others of their family; children in order, such as visits, with the
    next one only.

    Attributes:
        parent: the attributes of the parent table, with their public numbers of codes.
        child: the attributes of the child table.
        names: the names of the two tables.
        at_most: the public limit of the number of children.
        ordered: whether the children of a family are in an order that means something.
        rising: the attribute of a child whose codes never fall in this order; None without one.
        counted: the attributes of parents and children that are numbers of rows of other tables, as in `domain`.
    """

    parent: Domain
    child: Domain
    names: tuple[str, str]
    at_most: int
    ordered: bool = False
    rising: str | None = None
    counted: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of all numbers of rows."""
        return self.number, *self.counted

    @property
    def number(self) -> str:
        """The name of the number of children."""
        return number_of(self.names[1])

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """The names of the parent's attributes, the number of children last."""
        return (*(f"{self.names[0]}.{name}" for name in self.parent), self.number)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names of the attributes of a child."""
        return tuple(f"{self.names[1]}.{name}" for name in self.child)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """The names of the attributes of another child of the same family, the next one if children are in order; none
        if there is never another one."""
        which = NEXT if self.ordered else ANOTHER
        return tuple(f"{which}{self.names[1]}.{name}" for name in self.child) if self.at_most > 1 else ()

    @cached_property
    def domain(self) -> Domain:
        """All attributes. The last code of a child's attribute means that the child is not there."""
        absent = [size + 1 for size in self.child.shape]
        sizes = [*self.parent.shape, self.at_most + 1, *absent, *absent]
        return Domain(zip((*self.parents, *self.members, *self.others), sizes, strict=False))  # none is there twice

    @property
    def parent_domain(self) -> Domain:
        """The attributes of the parent table, and the number of children."""
        return self._with_trees(self.domain.project(self.parents))

    @property
    def child_domain(self) -> Domain:
        """The attributes of the child table and of the parent of each row."""
        inside = dict(zip(self.members, self.child.shape, strict=True))
        return self._with_trees(Domain({**self.parent_domain, **inside}))

    @property
    def pair_domain(self) -> Domain:
        """The attributes of two children of one parent, and those of the parent."""
        others = dict(zip(self.others, self.child.shape, strict=False))
        return self._with_trees(Domain({**self.child_domain, **others}))

    def _with_trees(self, domain: Domain) -> Domain:
        """Return attributes of families with the hierarchies that they have in their own tables."""
        trees, other = [], self.others[0].split(".", 1)[0] if self.others else self.names[1]
        tables = dict(zip((*self.names, other), (self.parent, self.child, self.child), strict=True))
        for table, own in tables.items():
            named = ((f"{table}.{name}", tree) for name, tree in own.hierarchies.items())
            trees += [tree.recoded(name, np.arange(tree.values)) for name, tree in named if name in domain]
        return domain.with_hierarchies(*filter(None, trees)) if trees else domain

    @cached_property
    def _kinds(self) -> dict[str, tuple[int, int]]:
        found = {name: (PARENT, place) for place, name in enumerate(self.parents)}
        found[self.number] = NUMBER, len(self.parents) - 1
        found.update((name, (MEMBER, place)) for place, name in enumerate(self.members))
        found.update((name, (OTHER, place)) for place, name in enumerate(self.others))
        return found

    def kind(self, name: str) -> int:
        """Return the kind of an attribute."""
        return self._kinds[name][0]

    def place(self, name: str) -> int:
        """Return the position of an attribute among those of its kind; the number of children is the last of the
        parent's."""
        return self._kinds[name][1]

    def is_above(self, clique: Clique) -> bool:
        """Return whether a clique has attributes of the parent only, and of the number of children."""
        return all(self.kind(name) in (PARENT, NUMBER) for name in clique)

    def joins(self, clique: Clique) -> bool:
        """Return whether a table is of an attribute of a parent, other than the number of children, and of a child."""
        return {self.kind(name) for name in clique} in ({PARENT, MEMBER}, {PARENT, OTHER})

    def is_across(self, clique: Clique) -> bool:
        """Return whether a clique has attributes of another child."""
        return any(self.kind(name) == OTHER for name in clique)

    def are_alike(self, clique: Clique, groups: Sequence[np.ndarray]) -> bool:
        """Return whether a clique is the same attribute of two children in any order, over the same groups of codes."""
        return (
            not self.ordered
            and self.is_across(clique)
            and len(clique) == 2
            and self.place(clique[0]) == self.place(clique[1])
            and np.array_equal(groups[0], groups[1])
        )

    def present(self, clique: Clique, groups: Sequence[np.ndarray]) -> np.ndarray:
        """Return which cells of a table over groups are of children that are there."""
        found = np.ones((), dtype=bool)
        for name, labels in zip(clique, groups, strict=True):
            there = np.ones(int(labels[-1]) + 1, dtype=bool)
            there[-1] = self.kind(name) in (PARENT, NUMBER)
            found = np.logical_and.outer(found, there)
        return found


@dataclass(frozen=True, eq=False)
class Families:
    r"""Families as arrays of codes; the children of a family are adjacent.

    For a table of a child's attributes, or of a parent's and a child's, a family with counts $x$ (one for each child)
    adds $x / \lVert x \rVert_2$ to its *lengths* and $x / \lVert x \rVert_1$ to its *averages*. Adding or removing a
    family moves the lengths by a vector of Euclidean length 1, or 0 without children, whatever the number of children;
    and the averages by non-negative numbers of sum 1. A table of two children's attributes counts the ordered pairs of
    different children instead; a family without two children adds nothing. The same attribute of both is counted once
    for each pair without order in the lengths: the averages are symmetric.

    If children are in order, such a table counts the pairs of a child and the next one. In the averages each has the
    weight of one child, and the last child is in the cell of its code and of a next child that is absent, so the
    margin of the first attribute is its table over all children.

    Lengths may be *cut* later: with a cut c, a family adds $w x / \max(c, \lVert w x \rVert_2)$. Its weight w is 1 in
    tables of one child, so that a family whose counts are no longer than c counts each child alike; and that of the
    averages in tables of two. A cut of 0 is the length itself. The sensitivity is 1 for every cut.

    A family of k children in k different cells adds $\sqrt k$ in all to the lengths, and only 1 to the averages, at the
    same sensitivity: lengths have less noise relative to their size.

    Attributes:
        layout: the attributes.
        parents: the codes of the parents, shape (families, attributes), the number of children last.
        children: the codes of the children, shape (children, attributes).
    """

    layout: Layout
    parents: np.ndarray
    children: np.ndarray
    _known: dict[tuple[Clique, tuple[bytes, ...], float], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of children of each family."""
        return np.ascontiguousarray(self.parents[:, -1])

    @cached_property
    def first(self) -> np.ndarray:
        """The first child of each family."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def rows(self) -> Rows:
        """The argument of the kernels."""
        return Rows(self.first, self.sizes, self.parents, self.children)

    @cached_property
    def owners(self) -> np.ndarray:
        """The family of each child."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def take(self, chosen: np.ndarray) -> Families:
        """Return some of the families, in the order of their positions."""
        sizes = self.sizes[chosen]
        places = np.arange(int(sizes.sum())) + np.repeat(self.first[chosen] - (np.cumsum(sizes) - sizes), sizes)
        return Families(self.layout, self.parents[chosen], self.children[places])

    def above(self, clique: Clique) -> np.ndarray:
        """Return how many families there are in each cell of a table of attributes of the parent."""
        shape = tuple(self.layout.domain[name] for name in clique)
        columns = [self.parents[:, self.layout.place(name)] for name in clique]
        return _counted(columns, shape, len(self.sizes))

    def tables(self, clique: Clique, groups: Sequence[np.ndarray], cut: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the lengths and the averages of a table with attributes of children, over groups of codes.

        In the averages, a family without the children counts in the cells of the absent ones, so that they sum to the
        number of families; the lengths are 0 there.

        Args:
            clique: one or two attributes.
            groups: for each, the group of each code, absent children in the last one.
            cut: the length from which on a family counts less; 0 for unit vectors.
        """
        key = clique, tuple(labels.tobytes() for labels in groups), cut
        if key not in self._known:
            self._known[key] = self._tables(clique, groups, cut)
        return self._known[key]

    def counts(self, clique: Clique, groups: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Return how many children there are in each cell of a table with attributes of one child, over groups.

        The cells of absent children are left out, and all codes are apart if no groups are given.
        """
        layout, columns, shape = self.layout, [], []
        for place, name in enumerate(clique):
            labels = np.arange(layout.domain[name]) if groups is None else groups[place]
            above = layout.kind(name) in (PARENT, NUMBER)
            codes = self._codes(name, labels)
            columns.append(codes[self.owners] if above else codes)
            shape.append(int(labels[-1]) + above)
        return _counted(columns, tuple(shape), len(self.children))

    def _tables(self, clique: Clique, groups: Sequence[np.ndarray], cut: float) -> tuple[np.ndarray, np.ndarray]:
        from pgmest.mechanisms.linked.counting_kernels import add_members, add_pairs

        layout, shape = self.layout, tuple(int(labels[-1]) + 1 for labels in groups)
        cells = math.prod(shape)
        counts, lengths, averages = np.zeros(cells, dtype=np.int64), np.zeros(cells), np.zeros(cells)
        codes = [self._codes(name, labels) for name, labels in zip(clique, groups, strict=True)]
        steps = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
        if not layout.is_across(clique):
            parents, children = np.zeros(len(self.sizes), dtype=np.int64), np.zeros(len(self.children), dtype=np.int64)
            for name, code, step in zip(clique, codes, steps, strict=True):
                part = children if layout.kind(name) == MEMBER else parents
                part += code * step
            share = shares(layout.at_most, pairs=False)
            most = np.full(len(share), 1 / cut if cut else np.inf)
            add_members(self.first, self.sizes, parents, children, share, most, counts, lengths, averages)
        elif layout.ordered:
            following = np.zeros(len(self.children), dtype=np.int64)
            following[:-1] = codes[-1][1:]
            if len(clique) == 2:
                following += codes[0] * shape[1]
            parents, share = np.zeros(len(self.sizes), dtype=np.int64), shares(layout.at_most, pairs=False)[1:]
            most = share / cut if cut else np.full(len(share), np.inf)
            pairs = np.maximum(self.sizes - 1, 0)
            add_members(self.first, pairs, parents, following, share, most, counts, lengths, averages)
        elif len(clique) == 1:
            several = np.where(self.sizes > 1, self.sizes, 0)
            parents, share = np.zeros(len(self.sizes), dtype=np.int64), shares(layout.at_most, pairs=False)
            most = share / cut if cut else np.full(len(share), np.inf)
            add_members(self.first, several, parents, codes[0], share, most, counts, lengths, averages)
        else:
            alike, share = layout.are_alike(clique, groups), shares(layout.at_most, pairs=True)
            most = share / cut if cut else np.full(len(share), np.inf)
            add_pairs(self.first, self.sizes, *codes, shape[1], alike, share, most, counts, lengths, averages)
            if alike:
                lengths = lengths.reshape(shape)
                lengths += np.triu(lengths, 1).T
        return lengths.reshape(shape), averages.reshape(shape) + self._absent(clique, groups, shape)

    def numbers(self, name: str, cut: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return in how many families 1, 2, or 3 and more children have each code, and the same as lengths.

        A family adds a vector with a 1 for each code that its children have, divided by its Euclidean length, or by
        `cut` if that is larger, to the lengths.

        Args:
            name: an attribute of a child.
            cut: the length from which on families count less.

        Returns:
            the lengths and the counts, shape (codes, 3).
        """
        from pgmest.mechanisms.linked.counting_kernels import add_numbers

        codes = np.ascontiguousarray(self.children[:, self.layout.place(name)])
        size = self.layout.domain[name] - 1
        lengths, counts = np.zeros((size, MOST_COUNTED)), np.zeros((size, MOST_COUNTED))
        most = 1 / cut if cut else np.inf
        add_numbers(self.first, self.sizes, codes, most, np.zeros(size, dtype=np.int64), lengths, counts)
        return lengths, counts

    def _codes(self, name: str, labels: np.ndarray) -> np.ndarray:
        """Return the group of each parent or child."""
        kind, place = self.layout.kind(name), self.layout.place(name)
        return labels[(self.parents if kind in (PARENT, NUMBER) else self.children)[:, place]]

    def _absent(self, clique: Clique, groups: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Return the families in the cells of children that are not there."""
        layout = self.layout
        if layout.ordered and layout.is_across(clique):
            return self._without_next(clique, groups, shape)
        few = np.flatnonzero(self.sizes < (2 if layout.is_across(clique) else 1))
        columns = []
        for name, labels in zip(clique, groups, strict=True):
            kind = layout.kind(name)
            if kind in (PARENT, NUMBER):
                columns.append(self._codes(name, labels)[few])
                continue
            codes = np.full(len(few), labels[-1])
            if kind == MEMBER and len(self.children):
                single = self.sizes[few] == 1
                codes[single] = self._codes(name, labels)[self.first[few[single]]]
            columns.append(codes)
        return _counted(columns, shape, len(few))

    def _without_next(self, clique: Clique, groups: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Return the last children in the cells without a next one, and the families without children."""
        found, there = np.zeros(shape), self.sizes > 0
        last = (self.first + self.sizes - 1)[there]
        weights = shares(self.layout.at_most, pairs=False)[self.sizes[there]]
        empty = float(np.count_nonzero(~there))
        if len(clique) == 1:
            found[-1] = weights.sum() + empty
            return found
        found[:, -1] = np.bincount(self._codes(clique[0], groups[0])[last], weights, shape[0])
        found[-1, -1] += empty
        return found


def shares(at_most: int, pairs: bool) -> np.ndarray:
    """Return the weight of a child, or of an ordered pair, in the averages of a family of n children, at n.

    A family's weights sum to at most 1. They are rounded down to multiples of `GRAIN`.
    """
    sizes = np.arange(at_most + 1)
    partners = np.where(sizes <= MOST_ALL, sizes - 1, 2 * NEAR) if pairs else np.ones(at_most + 1, dtype=np.int64)
    return np.floor(1 / np.maximum(sizes * partners, 1) / GRAIN) * GRAIN


def _counted(columns: Sequence[np.ndarray], shape: tuple[int, ...], rows: int) -> np.ndarray:
    cells = np.zeros(rows, dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        cells = cells * size + column
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)
