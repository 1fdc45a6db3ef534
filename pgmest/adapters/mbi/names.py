"""Domains, attribute names and records, mbi's to ours and back.

An attribute of mbi's may be an integer, ours are text: the attribute 3 is called "3" here, or "3'" where mbi has a "3"
as well. Labels of values stay with mbi's domain, where `labels_of` finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.adapters.mbi.peer import mbi
from pgmest.data.dataset import Dataset
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
    """Which attribute of an mbi domain is which of ours.

    Attributes:
        theirs: the mbi domain.
        domain: ours.
        of: mbi's attribute -> our name.
    """

    def __init__(self, domain: Any):
        names = _names(tuple(domain.attributes))
        self.theirs: Any = domain
        self.domain: Domain = Domain(zip(names, domain.shape, strict=True))
        self.of: dict[Any, str] = dict(zip(domain.attributes, names, strict=True))
        self._back = dict(zip(names, domain.attributes, strict=True))

    @classmethod
    def plain(cls, domain: Domain) -> Names:
        """For one of our domains: the names are the same on both sides."""
        return cls(mbi.Domain(domain.attributes, domain.shape))

    def clique(self, attributes: Any) -> Clique:
        """Our names of mbi's attributes; one attribute counts as a tuple of one.

        Raises:
            ArgumentError: there is no such attribute.
        """
        wanted = (attributes,) if isinstance(attributes, str | int) else tuple(attributes)
        try:
            return tuple(self.of[attribute] for attribute in wanted)
        except KeyError as error:
            raise ArgumentError.of("the attribute", error.args[0], list(self.of)) from None

    def back(self, clique: Iterable[str]) -> tuple[Any, ...]:
        """mbi's attributes of our names."""
        return tuple(self._back[name] for name in clique)


def from_mbi_domain(domain: Any) -> Domain:
    """An `mbi.Domain` as ours; attributes that are integers get their digits as names."""
    return Names(domain).domain


def to_mbi_domain(domain: Domain, labels: Mapping[str, Iterable[Any]] | None = None) -> Any:
    """Our domain as an `mbi.Domain`.

    Args:
        domain: ours.
        labels: attribute -> what its codes mean, for every attribute.

    Raises:
        ArgumentError: an attribute has no labels, or another number of them than values.
    """
    if labels is None:
        return mbi.Domain(domain.attributes, domain.shape)
    found = {name: tuple(labels.get(name, ())) for name in domain}
    for name, values in found.items():
        if len(values) != domain[name]:
            raise ArgumentError(f"labels[{name!r}] has {len(values)} labels for {domain[name]} values; give each one.")
    return mbi.Domain(domain.attributes, domain.shape, labels=tuple(found.values()))


def labels_of(domain: Any) -> dict[str, tuple[Any, ...]] | None:
    """What the codes of an `mbi.Domain` mean, by our names of its attributes; None where it does not say."""
    labels = getattr(domain, "labels", None)
    return None if labels is None else dict(zip(Names(domain).domain, labels, strict=True))


def from_mbi_dataset(dataset: Any) -> Dataset:
    """An `mbi.Dataset` or `JaxDataset` as ours, with its weights unless all of them are 1.

    Raises:
        DataError, CodeRangeError: a value is no code of the domain.
    """
    names = Names(dataset.domain)
    columns = dict(dataset.data) if hasattr(dataset, "data") else dataset.to_dict()
    weights = None if dataset.weights is None else np.asarray(dataset.weights, dtype=np.float64)
    codes = [np.asarray(columns[attribute]) for attribute in names.theirs.attributes]
    if not codes and weights is not None:
        return Dataset.from_codes(np.empty((len(weights), 0), dtype=np.int64), names.domain, weights)
    return Dataset.from_codes(codes, names.domain, None if weights is None or np.all(weights == 1) else weights)


def to_mbi_dataset(dataset: Dataset, domain: Any = None) -> Any:
    """Our records as an `mbi.Dataset`.

    Args:
        dataset: ours.
        domain: the mbi domain to give it, with its integer names and labels; by default that of our names.

    Raises:
        ArgumentError: the domain is another one than that of the records.
    """
    names = Names.plain(dataset.domain) if domain is None else Names(domain)
    if names.domain != dataset.domain:
        raise ArgumentError(f"domain={domain} is not that of the records, {dict(dataset.domain)}; leave it out.")
    columns = {names.back((name,))[0]: dataset.column(name).astype(np.int64) for name in dataset.domain}
    weights = None if dataset.weights is None else np.array(dataset.weights)
    if not columns:
        weights = np.ones(len(dataset)) if weights is None else weights
    return mbi.Dataset(columns, names.theirs, weights)
