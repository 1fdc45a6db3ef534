"""Covering designs: few marginals of bounded size (views) that together contain every pair or triple of attributes."""

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

VIEW_SIZES = tuple(2**power for power in range(4, 17))
"""The size limits that `best_cover` compares, in cells."""

PATIENCE = 2
"""The number of consecutive size limits with a larger error after which `best_cover` stops."""


def subsets_of(cliques: Iterable[Clique], domain: Domain, strength: int) -> list[frozenset[str]]:
    """Return the sets of `strength` attributes inside the cliques, and the cliques with fewer attributes, each once."""
    found = (
        frozenset(part) for clique in cliques for part in itertools.combinations(clique, min(strength, len(clique)))
    )
    return sorted(set(found), key=lambda part: sorted(domain.axes(part)))


def cover(domain: Domain, wanted: Sequence[frozenset[str]], max_cells: float) -> list[Clique]:
    """Return views that contain each wanted set: a covering design for attributes of any sizes, found greedily.

    A view starts with the largest uncovered set. While the view has at most `max_cells` cells, it takes in the
    attribute that covers the most further sets, and of several the one with the fewest values. A set with more cells is
    a view by itself. If all pairs are wanted and a finite plane needs fewer views, its views are returned
    (`plane_cover`).

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
    """Return views from a finite plane that contain each pair of the attributes; None if all planes exceed `max_cells`.

    The attributes are divided into as many groups as the plane has points, with about equal numbers of cells; a line
    becomes the view of its groups. Points of a plane with more points than attributes are empty. Of the planes whose
    views have at most `max_cells` cells, the one with the fewest views is taken.

    >>> domain = Domain({f"a{place}": 2 for place in range(64)})
    >>> len(plane_cover(domain, domain.attributes, 2**8))
    72
    """
    small = [views for most, views in _plane_designs(domain, tuple(attributes)) if most <= max_cells]
    return list(min(small, key=len)) if small else None


@lru_cache(maxsize=1)  # serves all limits that `best_cover` compares
def _plane_designs(domain: Domain, attributes: Clique) -> list[tuple[int, list[Clique]]]:
    """Return, for each plane, the cells of the largest view and all views."""
    found = []
    for points, blocks in pair_designs():
        if points > 4 * len(attributes):
            continue
        groups = _groups(domain, attributes, points)
        views = _distinct(domain, [[name for point in block for name in groups[point]] for block in blocks])
        found.append((max(map(domain.size, views)), views))
    return found


def _groups(domain: Domain, attributes: Sequence[str], points: int) -> list[list[str]]:
    """Divide attributes into groups: each in turn, the largest first, joins the group with the fewest cells."""
    groups: list[list[str]] = [[] for _ in range(points)]
    heap = [(1, place) for place in range(points)]
    for name in sorted(attributes, key=lambda name: -domain[name]):
        cells, place = heapq.heappop(heap)
        groups[place].append(name)
        heapq.heappush(heap, (cells * domain[name], place))
    return groups


def _distinct(domain: Domain, blocks: Sequence[Sequence[str]]) -> list[Clique]:
    """Return the maximal blocks as cliques, in domain order."""
    member = np.unique(_incidence(domain, [block for block in blocks if block]), axis=0)
    views = [tuple(itertools.compress(domain, view)) for view in _maximal(member)]
    return sorted(views, key=domain.axes)


def best_cover(domain: Domain, wanted: Sequence[frozenset[str]], power: float) -> list[Clique]:
    r"""Return the cover with the least expected error of the wanted sets, among the covers for several size limits.

    Under zCDP a view v of $c_v$ cells that is measured with a share $s_v$ of the budget gives a set S of $c_S$ cells
    inside it an l1 error proportional to $\sqrt{c_v c_S / s_v}$; the answers of several views that contain S are
    averaged.

    Args:
        domain: the attributes.
        wanted: the sets to cover.
        power: the exponent of the budget shares, which are proportional to cells**power (`least_error_weights`).
    """
    smallest = min(domain.size(tuple(part)) for part in wanted)
    tried: list[tuple[float, list[Clique]]] = []
    for limit in sorted((limit for limit in VIEW_SIZES if limit >= smallest), reverse=True) or [0]:
        views = cover(domain, wanted, limit)
        tried.append((_expected_error(domain, wanted, views, power), views))
        if len(tried) > PATIENCE and all(error > tried[-PATIENCE - 1][0] for error, _ in tried[-PATIENCE:]):
            break
    return min(reversed(tried), key=lambda found: found[0])[1]


def random_views(
    domain: Domain, attributes: Sequence[str], max_cells: float, count: int, generator: np.random.Generator
) -> list[Clique]:
    """Return at least `count` views of random attributes: random orders of all attributes, cut at the size limit.

    Every attribute is in one view of each order, so the last order is completed.
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
    """Return the membership of attributes in sets as booleans, shape (sets, attributes)."""
    place = {name: axis for axis, name in enumerate(domain)}
    members = [[place[name] for name in names] for names in sets]
    member = np.zeros((len(sets), len(domain)), dtype=bool)
    rows = np.repeat(np.arange(len(sets)), [len(places) for places in members])
    member[rows, list(itertools.chain(*members))] = True
    return member


def _cells(domain: Domain, member: np.ndarray) -> np.ndarray:
    """Return the number of cells of each row's marginal."""
    return np.prod(np.where(member, np.array(domain.shape, dtype=np.float64), 1.0), axis=1)


class _Uncovered:
    """The uncovered sets, and for the view under construction the number of sets that each attribute would complete.

    Attributes:
        member: the membership of attributes in sets, shape (sets, attributes).
        waiting: True for each uncovered set, shape (sets,).
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
        """Return the attributes of the greedy view that starts with a set, and mark the covered sets."""
        self._view = np.zeros(len(self._shape), dtype=bool)
        self._held = np.zeros(len(self.member), dtype=np.int64)  # the number of attributes of each set in the view
        self._lacking = self._places.copy()  # the sum of the indices of the missing attributes
        self._completed = np.zeros(len(self._shape), dtype=np.int64)  # sets that each attribute would complete
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
        """Add an attribute to the view."""
        self._view[place] = True
        rows = self._with[place]
        self._held[rows] += 1
        self._lacking[rows] -= place
        self._lack_one(rows[self._sizes[rows] - self._held[rows] == 1])
        self._completed[place] = 0

    def _lack_one(self, rows: np.ndarray) -> None:
        """Count the uncovered sets among these rows for the single attribute that each misses."""
        waiting = rows[self.waiting[rows]]
        self._completed += np.bincount(self._lacking[waiting], minlength=len(self._shape))

    def _best(self, room: float) -> int | None:
        """Return the attribute of at most `room` values that completes the most sets, or None.

        If no attribute completes a set, the attribute in the most uncovered sets is returned. Ties go to the attribute
        with the fewest values.
        """
        gains = self._completed if self._completed.any() else np.where(self._view, 0, self._waiting_with)
        options = np.flatnonzero((gains > 0) & (self._shape <= room))
        if not options.size:
            return None
        best = options[gains[options] == gains[options].max()]
        return int(best[np.argmin(self._shape[best])])

    def _cover(self) -> None:
        """Mark the sets that the view contains as covered."""
        covered = np.flatnonzero(self.waiting & (self._held == self._sizes))
        self.waiting[covered] = False
        self._waiting_with -= self.member[covered].sum(axis=0)


def _maximal(views: np.ndarray) -> np.ndarray:
    """Return the rows that are no proper subset of another row."""
    sizes = views.sum(axis=1)
    shared = views.astype(np.float32) @ views.T
    inside = (shared == sizes[:, None]) & (sizes[:, None] < sizes)
    return views[~inside.any(axis=1)]


def _expected_error(domain: Domain, wanted: Sequence[frozenset[str]], views: Sequence[Clique], power: float) -> float:
    """Return the sum of the expected l1 errors of the wanted sets, up to a constant factor."""
    from scipy.sparse import csr_array

    member, parts = _incidence(domain, views), _incidence(domain, wanted)
    cells = _cells(domain, member)
    shares = cells**power / np.sum(cells**power)
    # The standard deviation is share**-1/2 under zCDP (power 2/3) and share**-1 under pure DP (power 1/2).
    precisions = shares ** (1.0 if power > 0.6 else 2.0) / cells
    incidence: Any = csr_array(parts, dtype=np.int64)
    shared = (incidence @ csr_array(member.T, dtype=np.int64)).tocoo()
    held = shared.data == parts.sum(axis=1)[shared.row]
    found = np.bincount(shared.row[held], precisions[shared.col[held]], minlength=len(wanted))
    found[~parts.any(axis=1)] = precisions.sum()  # every view contains the empty set
    return float(np.sum(np.sqrt(_cells(domain, parts) / found)))
