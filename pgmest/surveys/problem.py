"""The weights of rows that meet totals: groups of rows, their calibration, and the error if no weights meet them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.errors import ControlError, listed, plural
from pgmest.surveys.calibration import Calibrated, Distance, Logit, Raking, calibrate
from pgmest.surveys.controls import SHOWN
from pgmest.surveys.feasible_weights import VIOLATED, WeightPolytope
from pgmest.surveys.targets import Limits, Targets

CLOSE = 1e-12
"""Newton's method ends when every total is met up to this share of the total."""

ENOUGH = 1e-9
"""Weights meet the controls if every total is met up to this share of the total."""

VANISHING = 1e-6
"""Ratios this far below the largest one are checked by a linear program: they may have to be 0."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows with weight, gathered in groups whose weights have one ratio to the initial ones, in shares of a total.

    Attributes:
        matrix: what each group adds to each total, shape (groups, totals).
        start: the initial weight of each group, shape (groups,).
        totals: shape (totals,).
        total: the total of which all are shares.
        groups: the group of each row with weight.
        units: the units in which totals are counted, shape (totals,); 1 but for numeric columns.
    """

    matrix: Any  # a csr_array, whose stubs lack shapes
    start: np.ndarray
    totals: np.ndarray
    total: float
    groups: np.ndarray
    units: np.ndarray

    @classmethod
    def of(
        cls,
        targets: Targets,
        codes: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray],
        start: np.ndarray,
        grouped: bool,
    ) -> Problem:
        """Gather rows of the same cells if `grouped`; all initial weights are positive."""
        controls = targets.controls
        cells = [controls.cells(names, codes) for names in controls.tables]
        groups = np.arange(len(start))
        if grouped:
            _, first, groups = np.unique(np.stack(cells), axis=1, return_index=True, return_inverse=True)
            groups, cells = groups.reshape(-1), [own[first] for own in cells]
        total = controls.total or float(start.sum())
        rows = len(cells[0]) if cells else len(start)
        blocks = [
            sparse.csr_array((np.ones(rows), (np.arange(rows), own)), shape=(rows, table.size))
            for own, table in zip(cells, controls.tables.values(), strict=True)
        ]
        units = {name: float(np.abs(values).max(initial=0.0)) or 1.0 for name, values in numbers.items()}
        blocks += [sparse.csr_array(values[:, None] / units[name]) for name, values in numbers.items()]
        shares = [table.reshape(-1) / total for table in controls.tables.values()]
        shares += [np.array([targets.numeric[name] / (total * unit)]) for name, unit in units.items()]
        sizes = np.ones(sum(table.size for table in controls.tables.values()))
        summed = np.bincount(groups, start, minlength=rows)
        return cls(
            sparse.csr_array(sparse.hstack(blocks, format="csr")),
            summed / (summed.sum() if controls.tables else total),
            np.concatenate(shares),
            total,
            groups,
            np.concatenate([sizes, list(units.values())]),
        )

    def polytope(self, distance: Distance) -> WeightPolytope:
        """Return the weights within the bounds of a distance."""
        low, high = (np.broadcast_to(end, self.start.shape) * self.start for end in (distance.low, distance.high))
        return WeightPolytope(self.matrix, self.totals, low, high)

    def without(self, groups: np.ndarray) -> Problem:
        """Return the problem without some groups, whose rows it still has."""
        return replace(self, matrix=sparse.csr_array(self.matrix[~groups]), start=self.start[~groups])


def raked(
    targets: Targets,
    limits: Limits,
    codes: Mapping[str, np.ndarray],
    numbers: Mapping[str, np.ndarray],
    initial: np.ndarray,
) -> np.ndarray:
    """Return the weights of the rows for one column of initial weights."""
    targets.controls.check_covered(codes, initial > 0)
    rows = np.flatnonzero((initial > 0) & ~_excluded(targets, limits, codes))
    if not len(rows):
        if targets.controls.tables and not targets.controls.total and not any(targets.numeric.values()):
            return np.zeros(len(initial))
        raise ControlError("no respondent has a positive weight, so the controls cannot be met. Give positive weights.")
    present = {name: values[rows] for name, values in codes.items()}
    counted = {name: values[rows] for name, values in numbers.items()}
    problem = Problem.of(targets, present, counted, initial[rows], not numbers and limits.trim is None)
    ratios = _ratios(problem, limits, targets)
    found = np.zeros(len(initial))
    scale = problem.start.sum() / initial[rows].sum()
    found[rows] = ratios[problem.groups] * initial[rows] * scale * problem.total
    if (found < 0).any():
        warnings.warn(
            f"{plural(int((found < 0).sum()), 'respondent')} with a negative weight: give bounds=, such as (0, 5), or "
            'method="raking".',
            stacklevel=3,
        )
    return found


def _excluded(targets: Targets, limits: Limits, codes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the rows in cells whose total is 0, if weights may be 0; shape (rows,)."""
    controls = targets.controls
    empty = np.zeros(len(next(iter(codes.values()))) if codes else 1, dtype=bool)
    if limits.allow_zero:
        for names, table in controls.tables.items():
            empty |= table.reshape(-1)[controls.cells(names, codes)] == 0.0
    return empty


def _ratios(problem: Problem, limits: Limits, targets: Targets) -> np.ndarray:
    """Return the ratio of the weights of each group to the initial ones.

    Raises:
        ControlError: no weights within the bounds meet the totals.
    """
    distance = limits.distance(problem.start, problem.total)
    found = calibrate(problem.matrix, problem.start, problem.totals, distance, CLOSE)
    vanishing = isinstance(distance, Raking) and np.any(
        (np.asarray(distance.low) == 0.0) & (found.ratios < VANISHING * found.ratios.max())
    )
    if found.off > ENOUGH or vanishing:
        polytope = problem.polytope(distance)
        if found.off > ENOUGH:
            _check_possible(problem, polytope, limits, targets)
        if vanishing:
            return _with_zeros(problem, distance, polytope, found)
    if found.off > ENOUGH:
        raise _not_converged(problem, distance, targets, found)
    return found.ratios


def _check_possible(problem: Problem, polytope: WeightPolytope, limits: Limits, targets: Targets) -> None:
    """Check by linear programs that some weights meet the totals.

    Raises:
        ControlError: none do; names an irreducible set of totals.
    """
    if polytope.violation(np.arange(len(problem.totals)))[0] <= VIOLATED:
        return
    named, miss = polytope.contradiction()
    texts, unit = targets.texts, max(problem.units[named])
    shown = listed((f"({texts[one]})" for one in named), 2 * SHOWN)
    remedy = "Combine categories, or correct a control."
    if limits.text:
        least = limits.bounds[0] if limits.bounds else 0.0
        upper = None if limits.trim else polytope.least_upper_bound(problem.start, least)
        remedy = "Widen the bounds, combine categories, or correct a control."
        if upper is not None:
            remedy = f"An upper bound of {_rounded_up(upper)} is the least that goes with a lower one of {least:g}."
    reason = "" if limits.text or targets.numeric else ", because some combinations have no respondents"
    cannot = "This cannot be met" if len(named) == 1 else "These contradict each other"
    raise ControlError(
        f"no weights of these respondents meet the controls{limits.text}{reason}. {cannot}: {shown}. Any weights miss "
        f"{'it' if len(named) == 1 else 'one of them'} by {miss * problem.total * unit:.4g} or more. {remedy}"
    )


def _rounded_up(ratio: float) -> str:
    return f"{math.ceil(ratio * 1000 - 1e-6) / 1000:g}"


def _with_zeros(problem: Problem, distance: Distance, polytope: WeightPolytope, found: Calibrated) -> np.ndarray:
    """Return the ratios, 0 for the groups that the totals leave no weight for, of which a warning tells the rows."""
    possible = polytope.possible()
    if possible is None or possible.all():
        return found.ratios
    high = distance.high if np.ndim(distance.high) == 0 else distance.high[possible]
    fewer = problem.without(~possible)
    again = calibrate(fewer.matrix, fewer.start, fewer.totals, type(distance)(0.0, high), CLOSE)
    excluded = int((~possible)[problem.groups].sum())
    warnings.warn(
        f"weight 0 for {plural(excluded, 'respondent')}: other respondents need the whole total of their categories.",
        stacklevel=5,
    )
    ratios = np.zeros(len(problem.start))
    ratios[possible] = again.ratios
    return ratios


def _not_converged(problem: Problem, distance: Distance, targets: Targets, found: Calibrated) -> ControlError:
    off = np.abs(problem.matrix.T @ (problem.start * found.ratios) - problem.totals) * problem.total * problem.units
    worst = int(off.argmax())
    remedy = (
        'Widen the bounds, or use method="raking" with the same bounds, which weights can reach.'
        if isinstance(distance, Logit)
        else "Some respondents would need weights close to 0 or to a bound: combine categories, or widen the bounds."
    )
    return ControlError(
        f"the weights did not converge in {found.steps} steps: ({targets.texts[worst]}) is off by {off[worst]:.4g}. "
        f"{remedy}"
    )
