"""Hierarchy: the levels of an attribute, such as the chapters and blocks of a code; `name@level` in place of a name."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pgmest.errors import ArgumentError, UnknownAttributeError

SEPARATOR = "@"
"""The sign between an attribute and one of its levels, as in "diagnosis@chapter"."""

SHOWN_GROUPS = 12
"""The text of a hierarchy lists at most this many groups of the coarsest level."""


class Hierarchy:
    """The levels of an attribute: at each level, every value belongs to one group, and groups are nested.

    The values of an attribute are the leaves of a tree: the codes of diagnoses lie in blocks, and blocks in chapters.
    A domain that knows the hierarchy (`Domain.with_hierarchies`) answers to "diagnosis@chapter" wherever an attribute
    is named.

    >>> from pgmest import Domain
    >>> tree = Hierarchy("diagnosis", {"chapter": ["A", "A", "B"]})
    >>> tree
    Hierarchy of 'diagnosis': 3 values in 2 chapter
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(tree)
    >>> domain.hierarchies["diagnosis"].groups("chapter")
    array([0, 0, 1])

    Args:
        attribute: the name of the attribute.
        levels: the name of each level, from the coarsest to the finest, and the group of each value, in code order,
            shape (n,): numbers 0..k-1, or labels, which are numbered in the order of their first value.
        labels: the labels of the groups of a level, in the order of their numbers; by default those in `levels`.

    Raises:
        ArgumentError: a name is not valid, levels have different lengths, or a group lies in two groups of a coarser
            level.

    Attributes:
        attribute: the name of the attribute.
        levels: level -> the group of each value, shape (n,), from the coarsest to the finest; read-only.
        labels: level -> the label of each group; None for a level of numbers.
    """

    def __init__(
        self,
        attribute: str,
        levels: Mapping[str, Iterable[Any]],
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not isinstance(attribute, str) or not attribute:
            raise ArgumentError.of("attribute", attribute, "the name of an attribute")
        if not isinstance(levels, Mapping) or not levels:
            raise ArgumentError.of("levels", levels, "level -> the group of each value, with at least one level")
        found: dict[str, np.ndarray] = {}
        named: dict[str, tuple[str, ...] | None] = {}
        for name, given in levels.items():
            if not isinstance(name, str) or not name or SEPARATOR in name:
                raise ArgumentError.of("levels", name, f"names of levels, which are texts without {SEPARATOR!r}")
            found[name], named[name] = _numbered(name, given)
        self.attribute = attribute
        self.levels: Mapping[str, np.ndarray] = MappingProxyType(found)
        for name, given_labels in (labels or {}).items():
            self._check_level(name)
            texts = tuple(given_labels)
            if len(texts) != self.size(name) or len(set(texts)) != len(texts):
                raise ArgumentError.of(f"labels[{name!r}]", texts, f"{self.size(name)} different texts, one a group")
            named[name] = tuple(map(str, texts))
        self.labels: Mapping[str, tuple[str, ...] | None] = MappingProxyType(named)
        self._check_nesting()

    # -- makers -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_prefixes(
        cls, attribute: str, codes: Sequence[Any], prefixes: Iterable[int], names: Sequence[str] | None = None
    ) -> Hierarchy:
        """Return the hierarchy of codes whose first characters say the group, such as those of ICD, ISCO and NACE.

        >>> Hierarchy.from_prefixes("diagnosis", ["A00", "A01", "B20"], [1]).labels
        mappingproxy({'prefix1': ('A', 'B')})

        Args:
            attribute: the name of the attribute.
            codes: the label of each value, in code order.
            prefixes: the numbers of characters that name a group at each level, from the coarsest to the finest.
            names: the names of the levels; by default "prefix1" for the first character, and so on.

        Raises:
            ArgumentError: the numbers do not grow or are below 1, or `names` has another length.
        """
        lengths = tuple(prefixes)
        whole = all(isinstance(length, int | np.integer) and length >= 1 for length in lengths)
        if not lengths or not whole or any(np.diff(lengths) <= 0):
            raise ArgumentError.of("prefixes", lengths, "growing whole numbers of at least 1, such as [1, 3]")
        levels = tuple(f"prefix{length}" for length in lengths) if names is None else tuple(names)
        if len(set(levels)) != len(lengths):
            raise ArgumentError.of("names", levels, f"{len(lengths)} different names, one for each of {lengths}")
        texts = [str(code) for code in codes]
        return cls(attribute, {n: [text[:k] for text in texts] for n, k in zip(levels, lengths, strict=True)})

    @classmethod
    def from_json(cls, stored: Any) -> Hierarchy:
        """Return the hierarchy that `to_json` described.

        Raises:
            ArgumentError: it is something else.
        """
        try:
            labels = {name: texts for name, texts in stored["labels"].items() if texts is not None}
            return cls(stored["attribute"], stored["levels"], labels=labels)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError.of("stored", reprlib.repr(stored), "an object that Hierarchy.to_json made") from None

    def to_json(self) -> dict[str, Any]:
        """Return the hierarchy as JSON values."""
        return {
            "attribute": self.attribute,
            "levels": {name: groups.tolist() for name, groups in self.levels.items()},
            "labels": {name: None if texts is None else list(texts) for name, texts in self.labels.items()},
        }

    # -- levels -----------------------------------------------------------------------------------------------------

    @property
    def values(self) -> int:
        """The number of values of the attribute."""
        return len(next(iter(self.levels.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, from the coarsest to the finest."""
        return tuple(self.levels)

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """The names of the levels with more than one group and fewer groups than values; others tell nothing more."""
        return tuple(name for name, size in self.sizes.items() if 1 < size < self.values)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of groups of each level."""
        return MappingProxyType({name: self.size(name) for name in self.levels})

    def size(self, level: str) -> int:
        """Return the number of groups of a level."""
        return int(self.groups(level).max()) + 1

    def groups(self, level: str) -> np.ndarray:
        """Return the group of each value at a level, shape (n,), read-only.

        Raises:
            UnknownAttributeError: there is no such level.
        """
        self._check_level(level)
        return self.levels[level]

    def parents(self, level: str) -> np.ndarray:
        """Return, for each group of a level, its group at the next coarser level; zeros for the coarsest level."""
        groups = self.groups(level)
        place = self.names.index(level)
        found = np.zeros(self.size(level), dtype=np.int64)
        if place:
            found[groups] = self.levels[self.names[place - 1]]
        return found

    def members(self, level: str, group: int) -> np.ndarray:
        """Return the codes of the values in a group."""
        return np.flatnonzero(self.groups(level) == group)

    def label(self, level: str, group: int) -> str:
        """Return the label of a group; its number if the level has no labels."""
        texts = self.labels.get(level)
        return str(group) if texts is None else texts[group]

    def texts(self, level: str) -> tuple[str, ...]:
        """Return the label of each group of a level, or their numbers as texts if the level has no labels."""
        return self.labels.get(level) or tuple(map(str, range(self.size(level))))

    @cached_property
    def order(self) -> np.ndarray:
        """The codes in an order in which the values of every group are neighbors; shape (n,).

        Values and groups keep their order where the tree allows it: groups follow in the order of their first values.
        """
        first = []
        for groups in self.levels.values():
            starts = np.full(int(groups.max()) + 1, len(groups))
            np.minimum.at(starts, groups, np.arange(len(groups)))
            first.append(starts[groups])
        return np.lexsort([np.arange(self.values), *first[::-1]])

    def recoded(self, attribute: str, codes: np.ndarray) -> Hierarchy | None:
        """Return the levels that a recoding of the values keeps, whose groups hold all values of a new code or none.

        >>> Hierarchy("area", {"country": [0, 0, 1], "state": [0, 1, 2]}).recoded("area", np.array([0, 0, 1]))
        Hierarchy of 'area': 2 values in 2 country

        Args:
            attribute: the name of the recoded attribute.
            codes: the new code of each value, shape (n,), with none left out.

        Returns:
            the hierarchy; None if no level is kept.
        """
        kept: dict[str, np.ndarray] = {}
        for name, groups in self.levels.items():
            new = np.zeros(int(codes.max()) + 1, dtype=np.int64)
            new[codes] = groups
            if np.array_equal(new[codes], groups):
                kept[name] = new
        labels = {name: texts for name, texts in self.labels.items() if texts is not None and name in kept}
        return Hierarchy(attribute, kept, labels=labels) if kept else None

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_level(self, level: str) -> None:
        if level not in self.levels:
            raise UnknownAttributeError.no_level(self.attribute, level, self.names)

    def _check_nesting(self) -> None:
        lengths = {name: len(groups) for name, groups in self.levels.items()}
        if len(set(lengths.values())) != 1:
            raise ArgumentError.of("levels", lengths, "levels of one length, the attribute's number of values")
        for above, name in zip(self.names, self.names[1:], strict=False):
            parent = self.parents(name)
            broken = np.flatnonzero(parent[self.levels[name]] != self.levels[above])
            if len(broken):
                group, code = int(self.levels[name][broken[0]]), int(broken[0])
                others = self.label(above, int(self.levels[above][code])), self.label(above, int(parent[group]))
                raise ArgumentError(
                    f"levels of '{self.attribute}' are not nested: the group {self.label(name, group)!r} of '{name}' "
                    f"lies in {others[0]!r} and {others[1]!r} of '{above}'. Give the levels from the coarsest to the "
                    "finest, and each group one parent."
                )

    def __eq__(self, other: object) -> bool:
        """Return whether attribute, levels, their order and their labels agree."""
        return (
            isinstance(other, Hierarchy)
            and self.attribute == other.attribute
            and self.names == other.names
            and dict(self.labels) == dict(other.labels)
            and all(np.array_equal(groups, other.levels[name]) for name, groups in self.levels.items())
        )

    def __hash__(self) -> int:
        return hash((self.attribute, self.names, self.values))

    def __reduce__(self) -> tuple[Any, ...]:
        return Hierarchy.from_json, (self.to_json(),)

    def __str__(self) -> str:
        """Return the levels, and the groups of the coarsest with the numbers of their values."""
        return f"{self!r}\n{_shown(self)}"

    def __repr__(self) -> str:
        sizes = " > ".join(f"{size:,} {name}" for name, size in self.sizes.items())
        return f"Hierarchy of '{self.attribute}': {self.values:,} values in {sizes}"


def _shown(tree: Hierarchy) -> str:
    """Return the groups of the coarsest level, each with the number of its values."""
    level = tree.names[0]
    sizes = np.bincount(tree.groups(level))
    lines = [f"  {tree.label(level, one)}: {sizes[one]:,}" for one in range(min(len(sizes), SHOWN_GROUPS))]
    return "\n".join([*lines, *([f"  ... {len(sizes) - SHOWN_GROUPS:,} more"] if len(sizes) > SHOWN_GROUPS else [])])


def _numbered(name: str, given: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return the number of each value's group, and the labels of the groups, if they were labels."""
    values = given if isinstance(given, np.ndarray) else list(given)
    if not len(values) or np.ndim(values) != 1:
        raise ArgumentError.of(f"levels[{name!r}]", reprlib.repr(values), "the group of each value, shape (n,)")
    if any(value is None or value != value for value in values):
        raise ArgumentError.of(f"levels[{name!r}]", reprlib.repr(values), "a group for each value, without gaps")
    whole = all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values)
    if whole and min(values) == 0 and len(set(values)) == int(max(values)) + 1:
        numbers, labels = np.array(values, dtype=np.int64), None
    else:
        places: dict[str, int] = {}
        numbers = np.array([places.setdefault(str(value), len(places)) for value in values], dtype=np.int64)
        labels = tuple(places)
    numbers.flags.writeable = False
    return numbers, labels


class NamedLevel(NamedTuple):
    """An attribute, or one of its levels, as a query names it.

    Attributes:
        name: the text, such as "diagnosis@chapter" or "sex".
        attribute: the attribute.
        groups: the group of each value of the attribute, shape (n,); None for the attribute itself.
    """

    name: str
    attribute: str
    groups: np.ndarray | None

    @property
    def size(self) -> int | None:
        """The number of groups; None for the attribute itself."""
        return None if self.groups is None else int(self.groups.max()) + 1


def split_level(name: str) -> tuple[str, str] | None:
    """Return the attribute and the level that "attribute@level" names; None for another text.

    >>> split_level("diagnosis@chapter")
    ('diagnosis', 'chapter')
    """
    found = re.fullmatch(rf"(.+){SEPARATOR}([^{SEPARATOR}]+)", name, re.DOTALL)
    return None if found is None else (found[1], found[2])
