"""What could be bought: the error that each marginal is expected to have at each price.

All errors are l1 distances in counts. A share is of the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.pgm.dependence import Case, Dependence, sampling_spread
from pgmest.mechanisms.pgm.groups import kinds
from pgmest.mechanisms.pgm.query_errors import QueryErrors
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique

SHARES = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 81)])
"""Where expected errors are computed."""


FEW_CELLS, DEVIATION = 64, {True: 0.5, False: 0.75}
"""Cells deviate from what is expected by a power of it: a smaller one in tables of at most 64 cells
(`experiments.flagship.calibration`)."""


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
    order = kinds(counts).ravel()
    cells = np.bincount(order)
    return cells.astype(np.float64), np.bincount(order, counts.ravel()) / cells


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
        clique: one attribute, a pair or three; none is the number of records.
        errors: the expected error at each of `SHARES`, beside what was paid already.
        levels: the level of groups that is best at each of `SHARES`; None where there is no choice.
        paid: whether it was measured before.
        seen: of queries with errors of their own, the part of the error that each sees; 1 of all others.
    """

    clique: Clique
    errors: np.ndarray
    levels: np.ndarray | None = None
    paid: bool = False
    seen: Mapping[Any, float] = field(default_factory=dict)

    def reduction(self, share: float) -> float:
        """The part of the error that a share takes away."""
        return 1 - float(np.interp(share, SHARES, self.errors)) / max(float(self.errors[0]), 1e-12)

    def level(self, share: float) -> int:
        """The level of groups to measure with."""
        assert self.levels is not None
        return int(self.levels[min(int(np.searchsorted(SHARES, share)), len(SHARES) - 1)])


def total_offer(stddev: float, prices: Prices) -> Offer:
    """The number of records, which is known with this standard error: an error of it is one of every marginal."""
    precision = 1 / stddev**2 + np.asarray(prices.precision(SHARES))
    return Offer((), convex(MEAN_ABSOLUTE / np.sqrt(precision)), paid=True)


def one_way_offer(clique: Clique, counts: np.ndarray, stddev: float, prices: Prices) -> Offer:
    """More of a one-way marginal; each count is thought to vary as much as it is large."""
    cells, means = histogram(counts)
    precision = 1 / (stddev**2 * interaction(counts.shape)) + prices.cell_precision(SHARES, counts.shape)
    return Offer(clique, convex(expected_errors(cells, means, np.asarray(precision))), paid=True)


def unscored_offer(
    clique: Clique, histograms: Sequence[tuple[np.ndarray, np.ndarray]], level: int, total: float, prices: Prices
) -> Offer:
    """A table over all codes of which nothing is known: each cell may vary as much as it is large.

    Args:
        clique: a pair, or three attributes.
        histograms: of its attributes' counts.
        level: on which all codes are by themselves.
        total: the number of records.
        prices: of noise.
    """
    cells, means = _kinds(histograms, total)
    shape = tuple(round(number.sum()) for number, _ in histograms)
    errors = expected_errors(cells, means, np.asarray(prices.cell_precision(SHARES, shape)))
    return Offer(clique, convex(errors), np.full(len(SHARES), level))


@dataclass(frozen=True, eq=False)
class View:
    """How some items of a workload see a marginal: by queries, or cell by cell.

    Attributes:
        weight: the sum of the items' importance.
        queries: None for the cells.
        key: tells the view from others.
    """

    weight: float
    queries: QueryErrors | None = None
    key: Any = None


CELLS = (View(1.0),)
"""The marginal itself is asked for."""


def pair_offer(
    clique: Clique,
    histograms: Sequence[tuple[tuple[np.ndarray, np.ndarray], ...]],
    finest: Sequence[bool],
    dependence: Dependence,
    coarse_level: int,
    total: float,
    prices: Prices,
    paid: tuple[int, float] | None = None,
    views: Sequence[View] = CELLS,
) -> Offer:
    """A table of a pair, or of three attributes, on the level of groups that suits each price.

    Cells are thought to deviate by a power of what is expected, `DEVIATION`, and besides by chance, as counts do.

    Args:
        clique: the attributes.
        histograms: for each level, those of the attributes' one-way marginals over its groups.
        finest: whether a level has all codes by themselves.
        dependence: of the attributes on each other.
        coarse_level: the level that `dependence.coarse` is about.
        total: the number of records.
        prices: of noise.
        paid: the level with which it was measured before, and one over the variance of those answers.
        views: how the workload sees it; the error is their weighted mean.
    """
    levels = range(len(histograms)) if paid is None else [paid[0]]
    cells = [_kinds(sides, total) for sides in histograms]
    chances = [MEAN_ABSOLUTE * float(number @ sampling_spread(means)) for number, means in cells]
    cases = [
        Case.of(case.beyond(chances[min(coarse_level, len(chances) - 1)], chances[-1]), finest, coarse_level)
        for case in dependence.cases()
    ]
    curves: dict[Any, list[np.ndarray]] = {view.key: [] for view in views}
    for level in levels:
        shape = tuple(round(side[0].sum()) for side in histograms[level])
        precision = prices.cell_precision(SHARES, shape) + (0.0 if paid is None else paid[1] / interaction(shape))
        number, means = cells[level]
        deviating = means ** DEVIATION[math.prod(shape) <= FEW_CELLS]
        deviating /= MEAN_ABSOLUTE * (number @ deviating)
        chance = sampling_spread(means)
        spreads = [np.hypot(case.shown(level) * deviating, chance) for case in cases]
        for view in views:
            found = []
            for case, spread in zip(cases, spreads, strict=True):
                if view.queries is None:
                    errors = expected_errors(number, spread, np.asarray(precision))
                    by_chance = max(0.0, chances[-1] ** 2 - chances[level] ** 2)
                    found.append(np.sqrt(errors**2 + case.hidden[level] ** 2 + by_chance))
                else:
                    answered = _Answered(level, number, spread, np.asarray(precision))
                    found.append(answered.errors(view.queries, case.whole, case.hidden, interaction(shape)))
            curves[view.key].append(sum(found[1:], found[0]) / len(found))
    return _best(clique, {key: np.array(found) for key, found in curves.items()}, views, list(levels), paid is not None)


def _best(clique: Clique, curves: dict[Any, np.ndarray], views: Sequence[View], levels: list[int], paid: bool) -> Offer:
    """The offer with the level at each price that has the least weighted mean of the views' errors."""
    whole = sum(view.weight for view in views)
    if len(views) == 1:
        stacked = curves[views[0].key]
    else:
        stacked = sum((view.weight / whole * curves[view.key] for view in views), np.zeros((len(levels), len(SHARES))))
    best = np.argmin(stacked, axis=0)
    errors = convex(stacked[best, np.arange(len(SHARES))])
    alone = max(float(errors[0]), 1e-12)
    seen = {key: float(found[best[0], 0]) / alone for key, found in curves.items()} if len(views) > 1 else {}
    return Offer(clique, errors, np.array(levels)[best], paid, seen)


@dataclass(frozen=True, eq=False)
class _Answered:
    """A table that was measured over a level's groups: how many cells of each kind, and what is expected of them."""

    level: int
    cells: np.ndarray
    spread: np.ndarray
    precision: np.ndarray

    def errors(self, queries: QueryErrors, whole: float, hidden: Sequence[float], free: float) -> np.ndarray:
        r"""The l1 error of queries for each precision.

        Shrunk by $w = s^2 / (s^2 + \sigma^2)$, a cell keeps $w \sigma$ of the noise, which adds up in a query as
        independent numbers do, and $1 - w$ of what is systematic, which does not cancel.

        Args:
            queries: whose.
            whole: the systematic dependence, l1 of codes.
            hidden: of it, what each level does not show.
            free: the part of independent noise that is left where rows and columns are known.
        """
        squares = np.square(self.spread)[:, None] * self.precision
        kept = squares / (1 + squares)
        noise = np.square(self.spread)[:, None] * kept / (1 + squares)
        blurred = np.sqrt(np.maximum(queries.cell_weights(self.level) @ noise, 0.0) / max(free, 1e-300)).sum(axis=0)
        signal = self.cells * self.spread
        shrunk = 1 - (signal @ kept) / max(float(signal.sum()), 1e-300)
        steps = [whole, *hidden]
        parts = queries.systematic([math.sqrt(max(0.0, one**2 - other**2)) for one, other in pairwise(steps)])
        seen = math.hypot(*parts[: self.level + 1])
        chance, inside = (MEAN_ABSOLUTE * queries.chance(level) for level in (-1, self.level))
        seen = math.hypot(seen, math.sqrt(max(0.0, chance**2 - inside**2)))
        unseen = math.hypot(*parts[self.level + 1 :], inside)
        return np.sqrt((MEAN_ABSOLUTE * blurred) ** 2 + (shrunk * seen) ** 2 + unseen**2)


def grouped_offer(
    clique: Clique,
    covariance: np.ndarray,
    levels: Sequence[np.ndarray],
    views: Sequence[tuple[Any, float, Any]],
    prices: Prices,
) -> Offer:
    """More of a one-way marginal, over codes or over ranges of them, where queries about it are asked.

    Args:
        clique: the attribute.
        covariance: of the errors in its counts, shape (codes, codes).
        levels: the group of each code.
        views: a key, a weight and the queries, shape (rows, codes), None for codes; as `View`.
        prices: of noise.
    """
    curves: dict[Any, list[np.ndarray]] = {key: [] for key, _, _ in views}
    for labels in levels:
        size = int(labels[-1]) + 1
        precision = np.asarray(prices.precision(SHARES))
        member = np.zeros((len(labels), size))
        member[np.arange(len(labels)), labels] = 1.0
        across = covariance @ member
        values, vectors = np.linalg.eigh(member.T @ across)
        known = precision / (1 + np.maximum(values, 0.0)[:, None] * precision)
        for key, _, rows in views:
            before = (
                np.diag(covariance) if rows is None else np.einsum("rc,cd,rd->r", rows, covariance, rows, optimize=True)
            )
            seen = (across if rows is None else rows @ across) @ vectors
            left = np.maximum(before[:, None] - np.square(seen) @ known, 0.0)
            curves[key].append(MEAN_ABSOLUTE * np.sqrt(left).sum(axis=0))
    seen_by = [View(weight, None, key) for key, weight, _ in views]
    return _best(
        clique, {key: np.array(found) for key, found in curves.items()}, seen_by, list(range(len(levels))), True
    )


def _kinds(sides: Sequence[tuple[np.ndarray, np.ndarray]], total: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a table by their expected counts, from those of its attributes: how many, and their mean."""
    cells, means = sides[0]
    for number, other in sides[1:]:
        cells, means = np.outer(cells, number).ravel(), np.outer(means, other).ravel() / total
    return cells, means
