"""Attributes that are in one table only: left out while records are made, and appended to them afterwards."""

from __future__ import annotations

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
    """An attribute to be drawn given others, from a table over all of them."""

    attribute: str
    given: Clique
    table: int


def peel(cliques: Sequence[Clique]) -> tuple[list[tuple[Clique, int]], list[Appended]]:
    """What is left of overlapping cliques when attributes that occur in one of them only are taken off, repeatedly.

    A clique inside another one is dropped, which may leave further attributes to a single clique (the reduction of
    Graham, and of Yu and Ozsoyoglu). Of cliques that a junction tree joins nothing remains, and appending then draws
    from exactly their joint distribution of maximum entropy.

    Returns:
        the remaining cliques, each with the position of the one it was, and what to append, last taken off first.

    >>> peel([("a", "b"), ("b", "c")])[0]
    []
    >>> core, appended = peel([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    >>> [clique for clique, _ in core], appended
    ([('a', 'b'), ('b', 'c'), ('a', 'c')], [Appended(attribute='d', given=('c',), table=3)])
    """
    left: list[tuple[Clique, int]] = [(tuple(clique), place) for place, clique in enumerate(cliques)]
    taken: list[Appended] = []
    while True:
        left = _maximal(left)
        exclusive = _exclusive(left)
        if exclusive is None:
            return left, taken[::-1]
        position, name = exclusive
        clique, place = left[position]
        rest = tuple(other for other in clique if other != name)
        taken.append(Appended(name, rest, place))
        left[position] = (rest, place)


def _maximal(left: Sequence[tuple[Clique, int]]) -> list[tuple[Clique, int]]:
    """The cliques that are not empty and inside no other, the first of equal ones."""
    sets = [frozenset(clique) for clique, _ in left]
    holders: dict[str, set[int]] = {}
    for position, own in enumerate(sets):
        for name in own:
            holders.setdefault(name, set()).add(position)
    kept: list[tuple[Clique, int]] = []
    for position, own in enumerate(sets):
        around = set.intersection(*sorted((holders[name] for name in own), key=len)) if own else set()
        if own and all(len(sets[other]) == len(own) and other >= position for other in around):
            kept.append(left[position])
    return kept


def _exclusive(left: Sequence[tuple[Clique, int]]) -> tuple[int, str] | None:
    """A clique's position and an attribute that no other has."""
    where: dict[str, list[int]] = {}
    for position, (clique, _) in enumerate(left):
        for name in clique:
            where.setdefault(name, []).append(position)
    return next(((positions[0], name) for name, positions in where.items() if len(positions) == 1), None)


def append(
    columns: Mapping[str, np.ndarray], step: Appended, table: Factor, n: int, generator: np.random.Generator
) -> np.ndarray:
    """The codes of an attribute for n records, given their other codes: as often as the table's conditionals say.

    In each group of records with the same codes in `given`, every value occurs its expected number of times, rounded up
    or down, and is dealt out in random order. A group that the table does not know gets the attribute's one-way
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
