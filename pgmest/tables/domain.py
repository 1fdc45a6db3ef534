"""Domain: the attributes of a table, and the number of values of each."""

from __future__ import annotations

import json
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any, SupportsIndex

import numpy as np

from pgmest._base.files import read_text, write_atomically
from pgmest._base.html import html_table
from pgmest.errors import ArgumentError, DomainError, DuplicateAttributeError, FileFormatError, UnknownAttributeError
from pgmest.tables.hierarchy import SEPARATOR, Hierarchy, NamedLevel, split_level

Clique = tuple[str, ...]

HIERARCHIES = "@hierarchies"
"""The key of the hierarchies in a file of a domain."""

NO_HIERARCHIES: Mapping[str, Hierarchy] = MappingProxyType({})
"""The hierarchies of most domains."""


class Domain(Mapping[str, int]):
    """An ordered mapping of attribute to number of values.

    A record holds one code in 0..n-1 for each attribute of n values. A domain may know hierarchies of its attributes
    (`with_hierarchies`), whose levels queries may name in place of attributes; they play no part in comparisons.

    >>> domain = Domain({"age": 85, "sex": 2, "income": 2})
    >>> domain.size(("age", "sex"))
    170
    >>> domain.project(("sex", "age"))
    Domain({'sex': 2, 'age': 85})

    Args:
        sizes: attribute -> number of values, or (attribute, number) pairs; their order is the order of the axes.

    Raises:
        DomainError: a size is not a positive integer, a name is not a non-empty string, or `sizes` is neither a
            mapping nor pairs.
        DuplicateAttributeError: the pairs name an attribute twice.
    """

    __slots__ = ("_attributes", "_hierarchies", "_shape", "_sizes")

    def __init__(self, sizes: Mapping[str, SupportsIndex] | Iterable[tuple[str, SupportsIndex]]):
        pairs = _pairs_of(sizes)
        for name, size in pairs:
            _check_attribute(name, size)
        self._sizes = {name: operator.index(size) for name, size in pairs}
        names = [name for name, _ in pairs]
        if len(self._sizes) != len(names):
            raise DuplicateAttributeError.of(names, "the domain")
        self._attributes: Clique = tuple(names)
        self._shape = tuple(self._sizes.values())
        self._hierarchies: Mapping[str, Hierarchy] = NO_HIERARCHIES

    @property
    def attributes(self) -> Clique:
        """The attributes, in axis order."""
        return self._attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute, in axis order."""
        return self._shape

    @property
    def hierarchies(self) -> Mapping[str, Hierarchy]:
        """attribute -> its hierarchy, for those that have one."""
        return self._hierarchies

    def with_hierarchies(self, *hierarchies: Hierarchy) -> Domain:
        """Return the domain with hierarchies of some attributes; others keep theirs.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            DomainError: a hierarchy is about another number of values than the attribute has.
            ArgumentError: an argument is not a Hierarchy.
        """
        known = dict(self._hierarchies)
        for one in hierarchies:
            if not isinstance(one, Hierarchy):
                raise ArgumentError.of("hierarchies", one, "pgmest.Hierarchy objects")
            if one.values != self[one.attribute]:
                raise DomainError(
                    f"the hierarchy of '{one.attribute}' is about {one.values} values, and the attribute has "
                    f"{self[one.attribute]}: give each level one group for each value."
                )
            known[one.attribute] = one
        return self._same_with(known)

    def _same_with(self, hierarchies: Mapping[str, Hierarchy]) -> Domain:
        found = Domain.__new__(Domain)
        found._sizes, found._attributes, found._shape = self._sizes, self._attributes, self._shape
        kept = {name: one for name, one in hierarchies.items() if name in self._sizes}
        found._hierarchies = MappingProxyType(kept) if kept else NO_HIERARCHIES
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._sizes, tuple(self._hierarchies.values()))

    def level(self, name: str) -> NamedLevel:
        """Return the attribute, or the level of one, that a text such as "diagnosis@chapter" names.

        Raises:
            UnknownAttributeError: the domain has neither.
        """
        found = None if name in self._sizes or not isinstance(name, str) else split_level(name)
        if found is None or found[0] not in self._sizes:
            self[name]
            return NamedLevel(name, name, None)
        if found[0] not in self._hierarchies:
            raise UnknownAttributeError(
                f"'{name}' names a level, but no hierarchy of '{found[0]}' is known: "
                "give the domain one by Domain.with_hierarchies, or the schema by `hierarchy:`."
            )
        return NamedLevel(name, found[0], self._hierarchies[found[0]].groups(found[1]))

    def group_labels(self, name: str) -> tuple[str, ...]:
        """Return the label of each group of a level such as "diagnosis@chapter".

        Raises:
            UnknownAttributeError: the domain has no such level.
        """
        attribute = self.level(name).attribute
        return self._hierarchies[attribute].texts(name[len(attribute) + len(SEPARATOR) :])

    def finer(self, name: str) -> tuple[str, ...]:
        """Return the attribute of a level such as "diagnosis@chapter", and its finer levels; none for an attribute.

        Raises:
            UnknownAttributeError: the domain has neither.
        """
        attribute = self.level(name).attribute
        if attribute == name:
            return ()
        levels = self._hierarchies[attribute].names
        place = levels.index(name[len(attribute) + len(SEPARATOR) :])
        return attribute, *(f"{attribute}{SEPARATOR}{level}" for level in levels[place + 1 :])

    def names_levels(self, attributes: Any) -> bool:
        """Return whether some of the names are levels, not attributes, such as "diagnosis@chapter"."""
        names = (attributes,) if isinstance(attributes, str) else attributes
        return any(isinstance(name, str) and SEPARATOR in name and name not in self._sizes for name in names)

    def size(self, attributes: Iterable[str] | None = None) -> int:
        """Return the number of cells of the table over `attributes` (by default all); the integer is exact."""
        if attributes is None:
            return math.prod(self._shape)
        return math.prod(self[name] for name in self.clique(attributes))

    def project(self, attributes: Iterable[str]) -> Domain:
        """Return the domain of `attributes`, in the order given."""
        names = self.clique(attributes)
        if names == self._attributes:
            return self
        smaller = Domain.__new__(Domain)
        smaller._sizes = {name: self._sizes[name] for name in names}
        smaller._attributes = names
        smaller._shape = tuple(smaller._sizes.values())
        smaller._hierarchies = self._hierarchies and smaller._same_with(self._hierarchies)._hierarchies
        return smaller

    @property
    def varying(self) -> Clique:
        """The attributes of several values, in axis order: tables of the others hold the number of records only."""
        return tuple(name for name, size in self._sizes.items() if size > 1)

    def without(self, attributes: Iterable[str]) -> Domain:
        """Return the domain of all other attributes, in axis order."""
        dropped = set(self.clique(attributes))
        return self.project(name for name in self._attributes if name not in dropped)

    def merge(self, other: Domain) -> Domain:
        """Return this domain followed by the attributes that only `other` has.

        Raises:
            DomainError: an attribute has different sizes in the two.
        """
        for name in other:
            if name in self and self[name] != other[name]:
                raise DomainError(
                    f"'{name}' has {self[name]} values in one domain and {other[name]} in the other; "
                    "rename one of them or make the sizes agree."
                )
        merged = Domain({**self._sizes, **other._sizes})
        return merged._same_with({**other._hierarchies, **self._hierarchies})

    def clique(self, attributes: Iterable[str] | str) -> Clique:
        """Return `attributes` as a tuple, after checking that each is known and occurs once.

        A single name counts as a tuple of one.

        Raises:
            UnknownAttributeError: a name is not an attribute; the error suggests the nearest name.
            DuplicateAttributeError: a name appears twice.
        """
        if not isinstance(attributes, Iterable):
            raise UnknownAttributeError.of(attributes, self._attributes)
        names: Clique = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        distinct = set(names)
        if not self._sizes.keys() >= distinct:
            unknown = next(name for name in names if name not in self._sizes)
            if isinstance(unknown, str) and SEPARATOR in unknown:
                self.level(unknown)  # says what is wrong with the level
                raise UnknownAttributeError(f"'{unknown}' is a level of an attribute, and an attribute is needed here.")
            raise UnknownAttributeError.of(unknown, self._attributes)
        if len(distinct) != len(names):
            raise DuplicateAttributeError.of(names, f"the clique {names}")
        return names

    def ordered(self, attributes: Iterable[str] | str) -> Clique:
        """Return those of `attributes` that this domain has, in axis order, each once.

        A single name counts as a tuple of one.

        >>> Domain({"age": 85, "sex": 2, "income": 2}).ordered({"income", "age", "height"})
        ('age', 'income')
        """
        if isinstance(attributes, str):
            attributes = (attributes,)
        wanted = attributes if isinstance(attributes, Set | Mapping) else frozenset(attributes)
        return tuple(name for name in self._attributes if name in wanted)

    def axes(self, attributes: Iterable[str]) -> tuple[int, ...]:
        """Return the axis of each attribute."""
        return tuple(self._attributes.index(name) for name in self.clique(attributes))

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Read a JSON object of attribute -> number of values, such as `{"age": 85, "sex": 2}`.

        Raises:
            FileFormatError: the file is missing, is not JSON, or does not hold a JSON object of that form.
        """
        remedy = 'A domain file is a JSON object such as {"age": 85, "sex": 2}.'
        text = read_text(path)
        try:
            pairs = json.loads(text, object_pairs_hook=_Pairs)
        except ValueError as error:
            raise FileFormatError.of(path, f"not valid JSON ({error}).", remedy) from None
        except RecursionError:
            raise FileFormatError.of(path, "nested too deeply.", remedy) from None
        if not isinstance(pairs, _Pairs):
            raise FileFormatError.of(path, "not a JSON object.", remedy)
        stored = [value for name, value in pairs if name == HIERARCHIES and not isinstance(value, int)]
        try:
            domain = cls([(name, size) for name, size in pairs if not (stored and name == HIERARCHIES)])
            hierarchies = [Hierarchy.from_json(_as_object(one)) for one in (stored[0] if stored else ())]
            return domain.with_hierarchies(*hierarchies) if hierarchies else domain
        except (DomainError, ArgumentError, UnknownAttributeError, TypeError, ValueError) as error:
            raise FileFormatError.of(path, str(error), remedy) from None

    def save(self, path: str | Path) -> None:
        """Write the domain as JSON, atomically; hierarchies are a list under the key "@hierarchies"."""
        stored: dict[str, Any] = dict(self._sizes)
        if self._hierarchies:
            stored[HIERARCHIES] = [one.to_json() for one in self._hierarchies.values()]
        write_atomically(path, json.dumps(stored, indent=1) + "\n")

    def __getitem__(self, attribute: str) -> int:
        try:
            return self._sizes[attribute]
        except KeyError:
            raise UnknownAttributeError.of(attribute, self._attributes) from None

    def get(self, attribute: str, default: Any = None) -> Any:
        """Return the number of values of an attribute, or `default` if the domain lacks it."""
        # Mapping.get would build the text of an UnknownAttributeError, nearest name included, for each missing name.
        return self._sizes.get(attribute, default)

    def __contains__(self, attribute: object) -> bool:
        return attribute in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __eq__(self, other: object) -> bool:
        """Return whether the attributes, their sizes and their order agree."""
        return isinstance(other, Domain) and self._attributes == other._attributes and self._shape == other._shape

    def __hash__(self) -> int:
        return hash((self._attributes, self._shape))

    def _repr_html_(self) -> str:
        return html_table(("attribute", "values"), [(name, f"{size:,}") for name, size in self.items()])

    def __repr__(self) -> str:
        return f"Domain({self._sizes})"


def as_domain(domain: Domain | Mapping[str, int]) -> Domain:
    """Return `domain` if it is a Domain, else a Domain made from a mapping.

    Raises:
        ArgumentError: `domain` is neither.
    """
    if isinstance(domain, Domain):
        return domain
    if isinstance(domain, Mapping):
        return Domain(domain)
    raise ArgumentError.of("domain", domain, "a pgmest.Domain or a mapping of attribute to number of values")


class _Pairs(list[Any]):
    """The (name, value) pairs of a JSON object in order, so that duplicate names are detected, not merged."""


def _restored(sizes: Mapping[str, int], hierarchies: tuple[Hierarchy, ...]) -> Domain:
    """Return a domain from its pickle."""
    domain = Domain(sizes)
    return domain.with_hierarchies(*hierarchies) if hierarchies else domain


def _as_object(value: Any) -> Any:
    """Return JSON whose objects are pairs with dicts in their place."""
    if isinstance(value, _Pairs):
        return {name: _as_object(one) for name, one in value}
    return [_as_object(one) for one in value] if isinstance(value, list) else value


def _pairs_of(sizes: Any) -> list[tuple[str, int]]:
    try:
        return list(sizes.items()) if isinstance(sizes, Mapping) else [(name, size) for name, size in sizes]
    except (TypeError, ValueError):
        raise DomainError(
            "a domain is a mapping of attribute to number of values, or (attribute, number) pairs, "
            f"got {reprlib.repr(sizes)}."
        ) from None


def _check_attribute(name: object, size: object) -> None:
    if not isinstance(name, str) or not name:
        raise DomainError(f"attribute names must be non-empty strings, got {reprlib.repr(name)}.")
    try:
        valid = not isinstance(size, bool | np.bool_) and operator.index(size) >= 1  # type: ignore[arg-type]
    except TypeError:
        valid = False
    if not valid:
        raise DomainError(
            f"attribute '{name}' must have a positive integer number of values, got {reprlib.repr(size)}."
        )
