"""The smallest family that keeps all rules of linked tables, and the rules that contradict one another.

A family is a row of a parent table with its rows of a child table. Its rows are of finitely many types, so the numbers
of rows of each type are the unknowns of an integer program: rules about numbers are linear in them, and combinations
that cannot occur, and rows that cannot stand together, are bounds with yes-or-no unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_rules import CountRule, Impossible, Older, Rule
from pgmest.tables.domain import Clique, Domain

MOST_TYPES, MOST_BARS = 20_000, 20_000
"""The most types of rows, and of impossible combinations with the parent row, of which an answer is looked for."""
SECONDS = 5.0
"""The time in which an answer is looked for."""

Zeros = Mapping[Clique, np.ndarray]
"""Attributes of a table -> a boolean table over their codes, True where impossible."""


@dataclass(frozen=True, eq=False)
class Family:
    """A row of a parent table with its rows of a child table, in codes.

    Attributes:
        parent: the codes of the parent row.
        children: the codes of its rows, shape (rows, attributes).
    """

    parent: np.ndarray
    children: np.ndarray


@dataclass(frozen=True)
class _Bar:
    """Combinations that cannot occur: attributes of the parent row and of a row, and the number of rows.

    The axes of `mask` are those of the parent row, the number of rows if `sized`, and those of a row.
    """

    above: tuple[str, ...]
    sized: bool
    inside: tuple[str, ...]
    mask: np.ndarray


@dataclass(frozen=True, eq=False)
class FamilyLimits:
    """The limits of one family: the rules and the constraints that it keeps.

    Attributes:
        rules: the rules about the child table.
        parent, child: the attributes of the two tables.
        at_most: the most rows of one parent row.
        zeros_above, zeros_inside: what cannot occur in a row of each table.
    """

    rules: tuple[Rule, ...]
    parent: Domain
    child: Domain
    at_most: int
    zeros_above: Zeros = field(default_factory=dict)
    zeros_inside: Zeros = field(default_factory=dict)

    @classmethod
    def of(cls, linked: LinkedDataset, child: str) -> FamilyLimits:
        """Return the limits of the families of a child table."""
        above, inside = linked.tables[linked.link(child)[0]], linked.tables[child]
        rules = tuple(rule for rule in linked.rules if rule.table == child)
        zeros = above.structural_zeros, inside.structural_zeros
        return cls(rules, above.domain, inside.domain, linked.most(child, linked.link(child)[0]), *zeros)

    @cached_property
    def smallest(self) -> tuple[bool, Family | None]:
        """A flag that says whether the smallest family is known, and that family; None if no family keeps the rules."""
        if not any(isinstance(rule, CountRule) and rule.least for rule in self.rules):
            return True, Family(np.zeros(len(self.parent), int), np.empty((0, len(self.child)), int))
        return _Program.of(self).solved()

    def contradicting(self) -> list[str]:
        """Return rules that no family keeps together, and "the constraints" if these are needed for that.

        The list is empty if some family keeps all rules, or if that is not known.
        """
        if not self._impossible:
            return []
        left = self
        for rule in self.rules:
            fewer = replace(left, rules=tuple(one for one in left.rules if one is not rule))
            left = fewer if fewer._impossible else left
        free = replace(left, zeros_above={}, zeros_inside={})
        return [str(rule) for rule in left.rules] + ([] if free._impossible else ["the constraints of the columns"])

    @property
    def _impossible(self) -> bool:
        return self.smallest == (True, None)


def contradiction(limits: FamilyLimits, parent: str, child: str) -> str | None:
    """Return what is wrong with the rules of a child table in words; None if they can hold together."""
    rules = limits.contradicting()
    if not rules:
        return None
    return (
        f"no row of '{parent}' with at most {limits.at_most} rows of '{child}' can keep all of these: "
        f"{'; '.join(rules)}. Change one of them, or at_most."
    )


@dataclass(frozen=True, eq=False)
class _Program:
    """The integer program of some limits.

    Attributes:
        limits: the limits.
        bars: all combinations that cannot occur, over one code of each class.
        codes: of each attribute in a limit, one code of each class of codes that all limits treat alike.
        sizes: the class of each number of rows up to `most`; None if no limit is about them.
        most: the most rows that the smallest family can have.
        types: the class of each attribute of a row, by attribute, for each type of row; None if there are too many.
    """

    limits: FamilyLimits
    bars: list[_Bar]
    codes: Mapping[tuple[bool, str], np.ndarray]
    sizes: np.ndarray | None
    most: int
    types: Mapping[str, np.ndarray] | None

    @classmethod
    def of(cls, limits: FamilyLimits) -> _Program:
        """Return the program of some limits."""
        bars = list(_bars(limits))
        codes = {}
        for name in dict.fromkeys(name for bar in bars for name in bar.above):
            codes[True, name] = _classes(limits.parent[name], _slices(bars, name, True))[0]
        inside = dict.fromkeys(name for bar in bars for name in bar.inside)
        for rule in limits.rules:
            inside |= {rule.attribute: None} | ({rule.column: None} if isinstance(rule, Older) else {})
        for name in inside:
            features = [*_slices(bars, name, False), *_marks(limits.rules, name, limits.child[name])]
            codes[False, name] = _classes(limits.child[name], features)[0]
        sized, sizes, of_sizes = [bar for bar in bars if bar.sized], None, np.empty(0, dtype=np.int64)
        needed = sum(rule.least for rule in limits.rules if isinstance(rule, CountRule))
        most = min(needed, limits.at_most)  # other rows can be left out
        if sized:
            features = [np.moveaxis(bar.mask, len(bar.above), 0).reshape(limits.at_most + 1, -1) for bar in sized]
            of_sizes, sizes = _classes(limits.at_most + 1, features)
            enough = [np.flatnonzero(sizes[needed:] == one)[:1] + needed for one in range(len(of_sizes))]
            most = max([most, *np.concatenate(enough).tolist()])
            sizes = sizes[: most + 1]
        merged = []
        for bar in bars:
            axes = [codes[True, name] for name in bar.above]
            axes += [of_sizes] * bar.sized + [codes[False, name] for name in bar.inside]
            merged.append(replace(bar, mask=bar.mask[np.ix_(*axes)]))
        shape = [len(codes[False, name]) for name in inside]
        few = math.prod(shape) <= MOST_TYPES
        types = dict(zip(inside, np.indices(shape).reshape(len(shape), -1), strict=True)) if few else None
        return cls(limits, merged, codes, sizes, most, types)

    def solved(self) -> tuple[bool, Family | None]:
        """Return whether the program was solved, and the smallest family; None if no family keeps the rules."""
        if self.types is None:
            return False, None
        rows = _Rows(self.most)
        number = len(next(iter(self.types.values())))
        of_type, most = rows.unknowns(number), np.full(number, self.most)
        above = {name: rows.unknowns(len(codes)) for (up, name), codes in self.codes.items() if up}
        for one in above.values():
            rows.add((one, 1.0), low=1, high=1)
        for rule in self.limits.rules:
            if isinstance(rule, CountRule):
                high = self.most if rule.most is None else rule.most
                rows.add((of_type[self._having(rule.attribute, rule.codes)], 1.0), low=rule.least, high=high)
            elif isinstance(rule, Older):
                self._compare(rows, of_type, rule)
        rows.add((of_type, 1.0), low=0, high=self.most)
        by_size = np.empty(0, dtype=np.int64)
        if self.sizes is not None:
            by_size = rows.unknowns(len(self.sizes))
            rows.add((by_size, 1.0), low=1, high=1)
            rows.add((of_type, 1.0), (by_size, -1.0 * np.arange(len(self.sizes))), low=0, high=0)
        for bar in self.bars:
            if not self._forbid(rows, bar, of_type, most, above, by_size):
                return False, None
        found = rows.least(of_type, most)
        if found is None:
            return rows.decided, None
        return True, self._family(
            np.rint(found[of_type]).astype(int), {n: int(found[y].argmax()) for n, y in above.items()}
        )

    def _having(self, name: str, codes: Iterable[int]) -> np.ndarray:
        """Return which types of rows have one of some codes of an attribute."""
        assert self.types is not None
        return np.isin(self.codes[False, name], list(codes))[self.types[name]]

    def _compare(self, rows: _Rows, of_type: np.ndarray, rule: Older) -> None:
        """Add that no higher row is too low for a lower row: for each value, one of the two is not there."""
        assert self.types is not None
        values = self.codes[False, rule.column][self.types[rule.column]]
        top, bottom = np.array(rule.greatest)[values], np.array(rule.least)[values]
        higher = self._having(rule.attribute, rule.codes) & ~np.isnan(top)
        lower = self._having(rule.attribute, rule.than) & ~np.isnan(bottom)
        for value in np.unique(top[higher]):
            there, most = rows.unknowns(1), rows.most
            rows.add((of_type[higher & (top <= value)], 1.0), (there, -1.0 * most), high=0)
            rows.add((of_type[lower & (value - bottom < rule.by)], 1.0), (there, 1.0 * most), high=most)

    def _forbid(
        self,
        rows: _Rows,
        bar: _Bar,
        of_type: np.ndarray,
        most: np.ndarray,
        above: Mapping[str, np.ndarray],
        by_size: np.ndarray,
    ) -> bool:
        """Add that combinations do not occur; return False if they are too many."""
        assert self.types is not None
        beside = bar.mask.ndim - len(bar.inside)
        if beside == 0:
            most[bar.mask[tuple(self.types[name] for name in bar.inside)]] = 0
            return True
        cells = np.argwhere(bar.mask.any(axis=tuple(range(beside, bar.mask.ndim))))
        for cell in cells[:MOST_BARS]:
            terms = [
                (above[name][code : code + 1], 1.0 * rows.most) for name, code in zip(bar.above, cell, strict=False)
            ]
            if bar.sized:
                terms.append((by_size[self.sizes == cell[len(bar.above)]], 1.0 * rows.most))
            if bar.inside:
                barred = bar.mask[tuple(cell)][tuple(self.types[name] for name in bar.inside)]
                rows.add((of_type[barred], 1.0), *terms, high=rows.most * len(terms))
            else:
                rows.add(*terms, high=rows.most * (len(terms) - 1))
        return len(cells) <= MOST_BARS

    def _family(self, numbers: np.ndarray, above: Mapping[str, int]) -> Family:
        assert self.types is not None
        parent = np.zeros(len(self.limits.parent), dtype=np.int64)
        for name, code in above.items():
            parent[list(self.limits.parent).index(name)] = self.codes[True, name][code]
        children = np.zeros((int(numbers.sum()), len(self.limits.child)), dtype=np.int64)
        for name, of in self.types.items():
            children[:, list(self.limits.child).index(name)] = np.repeat(self.codes[False, name][of], numbers)
        return Family(parent, children)


class _Rows:
    """The unknowns and the rows of a program.

    Args:
        most: the largest number of rows of a family.
    """

    def __init__(self, most: int):
        self.most = most
        self.decided = False
        self._number = 0
        self._parts: list[tuple[list[tuple[np.ndarray, float | np.ndarray]], float, float]] = []

    def unknowns(self, number: int) -> np.ndarray:
        """Return the places of new unknowns, which are 0 or 1 unless `least` counts them."""
        self._number += number
        return np.arange(self._number - number, self._number)

    def add(self, *terms: tuple[np.ndarray, float | np.ndarray], low: float = -np.inf, high: float = np.inf) -> None:
        """Add that a sum of unknowns times numbers is within bounds."""
        self._parts.append((list(terms), low, high))

    def least(self, counted: np.ndarray, most: np.ndarray) -> np.ndarray | None:
        """Return a solution with the least sum of some unknowns, which are whole numbers of at most `most`."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        places, values, row = [], [], []
        for at, (terms, _, _) in enumerate(self._parts):
            for unknowns, factor in terms:
                places.append(unknowns)
                values.append(np.broadcast_to(factor, unknowns.shape))
                row.append(np.full(len(unknowns), at))
        entries = np.concatenate(values), (np.concatenate(row), np.concatenate(places))
        matrix = csr_array(entries, shape=(len(self._parts), self._number))
        upper, cost = np.ones(self._number), np.zeros(self._number)
        upper[counted], cost[counted] = most, 1.0
        found = milp(
            cost,
            integrality=np.ones(self._number),
            bounds=Bounds(0, upper),  # type: ignore[arg-type]
            constraints=LinearConstraint(matrix, *np.array([(low, high) for _, low, high in self._parts]).T),
            options={"time_limit": SECONDS},
        )
        self.decided = found.status in (0, 2)
        return found.x if found.status == 0 else None


def _bars(limits: FamilyLimits) -> Iterable[_Bar]:
    """Yield the combinations that cannot occur."""
    for clique, mask in limits.zeros_above.items():
        yield _Bar(clique, False, (), mask)
    for clique, mask in limits.zeros_inside.items():
        yield _Bar((), False, clique, mask)
    for rule in limits.rules:
        if isinstance(rule, Impossible):
            inside = (rule.attribute, rule.codes), *rule.beside
            sides = [(codes, limits.parent[name]) for name, codes in rule.above]
            sides += [] if rule.sizes is None else [(rule.sizes, limits.at_most + 1)]
            sides += [(codes, limits.child[name]) for name, codes in inside]
            marks = [np.isin(np.arange(size), codes) for codes, size in sides]
            mask = np.ones((), dtype=bool)
            for one in marks:
                mask = np.logical_and.outer(mask, one)
            above = tuple(name for name, _ in rule.above)
            yield _Bar(above, rule.sizes is not None, tuple(name for name, _ in inside), mask)


def _slices(bars: Sequence[_Bar], name: str, above: bool) -> list[np.ndarray]:
    """Return what combinations say of each code of an attribute, shape (codes, cells)."""
    found = []
    for bar in bars:
        names = bar.above if above else bar.inside
        if name in names:
            axis = names.index(name) + (0 if above else len(bar.above) + bar.sized)
            found.append(np.moveaxis(bar.mask, axis, 0).reshape(bar.mask.shape[axis], -1))
    return found


def _marks(rules: Iterable[Rule], name: str, size: int) -> list[np.ndarray]:
    """Return what rules say of each code of an attribute, shape (codes, facts)."""
    found = []
    for rule in rules:
        if isinstance(rule, CountRule | Older) and rule.attribute == name:
            found.append(np.isin(np.arange(size), rule.codes)[:, None])
        if isinstance(rule, Older) and rule.attribute == name:
            found.append(np.isin(np.arange(size), rule.than)[:, None])
        if isinstance(rule, Older) and rule.column == name:
            found.append(np.nan_to_num(np.stack([rule.least, rule.greatest], axis=1), nan=np.inf))
    return found


def _classes(size: int, features: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one code of each class of codes that have equal features, and the class of each code."""
    label = np.zeros(size, dtype=np.int64)
    for one in features:
        label = np.unique(
            np.column_stack([label, np.unique(one, axis=0, return_inverse=True)[1].ravel()]),
            axis=0,
            return_inverse=True,
        )[1].ravel()
    codes = np.unique(label, return_index=True)[1]
    return codes, label
