"""Transforms from public knowledge, which spend no budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.tables.domain import Domain, as_domain
from pgmest.transforms.transform import Column, Derived, Transform


def unchanged(domain: Domain, but: Iterable[str] = ()) -> dict[str, Column]:
    """Return a column for each unchanged attribute, without those in `but`."""
    left_out = set(but)
    return {name: Column.same(name, size) for name, size in domain.items() if name not in left_out}


def bucketize(
    domain: Domain | Mapping[str, int],
    starts: Mapping[str, int | Iterable[int]],
    shares: Mapping[str, Any] | None = None,
) -> Transform:
    """Merge adjacent codes of some attributes into buckets.

    >>> bucketize({"age": 6, "sex": 2}, {"age": [0, 1, 4]}).columns["age"].codes
    array([0, 1, 1, 1, 2, 2])

    Args:
        domain: the attributes.
        starts: attribute -> the first code of each bucket, ascending from 0, or the number of buckets of about equal
            width.
        shares: attribute -> a weight for each of its codes, in proportion to which a bucket's records are decoded; by
            default all codes of a bucket are equally likely.

    Raises:
        ArgumentError: the starts are not ascending codes from 0.
        UnknownAttributeError: the domain lacks an attribute.
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
    """Merge some attributes into one, whose codes are their cells in row-major order; it becomes the last attribute.

    Raises:
        ArgumentError: `name` is an attribute that is not merged.
        UnknownAttributeError, DuplicateAttributeError: the domain lacks an attribute, or one is named twice.
    """
    known = as_domain(domain)
    clique = known.clique(attributes)
    check_new(known, clique, name)
    table = known.project(clique)
    column = Column(clique, np.arange(table.size()).reshape(table.shape))
    return Transform(known, {**unchanged(known, clique), name: column})


def fill(domain: Domain | Mapping[str, int], name: str, of: Iterable[str], codes: Any) -> Transform:
    """Leave out an attribute that a public mapping of other attributes determines; decoding fills it in.

    Args:
        domain: the attributes.
        name: the attribute to leave out.
        of: the attributes that determine it.
        codes: its code for each cell of `of`, an array with one axis for each of these attributes.

    Raises:
        ShapeError: the shape of the codes does not fit, or a code is out of range.
        UnknownAttributeError: the domain lacks an attribute.
    """
    known = as_domain(domain)
    (dropped,), others = known.clique((name,)), known.clique(of)
    return Transform(known, unchanged(known, (dropped,)), {dropped: Derived(others, np.asarray(codes, np.int64))})


def without_constants(domain: Domain, kept: Iterable[str]) -> Transform:
    """Leave out the attributes of one code that are not in `kept`; decoding fills the code in."""
    only = np.zeros((), dtype=np.int64)
    dropped = [name for name in domain if name not in set(kept)]
    return Transform(domain, unchanged(domain, dropped), {name: Derived((), only) for name in dropped})


def check_new(domain: Domain, merged: Iterable[str], name: str) -> None:
    """Check that a name is free after some attributes are merged.

    Raises:
        ArgumentError: another attribute has the name.
    """
    if name in domain and name not in set(merged):
        raise ArgumentError.of("name", name, "a name that no other attribute has")
