"""The workload families of the literature: k-way marginals, random triples, prefixes and ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, count_text
from pgmest.queries import Kron, all_range, identity, interval, prefix
from pgmest.queries.levels import ordered_levels
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.hierarchy import SEPARATOR
from pgmest.workloads.item import Item
from pgmest.workloads.workload import Workload

ENUMERATED = 1 << 20
"""A random choice among at most this many sets of attributes lists them all; among more, it draws sets one by one."""

DRAWS_PER_SET = 1000
"""The number of draws for each wanted set after which a random choice gives up."""

EMPHASIS = 1.5
"""The power of the number of attributes by which `emphasized` raises the weight of marginals that matter."""

WORKLOADS = "a pgmest.workloads.Workload, an iterable of cliques, or None"
"""The accepted types of an argument `workload`, for error messages."""


def marginals(cliques: Iterable[Iterable[str] | str], weights: Iterable[float] | None = None) -> Workload:
    """Return the workload of the marginals over the given cliques.

    Args:
        cliques: tuples of names, or single names.
        weights: the weight of each clique; 1 by default.

    Raises:
        ArgumentError: the numbers of weights and cliques differ, or a weight is negative or not finite.
    """
    named = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
    amounts = [1.0] * len(named) if weights is None else list(weights)
    if len(amounts) != len(named):
        raise ArgumentError.of("weights", amounts, f"one number for each of the {len(named)} cliques")
    return Workload(tuple(Item(clique, None, weight) for clique, weight in zip(named, amounts, strict=True)))


def all_kway(domain: Domain | Mapping[str, int], k: int, max_cells: float | None = None) -> Workload:
    """Return the workload of the marginals over all sets of k attributes, in domain order.

    >>> all_kway({"age": 85, "sex": 2, "income": 2}, 2, max_cells=100).cliques
    (('sex', 'income'),)

    Args:
        domain: the attributes.
        k: the number of attributes of each marginal, from 0 to all.
        max_cells: the largest number of cells of a marginal; larger marginals are left out.

    Raises:
        ArgumentError: k is not an integer from 0 to the number of attributes.
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
    """Return the workload of the marginals over `count` different sets of k attributes, chosen uniformly at random.

    Args:
        domain: the attributes.
        k: the number of attributes of each marginal.
        count: the number of marginals.
        seed: the seed of the choice, or a generator.
        max_cells: the largest number of cells of a marginal.

    Raises:
        ArgumentError: k is out of range, or fewer than `count` sets exist.
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
    for _ in range(DRAWS_PER_SET * (count + 1)):
        if len(chosen) == count:
            return marginals(chosen)
        places = np.sort(rng.choice(len(known), k, replace=False))
        clique = tuple(known.attributes[place] for place in places)
        chosen.update(dict.fromkeys(_small(known, [clique], max_cells)))
    raise ArgumentError.of("max_cells", max_cells, f"large enough for {count} marginals over {k} attributes")


def random_triples(
    domain: Domain | Mapping[str, int], count: int = 15, seed: int | np.random.Generator | None = None
) -> Workload:
    """Return the workload of the marginals over random sets of three attributes (PGM section 5.1 uses 15)."""
    return random_kway(domain, 3, count, seed)


def prefixes(
    domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str] | str], numeric: Iterable[str]
) -> Workload:
    """Return the workload of marginals with prefix sums on numeric attributes: "sex = s and income <= i" for all s, i.

    Args:
        domain: the attributes.
        cliques: the marginals, such as `workload.cliques`.
        numeric: the attributes whose codes have an order, which get prefix sums.

    Raises:
        UnknownAttributeError: the domain lacks an attribute.
    """
    known = as_domain(domain)
    ordered = set(known.clique(dict.fromkeys(numeric)))

    def query(clique: Clique) -> Kron | None:
        if ordered.isdisjoint(clique):
            return None
        return Kron({name: (prefix if name in ordered else identity)(known[name]) for name in clique})

    return Workload(tuple(Item(clique, query(clique)) for clique in map(known.clique, cliques)))


def ranges(domain: Domain | Mapping[str, int], attributes: Iterable[Iterable[str] | str]) -> Workload:
    """Return the workload of all ranges of consecutive codes of each attribute, or of all boxes of each tuple.

    An attribute of n values has n (n + 1) / 2 ranges. A box is a product of ranges of the tuple's attributes.

    Raises:
        UnknownAttributeError: the domain lacks an attribute.
    """
    known = as_domain(domain)
    cliques = [known.clique(entry) for entry in ([attributes] if isinstance(attributes, str) else attributes)]
    return Workload(tuple(Item(clique, Kron({name: all_range(known[name]) for name in clique})) for clique in cliques))


def random_ranges(
    domain: Domain | Mapping[str, int], attributes: int, count: int, seed: int | np.random.Generator | None = None
) -> Workload:
    """Return the workload of `count` random boxes: a range of codes for each attribute of a random set.

    The ends of a range are two different cut points between codes, chosen uniformly, so all ranges are equally likely.

    Args:
        domain: the attributes.
        attributes: the number of attributes of each box (PPSyn uses 3 and 5).
        count: the number of boxes, at least 1.
        seed: the seed of the choices, or a generator.

    Raises:
        ArgumentError: `attributes` exceeds the number of attributes, or `count` is not an integer of at least 1.
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


def by_level(domain: Domain, cliques: Iterable[Iterable[str] | str]) -> Workload:
    """Return the workload of marginals at every level of their attributes' hierarchies, the attributes included.

    >>> from pgmest import Hierarchy
    >>> tree = Hierarchy("diagnosis", {"chapter": [0, 0, 1]})
    >>> by_level(Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(tree), [("diagnosis", "sex")]).cliques
    (('diagnosis@chapter', 'sex'), ('diagnosis', 'sex'))

    Args:
        domain: the attributes, with their hierarchies.
        cliques: tuples of names, or single names.

    Raises:
        UnknownAttributeError, DuplicateAttributeError: a clique does not fit the domain.
    """
    found: dict[Clique, None] = {}
    for clique in cliques:
        levels = [
            [*(f"{name}{SEPARATOR}{level}" for level in domain.hierarchies[name].names), name]
            if name in domain.hierarchies
            else [name]
            for name in domain.clique(clique)
        ]
        found.update(dict.fromkeys(itertools.product(*levels)))
    return marginals(found)


def as_workload(
    domain: Domain | Mapping[str, int], workload: Workload | Iterable[Item | Iterable[str] | str] | None, k: int = 2
) -> Workload:
    """Return the argument `workload` of a mechanism or an evaluation as a Workload, after checking it.

    Args:
        domain: the attributes.
        workload: a Workload, items, or cliques (tuples of names, or single names); None for all k-way marginals.
        k: the number of attributes of each marginal if `workload` is None; all attributes if there are fewer.

    Raises:
        ArgumentError: `workload` has another type, is empty, or has no item of positive weight.
        UnknownAttributeError, DuplicateAttributeError, QueryError: an item does not fit the domain.
    """
    known = as_domain(domain)
    if workload is None:
        return all_kway(known, min(k, len(known)))
    made = workload if isinstance(workload, Workload) else _workload_of(workload)
    if not made:
        raise ArgumentError("workload is empty: give at least one clique, or None for all pairs.")
    made = made.without_levels(known)
    made.check(known)
    if not any(made.weights):
        raise ArgumentError("workload has no item of positive weight; give at least one item a weight above 0.")
    return made


def emphasized(
    domain: Domain | Mapping[str, int],
    workload: Workload | Iterable[Item | Iterable[str] | str] | None,
    matters: Iterable[Iterable[str]],
) -> Workload:
    r"""Return a workload with the marginals that matter besides its items, so that mechanisms spend on them first.

    LAMP and AIM measure these marginals (`Item.matters`) before all others, as far as the budget can carry them. Other
    mechanisms know their larger weights only.

    Each of m marginals that matter gets the weight $2 + (d / m)^{3/2}$ on a domain with d attributes of several values,
    in units of the mean weight of the workload. A mechanism that minimizes the weighted error divides its budget by the
    weights to the power of 2/3. So the m marginals together get as much as d others, which is about a third of the
    budget: rarely more than 2 d pairs of a table are worth measuring.

    >>> emphasized({"age": 85, "sex": 2, "income": 2, "job": 9}, None, [("sex", "income")]).weights
    (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0)
    >>> print(emphasized({"age": 85, "sex": 2, "income": 2}, [("age", "sex")], [("sex", "income")]))
    Workload: 2 items
      age × sex
      sex × income    weight 7.19615, matters

    Args:
        domain: the attributes.
        workload: the workload, as for `as_workload`; None for all pairs.
        matters: the marginals that matter, at least one, each a tuple of attributes or levels.

    Raises:
        ArgumentError: `matters` is not a list of tuples of names, or is empty; or as for `as_workload`.
        UnknownAttributeError, DuplicateAttributeError: a name is not in the domain, or is twice in a clique.
    """
    known = as_domain(domain)
    cliques = list(dict.fromkeys(ordered_levels(known, entry) for entry in _checked_matters(matters)))
    base = as_workload(known, workload)
    weight = (2 + (len(known.varying) / len(cliques)) ** EMPHASIS) * sum(base.weights) / len(base)
    return base + Workload(tuple(Item(clique, None, weight, matters=True) for clique in cliques))


def _checked_matters(matters: Any) -> list[Any]:
    """Return the marginals that matter as a list of tuples or sets of names."""
    entries = list(matters) if isinstance(matters, Iterable) and not isinstance(matters, str | bytes | Mapping) else []
    if not entries or not all(isinstance(e, Sequence | Set) and e and not isinstance(e, str | bytes) for e in entries):
        raise ArgumentError.of("matters", matters, "a list of tuples of attributes, such as [('age', 'readmitted')]")
    return entries


def _workload_of(given: Any) -> Workload:
    """Return the workload of an iterable of cliques or items."""
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
    """Return the start and the stop of a random range of codes."""
    start, stop = np.sort(rng.choice(size + 1, 2, replace=False))
    return int(start), int(stop)


def _small(domain: Domain, cliques: Iterable[Clique], max_cells: float | None) -> Iterable[Clique]:
    """Return the cliques of at most `max_cells` cells."""
    if max_cells is None:
        return cliques
    return (clique for clique in cliques if domain.size(clique) <= max_cells)


def _check_k(domain: Domain, k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k <= len(domain):
        raise ArgumentError.of("the number of attributes of a query", k, f"an integer in 0..{len(domain)}")


def _check_count(count: int, most: float) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= most:
        text = f"an integer from 1 to {count_text(int(most))}, the number of sets" if most < math.inf else ""
        raise ArgumentError.of("count", count, text or "an integer of at least 1")
