"""Rules of linked tables: what holds among the rows of one parent row, in codes; public.

    within:
      - exactly: {relationship: reference person, count: 1}
      - at_most: {relationship: [spouse, partner], count: 1}
      - older: {relationship: reference person, than: {relationship: child}, by: 12, column: age}
      - impossible: {households.size: 1, relationship: child}

A rule is about the rows of one table that hang on the same row of its parent table. `broken` looks at all parent rows,
those without children included: they break `Exactly(count=1)` and keep `AtMost(count=1)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pgmest.errors import ArgumentError, DataError, ShapeError
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.data.linked import LinkedDataset, LinkedTable


@dataclass(frozen=True)
class Rule(ABC):
    """A rule about the rows of `table` that share a parent row: those whose `attribute` has one of the `codes`.

    Attributes:
        table: the child table.
        attribute: the attribute of that table that says which rows the rule is about, such as a relationship.
        codes: the codes of `attribute` that it is about.
        text: the rule as the schema states it, for messages; not compared.
    """

    table: str
    attribute: str
    codes: tuple[int, ...]
    text: str = field(default="", kw_only=True, compare=False)

    @abstractmethod
    def broken(self, linked: LinkedDataset) -> np.ndarray:
        """Return which rows of the parent table break the rule: booleans of shape (parent rows,)."""

    def check(self, tables: Mapping[str, LinkedTable]) -> None:
        """Raise an error if the rule does not fit the tables.

        Raises:
            DataError: there is no such table, or it has no parent.
            UnknownAttributeError: the table lacks the attribute.
            ArgumentError: there is no such code, or none is named.
        """
        if self.table not in tables or tables[self.table].parent is None:
            children = [name for name, table in tables.items() if table.parent is not None]
            raise DataError(f"the rule {self} is about '{self.table}', but the tables with a parent are {children}.")
        self.check_domain(tables[self.table].dataset.domain)

    def check_domain(self, domain: Domain) -> None:
        """Raise an error if the rule does not fit the attributes of its table; as `check`."""
        check_codes("codes", self.codes, domain[self.attribute])

    def among(self, linked: LinkedDataset) -> np.ndarray:
        """Return which rows of the table the rule is about: booleans of shape (rows,)."""
        return _having(linked, self, self.codes)

    def __str__(self) -> str:
        return self.text or repr(self)


@dataclass(frozen=True)
class CountRule(Rule):
    """A rule about how many of a parent's rows have one of the codes.

    Attributes:
        count: the number that the rule states.
    """

    bounds_below: ClassVar[bool] = False
    bounds_above: ClassVar[bool] = False
    count: int

    @property
    def least(self) -> int:
        """The smallest allowed number."""
        return self.count if self.bounds_below else 0

    @property
    def most(self) -> int | None:
        """The largest allowed number; None if the rule does not limit it."""
        return self.count if self.bounds_above else None

    def counts(self, linked: LinkedDataset) -> np.ndarray:
        """Return how many rows of each parent row have one of the codes: integers of shape (parent rows,)."""
        parent, rows = linked.link(self.table)
        return np.bincount(rows[self.among(linked)], minlength=linked.tables[parent].rows)

    def broken(self, linked: LinkedDataset) -> np.ndarray:
        counts = self.counts(linked)
        beyond = counts > self.most if self.most is not None else np.zeros(len(counts), dtype=bool)
        return (counts < self.least) | beyond

    def check(self, tables: Mapping[str, LinkedTable]) -> None:
        super().check(tables)
        at_most = tables[self.table].at_most
        if at_most is not None and self.least > at_most:
            raise DataError(
                f"the rule {self} needs {self.least} rows of '{self.table}', but at_most={at_most} are counted: raise "
                "at_most, or lower the count."
            )

    def check_domain(self, domain: Domain) -> None:
        super().check_domain(domain)
        if isinstance(self.count, bool) or not isinstance(self.count, int | np.integer) or self.count < 0:
            raise ArgumentError.of("count", self.count, "a whole number of at least 0")


@dataclass(frozen=True)
class Exactly(CountRule):
    """Each parent row has exactly `count` rows with one of the codes."""

    bounds_below = bounds_above = True


@dataclass(frozen=True)
class AtMost(CountRule):
    """Each parent row has at most `count` rows with one of the codes."""

    bounds_above = True


@dataclass(frozen=True)
class AtLeast(CountRule):
    """Each parent row has at least `count` rows with one of the codes."""

    bounds_below = True


@dataclass(frozen=True)
class Older(Rule):
    """Each row with one of the `codes` has a value at least `by` above that of each row with one of `than`.

    Codes are bins of numbers, so they are compared by their ends: two codes may stand together if some values in their
    bins keep the rule, `greatest[a] - least[b] >= by`. Values that keep it can then be drawn for all rows of a parent
    at once, since pairs that may stand together are enough for that (`Schema.decode` does). A code without a number,
    such as that of missing values, makes no claim.

    Attributes:
        than: the codes of `attribute` whose rows are the lower ones; none of them is among `codes`.
        by: the least difference, in the units of the column.
        column: the attribute whose values are compared, such as an age.
        least: the smallest value of each code of `column`; NaN for a code without a number.
        greatest: the largest value of each code of `column`; NaN for a code without a number.
    """

    than: tuple[int, ...]
    by: float
    column: str
    least: tuple[float, ...]
    greatest: tuple[float, ...]

    @cached_property
    def allowed(self) -> np.ndarray:
        """The pairs of codes of `column` that may stand together: booleans [code of the higher row, of the lower]."""
        table = ~(np.array(self.greatest)[:, None] - np.array(self.least)[None, :] < self.by)
        table.flags.writeable = False
        return table

    def below(self, linked: LinkedDataset) -> np.ndarray:
        """Return which rows of the table are the lower ones: booleans of shape (rows,)."""
        return _having(linked, self, self.than)

    def broken(self, linked: LinkedDataset) -> np.ndarray:
        codes, (parent, rows) = linked.tables[self.table].dataset.column(self.column), linked.link(self.table)
        top, bottom = np.array(self.greatest)[codes], np.array(self.least)[codes]
        higher, lower = self.among(linked) & ~np.isnan(top), self.below(linked) & ~np.isnan(bottom)
        parents = linked.tables[parent].rows
        smallest, largest = np.full(parents, np.inf), np.full(parents, -np.inf)
        np.minimum.at(smallest, rows[higher], top[higher])
        np.maximum.at(largest, rows[lower], bottom[lower])
        return smallest - largest < self.by

    def check_domain(self, domain: Domain) -> None:
        super().check_domain(domain)
        check_codes("than", self.than, domain[self.attribute])
        if both := sorted(set(self.codes) & set(self.than)):
            raise ArgumentError.of("than", self.than, f"codes that are not among codes={self.codes}, but {both} are")
        for name, ends in (("least", self.least), ("greatest", self.greatest)):
            if len(ends) != domain[self.column]:
                raise ShapeError.of(f"{name} of {self}", (domain[self.column],), (len(ends),))
        if not np.isfinite(self.by):
            raise ArgumentError.of("by", self.by, "a finite number")


@dataclass(frozen=True)
class Impossible(Rule):
    """No row has one of the `codes` together with certain values of its other attributes and of its parent row.

    Attributes:
        beside: further attributes of the row, and their codes.
        above: attributes of the parent row, and their codes.
        sizes: the numbers of rows of the parent row in the table; None for all.
    """

    beside: tuple[tuple[str, tuple[int, ...]], ...] = ()
    above: tuple[tuple[str, tuple[int, ...]], ...] = ()
    sizes: tuple[int, ...] | None = None

    def broken(self, linked: LinkedDataset) -> np.ndarray:
        (parent, rows), found = linked.link(self.table), self.among(linked)
        own, above = linked.tables[self.table].dataset, linked.tables[parent].dataset
        for name, codes in self.beside:
            found &= _marked(codes, own.domain[name])[own.column(name)]
        for name, codes in self.above:
            found &= _marked(codes, above.domain[name])[above.column(name)][rows]
        if self.sizes is not None:
            found &= np.isin(linked.sizes(self.table)[rows], self.sizes)
        return np.bincount(rows[found], minlength=linked.tables[parent].rows) > 0

    def check(self, tables: Mapping[str, LinkedTable]) -> None:
        super().check(tables)
        above = tables[tables[self.table].parent or ""].domain
        for name, codes in self.above:
            check_codes(f"codes of '{name}'", codes, above[name])

    def check_domain(self, domain: Domain) -> None:
        super().check_domain(domain)
        for name, codes in self.beside:
            check_codes(f"codes of '{name}'", codes, domain[name])


def check_codes(name: str, codes: tuple[int, ...], size: int) -> None:
    """Raise ArgumentError unless codes are distinct ones of an attribute of `size` codes, at least one."""
    whole = all(isinstance(code, int | np.integer) and not isinstance(code, bool) for code in codes)
    if not codes or not whole or len(set(codes)) != len(codes) or not all(0 <= code < size for code in codes):
        raise ArgumentError.of(name, codes, f"distinct codes in 0..{size - 1}, at least one")


def _having(linked: LinkedDataset, rule: Rule, codes: tuple[int, ...]) -> np.ndarray:
    dataset = linked.tables[rule.table].dataset
    return _marked(codes, dataset.domain[rule.attribute])[dataset.column(rule.attribute)]


def _marked(codes: tuple[int, ...], size: int) -> np.ndarray:
    """Return which of `size` codes are among some codes."""
    known = np.zeros(size, dtype=bool)
    known[list(codes)] = True
    return known
