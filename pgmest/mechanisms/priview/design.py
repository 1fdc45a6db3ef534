"""Views: few marginals of bounded size that together hold every pair, or every triple, of attributes."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pgmest.mechanisms.priview.planes import pair_designs
from pgmest.tables.domain import Clique, Domain

LIMITS = tuple(2**power for power in range(4, 17))
"""The sizes of views that `best_cover` compares, largest first."""

PAST = 2
"""After so many that are worse than the one before them it compares no more."""


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
    view by itself. Where all pairs of some attributes are wanted, and a plane covers them with fewer views, these are
    taken (`plane_cover`).

    >>> domain = Domain({name: 2 for name in "abcd"})
    >>> cover(domain, subsets_of([tuple("abcd")], domain, 2), 8)
    [('a', 'b', 'c'), ('a', 'b', 'd'), ('c', 'd')]
    """
    left = _Uncovered(domain, wanted)
    largest = np.argsort(-_cells(domain, left.member), kind="stable")
    views = [left.greedy_view(int(first), max_cells) for first in largest if left.waiting[first]]
    greedy = [tuple(itertools.compress(domain, view)) for view in _maximal(np.array(views))]
    names = domain.ordered(frozenset().union(*wanted))
    if len(names) > 1 and all(len(one) == 2 for one in wanted) and len(wanted) == math.comb(len(names), 2):
        plane = plane_cover(domain, names, max_cells)
        if plane is not None and len(plane) < len(greedy):
            return plane
    return greedy


def plane_cover(domain: Domain, attributes: Sequence[str], max_cells: float) -> list[Clique] | None:
    """Views that hold each pair of some attributes, from a plane; None where no plane has small enough views.

    The attributes are put into as many groups as the plane has points, groups of about equal numbers of cells, and a
    line is the view of its groups. Planes of more points than attributes leave points empty. Of those whose views keep
    to `max_cells` the one with the fewest views is taken.

    >>> domain = Domain({f"a{place}": 2 for place in range(64)})
    >>> len(plane_cover(domain, domain.attributes, 2**8))
    72
    """
    small = [views for most, views in _plane_designs(domain, tuple(attributes)) if most <= max_cells]
    return list(min(small, key=len)) if small else None


@lru_cache(maxsize=1)  # for all limits that `best_cover` compares
def _plane_designs(domain: Domain, attributes: Clique) -> list[tuple[int, list[Clique]]]:
    """The views of each plane, of all their sizes, after the cells of its largest one."""
    found = []
    for points, blocks in pair_designs():
        if points > 4 * len(attributes):
            continue
        groups = _groups(domain, attributes, points)
        views = _distinct(domain, [[name for point in block for name in groups[point]] for block in blocks])
        found.append((max(map(domain.size, views)), views))
    return found


def _groups(domain: Domain, attributes: Sequence[str], points: int) -> list[list[str]]:
    """Attributes in groups, the largest first and always into the group with the fewest cells."""
    groups: list[list[str]] = [[] for _ in range(points)]
    heap = [(1, place) for place in range(points)]
    for name in sorted(attributes, key=lambda name: -domain[name]):
        cells, place = heapq.heappop(heap)
        groups[place].append(name)
        heapq.heappush(heap, (cells * domain[name], place))
    return groups


def _distinct(domain: Domain, blocks: Sequence[Sequence[str]]) -> list[Clique]:
    """The blocks as cliques, without those inside another one and those of a single attribute beside others."""
    member = np.unique(_incidence(domain, [block for block in blocks if block]), axis=0)
    views = [tuple(itertools.compress(domain, view)) for view in _maximal(member)]
    return sorted(views, key=domain.axes)


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
    tried: list[tuple[float, list[Clique]]] = []
    for limit in sorted((limit for limit in LIMITS if limit >= smallest), reverse=True) or [0]:
        views = cover(domain, wanted, limit)
        tried.append((_expected_error(domain, wanted, views, power), views))
        if len(tried) > PAST and all(error > tried[-PAST - 1][0] for error, _ in tried[-PAST:]):
            break  # smaller views, of which there are ever more, have only made it worse
    return min(reversed(tried), key=lambda found: found[0])[1]


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


def _incidence(domain: Domain, sets: Sequence[Iterable[str]]) -> np.ndarray:
    """Which attributes are in each set: booleans, a row for each set."""
    place = {name: axis for axis, name in enumerate(domain)}
    members = [[place[name] for name in names] for names in sets]
    member = np.zeros((len(sets), len(domain)), dtype=bool)
    rows = np.repeat(np.arange(len(sets)), [len(places) for places in members])
    member[rows, list(itertools.chain(*members))] = True
    return member


def _cells(domain: Domain, member: np.ndarray) -> np.ndarray:
    """The cells of each row's table."""
    return np.prod(np.where(member, np.array(domain.shape, dtype=np.float64), 1.0), axis=1)


class _Uncovered:
    """The sets that no view holds yet, and what each attribute could do for them in the view that is being made.

    Attributes:
        member: which attributes are in each set.
        waiting: which sets are not covered.
    """

    def __init__(self, domain: Domain, wanted: Sequence[frozenset[str]]):
        self.member = _incidence(domain, wanted)
        self.waiting = np.ones(len(wanted), dtype=bool)
        self._shape = np.array(domain.shape)
        self._with = [np.flatnonzero(column) for column in self.member.T]
        self._sizes = self.member.sum(axis=1)
        self._alone = np.flatnonzero(self._sizes < 2)
        self._places = self.member @ np.arange(len(domain))
        self._waiting_with = self.member.sum(axis=0)

    def greedy_view(self, first: int, max_cells: float) -> np.ndarray:
        """The view that starts with a set, which attributes it has; the sets that it holds wait no more."""
        self._view = np.zeros(len(self._shape), dtype=bool)
        self._held = np.zeros(len(self.member), dtype=np.int64)  # how many attributes of each set it has
        self._lacking = self._places.copy()  # the sum of the places of those that it lacks
        self._completed = np.zeros(len(self._shape), dtype=np.int64)  # how many sets each attribute would complete
        self._lack_one(self._alone[self._sizes[self._alone] == 1])
        for place in np.flatnonzero(self.member[first]):
            self._take(int(place))
        cells = math.prod(self._shape[self._view].tolist())
        while (place := self._best(max_cells / cells)) is not None:
            self._take(place)
            cells *= int(self._shape[place])
        self._cover()
        return self._view

    def _take(self, place: int) -> None:
        """The view has one more attribute."""
        self._view[place] = True
        rows = self._with[place]
        self._held[rows] += 1
        self._lacking[rows] -= place
        self._lack_one(rows[self._sizes[rows] - self._held[rows] == 1])
        self._completed[place] = 0

    def _lack_one(self, rows: np.ndarray) -> None:
        """These sets lack only one attribute; it would complete those that wait."""
        waiting = rows[self.waiting[rows]]
        self._completed += np.bincount(self._lacking[waiting], minlength=len(self._shape))

    def _best(self, room: float) -> int | None:
        """Of the attributes with at most `room` values the one that would complete the most sets, or, where no set
        lacks only one, bring closer; of these the one with the fewest values."""
        gains = self._completed if self._completed.any() else np.where(self._view, 0, self._waiting_with)
        options = np.flatnonzero((gains > 0) & (self._shape <= room))
        if not options.size:
            return None
        best = options[gains[options] == gains[options].max()]
        return int(best[np.argmin(self._shape[best])])

    def _cover(self) -> None:
        """The view holds its sets."""
        covered = np.flatnonzero(self.waiting & (self._held == self._sizes))
        self.waiting[covered] = False
        self._waiting_with -= self.member[covered].sum(axis=0)


def _maximal(views: np.ndarray) -> np.ndarray:
    """The rows that are not part of another one."""
    sizes = views.sum(axis=1)
    shared = views.astype(np.float32) @ views.T
    inside = (shared == sizes[:, None]) & (sizes[:, None] < sizes)
    return views[~inside.any(axis=1)]


def _expected_error(domain: Domain, wanted: Sequence[frozenset[str]], views: Sequence[Clique], power: float) -> float:
    from scipy.sparse import csr_array

    member, parts = _incidence(domain, views), _incidence(domain, wanted)
    cells = _cells(domain, member)
    shares = cells**power / np.sum(cells**power)
    # A share buys a standard deviation of share**-1/2 under zCDP (power 2/3), and of share**-1 under pure DP (1/2).
    precisions = shares ** (1.0 if power > 0.6 else 2.0) / cells
    incidence: Any = csr_array(parts, dtype=np.int64)
    shared = (incidence @ csr_array(member.T, dtype=np.int64)).tocoo()
    held = shared.data == parts.sum(axis=1)[shared.row]
    found = np.bincount(shared.row[held], precisions[shared.col[held]], minlength=len(wanted))
    found[~parts.any(axis=1)] = precisions.sum()  # every view holds the empty set
    return float(np.sum(np.sqrt(_cells(domain, parts) / found)))
