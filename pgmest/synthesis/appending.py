"""Attributes that only one table contains: they are appended to the records at the end of a synthesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.counting import cell_numbers
from pgmest.sampling.systematic import deal, systematic_rows
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


@dataclass(frozen=True)
class Appended:
    """An attribute that is drawn given other attributes.

    Attributes:
        attribute: the attribute to draw.
        given: the attributes to condition on.
        table: the position of the table over all of them.
    """

    attribute: str
    given: Clique
    table: int


def gyo_reduction(cliques: Sequence[Clique]) -> tuple[list[tuple[Clique, int]], list[Appended]]:
    """Remove attributes that occur in one clique only, and cliques inside other cliques, as long as possible.

    This is the GYO reduction (Graham; Yu and Ozsoyoglu). If the cliques have a junction tree, it removes everything,
    and appending then draws from exactly the maximum-entropy distribution of the tables.

    Returns:
        the remaining cliques, each with its position in `cliques`; and the attributes to append, in the order in which
        they must be appended.

    >>> gyo_reduction([("a", "b"), ("b", "c")])[0]
    []
    >>> core, appended = gyo_reduction([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    >>> [clique for clique, _ in core], appended
    ([('a', 'b'), ('b', 'c'), ('a', 'c')], [Appended(attribute='d', given=('c',), table=3)])
    """
    remaining: list[tuple[Clique, int]] = [(tuple(clique), place) for place, clique in enumerate(cliques)]
    removed: list[Appended] = []
    while True:
        remaining = _maximal(remaining)
        exclusive = _exclusive(remaining)
        if exclusive is None:
            return remaining, removed[::-1]
        position, name = exclusive
        clique, place = remaining[position]
        rest = tuple(other for other in clique if other != name)
        removed.append(Appended(name, rest, place))
        remaining[position] = (rest, place)


def _maximal(remaining: Sequence[tuple[Clique, int]]) -> list[tuple[Clique, int]]:
    """Return the non-empty cliques that are not inside another one, and the first of equal ones."""
    sets = [frozenset(clique) for clique, _ in remaining]
    holders: dict[str, set[int]] = {}
    for position, own in enumerate(sets):
        for name in own:
            holders.setdefault(name, set()).add(position)
    kept: list[tuple[Clique, int]] = []
    for position, own in enumerate(sets):
        around = set.intersection(*sorted((holders[name] for name in own), key=len)) if own else set()
        if own and all(len(sets[other]) == len(own) and other >= position for other in around):
            kept.append(remaining[position])
    return kept


def _exclusive(remaining: Sequence[tuple[Clique, int]]) -> tuple[int, str] | None:
    """Return an attribute that only one clique has, after that clique's position; None without one."""
    occurrences = Counter(name for clique, _ in remaining for name in clique)
    named = ((position, name) for position, (clique, _) in enumerate(remaining) for name in clique)
    return next(((position, name) for position, name in named if occurrences[name] == 1), None)


def append(
    columns: Mapping[str, np.ndarray], step: Appended, table: Factor, n: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the codes of an attribute for n records, drawn from its conditional distribution given other attributes.

    In each group of records with the same codes of `step.given`, every code occurs its expected number of times,
    rounded up or down, in random order. A group without positive counts in the table gets the attribute's one-way
    distribution.
    """
    size = table.domain[step.attribute]
    weights = np.maximum(table.project((*step.given, step.attribute)).values.reshape(-1, size), 0.0)
    one_way = weights.sum(axis=0)
    weights = np.where(weights.any(axis=1, keepdims=True), weights, one_way if one_way.any() else 1.0)
    groups = np.zeros(n, dtype=np.intp)
    if step.given:
        shape = table.domain.project(step.given).shape
        groups = cell_numbers([columns[name] for name in step.given], shape)
    counts = systematic_rows(weights, np.bincount(groups, minlength=len(weights)), generator)
    return deal(groups, counts, generator, code_type(size))
