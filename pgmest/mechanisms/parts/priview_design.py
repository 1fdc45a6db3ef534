"""Views: few marginals of bounded size that together hold every pair, or every triple, of attributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from pgmest.domain import Clique, Domain

LIMITS = tuple(2**power for power in range(4, 17))
"""The sizes of views that `best_cover` compares."""


def subsets_of(cliques: Iterable[Clique], domain: Domain, strength: int) -> list[frozenset[str]]:
    """The sets of `strength` attributes inside the cliques, and the cliques smaller than that, each once."""
    found = (
        frozenset(part) for clique in cliques for part in itertools.combinations(clique, min(strength, len(clique)))
    )
    return sorted(set(found), key=lambda part: sorted(domain.axes(part)))


def cover(domain: Domain, wanted: Sequence[frozenset[str]], max_cells: float) -> list[Clique]:
    """Views that hold each wanted set, found greedily: a covering design for attributes of any sizes.

    A view starts with the largest set that is not covered, and takes in, as long as it keeps to `max_cells`, the
    attribute that covers the most further sets, of these the one with the fewest values. A set larger than that is a
    view by itself.

    >>> domain = Domain({name: 2 for name in "abcd"})
    >>> cover(domain, subsets_of([tuple("abcd")], domain, 2), 8)
    [('a', 'b', 'c'), ('a', 'b', 'd'), ('c', 'd')]
    """
    left = set(wanted)
    order = {part: place for place, part in enumerate(wanted)}
    views: list[Clique] = []
    while left:
        view = set(min(left, key=lambda part: (-domain.size(tuple(part)), order[part])))
        while True:
            gained = _gains(left, view)
            options = [
                (-gained.get(name, 0), size, place, name)
                for place, (name, size) in enumerate(domain.items())
                if name not in view and gained.get(name) and domain.size(tuple(view)) * size <= max_cells
            ]
            if not options:
                break
            view.add(min(options)[-1])
        left = {part for part in left if not part <= view}
        views.append(tuple(name for name in domain if name in view))
    return [view for view in views if not any(set(view) < set(other) for other in views)]


def best_cover(domain: Domain, wanted: Sequence[frozenset[str]], power: float) -> list[Clique]:
    r"""The cover, among those for several limits, with the least expected error by noise in the wanted sets.

    Under zCDP a view v of $c_v$ cells, measured for a share $s_v$ of the budget, gives a set S inside it of $c_S$ cells
    an l1 error proportional to $\sqrt{c_v c_S / s_v}$; where several views hold S their answers are averaged.

    Args:
        domain: the attributes.
        wanted: the sets to cover.
        power: the shares are proportional to cells**power, as `least_error_weights` has them.
    """
    smallest = min(domain.size(tuple(part)) for part in wanted)
    covers = [cover(domain, wanted, limit) for limit in LIMITS if limit >= smallest] or [cover(domain, wanted, 0)]
    return min(covers, key=lambda views: _expected_error(domain, wanted, views, power))


def random_views(
    domain: Domain, attributes: Sequence[str], max_cells: float, count: int, generator: np.random.Generator
) -> list[Clique]:
    """At least `count` views of random attributes: random orders of all of them, each cut where the limit is reached.

    Every attribute is in one view of each order, so the last one is completed.
    """
    views: list[Clique] = []
    while len(views) < count:
        view: list[str] = []
        for place in generator.permutation(len(attributes)):
            name = attributes[int(place)]
            if view and domain.size(tuple(view)) * domain[name] > max_cells:
                views.append(tuple(sorted(view, key=domain.attributes.index)))
                view = []
            view.append(name)
        views.append(tuple(sorted(view, key=domain.attributes.index)))
    return list(dict.fromkeys(views))


def _gains(left: Iterable[frozenset[str]], view: set[str]) -> dict[str, int]:
    """How many further sets each attribute would cover, or, where none is completed by one, bring closer."""
    completed: dict[str, int] = {}
    nearer: dict[str, int] = {}
    for part in left:
        missing = part - view
        for name in missing:
            if len(missing) == 1:
                completed[name] = completed.get(name, 0) + 1
            nearer[name] = nearer.get(name, 0) + 1
    return completed or nearer


def _expected_error(domain: Domain, wanted: Sequence[frozenset[str]], views: Sequence[Clique], power: float) -> float:
    shares = np.array([domain.size(view) for view in views], dtype=np.float64) ** power
    shares /= shares.sum()
    # A share buys a standard deviation of share**-1/2 under zCDP (power 2/3), and of share**-1 under pure DP (1/2).
    deviations = shares ** (-0.5 if power > 0.6 else -1.0)
    error = 0.0
    for part in wanted:
        holding = [
            deviation * np.sqrt(domain.size(view))
            for view, deviation in zip(views, deviations, strict=True)
            if part <= set(view)
        ]
        error += np.sqrt(domain.size(tuple(part))) * float(np.sum(np.array(holding) ** -2.0)) ** -0.5
    return error
