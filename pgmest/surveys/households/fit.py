r"""The weights of pairs of households and zones that meet totals, or come close, and are closest to the initial ones.

A total that may be missed has two slack rows, which add $\pm\beta$ to it. Their initial weights are so small, and
$\beta$ so steep, that their relative entropy is a price for each count that is missed, up to logarithms of the miss.
The multiplier of the total is then at most about this price.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pgmest.errors import ControlError, listed, plural
from pgmest.surveys.calibration import Calibrated, Raking, calibrate
from pgmest.surveys.feasible_weights import WeightPolytope
from pgmest.surveys.households.contradictions import least_changes
from pgmest.surveys.households.problem import Part, Problem

CLOSE, ENOUGH = 1e-11, 1e-9
"""Newton's method ends when each total is met up to CLOSE of the largest; weights meet totals up to ENOUGH of it."""

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
        weights: shape (pairs,).
        steps: the most Newton steps that a part took.
        parts: the number of parts that share no totals.
    """

    weights: np.ndarray
    steps: int
    parts: int


def fit(problem: Problem, prices: np.ndarray, bounds: tuple[float, float]) -> Fit:
    """Return the closest weights that meet the totals without a price, and come close to the others.

    Args:
        problem: the pairs and totals.
        prices: what a missed count costs, shape (totals,); inf for totals that must be met.
        bounds: the least and the largest ratio of a weight to its initial weight.

    Raises:
        ControlError: no weights meet the totals.

    Warns:
        UserWarning: some households get no weight, because other ones need the whole of a total.
    """
    hard = np.isinf(prices)
    problem.check_covered(hard)
    excluded = problem.matrix @ (hard & (problem.totals.values == 0.0)) > 0
    if excluded.any() and bounds[0] > 0:
        raise ControlError(
            f"bounds= of at least {bounds[0]:g} give each household weight, but totals of 0 leave none for "
            f"{plural(int(excluded.sum()), 'kind')} of households. Let the bounds begin at 0."
        )
    parts = [_Part.of(problem, part, prices, bounds) for part in problem.parts(np.flatnonzero(~excluded))]
    weights = np.where(excluded, 0.0, problem.start)
    found = [part.calibrated() for part in parts]
    left = hard & (problem.totals.values > 0) & (problem.matrix.T @ weights == 0.0)
    if left.any() or any(one.off > ENOUGH for one in found):
        _check_possible(problem, prices, bounds)
    vanished = 0
    for part, one in zip(parts, found, strict=True):
        one = one if one.off <= ENOUGH else part.without_impossible(one)
        weights[part.pairs] = one.ratios * problem.start[part.pairs]
        vanished += int(np.sum(one.ratios == 0.0))
    if vanished:
        warnings.warn(
            f"weight 0 for {plural(vanished, 'kind')} of households in a zone: other households need the whole totals.",
            stacklevel=3,
        )
    return Fit(weights, max((one.steps for one in found), default=0), len(parts))


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the problem, with totals as shares of the largest.

    Attributes:
        pairs, totals: its pairs and totals in the problem.
        system: the weights within bounds that meet the totals.
        start: the initial weights, shape (pairs,).
        prices: what a missed count costs, shape (totals,).
        bounds: the ends of the ratios.
        scale: the largest total.
    """

    pairs: np.ndarray
    totals: np.ndarray
    system: WeightPolytope
    start: np.ndarray
    prices: np.ndarray
    bounds: tuple[float, float]
    scale: float

    @classmethod
    def of(cls, problem: Problem, part: Part, prices: np.ndarray, bounds: tuple[float, float]) -> _Part:
        """Scale a part."""
        totals = problem.totals.values[part.totals]
        scale = float(totals.max()) or 1.0
        start = problem.start[part.pairs] / scale
        system = WeightPolytope(part.matrix, totals / scale, bounds[0] * start, bounds[1] * start)
        return cls(part.pairs, part.totals, system, start, prices[part.totals], bounds, scale)

    def calibrated(self, chosen: np.ndarray | None = None) -> Calibrated:
        """Return the ratios of weights to initial ones, for chosen pairs only, with slack for totals of a price."""
        chosen = np.arange(len(self.start)) if chosen is None else chosen
        matrix, start = self.system.matrix[chosen], self.start[chosen]
        soft = np.flatnonzero(np.isfinite(self.prices))
        steep = STEEP / self.prices[soft]
        slack = np.exp(-STEEP) * MISSED / steep
        rows = sparse.csr_array((steep, (np.arange(len(soft)), soft)), shape=(len(soft), len(self.prices)))
        both = sparse.csr_array(sparse.vstack([matrix, rows, -rows], format="csr"))
        low = np.concatenate([np.full(len(start), self.bounds[0]), np.zeros(2 * len(soft))])
        high = np.concatenate([np.full(len(start), self.bounds[1]), np.full(2 * len(soft), np.inf)])
        found = calibrate(both, np.concatenate([start, slack, slack]), self.system.totals, Raking(low, high), CLOSE)
        ratios = np.zeros(len(self.start))
        ratios[chosen] = found.ratios[: len(start)]
        return Calibrated(ratios, found.off, found.steps)

    @property
    def strict(self) -> WeightPolytope:
        """The weights within bounds that meet the totals without a price."""
        hard, system = np.isinf(self.prices), self.system
        return WeightPolytope(sparse.csr_array(system.matrix[:, hard]), system.totals[hard], system.low, system.high)

    def least_changes(self) -> np.ndarray:
        """Return the smallest changes of totals without a price after which weights meet them, shape (totals,)."""
        changes = np.zeros(len(self.prices))
        if np.isinf(self.prices).any():
            changes[np.isinf(self.prices)] = self.scale * least_changes(self.strict)
        return changes

    def contradiction(self) -> np.ndarray:
        """Return an irreducible set of totals in the problem that no weights meet."""
        return self.totals[np.isinf(self.prices)][self.strict.contradiction()[0]]

    def without_impossible(self, found: Calibrated) -> Calibrated:
        """Return the ratios that are 0 for the pairs that the totals leave no weight for.

        Raises:
            ControlError: the iterations do not converge.
        """
        possible = self.strict.possible() if np.isinf(self.prices).any() and self.bounds[0] == 0.0 else None
        if possible is not None and not possible.all():
            found = self.calibrated(np.flatnonzero(possible))
        if found.off > ENOUGH:
            raise ControlError(
                f"the weights did not converge in {found.steps} steps: a total is off by {found.off * self.scale:.4g}. "
                "Some households would need weights close to 0 or to a bound: combine small categories, or widen the "
                "bounds."
            )
        return found


def _check_possible(problem: Problem, prices: np.ndarray, bounds: tuple[float, float]) -> None:
    """Check by a linear program that some weights meet the totals without a price.

    All totals may change, those of 0 and their households included.

    Raises:
        ControlError: no weights do; names the totals to change, the largest changes first, and a set that contradicts
            itself.
    """
    parts = [_Part.of(problem, part, prices, bounds) for part in problem.parts(np.arange(len(problem.start)))]
    changes = np.zeros(len(prices))
    for part in parts:
        changes[part.totals] = part.least_changes()
    order = [int(one) for one in np.argsort(-np.abs(changes), kind="stable") if changes[one]]
    if not order:
        return
    values = problem.totals.values
    shown = [f"({problem.text(one)}: {values[one]:.10g} -> {values[one] + changes[one]:.10g})" for one in order]
    worst = next(part for part in parts if order[0] in part.totals)
    texts = (f"({problem.text(one)}: {values[one]:.10g})" for one in worst.contradiction())
    within, widen = (" within the bounds", "widen bounds=, ") if bounds != (0.0, np.inf) else ("", "")
    raise ControlError(
        f"no weights of these households{within} meet all totals. These contradict each other: {listed(texts, SHOWN)}. "
        f"The smallest changes after which some do, {np.abs(changes).sum():.10g} in all: {listed(shown, SHOWN)}. "
        f"Correct totals, combine categories, {widen}or give penalty=, such as 5, to come close."
    )
