r"""The weights of pairs of units and zones that meet totals, or come close, and are closest to the initial ones.

A total that may be missed has two slack rows, which add $\pm\beta$ to it. Their initial weights are so small, and
$\beta$ so steep, that their relative entropy is a price for each count that is missed, up to logarithms of the miss.
The multiplier of the total is then at most about this price.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pgmest.errors import ControlError, listed, plural
from pgmest.surveys.calibration import DISTANCES, Calibrated, calibrate
from pgmest.surveys.feasible_weights import WeightPolytope
from pgmest.surveys.limits import Limits
from pgmest.surveys.problem import Part, Problem
from pgmest.surveys.seed import RESPONDENTS

CLOSE, ENOUGH = 1e-12, 1e-9
"""Newton's method ends when each total is met up to CLOSE of the largest; weights meet totals up to ENOUGH of it."""

VANISHING = 1e-6
"""Ratios this far below the largest one are checked by a linear program: they may have to be 0."""

GATHERED = 200
"""Parts of a problem with fewer totals than this are solved together, which takes fewer calls."""

STEEP = 40.0
"""The logarithm of the range of misses that have about one price."""

MISSED = 0.01
"""A miss of this share of the largest total has exactly the price that was given."""

SHOWN = 10
"""A message lists at most this many totals."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The weights of all pairs.

    Attributes:
        start: the scaled initial weights, shape (pairs,).
        shares: the share of each unit in the weight of its kind, shape (units,).
        weights: shape (pairs,).
        steps: the most Newton steps that a part took.
    """

    start: np.ndarray
    shares: np.ndarray
    weights: np.ndarray
    steps: int


def fit(problem: Problem, initial: np.ndarray, prices: np.ndarray, limits: Limits) -> Fit:
    """Return the closest weights that meet the totals without a price, and come close to the others.

    Args:
        problem: the pairs and totals.
        initial: the initial weights of the units, shape (units,).
        prices: what missing a total by one costs, shape (totals,); inf for totals that must be met.
        limits: the distance, and the bounds of the weights.

    Raises:
        ControlError: no weights meet the totals.

    Warns:
        UserWarning: some units get no weight, because other ones need the whole of a total.
    """
    start, shares = problem.initial(initial)
    present, hard, values = start > 0.0, np.isinf(prices), problem.totals.values
    problem.check_covered(hard, present)
    empty = hard & (values == 0.0) & ~problem.totals.numeric
    chosen = present & ~((problem.matrix @ empty > 0) & limits.allow_zero)
    start = problem.scaled(start, chosen)
    parts = _parts(problem, chosen, start, prices, limits)
    weights = np.where(chosen, start, 0.0)
    found = [part.calibrated() for part in parts]
    left = hard & (values != 0.0) & ~problem.reached(chosen)
    if left.any() or any(one.off > ENOUGH for one in found):
        _check_possible(_parts(problem, present, start, prices, limits), problem, limits)
    vanished = 0
    for part, one in zip(parts, found, strict=True):
        one = part.with_zeros(one)
        if one.off > ENOUGH:
            raise part.not_converged(one, problem)
        weights[part.pairs] = one.ratios * start[part.pairs]
        vanished += int(problem.units[part.pairs[one.ratios == 0.0]].sum())
    if vanished:
        warnings.warn(
            f"weight 0 for {plural(vanished, problem.table[:-1])}{' in a zone' if problem.zones.any() else ''}: other "
            f"{problem.table} need the whole totals.",
            stacklevel=3,
        )
    return Fit(start, shares, weights, max((one.steps for one in found), default=0))


def _parts(problem: Problem, chosen: np.ndarray, start: np.ndarray, prices: np.ndarray, limits: Limits) -> list[_Part]:
    return [_Part.of(problem, part, start, prices, limits) for part in problem.parts(np.flatnonzero(chosen), GATHERED)]


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the problem, with totals as shares of the largest.

    Attributes:
        pairs, totals: its pairs and totals in the problem.
        matrix: what each pair adds to each total, in units.
        values: the totals as shares, shape (totals,).
        start: the initial weights as shares, shape (pairs,).
        prices: what missing a total by a unit costs, shape (totals,).
        low, high: the ends of the ratios, shape (pairs,).
        method: the name of the distance.
        units: the units of the totals: the largest total of categories, times the largest value of a numeric column.
    """

    pairs: np.ndarray
    totals: np.ndarray
    matrix: sparse.csr_array
    values: np.ndarray
    start: np.ndarray
    prices: np.ndarray
    low: np.ndarray
    high: np.ndarray
    method: str
    units: np.ndarray

    @classmethod
    def of(cls, problem: Problem, part: Part, start: np.ndarray, prices: np.ndarray, limits: Limits) -> _Part:
        """Scale a part."""
        sizes = problem.sizes[part.totals]
        columns = np.where(sizes > 0.0, sizes, 1.0)
        totals = problem.totals.values[part.totals]
        counts = totals[~problem.totals.numeric[part.totals]]
        start = start[part.pairs]
        scale = float(counts.max() if len(counts) else start.sum()) or 1.0
        matrix: sparse.csr_array = part.matrix.copy()
        matrix.data /= columns[matrix.indices]
        low, high = limits.ends(start, problem.units[part.pairs])
        prices, units = prices[part.totals] * columns, scale * columns
        return cls(
            part.pairs, part.totals, matrix, totals / units, start / scale, prices, low, high, limits.method, units
        )

    @property
    def hard(self) -> np.ndarray:
        """Whether each total must be met."""
        return np.isinf(self.prices)

    def calibrated(self, chosen: np.ndarray | slice = slice(None)) -> Calibrated:
        """Return the ratios of weights to initial ones, for chosen pairs only, with slack for totals of a price."""
        matrix, start = self.matrix[chosen], self.start[chosen]
        low, high = self.low[chosen], self.high[chosen]
        soft = np.flatnonzero(~self.hard)
        if len(soft):
            steep = STEEP / self.prices[soft]
            slack = np.exp(-STEEP) * MISSED / steep
            rows = sparse.csr_array((steep, (np.arange(len(soft)), soft)), shape=(len(soft), len(self.prices)))
            matrix = sparse.csr_array(sparse.vstack([matrix, rows, -rows], format="csr"))
            start, low = np.concatenate([start, slack, slack]), np.concatenate([low, np.zeros(2 * len(soft))])
            high = np.concatenate([high, np.full(2 * len(soft), np.inf)])
        found = calibrate(matrix, start, self.values, DISTANCES[self.method](low, high), CLOSE)
        ratios = np.zeros(len(self.start))
        ratios[chosen] = found.ratios[: len(start) - 2 * len(soft)]
        return Calibrated(ratios, found.off, found.steps)

    @property
    def strict(self) -> WeightPolytope:
        """The weights within bounds that meet the totals without a price."""
        matrix = sparse.csr_array(self.matrix[:, self.hard])
        return WeightPolytope(matrix, self.values[self.hard], self.low * self.start, self.high * self.start)

    def least_changes(self) -> np.ndarray:
        """Return the smallest changes of totals without a price after which weights meet them, shape (totals,)."""
        changes = np.zeros(len(self.prices))
        if self.hard.any():
            changes[self.hard] = self.units[self.hard] * self.strict.least_changes()
        return changes

    def contradiction(self) -> tuple[np.ndarray, float]:
        """Return an irreducible set of totals in the problem that no weights meet, and the least largest miss."""
        named, miss = self.strict.contradiction()
        return self.totals[self.hard][named], miss * float(self.units[self.hard][named].max())

    def with_zeros(self, found: Calibrated) -> Calibrated:
        """Return the ratios, 0 for the pairs that the totals leave no weight for, if some may be such pairs."""
        able = self.method == "raking" and self.hard.any() and not self.low.any()
        vanishing = self.hard.all() and np.any(found.ratios < VANISHING * found.ratios.max(initial=0.0))
        possible = self.strict.possible() if able and (found.off > ENOUGH or vanishing) else None
        return found if possible is None or possible.all() else self.calibrated(np.flatnonzero(possible))

    def not_converged(self, found: Calibrated, problem: Problem) -> ControlError:
        """Return the error that says which total is off the most."""
        off = np.abs(self.matrix.T @ (self.start * found.ratios) - self.values) * self.units
        worst = int(np.where(self.hard, off, 0.0).argmax())
        remedy = (
            'Widen the bounds, or use method="raking" with the same bounds, which weights can reach.'
            if self.method == "logit"
            else f"Some {problem.table} would need weights close to 0 or to a bound: combine small categories, or "
            "widen the bounds."
        )
        return ControlError(
            f"the weights did not converge in {found.steps} steps: ({problem.text(self.totals[worst])}) is off by "
            f"{off[worst]:.4g}. {remedy}"
        )


def _check_possible(parts: list[_Part], problem: Problem, limits: Limits) -> None:
    """Check by a linear program that some weights meet the totals without a price.

    All totals may change, those of 0 and their units included.

    Raises:
        ControlError: no weights do; names a set of totals that contradicts itself, and the smallest changes of totals.
    """
    values = problem.totals.values
    changes = np.zeros(len(values))
    for part in parts:
        changes[part.totals] = part.least_changes()
    order = [int(one) for one in np.argsort(-np.abs(changes), kind="stable") if changes[one]]
    if not order:
        return
    named, miss = next(part for part in parts if order[0] in part.totals).contradiction()
    texts = listed((f"({problem.text(one)}: {values[one]:.10g})" for one in named), SHOWN)
    cannot, which = ("This cannot be met", "it") if len(named) == 1 else ("These contradict each other", "one of them")
    shown = listed(
        (f"({problem.text(one)}: {values[one]:.10g} -> {values[one] + changes[one]:.10g})" for one in order), SHOWN
    )
    widen = "widen the bounds, " if limits.text else ""
    close = "" if problem.table == RESPONDENTS else ", or give penalty=, such as 5, to come close"
    raise ControlError(
        f"no weights of these {problem.table} meet all totals{limits.text}. {cannot}: {texts}. Any weights miss "
        f"{which} by {miss:.4g} or more. {_least_bound(parts, limits)}The smallest changes after which some do, "
        f"{np.abs(changes).sum():.10g} in all: {shown}. Correct totals, {widen}or combine categories{close}."
    )


def _least_bound(parts: list[_Part], limits: Limits) -> str:
    """Return which upper bound would do; empty without bounds, or if none would."""
    if limits.bounds is None or limits.trim is not None:
        return ""
    low = limits.bounds[0]
    least = [part.strict.least_upper_bound(part.start, low) for part in parts if part.hard.any()]
    if any(one is None for one in least):
        return ""
    upper = math.ceil(max(one for one in least if one is not None) * 1000 - 1e-6) / 1000
    return f"An upper bound of {upper:g} is the least that goes with a lower one of {low:g}. "
