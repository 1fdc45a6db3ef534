"""Answers that no table can have together: an infeasible set from the dual program, made irreducible by deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from pgmest.errors import InconsistentMeasurementsError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.program import INFEASIBLE, solve

TOUCHED = 1e-9
"""Multipliers above this belong to the infeasible set."""
FEASIBLE = 1e-7
"""The total violation, as a share of the largest finite end, below which answers count as compatible."""

SHOWN = 12
"""The largest number of answers that the error lists."""


def check_compatible(polytope: TablePolytope, measurements: Sequence[LinearMeasurement]) -> None:
    """Check that there is a compatible table.

    Raises:
        InconsistentMeasurementsError: no table is compatible; the error has an irreducible set of answers that
            contradict each other.
    """
    found = solve(np.zeros(len(polytope.low)), polytope)
    if found.status != INFEASIBLE:
        return
    chosen = _infeasible_support(polytope)
    if not len(chosen):
        return
    kept = _irreducible(polytope, chosen)
    pairs = [(int(polytope.answers[one][0]), int(polytope.answers[one][1])) for one in kept]
    noisy = any(measurements[position].noisy for position, _ in pairs)
    raise InconsistentMeasurementsError.of(pairs, [_text(measurements, polytope, one) for one in kept[:SHOWN]], noisy)


def _elastic(polytope: TablePolytope) -> tuple[TablePolytope, np.ndarray]:
    """Return the phase-1 program: answers may leave their ends, and the objective is the sum of the violations."""
    count, variables = len(polytope.answers), len(polytope.low)
    rows = np.arange(len(polytope.right) - count, len(polytope.right))
    shape = (len(polytope.right), count)
    slack = sparse.csr_array((np.ones(count), (rows, np.arange(count))), shape=shape)
    wide = replace(
        polytope,
        equations=sparse.csr_array(sparse.hstack([polytope.equations, slack, -slack])),
        low=np.append(polytope.low, np.zeros(2 * count)),
        high=np.append(polytope.high, np.full(2 * count, np.inf)),
    )
    return wide, np.append(np.zeros(variables), np.ones(2 * count))


def _infeasible_support(polytope: TablePolytope) -> np.ndarray:
    """Return the answers with a multiplier in the phase-1 dual, which by Farkas' lemma are infeasible together."""
    wide, objective = _elastic(polytope)
    found = solve(objective, wide)
    finite = polytope.high[np.isfinite(polytope.high)]
    scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
    if found.multipliers is None or found.point is None or objective @ found.point <= FEASIBLE * scale:
        return np.zeros(0, dtype=np.int64)
    multipliers = found.multipliers[len(polytope.right) - len(polytope.answers) :]
    return np.flatnonzero(np.abs(multipliers) > TOUCHED)


def _irreducible(polytope: TablePolytope, chosen: np.ndarray) -> list[int]:
    """Drop one answer after the other if the rest is still infeasible (deletion filter; Chinneck, Dravnieks 1991)."""
    kept = chosen.tolist()
    for one in chosen.tolist():
        rest = [other for other in kept if other != one]
        if _infeasible(polytope, rest):
            kept = rest
    return kept


def _infeasible(polytope: TablePolytope, answers: list[int]) -> bool:
    low, high = polytope.low.copy(), polytope.high.copy()
    free = np.setdiff1d(np.arange(len(polytope.answers)), answers) + polytope.cells
    low[free], high[free] = -np.inf, np.inf
    return solve(np.zeros(len(low)), replace(polytope, low=low, high=high)).status == INFEASIBLE


def _text(measurements: Sequence[LinearMeasurement], polytope: TablePolytope, answer: int) -> str:
    position, row = polytope.answers[answer]
    measurement = measurements[position]
    low, high = polytope.low[polytope.cells + answer], polytope.high[polytope.cells + answer]
    names = ", ".join(measurement.clique) or "the number of records"
    what = f"answer {row}" if measurement.query is not None else f"cell {row}"
    ends = f"is {low:g}" if low == high else f"is between {low:g} and {high:g}"
    return f"measurements[{position}] ({names}): {what} {ends}"
