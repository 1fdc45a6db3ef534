"""Sets of parents that are as large as their table may be: what PrivBayes chooses among."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from pgmest.tables.domain import Clique, Domain


def maximal_parent_sets(
    domain: Domain, attributes: Sequence[str], max_cells: float, limit: int, rng: np.random.Generator
) -> list[Clique]:
    """The sets of attributes with at most `max_cells` cells, to which no other can be added (Zhang et al., Alg. 5).

    They are all of them, or where there are more than `limit`, that many drawn at random; each in domain order.

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
    """All maximal sets, as positions; `sizes` falls."""
    rest = [math.prod(sizes[start:]) for start in range(len(sizes) + 1)]

    def extend(start: int, chosen: tuple[int, ...], cells: int, excluded: float) -> Iterator[tuple[int, ...]]:
        if cells * rest[start] * excluded <= max_cells:
            return  # even with all that are left, the smallest one left out would still fit
        if start == len(sizes):
            yield chosen
            return
        if cells * sizes[start] <= max_cells:
            yield from extend(start + 1, (*chosen, start), cells * sizes[start], excluded)
        yield from extend(start + 1, chosen, cells, min(excluded, sizes[start]))

    yield from extend(0, (), 1, math.inf)


def _draw(sizes: Sequence[int], max_cells: float, rng: np.random.Generator) -> tuple[int, ...]:
    """One maximal set: attributes in random order, each that still fits."""
    cells, chosen = 1, []
    for place in rng.permutation(len(sizes)):
        if cells * sizes[place] <= max_cells:
            cells *= sizes[place]
            chosen.append(int(place))
    return tuple(sorted(chosen))
