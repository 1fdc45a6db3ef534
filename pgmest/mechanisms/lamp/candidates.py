"""Candidate marginals: the expected error of each marginal as a function of its share of the budget.

Errors are l1 distances in counts. A share is a fraction of the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.dependence import Dependence, SystematicDependence, sampling_spread
from pgmest.mechanisms.lamp.query_errors import QueryErrors
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique
from pgmest.tables.groups import magnitude_classes

SHARE_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 81)])
"""The shares at which expected errors are computed."""
_SHARES: list[float] = SHARE_GRID.tolist()


DEVIATION = 0.75
"""The power of its expected count to which the deviation of a cell is proportional, fitted by
`experiments.flagship.calibration`."""

MOST_CONTRASTED = 16
"""The largest number of groups that are measured by contrasts. For more groups, contrasts lower the noise by at most
3 %, and their entries are no longer roots of small integers."""


def interaction_fraction(shape: Sequence[int]) -> float:
    """Return the fraction of independent noise in the cells of a table that remains if its marginals are known."""
    return math.prod(1 - 1 / groups for groups in shape if groups > 1)


@dataclass(frozen=True)
class NoiseModel:
    """The noise of a measurement as a function of its share of the budget.

    Attributes:
        whole: The variance of a count that is measured with the whole budget.
        power: The power of the share to which precision is proportional: 1 for zCDP, 2 for pure differential privacy.
        most_contrasted: The largest number of groups that are measured by contrasts.
    """

    whole: float
    power: float
    most_contrasted: int = 1

    @classmethod
    def of(cls, budget: Budget, neighbors: Neighbors) -> NoiseModel:
        """Create the noise model of a budget."""
        pure = isinstance(budget, Epsilon)
        most = 1 if not isinstance(neighbors, AddRemove) else 2 if pure else MOST_CONTRASTED
        return cls(noise_for(budget, neighbors).stddev ** 2, 2.0 if pure else 1.0, most)

    def contrasted(self, groups: int) -> bool:
        """Return whether an attribute of this many groups is measured by its contrasts."""
        return 1 < groups <= self.most_contrasted

    def variance_ratio(self, shape: Sequence[int]) -> float:
        """Return the variance of answers about attributes with these numbers of groups, relative to that of counts."""
        return math.prod(1 - 1 / groups for groups in shape if self.contrasted(groups))

    def interaction_precision(self, share: np.ndarray | float, shape: Sequence[int]) -> np.ndarray | float:
        """Return the inverse of the variance of the noise in a cell if marginals of fewer attributes are known.

        For a pair these are its one-way marginals, for one attribute the number of records.

        Args:
            share: The share of the budget.
            shape: The number of groups of each attribute.
        """
        return self.precision(share) / (self.variance_ratio(shape) * interaction_fraction(shape))

    def precision(self, share: np.ndarray | float) -> np.ndarray | float:
        """Return the inverse of the variance of a count."""
        return share**self.power / self.whole


def magnitude_histogram(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of cells of each order of magnitude, and their mean count."""
    order = magnitude_classes(counts).ravel()
    cells = np.bincount(order)
    return cells.astype(np.float64), np.bincount(order, counts.ravel()) / cells


def expected_errors(cells: np.ndarray, spread: np.ndarray, precision: np.ndarray) -> np.ndarray:
    r"""Return the expected l1 error of a shrunk table for each precision of its noise.

    If a cell deviates from its expected count with standard deviation s and is measured with noise of standard
    deviation sigma, the best linear shrinkage leaves an error of $s \sigma / \sqrt{s^2 + \sigma^2}$.

    Args:
        cells: The number of cells of each kind, shape (kinds,).
        spread: The standard deviation s of each kind, in counts.
        precision: The values of $1 / \sigma^2$, shape (shares,).
    """
    left = spread[:, None] / np.sqrt(1 + np.square(spread)[:, None] * precision)
    return MEAN_ABSOLUTE * (cells @ left)


def convex(errors: np.ndarray) -> np.ndarray:
    """Return the largest convex function of the share below these errors, at each share of `SHARE_GRID`.

    >>> curve = np.linspace(1.0, 0.0, len(SHARE_GRID))
    >>> below = convex(curve)
    >>> bool((below <= curve).all()), bool(np.all(np.diff(np.diff(below) / np.diff(SHARE_GRID)) >= -1e-9))
    (True, True)
    """
    share, error, corners = _SHARES, errors.tolist(), list[int]()  # floats of Python are faster one by one
    for here in range(len(share)):
        while len(corners) > 1:
            first, middle = corners[-2:]
            over = (share[middle] - share[first]) * (error[here] - error[first])
            if over > (share[here] - share[first]) * (error[middle] - error[first]):
                break
            corners.pop()
        corners.append(here)
    return np.interp(SHARE_GRID, SHARE_GRID[corners], errors[corners])


@dataclass(frozen=True, eq=False)
class CandidateMarginal:
    """A marginal that could be measured, and its expected error.

    Attributes:
        clique: Up to three attributes; () is the number of records.
        errors: The expected error at each share of `SHARE_GRID`, given all earlier measurements.
        levels: The best level of groups at each share of `SHARE_GRID`; None if there is only one.
        measured: Whether it was measured before.
        seen: For each view of the marginal, the error of its queries over `errors` without any new measurement; 1 for
            views that are missing.
    """

    clique: Clique
    errors: np.ndarray
    levels: np.ndarray | None = None
    measured: bool = False
    seen: Mapping[Any, float] = field(default_factory=dict)

    def reduction(self, share: float) -> float:
        """Return the fraction of the error that a share removes."""
        return 1 - float(np.interp(share, SHARE_GRID, self.errors)) / max(float(self.errors[0]), 1e-12)

    def level(self, share: float) -> int:
        """Return the level of groups to measure with."""
        assert self.levels is not None
        return int(self.levels[min(int(np.searchsorted(SHARE_GRID, share)), len(SHARE_GRID) - 1)])


def total_candidate(stddev: float, noise_model: NoiseModel) -> CandidateMarginal:
    """Return the candidate for the number of records, given its standard error; it affects every marginal."""
    precision = 1 / stddev**2 + np.asarray(noise_model.precision(SHARE_GRID))
    return CandidateMarginal((), convex(MEAN_ABSOLUTE / np.sqrt(precision)), measured=True)


def one_way_candidate(clique: Clique, counts: np.ndarray, stddev: float, noise_model: NoiseModel) -> CandidateMarginal:
    """Return the candidate for another measurement of a one-way marginal; a count deviates by as much as its size."""
    cells, means = magnitude_histogram(counts)
    precision = 1 / (stddev**2 * interaction_fraction(counts.shape)) + noise_model.interaction_precision(
        SHARE_GRID, counts.shape
    )
    return CandidateMarginal(clique, convex(expected_errors(cells, means, np.asarray(precision))), measured=True)


def unscored_candidate(
    clique: Clique,
    histograms: Sequence[tuple[np.ndarray, np.ndarray]],
    level: int,
    total: float,
    noise_model: NoiseModel,
) -> CandidateMarginal:
    """Return the candidate for a table over all codes without scores; a cell deviates by as much as its size.

    Args:
        clique: Two attributes or three.
        histograms: The `magnitude_histogram` of each attribute.
        level: The level at which every code is its own group.
        total: The number of records.
        noise_model: The noise of a share.
    """
    cells, means = kinds_of_cells(histograms, total)
    shape = tuple(round(number.sum()) for number, _ in histograms)
    errors = expected_errors(cells, means, np.asarray(noise_model.interaction_precision(SHARE_GRID, shape)))
    return CandidateMarginal(clique, convex(errors), np.full(len(SHARE_GRID), level))


@dataclass(frozen=True, eq=False)
class QueryView:
    """The queries that some items of a workload ask about a marginal.

    Attributes:
        weight: The sum of the importance of the items.
        queries: The errors of the queries; None if the cells are asked for.
        key: A key that identifies the queries.
    """

    weight: float
    queries: QueryErrors | None = None
    key: Any = None


CELLS = (QueryView(1.0),)
"""The views of a marginal of which only the cells are asked for."""


def table_candidate(
    clique: Clique,
    histograms: Sequence[tuple[tuple[np.ndarray, np.ndarray], ...]],
    finest: Sequence[bool],
    dependence: Dependence,
    coarse_level: int,
    total: float,
    noise_model: NoiseModel,
    earlier: tuple[int, float] | None = None,
    views: Sequence[QueryView] = CELLS,
) -> CandidateMarginal:
    """Return the candidate for a table of two or three attributes, with the best level of groups for each share.

    Cells deviate by a power of the expected count (`DEVIATION`), and by their sampling error.

    Args:
        clique: The attributes.
        histograms: For each level, the `magnitude_histogram` of each attribute over its groups.
        finest: For each level, whether every code is its own group.
        dependence: The estimated dependence of the attributes.
        coarse_level: The level that `dependence.coarse` refers to.
        total: The number of records.
        noise_model: The noise of a share.
        earlier: The level of an earlier measurement and the inverse of its variance.
        views: The queries of the workload; the error is their weighted mean.
    """
    levels = range(len(histograms)) if earlier is None else [earlier[0]]
    cells = [kinds_of_cells(sides, total) for sides in histograms]
    chances = [sampling_error(*kinds) for kinds in cells]
    systematic = SystematicDependence.of(
        dependence.beyond(chances[min(coarse_level, len(chances) - 1)], chances[-1]), finest, coarse_level
    )
    curves: dict[Any, list[np.ndarray]] = {view.key: [] for view in views}
    for level in levels:
        shape = tuple(round(side[0].sum()) for side in histograms[level])
        precision = noise_model.interaction_precision(SHARE_GRID, shape) + (
            0.0 if earlier is None else earlier[1] / interaction_fraction(shape)
        )
        number, means = cells[level]
        deviating = means**DEVIATION
        deviating /= MEAN_ABSOLUTE * (number @ deviating)
        spread = np.hypot(systematic.shown(level) * deviating, sampling_spread(means))
        for view in views:
            if view.queries is None:
                errors = expected_errors(number, spread, np.asarray(precision))
                by_chance = max(0.0, chances[-1] ** 2 - chances[level] ** 2)
                curves[view.key].append(np.sqrt(errors**2 + systematic.hidden[level] ** 2 + by_chance))
            else:
                answered = _Answered(level, number, spread, np.asarray(precision))
                free = interaction_fraction(shape)
                curves[view.key].append(answered.errors(view.queries, systematic.whole, systematic.hidden, free))
    return _best(
        clique, {key: np.array(found) for key, found in curves.items()}, views, list(levels), earlier is not None
    )


def _best(
    clique: Clique, curves: dict[Any, np.ndarray], views: Sequence[QueryView], levels: list[int], measured: bool
) -> CandidateMarginal:
    """Return the candidate with, at each share, the level of the smallest weighted mean of the views' errors."""
    whole = sum(view.weight for view in views)
    if len(views) == 1:
        stacked = curves[views[0].key]
    else:
        stacked = sum(
            (view.weight / whole * curves[view.key] for view in views), np.zeros((len(levels), len(SHARE_GRID)))
        )
    best = np.argmin(stacked, axis=0)
    errors = convex(stacked[best, np.arange(len(SHARE_GRID))])
    alone = max(float(errors[0]), 1e-12)
    seen = {key: float(found[best[0], 0]) / alone for key, found in curves.items()} if len(views) > 1 else {}
    return CandidateMarginal(clique, errors, np.array(levels)[best], measured, seen)


@dataclass(frozen=True, eq=False)
class _Answered:
    """A table measured over the groups of a level: the number and deviation of its cells by kind, and the precision."""

    level: int
    cells: np.ndarray
    spread: np.ndarray
    precision: np.ndarray

    def errors(self, queries: QueryErrors, whole: float, hidden: Sequence[float], free: float) -> np.ndarray:
        r"""Return the l1 error of queries for each precision.

        Shrinkage by $w = s^2 / (s^2 + \sigma^2)$ leaves the noise $w \sigma$ in a cell, which adds up in squares in a
        query, and the fraction $1 - w$ of the systematic deviation, which does not cancel.

        Args:
            queries: The queries.
            whole: The systematic dependence, l1 over codes.
            hidden: The part of it that the groups of each level hide.
            free: The fraction of independent noise that remains if rows and columns are known.
        """
        squares = np.square(self.spread)[:, None] * self.precision
        kept = squares / (1 + squares)
        noise = np.square(self.spread)[:, None] * kept / (1 + squares)
        blurred = np.sqrt(np.maximum(queries.noise_weights(self.level) @ noise, 0.0) / max(free, 1e-300)).sum(axis=0)
        signal = self.cells * self.spread
        shrunk = 1 - (signal @ kept) / max(float(signal.sum()), 1e-300)
        steps = [whole, *hidden]
        parts = queries.systematic([math.sqrt(max(0.0, one**2 - other**2)) for one, other in pairwise(steps)])
        seen = math.hypot(*parts[: self.level + 1])
        chance, inside = (MEAN_ABSOLUTE * queries.chance(level) for level in (-1, self.level))
        seen = math.hypot(seen, math.sqrt(max(0.0, chance**2 - inside**2)))
        unseen = math.hypot(*parts[self.level + 1 :], inside)
        return np.sqrt((MEAN_ABSOLUTE * blurred) ** 2 + (shrunk * seen) ** 2 + unseen**2)


def range_candidate(
    clique: Clique,
    covariance: np.ndarray,
    levels: Sequence[np.ndarray],
    views: Sequence[tuple[Any, float, Any]],
    noise_model: NoiseModel,
) -> CandidateMarginal:
    """Return the candidate for another measurement of an attribute, over groups of codes, whose queries are asked.

    Args:
        clique: The attribute.
        covariance: The covariance of the errors in its counts, shape (codes, codes).
        levels: For each level, the group of each code, or a matrix of several queries together, shape (codes, queries).
        views: The key, the weight and the queries (None for codes) of each `QueryView`, shape (rows, codes).
        noise_model: The noise of a share.
    """
    curves: dict[Any, list[np.ndarray]] = {key: [] for key, _, _ in views}
    for labels in levels:
        precision = np.asarray(noise_model.precision(SHARE_GRID))
        member = labels if labels.ndim == 2 else memberships(labels)
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
    seen_by = [QueryView(weight, None, key) for key, weight, _ in views]
    return _best(
        clique, {key: np.array(found) for key, found in curves.items()}, seen_by, list(range(len(levels))), True
    )


def memberships(labels: np.ndarray) -> np.ndarray:
    """Return the matrix that is 1 for each code and its group and 0 elsewhere, shape (codes, groups)."""
    member = np.zeros((len(labels), int(labels.max()) + 1))
    member[np.arange(len(labels)), labels] = 1.0
    return member


def sampling_error(cells: np.ndarray, means: np.ndarray) -> float:
    """Return the l1 sampling error of a table, given the number and mean of the cells of each kind."""
    return MEAN_ABSOLUTE * float(cells @ sampling_spread(means))


def kinds_of_cells(sides: Sequence[tuple[np.ndarray, np.ndarray]], total: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the number and mean of the cells of each kind in a table of independent attributes."""
    cells, means = sides[0]
    for number, other in sides[1:]:
        cells, means = np.outer(cells, number).ravel(), np.outer(means, other).ravel() / total
    return cells, means
