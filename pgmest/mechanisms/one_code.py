"""Attributes of one code, such as the year of a table of one year: a run is made without them, so they cost nothing.

Their tables hold nothing but the number of records. `PreparedRun` gives a mechanism a view of the records without them,
and adds them to its model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from pgmest.privacy.curator import Curator
from pgmest.queries import Kron
from pgmest.queries.one_code import without_attributes
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.public import without_constants
from pgmest.workloads import Item, Workload

Seen = TypeVar("Seen", bound=Curator)


def varying(domain: Domain) -> Clique:
    """Return the attributes of several codes; the first attribute if there are none."""
    return domain.varying or domain.attributes[:1]


def seen_by_run(curator: Seen, names: Clique) -> Seen:
    """Return a curator of the same records that has only these attributes; the others must have one code."""
    return curator if names == curator.domain.attributes else curator.through(without_constants(curator.domain, names))


def without_names(domain: Domain, workload: Workload, names: Iterable[str]) -> Workload:
    """Return a workload about some attributes; the others must have one code.

    A marginal that is inside another one without its attributes of one code is left out, as a workload of all pairs
    would otherwise ask for each attribute once for each of these. If no marginal is left, the workload is that of all
    attributes alone.

    >>> from pgmest.workloads import all_kway
    >>> domain = Domain({"year": 1, "age": 3, "sex": 2})
    >>> without_names(domain, all_kway(domain, 2), ["age", "sex"]).cliques
    (('age', 'sex'),)

    Args:
        domain: all attributes.
        workload: items that fit the domain.
        names: the attributes that the result is about, in the order of the domain.
    """
    kept = tuple(names)
    changed = [(item, _without(domain, item, set(kept))) for item in workload]
    if all(item is other for item, other in changed):
        return workload
    items = tuple(_needed(changed))
    return Workload(items if any(item.clique for item in items) else tuple(Item((name,)) for name in kept))


def _without(domain: Domain, item: Item, kept: set[str]) -> Item:
    dropped = {name for name in item.clique if domain.level(name).attribute not in kept}
    if isinstance(item.query, Kron):
        dropped |= {name for name in item.query.attributes if domain.level(name).attribute not in kept}
    query, clique = without_attributes(item.query, item.clique, dropped)
    return item if clique == item.clique else Item(clique, query, item.weight, matters=item.matters)


def _needed(changed: list[tuple[Item, Item]]) -> Iterator[Item]:
    """Yield the items that are left, given each item with what is left of it."""
    plain = [set(other.clique) for _, other in changed if other.query is None]
    seen = [set(item.clique) for item, other in changed if item is other and item.query is None]
    for item, other in changed:
        own = set(other.clique)
        if item is other or (own and (other.query is not None or other.matters)):
            yield other
        elif own and own not in seen and not any(own < clique for clique in plain):
            seen.append(own)
            yield other
