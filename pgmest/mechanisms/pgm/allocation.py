"""What to buy: the shares of the budget that lower the errors of a workload's items most.

All errors are l1 distances in counts. A share is of the whole budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.mechanisms.pgm.offers import SHARES, Offer
from pgmest.tables.domain import Clique

ROUNDS = 5
"""Of weights, which follow from the errors that the shares lead to, and shares."""


def fill(errors: np.ndarray, weights: np.ndarray, budget: float) -> np.ndarray:
    """Shares that sum to the budget and make the weighted sum of errors least: all marginal gains become equal.

    Args:
        errors: at each of `SHARES`, shape (offers, prices), each convex.
        weights: of the offers.
        budget: a share of the whole.
    """
    slopes = -np.diff(errors, axis=1) / np.diff(SHARES)
    slopes = np.minimum.accumulate(slopes, axis=1) * weights[:, None]  # rounding alone makes them rise
    low, high = 0.0, float(slopes.max(initial=0.0)) * 1.01
    for _ in range(60):
        middle = (low + high) / 2
        if SHARES[(slopes > middle).sum(axis=1)].sum() > budget:
            low = middle
        else:
            high = middle
    shares = SHARES[(slopes > high).sum(axis=1)]
    if not shares.sum() > 0:
        shares = np.ones(len(weights))
    return shares * (budget / shares.sum())


@dataclass(frozen=True, eq=False)
class Demand:
    r"""The items of a workload, and the marginals whose interactions make up their errors.

    The error of an item is thought of as $\sqrt{\sum_S (c_S e_S)^2}$ over marginals S inside of it: e is what remains
    of the interaction of S, which marginals of fewer attributes do not have, and c what the item's queries see of it.

    Attributes:
        parts: all marginals S.
        inside: of each item the positions of its own, shape (items, most); len(parts) where there are fewer.
        seen: of each of these c, of the same shape.
        views: row, column and key of those c that are about one of several views of a marginal.
        importance: of each item.
    """

    parts: tuple[Clique, ...]
    inside: np.ndarray
    seen: np.ndarray
    views: tuple[tuple[int, int, Any], ...]
    importance: np.ndarray

    @classmethod
    def of(cls, items: Sequence[Sequence[tuple[Clique, float, Any]]], importance: np.ndarray) -> Demand:
        """Of each item its marginals, c, and the key of the view, None where there is one only."""
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

    @classmethod
    def of_pairs(cls, pairs: Sequence[Clique], importance: np.ndarray) -> Demand:
        """Pairs, cell by cell."""
        return cls.of([[(part, 1.0, None) for part in (pair, pair[:1], pair[1:])] for pair in pairs], importance)

    def placed(self, offers: Sequence[Offer]) -> tuple[np.ndarray, np.ndarray]:
        """The position of each part's offer, and the part seen of its error; 0 where there is none."""
        place = {offer.clique: position for position, offer in enumerate(offers)}
        own = np.array([*(place.get(part, -1) for part in self.parts), -1])[self.inside]
        scale = np.where(own >= 0, self.seen, 0.0)
        for row, column, key in self.views:
            if own[row, column] >= 0:
                scale[row, column] *= offers[own[row, column]].seen.get(key, 1.0)
        return np.maximum(own, 0), scale


def allocate(offers: Sequence[Offer], demand: Demand, budget: float) -> np.ndarray:
    """The share of each offer that lowers the weighted sum of all items' errors most.

    The weight of an offer is its own share in the roots that are the errors of the items: see `Demand`.

    Args:
        offers: of attributes (all that occur) and of pairs and triples (some).
        demand: what matters.
        budget: a share of the whole.
    """
    errors = np.array([offer.errors for offer in offers])
    own, scale = demand.placed(offers)
    now, shares = errors[:, 0], np.zeros(len(offers))
    for turn in range(ROUNDS):
        parts = scale * now[own]
        whole = np.sqrt((parts**2).sum(axis=1)) + 1e-12
        weights = np.full(len(offers), 1e-9)
        np.add.at(weights, own.T, (demand.importance[:, None] * scale * parts / whole[:, None]).T)
        shares = fill(errors, weights, budget)
        then = np.array([np.interp(share, SHARES, row) for share, row in zip(shares, errors, strict=True)])
        now = then if turn == 0 else (now + then) / 2
    return shares


def worthwhile(
    offers: Sequence[Offer], demand: Demand, budget: float, least: float
) -> dict[Clique, tuple[Offer, float]]:
    """What to buy for which share; what was not measured yet only if that takes away at least this part of its error.

    A thin answer about many pairs helps less than it seems to: how far to trust it must be found out, too. So those
    that would get least of what they need are left out, half of them at a time, and the others share what they had.
    Three attributes are measured together only if their pairs are.
    """
    kept = list(offers)
    while True:
        shares = allocate(kept, demand, budget)
        reductions = [
            (offer.reduction(share), position)
            for position, (offer, share) in enumerate(zip(kept, shares, strict=True))
            if len(offer.clique) > 1 and not offer.paid
        ]
        poor = sorted(entry for entry in reductions if entry[0] < least)
        left_out = {position for _, position in poor[: (len(poor) + 1) // 2]}
        kept_pairs = {o.clique for place, o in enumerate(kept) if len(o.clique) == 2 and place not in left_out}
        left_out |= {place for place, o in enumerate(kept) if not kept_pairs.issuperset(_pairs(o.clique))}
        if not left_out:
            return {offer.clique: (offer, float(share)) for offer, share in zip(kept, shares, strict=True) if share > 0}
        kept = [offer for position, offer in enumerate(kept) if position not in left_out]


def _pairs(clique: Clique) -> list[Clique]:
    """The pairs inside three attributes; of fewer none."""
    return list(combinations(clique, 2)) if len(clique) > 2 else []
