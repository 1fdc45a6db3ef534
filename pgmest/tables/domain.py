"""Domain: the attributes of a table, and the number of values of each."""

from __future__ import annotations

import json
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from pgmest._base.files import read_text, write_atomically
from pgmest._base.html import html_table
from pgmest.errors import ArgumentError, DomainError, DuplicateAttributeError, FileFormatError, UnknownAttributeError

Clique = tuple[str, ...]


class Domain(Mapping[str, int]):
    """An ordered mapping of attribute to number of values.

    A record holds one code in 0..n-1 for each attribute of n values.

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

    __slots__ = ("_attributes", "_shape", "_sizes")

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

    @property
    def attributes(self) -> Clique:
        """The attributes, in axis order."""
        return self._attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute, in axis order."""
        return self._shape

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
        return smaller

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
        return Domain({**self._sizes, **other._sizes})

    def clique(self, attributes: Iterable[str] | str) -> Clique:
        """Return `attributes` as a tuple, after checking that each is known and occurs once.

        A single name counts as a tuple of one.

        Raises:
            UnknownAttributeError: a name is not an attribute; the error suggests the nearest name.
            DuplicateAttributeError: a name appears twice.
        """
        names: Clique = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        distinct = set(names)
        if not self._sizes.keys() >= distinct:
            raise UnknownAttributeError.of(next(n for n in names if n not in self._sizes), self._attributes)
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
        try:
            return cls(pairs)
        except DomainError as error:
            raise FileFormatError.of(path, str(error), remedy) from None

    def save(self, path: str | Path) -> None:
        """Write the domain as JSON, atomically."""
        write_atomically(path, json.dumps(self._sizes, indent=1) + "\n")

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
