"""Limits on numbers of rows, found in the data where the public limits are far above most numbers.

With `at_most: 500` and households of 1 to 6 persons, the noise in 494 empty cells would make a third of all households
large, and most persons members of these. So the first question is how many families are in ever wider ranges of
numbers. Those above the last range that noise alone does not explain are cut to its end, in the data, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import evenly_spaced
from pgmest.mechanisms.linked.families import MEMBER, OTHER, Families, Layout
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.pairing import MOST_ALL
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.zeros import barred_cells
from pgmest.privacy.curator import Curator
from pgmest.privacy.requests import UnitVector
from pgmest.tables.domain import Domain
from pgmest.transforms.public import unchanged
from pgmest.transforms.transform import Column, Transform

LEAST_LIMIT = MOST_ALL
"""The smallest limit that is found, and the end of the first range; each further range ends at twice its start. With
300 households of 1 to 6 persons and epsilon 1, records have 9 % too many persons at this limit, 13 % at 16 and 22 % at
32; at 8, they lose more of the persons of large households."""
SHARE = 0.05
"""The share of the budget for all ranges. A limit of 12 instead of 500 makes the table of numbers cheaper by more."""
WIDER = 4 / 3
"""The last range ends at the public limit, and no range ends at a number that this is not at least that many times."""
SIGNIFICANT, MOST_FAMILIES = 3.0, 2.0
"""The number of families in a run of ranges that noise does not explain, in standard deviations of the noise, and the
same if the run has more families than all smaller ranges together: where most families are large, their persons matter
more than the risk that they are noise."""


def size_limits(curator: Curator, layout: Layout, least: int) -> dict[str, int]:
    """Return a limit for each number of rows whose public limit is higher, by a share of the budget.

    Args:
        curator: the curator of a `FamilyDataset`.
        layout: its attributes.
        least: the smallest limit of the number of children, which rules may need.
    """
    ends = {name: _ends(layout, name) for name in layout.counts}
    ends = {name: found for name, found in ends.items() if len(found) > 1}
    if not ends:
        return {}
    vectors = [
        UnitVector(f"{name} over {len(found)} ranges", len(found), partial(_in_ranges, name, found))
        for name, found in ends.items()
    ]
    answers = curator.measure_vectors(vectors, curator.budget * SHARE, [1.0] * len(vectors))
    limits = {name: _limit(*answer, ends[name]) for name, answer in zip(ends, answers, strict=True)}
    if layout.number in limits:
        limits[layout.number] = max(limits[layout.number], least)
    return {name: limit for name, limit in limits.items() if limit < ends[name][-1]}


def _ends(layout: Layout, name: str) -> np.ndarray:
    """Return the largest number of each range."""
    most = layout.domain[name] - 1 - (layout.kind(name) == MEMBER)
    ends = [LEAST_LIMIT]
    while ends[-1] * WIDER < most:
        ends.append(2 * ends[-1] if 2 * ends[-1] * WIDER < most else most)
    return np.array(ends)


def _in_ranges(name: str, ends: np.ndarray, data: Dataset) -> np.ndarray:
    """Return how many families have their number in each range, or the largest one of their children; 0 is in none."""
    assert isinstance(data, FamilyDataset)
    families, layout = data.families, data.layout
    place = layout.place(name)
    if layout.kind(name) == MEMBER:
        numbers = np.zeros(len(families.sizes), dtype=np.int64)
        np.maximum.at(numbers, families.owners, families.children[:, place])
    else:
        numbers = families.parents[:, place]
    return np.bincount(np.searchsorted(ends, numbers[numbers > 0]), minlength=len(ends)).astype(np.float64)


def _limit(counts: np.ndarray, stddev: float, ends: np.ndarray) -> int:
    """Return the end of the last run of ranges that noise does not explain; of those that begin there, the shortest."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for start in reversed(range(1, len(counts))):
        for end in range(start + 1, len(sums)):
            found, noise = sums[end] - sums[start], stddev * math.sqrt(end - start)
            if found > SIGNIFICANT * noise or (found > MOST_FAMILIES * noise and found > sums[start]):
                return int(ends[end - 1])
    return int(ends[0])


class SizeLimits(Transform):
    """The recoding of families to lower limits: of larger families, children evenly spaced in their order are kept.

    Attributes:
        layout: the attributes before it.
        limited: the attributes after it.

    Args:
        layout: the attributes before it.
        limits: the new limits of some numbers of rows, by attribute.
    """

    layout: Layout
    limited: Layout

    def __init__(self, layout: Layout, limits: Mapping[str, int]):
        twins = zip(layout.members, layout.others, strict=False)
        every = {**limits, **{other: limits[name] for name, other in twins if name in limits}}
        columns = unchanged(layout.domain, every)
        for name, limit in every.items():
            codes = np.minimum(np.arange(layout.domain[name]), limit)
            if layout.kind(name) in (MEMBER, OTHER):
                codes[-1] = limit + 1  # the child is absent
            columns[name] = Column((name,), codes)
        super().__init__(layout.domain, {name: columns[name] for name in layout.domain})
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "limited", _limited(layout, limits))

    def encode(self, data: Dataset) -> FamilyDataset:
        assert isinstance(data, FamilyDataset)
        return FamilyDataset(self.families(data.families), data.records_per_person, data.unit_column)

    def families(self, families: Families) -> Families:
        """Return the families with the lower limits."""
        parents, before = families.parents.copy(), families.sizes
        for place, name in enumerate(self.layout.parents):
            parents[:, place] = self.columns[name].codes[parents[:, place]]
        sizes = np.ascontiguousarray(parents[:, -1])
        children = families.children[evenly_spaced(families.first, before, sizes)]
        for place, name in enumerate(self.layout.members):
            children[:, place] = self.columns[name].codes[children[:, place]]
        return Families(self.limited, parents, children)

    def rules(self, rules: FamilyRules) -> FamilyRules:
        """Return the rules for families with the lower limits; what is impossible at a limit is so for more rows."""
        zeros = {
            clique: mask[np.ix_(*(np.unique(self.columns[name].codes, return_index=True)[1] for name in clique))]
            for clique, mask in rules.zeros.items()
        }
        limits = np.minimum(rules.limits, self.limited.at_most)
        bars, barred = barred_cells(zeros, self.limited)
        return replace(rules, zeros=zeros, limits=limits, bars=bars, barred=barred)


def _limited(layout: Layout, limits: Mapping[str, int]) -> Layout:
    """Return the attributes with lower limits."""
    sides = []
    for table, domain in zip(layout.names, (layout.parent, layout.child), strict=True):
        sizes = {name: min(size, limits.get(f"{table}.{name}", size) + 1) for name, size in domain.items()}
        sides.append(Domain(sizes).with_hierarchies(*domain.hierarchies.values()))
    at_most = limits.get(layout.number, layout.at_most)
    return replace(layout, parent=sides[0], child=sides[1], at_most=at_most)
