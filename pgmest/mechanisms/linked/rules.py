"""The rules that hold in every family, as arrays for the kernels, and the repair of families that break them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.data.linked_rules import CountRule, Impossible, Older, Rule
from pgmest.data.smallest_family import Family
from pgmest.errors import ArgumentError
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.kernel_arguments import Rules
from pgmest.mechanisms.linked.zeros import Zeros, barred_attributes, barred_cells

SPARE, MOST_SPARE = 50, 5000
"""The number of random families that replace families if all are broken; fewer if they have more children in all."""
HIGHER, LOWER = 1, 2
"""The marks of the codes of the higher and of the lower children of a rule that compares."""


@dataclass(frozen=True, eq=False)
class FamilyRules:
    """The rules of a child table, as the kernels read them (`rule_kernels.violations`).

    Attributes:
        counted: the attribute of each rule about a number of children.
        among: for each rule about numbers, and then each rule that compares, the marks of the codes.
        limits: the least and the largest number of each rule about numbers.
        compared: the attribute and the compared attribute of each rule that compares.
        allowed: the pairs of codes that may stand together, for each rule that compares.
        rising: the attribute whose codes never fall from one child to the next; -1 without one.
        bars, barred: the impossible combinations with children's codes.
        zeros: all impossible combinations of a parent and a child, over the attributes of the layout.
        inside: the children's attributes of impossible combinations.
        across: whether the parent's attributes are in some of them.
        smallest: the smallest family that keeps the rules; None if it is not known.
    """

    counted: np.ndarray
    among: np.ndarray
    limits: np.ndarray
    compared: np.ndarray
    allowed: np.ndarray
    bars: np.ndarray
    barred: np.ndarray
    zeros: Zeros
    rising: int = -1
    inside: tuple[int, ...] = ()
    across: bool = False
    smallest: Family | None = None

    @classmethod
    def of(
        cls, rules: Sequence[Rule], layout: Layout, zeros: Zeros | None = None, smallest: Family | None = None
    ) -> FamilyRules:
        """Return the rules about the child table of a layout.

        Args:
            rules: rules of linked tables; those of the kind `Impossible` are taken from `zeros`.
            layout: the attributes.
            zeros: the impossible combinations, as `family_zeros` returns them.
            smallest: the smallest family that keeps the rules.

        Raises:
            ArgumentError: a rule is of a kind that is not known here.
        """
        own = [rule for rule in rules if rule.table == layout.names[1] and not isinstance(rule, Impossible)]
        numbers = [rule for rule in own if isinstance(rule, CountRule)]
        comparing = [rule for rule in own if isinstance(rule, Older)]
        if others := [rule for rule in own if rule not in numbers and rule not in comparing]:
            raise ArgumentError.of("rules", others[0], "rules about numbers of rows, Older or Impossible")
        axis, most = {name: place for place, name in enumerate(layout.child)}, max(layout.child.shape, default=1)
        among = np.zeros((len(own), most), dtype=np.int64)
        for place, rule in enumerate([*numbers, *comparing]):
            among[place, list(rule.codes)] = HIGHER
            if isinstance(rule, Older):
                among[place, list(rule.than)] = LOWER
        limits = [(rule.least, layout.at_most if rule.most is None else rule.most) for rule in numbers]
        allowed = np.ones((len(comparing), most, most), dtype=bool)
        for place, rule in enumerate(comparing):
            allowed[place, : rule.allowed.shape[0], : rule.allowed.shape[1]] = rule.allowed
        known = {} if zeros is None else dict(zeros)
        inside, across = barred_attributes(known, layout)
        return cls(
            np.array([axis[rule.attribute] for rule in numbers], dtype=np.int64),
            among,
            np.array(limits, dtype=np.int64).reshape(-1, 2),
            np.array([(axis[r.attribute], axis[r.column]) for r in comparing], dtype=np.int64).reshape(-1, 2),
            allowed,
            *barred_cells(known, layout),
            known,
            -1 if layout.rising is None else axis[layout.rising],
            tuple(inside),
            across,
            smallest,
        )

    @property
    def arrays(self) -> Rules:
        """The argument of the kernels."""
        rules = self.counted, self.among, self.limits, self.compared, self.allowed
        return Rules(*rules, self.rising, self.bars, self.barred)

    @property
    def least(self) -> int:
        """A number of children with which a family can keep the rules."""
        return max(int(self.limits[:, 0].sum()), 0 if self.smallest is None else len(self.smallest.children))

    @cached_property
    def attributes(self) -> list[int]:
        """The attributes that occur in rules."""
        rising = [self.rising] if self.rising >= 0 else []
        return sorted({*self.counted.tolist(), *self.compared.ravel().tolist(), *rising, *self.inside})

    def broken(self, families: Families) -> np.ndarray:
        """Return which families break rules."""
        from pgmest.mechanisms.linked.rule_kernels import count_violations

        found = np.zeros(len(families.sizes), dtype=np.int64)
        count_violations(families.rows, self.arrays, found)
        return found > 0

    def roles(self, children: np.ndarray) -> np.ndarray:
        """Return a number for each child that is equal for children in the same place of all rules about one code."""
        found = np.zeros(len(children), dtype=np.int64)
        attributes = [*self.counted.tolist(), *self.compared[:, 0].tolist()]
        for marks, attribute in zip(self.among, attributes, strict=True):
            found = np.unique(found * 3 + marks[children[:, attribute]], return_inverse=True)[1]
        return found

    def repaired(self, families: Families, generator: np.random.Generator) -> Families:
        """Return the families after changes of codes with which the rules hold.

        A family that cannot be repaired code by code gets the children of one without errors, of its size if there is
        one, and its parent's codes if combinations with these may be impossible. If every family has errors, as where
        no family has children but a rule asks for some, random children are made that keep the rules, or those of the
        smallest family that does.
        """
        if not self.attributes:
            return families
        repaired = self.changed(families, generator)
        wrong = self.broken(repaired)
        if not wrong.any():
            return repaired
        if not wrong.all():
            return _replaced(repaired, wrong, self.across, generator)
        spare, count = self._fewest(families.layout, generator), len(wrong)
        both = (repaired, spare)
        parents = np.concatenate([one.parents for one in both])
        together = Families(families.layout, parents, np.concatenate([one.children for one in both]))
        wrong = self.broken(together)
        if wrong.all():
            return repaired
        made = _replaced(together, wrong, self.across, generator)
        return Families(families.layout, made.parents[:count], made.children[: int(made.sizes[:count].sum())])

    def changed(self, families: Families, generator: np.random.Generator) -> Families:
        """Return the families, their children in order, after changes of codes that lower the number of violations."""
        from pgmest.mechanisms.linked.rule_kernels import repair_families

        if self.rising >= 0:
            order = np.lexsort((families.children[:, self.rising], families.owners))
            families = Families(families.layout, families.parents, families.children[order])
        children = families.children.copy()
        attributes = np.array(self.attributes, dtype=np.int64)
        codes = np.array(families.layout.child.shape, dtype=np.int64)
        broken = np.flatnonzero(self.broken(families))
        draws = generator.integers(1 << 30, size=len(broken))
        rows = families.rows._replace(children=children)
        numbers = np.zeros(len(self.counted), dtype=np.int64)
        conflicts = np.zeros((2, len(self.compared), self.allowed.shape[1]), dtype=np.int64)
        repair_families(broken, draws, rows, self.arrays, attributes, codes, numbers, conflicts)
        return Families(families.layout, families.parents, children)

    def _fewest(self, layout: Layout, generator: np.random.Generator) -> Families:
        """Return families of the fewest random children that keep the rules; broken ones if none were found."""
        if self.smallest is None:
            size, enough = 0, min(layout.at_most, int(self.limits[:, 0].sum()))
        else:
            size = enough = len(self.smallest.children)
        made = self.changed(_random_families(layout, size, generator), generator)
        while size < enough and self.broken(made).all():
            size += 1
            made = self.changed(_random_families(layout, size, generator), generator)
        return made if self.smallest is None or not self.broken(made).all() else self._like_smallest(layout)

    def _like_smallest(self, layout: Layout) -> Families:
        """Return the smallest family, with no rows of other tables."""
        assert self.smallest is not None
        parent, children = self.smallest.parent, self.smallest.children
        parents = np.zeros((1, len(layout.parents)), dtype=np.int64)
        parents[0, : len(parent)], parents[0, -1] = parent, len(children)
        rows = np.zeros((len(children), len(layout.child)), dtype=np.int64)
        rows[:, : children.shape[1]] = children
        if self.rising >= 0:
            rows = rows[np.argsort(rows[:, self.rising], kind="stable")]
        return Families(layout, parents, rows)


def _random_families(layout: Layout, size: int, generator: np.random.Generator) -> Families:
    """Return a few families with this many random children each."""
    spare = max(1, min(SPARE, MOST_SPARE // max(1, size)))
    parents = np.zeros((spare, len(layout.parents)), dtype=np.int64)
    parents[:, -1] = size
    children = [generator.integers(number, size=spare * size) for number in layout.child.shape]
    return Families(layout, parents, np.stack(children, axis=1))


def _replaced(families: Families, wrong: np.ndarray, whole: bool, generator: np.random.Generator) -> Families:
    """Return the families with the children of others in place of those that are wrong, or with `whole` others."""
    source, sizes = np.arange(len(wrong)), families.sizes
    right = np.flatnonzero(~wrong)
    for place in np.flatnonzero(wrong):
        alike = right[sizes[right] == sizes[place]]
        nearest = np.abs(sizes[right] - sizes[place])
        source[place] = generator.choice(alike if len(alike) else right[nearest == nearest.min()])
    parents = families.parents[source] if whole else families.parents.copy()
    parents[:, -1] = sizes[source]
    rows = np.concatenate([np.arange(families.first[f], families.first[f] + sizes[f]) for f in source])
    return Families(families.layout, parents, families.children[rows])
