"""Conversion of domains, attribute names and records between mbi and pgmest.

An attribute of mbi may be an integer, those of pgmest are text: the attribute 3 becomes "3", or "3'" if mbi has a "3",
too. Labels of values remain in mbi's domain, from which `labels_of` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pgmest.adapters.mbi.peer import mbi
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.tables.domain import Clique, Domain


@lru_cache(maxsize=1024)
def _names(attributes: tuple[Any, ...]) -> tuple[str, ...]:
    taken = {attribute for attribute in attributes if isinstance(attribute, str)}
    names = []
    for attribute in attributes:
        name = attribute
        if not isinstance(attribute, str):
            name = str(attribute)
            while name in taken:
                name += "'"
            taken.add(name)
        names.append(name)
    return tuple(names)


class Names:
    """The names of an mbi domain's attributes in pgmest.

    Attributes:
        theirs: the mbi domain.
        domain: the pgmest domain.
        of: mbi's attribute -> pgmest's name.
    """

    def __init__(self, domain: Any):
        names = _names(tuple(domain.attributes))
        self.theirs: Any = domain
        self.domain: Domain = Domain(zip(names, domain.shape, strict=True))
        self.of: dict[Any, str] = dict(zip(domain.attributes, names, strict=True))
        self._back = dict(zip(names, domain.attributes, strict=True))

    @classmethod
    def plain(cls, domain: Domain) -> Names:
        """Return the names of a pgmest domain, which are the same in mbi."""
        return cls(mbi.Domain(domain.attributes, domain.shape))

    def clique(self, attributes: Any) -> Clique:
        """Return pgmest's names of mbi's attributes; a single attribute counts as a tuple of one.

        Raises:
            ArgumentError: there is no such attribute.
        """
        wanted = (attributes,) if isinstance(attributes, str | int) else tuple(attributes)
        try:
            return tuple(self.of[attribute] for attribute in wanted)
        except KeyError as error:
            raise ArgumentError.of("the attribute", error.args[0], list(self.of)) from None

    def back(self, clique: Iterable[str]) -> tuple[Any, ...]:
        """Return mbi's attributes of pgmest's names."""
        return tuple(self._back[name] for name in clique)


def from_mbi_domain(domain: Any) -> Domain:
    """Return an `mbi.Domain` as a `pgmest.Domain`; attributes that are integers get their digits as names."""
    return Names(domain).domain


def to_mbi_domain(domain: Domain, labels: Mapping[str, Iterable[Any]] | None = None) -> Any:
    """Return a `pgmest.Domain` as an `mbi.Domain`.

    Args:
        domain: the pgmest domain.
        labels: attribute -> the labels of its codes, for every attribute.

    Raises:
        ArgumentError: the number of an attribute's labels is not that of its values.
    """
    if labels is None:
        return mbi.Domain(domain.attributes, domain.shape)
    found = {name: tuple(labels.get(name, ())) for name in domain}
    for name, values in found.items():
        if len(values) != domain[name]:
            raise ArgumentError(f"labels[{name!r}] has {len(values)} labels for {domain[name]} values; give each one.")
    return mbi.Domain(domain.attributes, domain.shape, labels=tuple(found.values()))


def labels_of(domain: Any) -> dict[str, tuple[Any, ...]] | None:
    """Return the labels of the codes of an `mbi.Domain`, by pgmest's names of its attributes; None without labels."""
    labels = getattr(domain, "labels", None)
    return None if labels is None else dict(zip(Names(domain).domain, labels, strict=True))


def from_mbi_dataset(dataset: Any) -> Dataset:
    """Return an `mbi.Dataset` or `JaxDataset` as a `pgmest.Dataset`, with its weights unless all of them are 1.

    Raises:
        DataError, CodeRangeError: a value is not a code of the domain.
    """
    names = Names(dataset.domain)
    columns = dict(dataset.data) if hasattr(dataset, "data") else dataset.to_dict()
    weights = None if dataset.weights is None else np.asarray(dataset.weights, dtype=np.float64)
    codes = [np.asarray(columns[attribute]) for attribute in names.theirs.attributes]
    if not codes and weights is not None:
        return Dataset.from_codes(np.empty((len(weights), 0), dtype=np.int64), names.domain, weights)
    return Dataset.from_codes(codes, names.domain, None if weights is None or np.all(weights == 1) else weights)


def to_mbi_dataset(dataset: Dataset, domain: Any = None) -> Any:
    """Return a `pgmest.Dataset` as an `mbi.Dataset`.

    Args:
        dataset: the pgmest dataset.
        domain: the mbi domain of the result, with integer names and labels; by default that of pgmest's names.

    Raises:
        ArgumentError: the domain is not that of the records.
    """
    names = Names.plain(dataset.domain) if domain is None else Names(domain)
    if names.domain != dataset.domain:
        raise ArgumentError(f"domain={domain} is not that of the records, {dict(dataset.domain)}; leave it out.")
    columns = {names.back((name,))[0]: dataset.column(name).astype(np.int64) for name in dataset.domain}
    weights = None if dataset.weights is None else np.array(dataset.weights)
    if not columns:
        weights = np.ones(len(dataset)) if weights is None else weights
    return mbi.Dataset(columns, names.theirs, weights)
