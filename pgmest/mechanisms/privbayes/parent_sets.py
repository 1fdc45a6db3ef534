"""Maximal parent sets: the candidates of PrivBayes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from pgmest.tables.domain import Clique, Domain


def maximal_parent_sets(
    domain: Domain, attributes: Sequence[str], max_cells: float, limit: int, rng: np.random.Generator
) -> list[Clique]:
    """Return the maximal sets of attributes with at most `max_cells` cells (Zhang et al. 2017, Algorithm 5).

    If there are more than `limit` sets, at most `limit` are drawn at random. Each set is in domain order.

    >>> domain = Domain({"a": 2, "b": 3, "c": 4})
    >>> maximal_parent_sets(domain, ["a", "b", "c"], 8, 10, np.random.default_rng(0))
    [('a', 'c'), ('a', 'b')]
    """
    place = {name: index for index, name in enumerate(domain)}
    small = sorted((name for name in attributes if domain[name] <= max_cells), key=lambda n: (-domain[n], place[n]))
    sizes = [domain[name] for name in small]
    found = list(islice(_enumerate(sizes, max_cells), limit + 1))
    if len(found) > limit:
        draws = (_draw(sizes, max_cells, rng) for _ in range(4 * limit))
        found = list(islice(dict.fromkeys(draws), limit))
    return [tuple(sorted((small[i] for i in members), key=place.__getitem__)) for members in found]


def _enumerate(sizes: Sequence[int], max_cells: float) -> Iterator[tuple[int, ...]]:
    """Yield all maximal sets as positions in `sizes`, which must be descending."""
    rest = [math.prod(sizes[start:]) for start in range(len(sizes) + 1)]

    def extend(start: int, chosen: tuple[int, ...], cells: int, excluded: float) -> Iterator[tuple[int, ...]]:
        if cells * rest[start] * excluded <= max_cells:
            return  # not maximal: the smallest excluded attribute fits beside all that remain
        if start == len(sizes):
            yield chosen
            return
        if cells * sizes[start] <= max_cells:
            yield from extend(start + 1, (*chosen, start), cells * sizes[start], excluded)
        yield from extend(start + 1, chosen, cells, min(excluded, sizes[start]))

    yield from extend(0, (), 1, math.inf)


def _draw(sizes: Sequence[int], max_cells: float, rng: np.random.Generator) -> tuple[int, ...]:
    """Return one maximal set, which adds each attribute that fits, in random order."""
    cells, chosen = 1, []
    for place in rng.permutation(len(sizes)):
        if cells * sizes[place] <= max_cells:
            cells *= sizes[place]
            chosen.append(int(place))
    return tuple(sorted(chosen))
