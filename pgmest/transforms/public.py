"""Transforms made of public knowledge, which cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest._base.deprecation import Lookup, renamed_names
from pgmest._base.errors import ArgumentError
from pgmest.tables.domain import Domain, as_domain
from pgmest.transforms.transform import Column, Derived, Transform


def unchanged(domain: Domain, but: Iterable[str] = ()) -> dict[str, Column]:
    """A column for each attribute that stays as it is."""
    left_out = set(but)
    return {name: Column.same(name, size) for name, size in domain.items() if name not in left_out}


def bucketize(
    domain: Domain | Mapping[str, int],
    starts: Mapping[str, int | Iterable[int]],
    shares: Mapping[str, Any] | None = None,
) -> Transform:
    """Neighboring codes of some attributes put into buckets.

    >>> bucketize({"age": 6, "sex": 2}, {"age": [0, 1, 4]}).columns["age"].codes
    array([0, 1, 1, 1, 2, 2])

    Args:
        domain: the attributes.
        starts: attribute -> the first code of each bucket, ascending from 0; or how many buckets of about equal width.
        shares: attribute -> a weight for each of its codes, by which a bucket is shared out again; else evenly.

    Raises:
        ArgumentError: starts that are not ascending codes from 0.
        UnknownAttributeError: an attribute that the domain does not have.
    """
    known = as_domain(domain)
    columns = unchanged(known)
    for name, given in starts.items():
        size = known.project((name,))[name]
        firsts = np.arange(given) * size // given if isinstance(given, int) and given > 0 else np.array(given)
        if firsts.ndim != 1 or not firsts.size or firsts[0] != 0 or firsts[-1] >= size or (np.diff(firsts) <= 0).any():
            raise ArgumentError.of(f"starts['{name}']", given, f"ascending codes 0, ..., below {size}, or their number")
        codes = np.searchsorted(firsts, np.arange(size), side="right") - 1
        columns[name] = Column((name,), codes, None if shares is None else shares.get(name))
    return Transform(known, columns)


def merge(domain: Domain | Mapping[str, int], attributes: Iterable[str], name: str) -> Transform:
    """Some attributes recoded into one, whose codes are their cells, row-major; it comes last.

    Raises:
        ArgumentError: `name` is an attribute that stays.
        UnknownAttributeError, DuplicateAttributeError: attributes that are none, or named twice.
    """
    known = as_domain(domain)
    clique = known.clique(attributes)
    check_new(known, clique, name)
    table = known.project(clique)
    column = Column(clique, np.arange(table.size()).reshape(table.shape))
    return Transform(known, {**unchanged(known, clique), name: column})


def fill(domain: Domain | Mapping[str, int], name: str, of: Iterable[str], codes: Any) -> Transform:
    """An attribute left out, because a public mapping determines it: its code for each cell of others.

    Args:
        domain: the attributes.
        name: the attribute to leave out and to fill in again.
        of: what determines it.
        codes: its code for each of their cells, an array with an axis for each.

    Raises:
        ShapeError: codes that do not fit.
        UnknownAttributeError: an attribute that the domain does not have.
    """
    known = as_domain(domain)
    (dropped,), others = known.clique((name,)), known.clique(of)
    return Transform(known, unchanged(known, (dropped,)), {dropped: Derived(others, np.asarray(codes, np.int64))})


def check_new(domain: Domain, merged: Iterable[str], name: str) -> None:
    """See that a name is free once some attributes are merged."""
    if name in domain and name not in set(merged):
        raise ArgumentError.of("name", name, "a name that no other attribute has")


__getattr__: Lookup = renamed_names(__name__, {"bucketise": "pgmest.transforms.bucketize"})
