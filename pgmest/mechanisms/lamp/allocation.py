"""Allocation: the share of the budget for each candidate marginal that minimizes the error of the workload.

`WorkloadSensitivity` says how errors of marginals change errors of the workload. Errors are l1 distances in
counts. A share is a fraction of the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.mechanisms.lamp.candidates import CELLS, SHARE_GRID, CandidateMarginal, QueryView
from pgmest.mechanisms.lamp.query_errors import QueryErrors, answered_fraction
from pgmest.mechanisms.lamp.workload_demand import DemandItem, WorkloadDemand, evenly_spaced, sub_marginals
from pgmest.tables.domain import Clique

ROUNDS = 5
"""The number of alternations between the weights, which depend on the errors, and the shares."""


def water_filling(errors: np.ndarray, weights: np.ndarray, budget: float) -> np.ndarray:
    """Return the shares that sum to the budget and minimize the weighted sum of errors.

    At the minimum, the last bit of budget lowers the weighted error of each candidate by the same amount.

    Args:
        errors: The error of each candidate at each share of `SHARE_GRID`, convex in the share, shape (candidates,
            shares).
        weights: The weight of each candidate.
        budget: The sum of the shares.
    """
    slopes = -np.diff(errors, axis=1) / np.diff(SHARE_GRID)
    slopes = np.minimum.accumulate(slopes, axis=1) * weights[:, None]  # only rounding errors make them rise
    low, high = 0.0, float(slopes.max(initial=0.0)) * 1.01
    above_low, above_high = int((slopes > low).sum()) + 1, 0  # whether all of them fit is not known yet
    for _ in range(60):
        if above_low - above_high <= 1:  # only the first one that does not fit is between the bounds
            break
        middle = (low + high) / 2
        steps = (slopes > middle).sum(axis=1)
        if SHARE_GRID[steps].sum() > budget:
            low, above_low = middle, int(steps.sum())
        else:
            high, above_high = middle, int(steps.sum())
    shares = SHARE_GRID[(slopes > high).sum(axis=1)]
    if not shares.sum() > 0:
        shares = np.ones(len(weights))
    return shares * (budget / shares.sum())


@dataclass(frozen=True, eq=False)
class ItemErrors:
    r"""The items of a workload, and the marginals whose interactions determine their errors.

    The error of an item is modeled as $\sqrt{\sum_S (c_S e_S)^2}$ over the marginals S of subsets of its attributes.
    Here $e_S$ is the error of the interaction of S, the part that marginals of fewer attributes do not determine, and
    $c_S$ is the fraction of that error that reaches the answers of the item's queries.

    Attributes:
        parts: All marginals S.
        inside: For each item, the positions in `parts` of its marginals, padded with len(parts), shape (items, most).
        seen: The coefficients c, of the same shape.
        views: The row, column and view key of each coefficient whose marginal has several views.
        importance: The weight of each item.
    """

    parts: tuple[Clique, ...]
    inside: np.ndarray
    seen: np.ndarray
    views: tuple[tuple[int, int, Any], ...]
    importance: np.ndarray

    @classmethod
    def of(cls, items: Sequence[Sequence[tuple[Clique, float, Any]]], importance: np.ndarray) -> ItemErrors:
        """Create the errors from each item's marginals, their c, and their view keys (None for a single view)."""
        place: dict[Clique, int] = {}
        for item in items:
            for part, _, _ in item:
                place.setdefault(part, len(place))
        widest = max(map(len, items), default=0)
        inside, seen = np.full((len(items), widest), len(place), dtype=np.int64), np.zeros((len(items), widest))
        views = []
        for row, item in enumerate(items):
            for column, (part, fraction, key) in enumerate(item):
                inside[row, column], seen[row, column] = place[part], fraction
                if key is not None:
                    views.append((row, column, key))
        return cls(tuple(place), inside, seen, tuple(views), np.asarray(importance, dtype=np.float64))

    def weighted_by(self, strength: np.ndarray, weight: float) -> ItemErrors:
        """Return the items with their importance times 1 + weight * s / (mean of s), s the strength of an item.

        The strength of an item is that of its strongest part. So the importance that is added is `weight` times the
        importance of all items together.

        Args:
            strength: A nonnegative number for each of `parts`.
            weight: The weight.
        """
        strongest = np.append(strength, 0.0)[self.inside].max(axis=1, initial=0.0)
        mean = float(self.importance @ strongest) / max(float(self.importance.sum()), 1e-300)
        if not mean > 0:
            return self
        return replace(self, importance=self.importance * (1 + weight * strongest / mean))

    def inside_of(self, names: Container[str], other: bool = False) -> ItemErrors:
        """Return the items all of whose attributes are among these, or the other items."""
        outside = np.array([*(not all(name in names for name in part) for part in self.parts), False])
        rows = np.flatnonzero(outside[self.inside].any(axis=1) == other)
        place = {int(row): at for at, row in enumerate(rows)}
        views = tuple((place[row], column, key) for row, column, key in self.views if row in place)
        return replace(
            self, inside=self.inside[rows], seen=self.seen[rows], views=views, importance=self.importance[rows]
        )

    def expected(self, candidates: Sequence[CandidateMarginal], shares: Sequence[float]) -> float:
        """Return the weighted sum of all items' errors, if each candidate gets its share."""
        own, scale = self.placed(candidates)
        errors = [np.interp(s, SHARE_GRID, c.errors) for c, s in zip(candidates, shares, strict=True)]
        return float(self.importance @ np.sqrt(np.square(scale * np.array(errors)[own]).sum(axis=1)))

    def placed(self, candidates: Sequence[CandidateMarginal]) -> tuple[np.ndarray, np.ndarray]:
        """Return the position of the candidate of each entry of `inside`, and its coefficient c (or 0)."""
        place = {candidate.clique: position for position, candidate in enumerate(candidates)}
        own = np.array([*(place.get(part, -1) for part in self.parts), -1])[self.inside]
        scale = np.where(own >= 0, self.seen, 0.0)
        for row, column, key in self.views:
            if own[row, column] >= 0:
                scale[row, column] *= candidates[own[row, column]].seen.get(key, 1.0)
        return np.maximum(own, 0), scale


def allocate(candidates: Sequence[CandidateMarginal], item_errors: ItemErrors, budget: float) -> np.ndarray:
    """Return the share of each candidate that minimizes the weighted sum of all items' errors.

    The root in `ItemErrors` is linearized: the weight of a candidate is the derivative of the sum by its error.

    Args:
        candidates: One for each attribute that occurs, and one for some of the pairs and triples.
        item_errors: The items of the workload.
        budget: The sum of the shares.
    """
    errors = np.array([candidate.errors for candidate in candidates])
    own, scale = item_errors.placed(candidates)
    now, shares = errors[:, 0], np.zeros(len(candidates))
    for turn in range(ROUNDS):
        parts = scale * now[own]
        whole = np.sqrt((parts**2).sum(axis=1)) + 1e-12
        weights = np.full(len(candidates), 1e-9)
        np.add.at(weights, own.T, (item_errors.importance[:, None] * scale * parts / whole[:, None]).T)
        shares = water_filling(errors, weights, budget)
        then = np.array([np.interp(share, SHARE_GRID, row) for share, row in zip(shares, errors, strict=True)])
        now = then if turn == 0 else (now + then) / 2
    return shares


def select_candidates(
    candidates: Sequence[CandidateMarginal], item_errors: ItemErrors, budget: float, least: float
) -> dict[Clique, tuple[CandidateMarginal, float]]:
    """Return the candidates to measure and their shares.

    A marginal that was not measured before is kept only if its share removes at least the fraction `least` of its
    error. Very noisy answers about many pairs help less than expected, since the weight that they deserve must be
    estimated, too. So the candidates with the smallest reductions are dropped, half of them at a time, and their budget
    is given to the others. A triple is kept only if its pairs are.
    """
    kept = list(candidates)
    while True:
        shares = allocate(kept, item_errors, budget)
        reductions = [
            (candidate.reduction(share), position)
            for position, (candidate, share) in enumerate(zip(kept, shares, strict=True))
            if len(candidate.clique) > 1 and not candidate.measured
        ]
        poor = sorted(entry for entry in reductions if entry[0] < least)
        left_out = {position for _, position in poor[: (len(poor) + 1) // 2]}
        kept_pairs = {o.clique for place, o in enumerate(kept) if len(o.clique) == 2 and place not in left_out}
        left_out |= {place for place, o in enumerate(kept) if not kept_pairs.issuperset(_pairs(o.clique))}
        if not left_out:
            return {
                candidate.clique: (candidate, float(share))
                for candidate, share in zip(kept, shares, strict=True)
                if share > 0
            }
        kept = [candidate for position, candidate in enumerate(kept) if position not in left_out]


def _pairs(clique: Clique) -> list[Clique]:
    """Return the pairs inside a triple, and nothing for smaller cliques."""
    return list(combinations(clique, 2)) if len(clique) > 2 else []


MOST_VIEWS = 16
"""The largest number of views of a marginal; if there are more, a sample represents them."""


@dataclass(frozen=True, eq=False)
class WorkloadSensitivity:
    """The sensitivity of a workload to errors in marginals.

    Attributes:
        demand: The items of the workload.
        views: The views of each marginal about which queries are asked.
        item_errors: The items, and the coefficients of the marginals' errors in theirs.
    """

    demand: WorkloadDemand
    views: Mapping[Clique, tuple[QueryView, ...]]
    item_errors: ItemErrors

    @classmethod
    def of(
        cls, demand: WorkloadDemand, counts: Mapping[str, np.ndarray], levels: Mapping[str, Sequence[np.ndarray]]
    ) -> WorkloadSensitivity:
        """Compute the sensitivity from the estimated one-way marginals and the groups of codes at each level."""
        fraction = {
            id(asked): {name: answered_fraction({name: rows}, counts) for name, rows in asked.factors.items()}
            for asked in (*demand.items, *demand.at_levels)
        }

        def outside(asked: DemandItem, part: Clique) -> float:
            return math.prod(value for name, value in fraction[id(asked)].items() if name not in part)

        views = {}
        for part, items in demand.items_by_marginal.items():
            together: dict[Any, tuple[float, Any]] = {}
            for asked in items:
                key = _key(asked, part)
                weight = together.get(key, (0.0, None))[0] + asked.importance * outside(asked, part)
                together[key] = weight, asked.inside(part)
            if set(together) != {()}:
                seen_as = [(key, *entry) for key, entry in _some_of(together)]
                views[part] = tuple(_view(part, *entry, counts, levels) for entry in seen_as)
        rows = [
            [
                (part, outside(asked, part), _key(asked, part) if part in views else None)
                for part in sub_marginals(asked.clique)
            ]
            for asked in demand.items
        ]
        return cls(demand, views, ItemErrors.of(rows, np.array([asked.importance for asked in demand.items])))

    def of_table(self, clique: Clique) -> tuple[QueryView, ...]:
        """Return the views of a marginal; if no queries are asked, the only view are its cells."""
        return self.views.get(clique, CELLS)

    def queries(self, name: str, key: Any) -> np.ndarray | None:
        """Return the queries of a view of one attribute; None for its codes."""
        for asked in self.demand.items_by_marginal[name,]:
            if _key(asked, (name,)) == key:
                return asked.factors.get(name)
        return None


def _view(
    part: Clique,
    key: Any,
    weight: float,
    factors: Any,
    counts: Mapping[str, np.ndarray],
    levels: Mapping[str, Sequence[np.ndarray]],
) -> QueryView:
    if not factors or len(part) == 1:
        return QueryView(weight, None, key)
    depth = max(len(levels[name]) for name in part)
    groups = [[levels[name][min(level, len(levels[name]) - 1)] for level in range(depth)] for name in part]
    return QueryView(
        weight, QueryErrors.of([factors.get(name) for name in part], [counts[n] for n in part], groups), key
    )


def _key(asked: DemandItem, part: Clique) -> tuple[tuple[str, int], ...]:
    """Return a key that is equal for items with the same queries about a part; () for its cells."""
    return tuple((name, hash(asked.factors[name].tobytes())) for name in part if name in asked.factors)


def _some_of(views: dict[Any, tuple[float, Any]]) -> list[tuple[Any, tuple[float, Any]]]:
    """Return the views, or a sample if there are too many."""
    entries = list(views.items())
    return [entries[place] for place in evenly_spaced(len(entries), MOST_VIEWS)]
