"""The workloads of the literature: k-way marginals, random triples, prefixes and ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, count_text
from pgmest.queries import Kron, all_range, identity, interval, prefix
from pgmest.queries.workloads.item import Item
from pgmest.queries.workloads.workload import Workload
from pgmest.tables.domain import Clique, Domain, as_domain

ENUMERATED = 1 << 20
"""Among at most this many sets of attributes a random choice is made by listing them, else by trial."""

WORKLOADS = "a pgmest.workloads.Workload, an iterable of cliques, or None"


def marginals(cliques: Iterable[Iterable[str] | str], weights: Iterable[float] | None = None) -> Workload:
    """The marginals over the given sets of attributes.

    Args:
        cliques: tuples of names, or single names.
        weights: one for each clique; 1 by default.

    Raises:
        ArgumentError: not one weight per clique, or one that is negative or not finite.
    """
    named = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
    amounts = [1.0] * len(named) if weights is None else list(weights)
    if len(amounts) != len(named):
        raise ArgumentError.of("weights", amounts, f"one number for each of the {len(named)} cliques")
    return Workload(tuple(Item(clique, None, weight) for clique, weight in zip(named, amounts, strict=True)))


def all_kway(domain: Domain | Mapping[str, int], k: int, max_cells: float | None = None) -> Workload:
    """The marginals over all sets of k attributes, in domain order.

    >>> all_kway({"age": 85, "sex": 2, "income": 2}, 2, max_cells=100).cliques
    (('sex', 'income'),)

    Args:
        domain: the attributes.
        k: how many attributes to a marginal, 0 to all of them.
        max_cells: leave out marginals of more cells.

    Raises:
        ArgumentError: there are no sets of k attributes.
    """
    known = as_domain(domain)
    _check_k(known, k)
    return marginals(_small(known, itertools.combinations(known, k), max_cells))


def random_kway(
    domain: Domain | Mapping[str, int],
    k: int,
    count: int,
    seed: int | np.random.Generator | None = None,
    max_cells: float | None = None,
) -> Workload:
    """The marginals over `count` different sets of k attributes, chosen uniformly at random.

    Args:
        domain: the attributes.
        k: how many attributes to a marginal.
        count: how many marginals.
        seed: of the choice.
        max_cells: choose among the marginals of at most this many cells.

    Raises:
        ArgumentError: there are fewer such sets than `count`.
    """
    known, rng = as_domain(domain), np.random.default_rng(seed)
    _check_k(known, k)
    possible = math.comb(len(known), k)
    if possible <= ENUMERATED:
        listed = list(_small(known, itertools.combinations(known, k), max_cells))
        _check_count(count, len(listed))
        return marginals(listed[place] for place in rng.choice(len(listed), count, replace=False))
    _check_count(count, possible)
    chosen: dict[Clique, None] = {}
    for _ in range(1000 * (count + 1)):
        if len(chosen) == count:
            return marginals(chosen)
        places = np.sort(rng.choice(len(known), k, replace=False))
        clique = tuple(known.attributes[place] for place in places)
        chosen.update(dict.fromkeys(_small(known, [clique], max_cells)))
    raise ArgumentError.of("max_cells", max_cells, f"large enough for {count} marginals over {k} attributes")


def random_triples(
    domain: Domain | Mapping[str, int], count: int = 15, seed: int | np.random.Generator | None = None
) -> Workload:
    """The marginals over random sets of three attributes (PGM section 5.1 has 15 of them)."""
    return random_kway(domain, 3, count, seed)


def prefixes(
    domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str] | str], numeric: Iterable[str]
) -> Workload:
    """Marginals whose numeric attributes are asked for by prefix sums: "sex = s and income <= i" for all s and i.

    Args:
        domain: the attributes.
        cliques: the marginals, such as `workload.cliques`.
        numeric: the attributes whose codes have an order; those of them in a clique get prefix sums there.

    Raises:
        UnknownAttributeError: a name that is no attribute.
    """
    known = as_domain(domain)
    ordered = set(known.clique(dict.fromkeys(numeric)))

    def query(clique: Clique) -> Kron | None:
        if ordered.isdisjoint(clique):
            return None
        return Kron({name: (prefix if name in ordered else identity)(known[name]) for name in clique})

    return Workload(tuple(Item(clique, query(clique)) for clique in map(known.clique, cliques)))


def extended_triples(
    domain: Domain | Mapping[str, int],
    numeric: Iterable[str],
    count: int = 15,
    seed: int | np.random.Generator | None = None,
) -> Workload:
    """The extended workload of PGM section 5.1: random triples, with prefix sums on the numeric attributes."""
    return prefixes(domain, random_triples(domain, count, seed).cliques, numeric)


def ranges(domain: Domain | Mapping[str, int], attributes: Iterable[Iterable[str] | str]) -> Workload:
    """All ranges of consecutive codes of each attribute; of a tuple of attributes, all boxes.

    An attribute of n values has n (n + 1) / 2 ranges.

    Raises:
        UnknownAttributeError: a name that is no attribute.
    """
    known = as_domain(domain)
    cliques = [known.clique(entry) for entry in ([attributes] if isinstance(attributes, str) else attributes)]
    return Workload(tuple(Item(clique, Kron({name: all_range(known[name]) for name in clique})) for clique in cliques))


def random_ranges(
    domain: Domain | Mapping[str, int],
    attributes: int,
    count: int,
    seed: int | np.random.Generator | None = None,
) -> Workload:
    """`count` random boxes: each over a random set of attributes, with a range of codes for each of them.

    The ends of a range are two different cut points between codes, chosen uniformly: every range is as likely.

    Args:
        domain: the attributes.
        attributes: how many attributes each box has a condition on (PPSyn: 3 and 5).
        count: how many boxes, at least 1.
        seed: of the choices.

    Raises:
        ArgumentError: more attributes than the domain has, or a count that is none.
    """
    known, rng = as_domain(domain), np.random.default_rng(seed)
    _check_k(known, attributes)
    _check_count(count, math.inf)
    items = []
    for _ in range(count):
        places = np.sort(rng.choice(len(known), attributes, replace=False))
        clique = tuple(known.attributes[place] for place in places)
        items.append(Item(clique, Kron({name: interval(known[name], *_cuts(known[name], rng)) for name in clique})))
    return Workload(tuple(items))


def as_workload(
    domain: Domain | Mapping[str, int], workload: Workload | Iterable[Item | Iterable[str] | str] | None, k: int = 2
) -> Workload:
    """What a caller gave as a workload, checked: the one place where this is done.

    Args:
        domain: the attributes.
        workload: a Workload, items of one, or cliques (tuples of names, or single names); None for all k-way marginals.
        k: how many attributes to a marginal, by default, or all of them where there are fewer.

    Raises:
        ArgumentError: it is none of these, empty, or has no item of positive weight.
        UnknownAttributeError, DuplicateAttributeError, QueryError: it does not fit the domain.
    """
    known = as_domain(domain)
    if workload is None:
        return all_kway(known, min(k, len(known)))
    made = workload if isinstance(workload, Workload) else _workload_of(workload)
    if not made:
        raise ArgumentError("workload is empty: give at least one clique, or None for all pairs.")
    made.check(known)
    if not any(made.weights):
        raise ArgumentError("workload has no item of positive weight, so nothing in it matters; give one a weight.")
    return made


def _workload_of(given: Any) -> Workload:
    """The workload of cliques or items."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ArgumentError.of("workload", given, f"{WORKLOADS}; a single clique in a list, such as [('age', 'sex')]")
    entries = list(given)
    for entry in entries:
        if not isinstance(entry, str | Item | Sequence | Set) or isinstance(entry, bytes):
            raise ArgumentError.of("workload", entry, f"{WORKLOADS}; each clique a tuple of names, or one name")
    return Workload(
        tuple(entry if isinstance(entry, Item) else Item(entry) for entry in entries)  # type: ignore[arg-type]
    )


def _cuts(size: int, rng: np.random.Generator) -> tuple[int, int]:
    start, stop = np.sort(rng.choice(size + 1, 2, replace=False))
    return int(start), int(stop)


def _small(domain: Domain, cliques: Iterable[Clique], max_cells: float | None) -> Iterable[Clique]:
    if max_cells is None:
        return cliques
    return (clique for clique in cliques if domain.size(clique) <= max_cells)


def _check_k(domain: Domain, k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k <= len(domain):
        raise ArgumentError.of("the number of attributes to a query", k, f"an integer in 0..{len(domain)}")


def _check_count(count: int, most: float) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= most:
        text = f"an integer from 1 to {count_text(int(most))}, as many sets of attributes" if most < math.inf else ""
        raise ArgumentError.of("count", count, text or "an integer of at least 1")
