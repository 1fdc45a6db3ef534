"""What to buy: the error that each marginal is expected to have at each price, and the shares that lower the sum most.

All errors are l1 distances in counts. A share is of the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean absolute value of normal noise, in standard deviations."""
SHARES = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 81)])
"""Where expected errors are computed."""
ROUNDS = 5
"""Of weights, which follow from the errors that the shares lead to, and shares."""


MOST_CONTRASTED = 16
"""Contrasts of more groups would be cheaper by 3 % at most, and their entries are no longer small integers' roots."""


def interaction(shape: Sequence[int]) -> float:
    """The part of independent noise in a table's cells that is left without its rows' and columns' means."""
    return math.prod(1 - 1 / groups for groups in shape if groups > 1)


@dataclass(frozen=True)
class Prices:
    """What noise a share of a budget buys.

    Attributes:
        whole: the variance of a count that the whole budget is spent on.
        power: precision grows with the share to this power: 1 for zCDP, 2 for pure epsilon.
        most_contrasted: attributes of at most so many groups are asked for by their contrasts.
    """

    whole: float
    power: float
    most_contrasted: int = 1

    @classmethod
    def of(cls, budget: Budget, neighbors: Neighbors) -> Prices:
        """Of a mechanism's budget."""
        pure = isinstance(budget, Epsilon)
        most = 1 if not isinstance(neighbors, AddRemove) else 2 if pure else MOST_CONTRASTED
        return cls(noise_for(budget, neighbors).stddev ** 2, 2.0 if pure else 1.0, most)

    def contrasted(self, groups: int) -> bool:
        """Whether an attribute of so many groups is asked for by its contrasts: where that is cheaper."""
        return 1 < groups <= self.most_contrasted

    def discount(self, shape: Sequence[int]) -> float:
        """The variance of the noise in answers about attributes of so many groups, over that of counts, at a price."""
        return math.prod(1 - 1 / groups for groups in shape if self.contrasted(groups))

    def cell_precision(self, share: np.ndarray | float, shape: Sequence[int]) -> np.ndarray | float:
        """One over the variance of the noise in a cell that is not noise in what is known before.

        Of a pair that is not noise in its one-way marginals, of one attribute not noise in the number of records.

        Args:
            share: of the budget.
            shape: the number of groups of each attribute.
        """
        return self.precision(share) / (self.discount(shape) * interaction(shape))

    def precision(self, share: np.ndarray | float) -> np.ndarray | float:
        """One over the variance of a count."""
        return share**self.power / self.whole


def histogram(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells by order of magnitude: how many, and their mean."""
    order = np.floor(np.log2(np.maximum(counts, 1e-6))).astype(np.int64).ravel()
    order -= order.min()
    cells = np.bincount(order)
    kept = cells > 0
    return cells[kept].astype(np.float64), np.bincount(order, counts.ravel())[kept] / cells[kept]


def expected_errors(cells: np.ndarray, spread: np.ndarray, precision: np.ndarray) -> np.ndarray:
    r"""The l1 error of a shrunk table for each precision of its noise.

    A cell that varies around its expected count with standard deviation s, measured with noise of standard deviation
    sigma, is left with $s \sigma / \sqrt{s^2 + \sigma^2}$ after the best linear shrinkage.

    Args:
        cells: how many of each kind, shape (kinds,).
        spread: s of each kind, in counts.
        precision: one over sigma squared, shape (prices,).
    """
    left = spread[:, None] / np.sqrt(1 + np.square(spread)[:, None] * precision)
    return MEAN_ABSOLUTE * (cells @ left)


def convex(errors: np.ndarray) -> np.ndarray:
    """The largest convex function of the share that is nowhere above these errors, at `SHARES`.

    >>> curve = np.linspace(1.0, 0.0, len(SHARES))
    >>> bool((convex(curve) <= curve).all()), bool(np.all(np.diff(np.diff(convex(curve)) / np.diff(SHARES)) >= -1e-9))
    (True, True)
    """
    corners: list[int] = []
    for here in range(len(SHARES)):
        while len(corners) > 1:
            first, middle = corners[-2:]
            over = (SHARES[middle] - SHARES[first]) * (errors[here] - errors[first])
            if over > (SHARES[here] - SHARES[first]) * (errors[middle] - errors[first]):
                break
            corners.pop()
        corners.append(here)
    return np.interp(SHARES, SHARES[corners], errors[corners])


@dataclass(frozen=True, eq=False)
class Offer:
    """Something that could be bought, and what is expected of it.

    Attributes:
        clique: one attribute, or a pair.
        errors: the expected error at each of `SHARES`, beside what was paid already.
        levels: of a pair, the level of groups that is best at each of `SHARES`; None for one attribute.
        paid: whether it was measured before.
    """

    clique: Clique
    errors: np.ndarray
    levels: np.ndarray | None = None
    paid: bool = False

    def reduction(self, share: float) -> float:
        """The part of the error that a share takes away."""
        return 1 - float(np.interp(share, SHARES, self.errors)) / max(float(self.errors[0]), 1e-12)

    def level(self, share: float) -> int:
        """The level of groups to measure a pair with."""
        assert self.levels is not None
        return int(self.levels[min(int(np.searchsorted(SHARES, share)), len(SHARES) - 1)])


def one_way_offer(clique: Clique, counts: np.ndarray, stddev: float, prices: Prices) -> Offer:
    """More of a one-way marginal; each count is thought to vary as much as it is large."""
    cells, means = histogram(counts)
    precision = 1 / (stddev**2 * interaction(counts.shape)) + prices.cell_precision(SHARES, counts.shape)
    return Offer(clique, convex(expected_errors(cells, means, np.asarray(precision))), paid=True)


def unscored_offer(
    clique: Clique, histograms: Sequence[tuple[np.ndarray, np.ndarray]], level: int, total: float, prices: Prices
) -> Offer:
    """A table of a pair over all codes of which nothing is known: each cell may vary as much as it is large.

    Args:
        clique: the pair.
        histograms: of its attributes' counts.
        level: on which all codes are by themselves.
        total: the number of records.
        prices: of noise.
    """
    cells, means = _kinds(histograms[0], histograms[1], total)
    shape = round(histograms[0][0].sum()), round(histograms[1][0].sum())
    errors = expected_errors(cells, means, np.asarray(prices.cell_precision(SHARES, shape)))
    return Offer(clique, convex(errors), np.full(len(SHARES), level))


def sampling_spread(means: np.ndarray) -> np.ndarray:
    """The standard deviation by which counts vary around such means where only chance moves them (Poisson).

    Of rare cells it is what gives the mean absolute deviation of 2 m: most of them are empty.
    """
    return np.minimum(np.sqrt(means), 2 * means / MEAN_ABSOLUTE)


@dataclass(frozen=True)
class Dependence:
    """How far a pair is from what the model says, in counts (l1): over coarse groups, and over all codes."""

    coarse: float
    whole: float

    def beyond(self, coarse_chance: float, whole_chance: float) -> Dependence:
        """What remains of it where chance alone explains so much."""
        coarse, whole = (
            math.sqrt(max(0.0, found**2 - chance**2))
            for found, chance in ((self.coarse, coarse_chance), (self.whole, whole_chance))
        )
        return Dependence(coarse, max(coarse, whole))

    def left_within(self, level: int, coarse_level: int) -> float:
        """What groups of a level cannot show: halved by each level more, and all of the coarse by none."""
        hidden = math.sqrt(max(0.0, self.whole**2 - self.coarse**2))
        if level >= coarse_level:
            return hidden * 2.0 ** (coarse_level - level)
        seen = self.coarse * (1 - 2.0 ** -(level + 2)) / (1 - 2.0 ** -(coarse_level + 2))
        return math.sqrt(max(0.0, self.whole**2 - seen**2))


def pair_offer(
    clique: Clique,
    histograms: Sequence[tuple[tuple[np.ndarray, np.ndarray], ...]],
    finest: Sequence[bool],
    dependence: Dependence,
    coarse_level: int,
    total: float,
    prices: Prices,
    paid: tuple[int, float] | None = None,
) -> Offer:
    """A table of a pair, on the level of groups that suits each price.

    Cells are thought to deviate from what is expected in proportion to it, and besides by chance, as counts do.

    Args:
        clique: the pair.
        histograms: for each level, those of the two attributes' one-way marginals over its groups.
        finest: whether a level has all codes by themselves.
        dependence: of the pair.
        coarse_level: the level that `dependence.coarse` is about.
        total: the number of records.
        prices: of noise.
        paid: the level with which it was measured before, and one over the variance of those answers.
    """
    levels = range(len(histograms)) if paid is None else [paid[0]]
    kinds = [_kinds(rows, columns, total) for rows, columns in histograms]
    chances = [MEAN_ABSOLUTE * float(cells @ sampling_spread(means)) for cells, means in kinds]
    systematic = dependence.beyond(chances[min(coarse_level, len(chances) - 1)], chances[-1])
    curves = []
    for level in levels:
        shape = round(histograms[level][0][0].sum()), round(histograms[level][1][0].sum())
        precision = prices.cell_precision(SHARES, shape) + (0.0 if paid is None else paid[1] / interaction(shape))
        hidden = 0.0 if finest[level] else systematic.left_within(level, coarse_level)
        relative = math.sqrt(max(0.0, systematic.whole**2 - hidden**2)) / (MEAN_ABSOLUTE * total)
        cells, means = kinds[level]
        spread = np.hypot(relative * means, sampling_spread(means))
        errors = expected_errors(cells, spread, np.asarray(precision))
        by_chance = max(0.0, chances[-1] ** 2 - chances[level] ** 2)
        curves.append(np.sqrt(errors**2 + hidden**2 + by_chance))
    stacked = np.array(curves)
    best = np.argmin(stacked, axis=0)
    return Offer(clique, convex(stacked[best, np.arange(len(SHARES))]), np.array(levels)[best], paid is not None)


def _kinds(
    rows: tuple[np.ndarray, np.ndarray], columns: tuple[np.ndarray, np.ndarray], total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a pair by their expected counts, from those of its attributes: how many, and their mean."""
    return np.outer(rows[0], columns[0]).ravel(), np.outer(rows[1], columns[1]).ravel() / total


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


def allocate(offers: Sequence[Offer], pairs: Sequence[Clique], importance: np.ndarray, budget: float) -> np.ndarray:
    """The share of each offer that lowers the weighted sum of all pairs' errors most.

    A pair's error is thought of as $\\sqrt{d^2 + a^2 + b^2}$, where d is what remains of its dependence, and a and b
    are the errors of its one-way marginals; so the weight of each is its own share in this root.

    Args:
        offers: of attributes (all that occur in pairs) and of pairs (some).
        pairs: all that matter.
        importance: of the pairs.
        budget: a share of the whole.
    """
    place = {offer.clique: position for position, offer in enumerate(offers)}
    errors = np.array([offer.errors for offer in offers])
    first, second = (np.array([place[(pair[side],)] for pair in pairs]) for side in (0, 1))
    own = np.array([place.get(pair, -1) for pair in pairs])
    offered = own >= 0
    now, shares = errors[:, 0], np.zeros(len(offers))
    for turn in range(ROUNDS):
        dependence = np.where(offered, now[own], 0.0)
        whole = np.sqrt(dependence**2 + now[first] ** 2 + now[second] ** 2) + 1e-12
        weights = np.full(len(offers), 1e-9)
        np.add.at(weights, first, importance * now[first] / whole)
        np.add.at(weights, second, importance * now[second] / whole)
        np.add.at(weights, own[offered], (importance * dependence / whole)[offered])
        shares = fill(errors, weights, budget)
        then = np.array([np.interp(share, SHARES, row) for share, row in zip(shares, errors, strict=True)])
        now = then if turn == 0 else (now + then) / 2
    return shares


def worthwhile(
    offers: Sequence[Offer], pairs: Sequence[Clique], importance: np.ndarray, budget: float, least: float
) -> dict[Clique, tuple[Offer, float]]:
    """What to buy for which share; a pair not yet measured only if that takes away at least this part of its error.

    A thin answer about many pairs helps less than it seems to: how far to trust it must be found out, too. So the pairs
    that would get least of what they need are left out, half of them at a time, and the others share what they had.
    """
    kept = list(offers)
    while True:
        shares = allocate(kept, pairs, importance, budget)
        reductions = [
            (offer.reduction(share), position)
            for position, (offer, share) in enumerate(zip(kept, shares, strict=True))
            if len(offer.clique) == 2 and not offer.paid
        ]
        poor = sorted(entry for entry in reductions if entry[0] < least)
        if not poor:
            return {offer.clique: (offer, float(share)) for offer, share in zip(kept, shares, strict=True) if share > 0}
        left_out = {position for _, position in poor[: (len(poor) + 1) // 2]}
        kept = [offer for position, offer in enumerate(kept) if position not in left_out]
