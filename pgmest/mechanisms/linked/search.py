"""The search over families: children are exchanged, and codes of children changed, until families meet all tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.mechanisms.linked.families import NUMBER, PARENT, Families, Layout
from pgmest.mechanisms.linked.kernel_arguments import Tables
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.tables.domain import Clique

MOST_WORK = 2e10
"""The largest number of cells that all exchanges of a search read, about a minute; with more families, fewer rounds."""


@dataclass(frozen=True)
class Target:
    """The counts that families shall have in a table, without absent children, and their variance."""

    table: np.ndarray
    variance: float


@dataclass(eq=False)
class FamilySearch:
    r"""Coordinate descent on the distance between the tables of families and target tables.

    Tables of one child are counts of children, those of two are averages; the others are the numbers of families in
    which 1, 2, or 3 and more children have a code. For counts c and targets t, the distance is the sum of
    $(c - t)^2 / \sqrt{(t + 1)(v + 1)}$ over the cells of all tables, with v the variance of the noise, as in
    `pgmest.synthesis.local_search`. Two kinds of changes lower it: children of two families of the same size change
    places, which leaves all tables of attributes of one child as they are; and the code of a child is replaced by the
    best one. No change breaks a rule that holds.

    Attributes:
        families: the families.
        rules: what holds in every family.
        generator: the generator of the order of changes.
    """

    families: Families
    rules: FamilyRules
    generator: np.random.Generator
    _tables: Tables

    @classmethod
    def of(
        cls,
        families: Families,
        targets: Mapping[Clique, Target],
        rules: FamilyRules,
        generator: np.random.Generator,
        numbers: Mapping[str, Target] | None = None,
    ) -> FamilySearch:
        """Return the search for tables with attributes of children.

        Args:
            families: the families to start from; their children are copied.
            targets: for pairs of attributes, the tables without the cells of absent children.
            rules: what holds in every family.
            generator: the generator of the order of changes.
            numbers: for attributes of a child, in how many families 1, 2, or 3 and more children have each code.
        """
        layout = families.layout
        families = Families(layout, families.parents, families.children.copy())
        number = len(layout.members)
        above = np.full((len(layout.parents), number, 3), -1, dtype=np.int64)
        inside, across = (np.full((number, number, 3), -1, dtype=np.int64) for _ in range(2))
        off, weights, start = [], [], 0
        for clique, target in targets.items():
            wanted = np.maximum(target.table, 0.0)
            now = _without_absent(families, clique)
            x, y = layout.place(clique[0]), layout.place(clique[1])
            if layout.kind(clique[0]) in (PARENT, NUMBER):
                above[x, y] = start, wanted.shape[1], 1
            else:
                places = across if layout.is_across(clique) else inside
                if not (layout.ordered and layout.is_across(clique)):
                    places[y, x] = start, 1, wanted.shape[1]
                places[x, y] = start, wanted.shape[1], 1
            off.append((now - wanted).ravel())
            weights.append((1 / np.sqrt((wanted + 1) * (target.variance + 1))).ravel())
            start += wanted.size
        places = np.full(number, -1, dtype=np.int64)
        for name, target in (numbers or {}).items():
            wanted = np.maximum(target.table, 0.0)
            places[layout.place(name)] = start + 1
            off.append((families.numbers(name)[1] - wanted).ravel())
            weights.append((1 / np.sqrt((wanted + 1) * (target.variance + 1))).ravel())
            start += wanted.size
        flat = [np.concatenate([np.zeros(1), *parts]) for parts in (off, weights)]  # never empty
        for found in (above, inside, across):
            found[found[..., 0] >= 0, 0] += 1
        return cls(families, rules, generator, Tables(layout.ordered, above, inside, across, places, *flat))

    @property
    def distance(self) -> float:
        """The distance from the targets."""
        return float(self._tables.weights @ np.square(self._tables.off))

    def run(self, rounds: int, exchanges: int) -> Families:
        """Return the families after rounds of exchanges and changes of codes.

        Args:
            rounds: the number of rounds.
            exchanges: the number of exchanges of each child that are tried in a round.
        """
        families = self.families
        if len(families.children):
            most = MOST_WORK / (len(families.children) * self._cells_of_a_child * max(rounds, 1))
            self._sweep(rounds, int(np.clip(most, 1, exchanges)), 2 if most > 2 else 1)
        return Families(families.layout, families.parents, families.children)

    def _sweep(self, rounds: int, exchanges: int, changes: int) -> None:
        for _ in range(rounds):
            for _ in range(exchanges):
                if out_of_time():
                    return
                self._exchange()
            for _ in range(changes):
                self._change_codes()

    @property
    def _cells_of_a_child(self) -> float:
        """The mean number of cells that an exchange of a child reads, four times each."""
        number, sizes = self.families.children.shape[1], self.families.sizes
        others = float(sizes @ np.maximum(sizes - 1, 0)) / max(1, len(self.families.children))
        others = min(others, 2.0) if self.families.layout.ordered else others
        return 4 * number * (len(self.families.layout.parents) + number * others) + 1

    @property
    def _arguments(self) -> tuple[Any, ...]:
        return self.families.owners, self.families.rows, self._tables, self.rules.arrays

    def _exchange(self) -> int:
        from pgmest.mechanisms.linked.search_kernels import exchange_children

        families = self.families
        roles = self.rules.roles(families.children)
        kinds = families.sizes[families.owners] * (int(roles.max(initial=0)) + 1) + roles
        if families.layout.ordered:
            places = np.arange(len(kinds)) - families.first[families.owners]
            kinds = kinds * families.layout.at_most + places
        order = self.generator.permutation(len(kinds))
        partners = _shuffled_within(kinds, order, self.generator)
        return exchange_children(order, partners, *self._arguments)

    def _change_codes(self) -> int:
        from pgmest.mechanisms.linked.search_kernels import change_codes

        codes = np.array(self.families.layout.child.shape, dtype=np.int64)
        ruled = np.zeros(len(codes), dtype=bool)
        ruled[self.rules.attributes] = True
        order = self.generator.permutation(len(self.families.children))
        work = np.zeros(int(codes.max(initial=1))), np.zeros(int(codes.max(initial=1)), dtype=np.int64)
        return change_codes(order, *self._arguments, codes, ruled, *work)


def _shuffled_within(kinds: np.ndarray, order: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return for each position in `order` a random child of the same kind."""
    by_kind = np.argsort(kinds, kind="stable")
    starts = np.searchsorted(kinds[by_kind], kinds[order], side="left")
    ends = np.searchsorted(kinds[by_kind], kinds[order], side="right")
    return by_kind[starts + (generator.random(len(order)) * (ends - starts)).astype(np.int64)]


def _without_absent(families: Families, clique: Clique) -> np.ndarray:
    """Return the counts of a pair of attributes of one child, or the averages of two, without absent children."""
    layout = families.layout
    groups = [np.arange(layout.domain[name]) for name in clique]
    return (
        families.counts(clique)
        if not layout.is_across(clique)
        else without_absent(families.tables(clique, groups)[1], layout, clique)
    )


def without_absent(table: np.ndarray, layout: Layout, clique: Sequence[str]) -> np.ndarray:
    """Return a table over codes without the cells of absent children."""
    kinds = [layout.kind(name) for name in clique]
    return table[tuple(slice(None) if kind in (PARENT, NUMBER) else slice(0, -1) for kind in kinds)]
