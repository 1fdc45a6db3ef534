"""Answers that no table can have together: an infeasible set from the dual program, made irreducible by deletion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from pgmest.errors import ArgumentError, InconsistentMeasurementsError, ModelTooLarge
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.ends import answer_ends
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.presolve import Presolved, tolerance_of
from pgmest.models.bounds.program import INFEASIBLE, feasible, solve
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain, as_domain
from pgmest.tables.margins import margin_cells

TOUCHED = 1e-9
"""Multipliers above this belong to the infeasible set."""
LARGEST_CHECK = 200_000
"""`check_facts` solves no program of more variables than this, which would take longer than many estimates."""

MOST_WORK = 5_000_000
"""The deletion filter stops after programs with this number of entries together, some ten seconds; sets that contradict
may then be larger than needed."""

SHOWN = 12
"""The largest number of answers that the error lists."""

MOST_MEGABYTES = 100.0
"""Facts whose tables would need more memory are not checked."""


def check_facts(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | None = None,
    zeros: CliqueVector | None = None,
) -> None:
    """Check that some table of non-negative counts has all exact answers and keeps between all published ends.

    Noisy answers are not looked at. The check is cheap if ends of single equations decide it, or if a few projections
    find a table, and takes a linear program otherwise. It says nothing about facts whose junction tree takes more than
    MOST_MEGABYTES, and of programs with more than 200,000 variables it finds only what follows from ends.

    >>> facts = [LinearMeasurement.exact([30, 70], "age"), LinearMeasurement.exact([55, 46], "sex")]
    >>> check_facts(facts, {"age": 2, "sex": 2})
    Traceback (most recent call last):
    pgmest.errors.InconsistentMeasurementsError: no table is compatible with all measurements. ...

    Args:
        measurements: the answers, of any kind.
        domain: all attributes.
        total: the number of records, if it is known exactly.
        zeros: potentials whose -inf cells are impossible, as `zero_potentials` returns them.

    Raises:
        InconsistentMeasurementsError: there is no such table. The error names an irreducible set of contradicting
            answers (in programs of more than a million entries perhaps a larger one); its `answers` count positions in
            `measurements`.
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        ArgumentError: the total is not a number of records.
    """
    check_total(total)
    listed, domain = list(measurements), as_domain(domain)
    positions = [position for position, measurement in enumerate(listed) if not measurement.noisy]
    facts = [listed[position] for position in positions]
    for fact in facts:
        fact.check(domain)
    if not facts:
        return
    try:
        limits = {"total": total, "zeros": zeros, "max_megabytes": MOST_MEGABYTES}
        polytope = TablePolytope.of(domain, facts, answer_ends(facts, 0.5), **limits)
    except ModelTooLarge:
        return
    renamed = polytope.answers.copy()
    renamed[:, 0] = np.asarray(positions)[renamed[:, 0]]
    polytope = replace(polytope, answers=renamed)
    presolved = Presolved.of(polytope)
    if presolved.empty or len(presolved.columns) <= LARGEST_CHECK:
        compatible_point(polytope, presolved, listed)


def check_total(total: float | None) -> None:
    """Check that a total is a number of records.

    Raises:
        ArgumentError: it is negative or not finite.
    """
    if total is not None and not 0 <= total < math.inf:
        raise ArgumentError.of("total", total, "a number of records of at least 0, or None")


def compatible_point(
    polytope: TablePolytope, presolved: Presolved, measurements: Sequence[LinearMeasurement]
) -> np.ndarray | None:
    """Return the variables of a compatible table; None if the solver found none and could not rule it out.

    Raises:
        InconsistentMeasurementsError: no table is compatible; the error has an irreducible set of answers that
            contradict each other.
    """
    if not presolved.empty:
        found = feasible(presolved)
        if found.status != INFEASIBLE:
            return found.point
    chosen = _contradicting(polytope, _disagreeing(polytope, measurements))
    if chosen is None:
        chosen = _contradicting(polytope, np.arange(len(polytope.answers)))
    if chosen is None:
        return None
    kept = _irreducible(polytope, chosen)
    pairs = [(int(polytope.answers[one][0]), int(polytope.answers[one][1])) for one in kept]
    noisy = any(measurements[position].noisy for position, _ in pairs)
    texts = [_text(measurements, polytope, one) for one in kept[:SHOWN]]
    raise InconsistentMeasurementsError.of(pairs, texts, noisy, _beside(polytope, kept))


def _disagreeing(polytope: TablePolytope, measurements: Sequence[LinearMeasurement]) -> np.ndarray:
    """Return the fewest answers of a table whose sum is not the total, or of two that disagree; may be none.

    Two exact tables disagree if they give different counts of the same records. These are the most frequent
    contradictions, and take no linear program.
    """
    domain, tolerance, best = polytope.tree.domain, tolerance_of(polytope), _off_total(polytope, measurements)
    exact = [
        (position, measurements[position])
        for position in np.unique(polytope.answers[:, 0])
        if measurements[position].query is None and measurements[position].exact_rows.all()
    ]
    for (one, table), (two, other) in itertools.combinations(exact, 2):
        names = tuple(name for name in table.clique if name in other.clique)
        cells = [margin_cells(domain, m.clique, names) for m in (table, other)]
        sums = [np.bincount(index, m.values) for index, m in zip(cells, (table, other), strict=True)]
        for cell in np.flatnonzero(np.abs(sums[0] - sums[1]) > tolerance)[:1]:
            rows = polytope.answers
            chosen = [
                (rows[:, 0] == position) & np.isin(rows[:, 1], np.flatnonzero(index == cell))
                for position, index in zip((one, two), cells, strict=True)
            ]
            found = np.flatnonzero(chosen[0] | chosen[1])
            best = found if not len(best) or len(found) < len(best) else best
    return best


def _off_total(polytope: TablePolytope, measurements: Sequence[LinearMeasurement]) -> np.ndarray:
    """Return the answers of the smallest table whose cells cannot sum to the total; may be none."""
    best = np.zeros(0, dtype=np.int64)
    if polytope.total is None:
        return best
    owners, tolerance = polytope.answers[:, 0], tolerance_of(polytope)
    for position in np.unique(owners):
        measurement, chosen = measurements[position], np.flatnonzero(owners == position)
        low, high = (ends[polytope.cells + chosen].sum() for ends in (polytope.low, polytope.high))
        above = low > polytope.total + tolerance  # if some cells have no answer, the others are at least 0
        below = high < polytope.total - tolerance and len(chosen) == polytope.tree.domain.size(measurement.clique)
        if measurement.query is None and (above or below) and (not len(best) or len(chosen) < len(best)):
            best = chosen
    return best


def _contradicting(polytope: TablePolytope, answers: np.ndarray) -> np.ndarray | None:
    """Return those of some answers that are infeasible together; None if all are feasible."""
    part = polytope.with_answers(answers)
    presolved = Presolved.of(part)
    if not presolved.empty and feasible(presolved).status != INFEASIBLE:
        return None
    chosen = _infeasible_support(part) if len(part.low) <= LARGEST_CHECK else None
    if chosen is None:
        return answers if presolved.empty else None
    return answers[chosen]


def _infeasible_support(polytope: TablePolytope) -> np.ndarray | None:
    """Return answers that are infeasible together by Farkas' lemma; None if their violation is a rounding error.

    In the phase-1 program answers may leave their ends, and the objective is the sum of the violations. The answers
    with a multiplier in its dual are infeasible together.
    """
    count = len(polytope.answers)
    first = len(polytope.right) - count
    slack = sparse.csr_array(
        (np.ones(count), (first + np.arange(count), np.arange(count))), (len(polytope.right), count)
    )
    equations = sparse.csr_array(sparse.hstack([polytope.equations, slack, -slack]))
    low = np.append(polytope.low, np.zeros(2 * count))
    high = np.append(polytope.high, np.full(2 * count, np.inf))
    objective = np.append(np.zeros(len(polytope.low)), np.ones(2 * count))
    found = solve(objective, equations, polytope.right, low, high)
    if found.status == INFEASIBLE:
        return np.zeros(0, dtype=np.int64)
    if found.point is None or found.multipliers is None or objective @ found.point <= tolerance_of(polytope):
        return None
    return np.flatnonzero(np.abs(found.multipliers[first:]) > TOUCHED)


def _irreducible(polytope: TablePolytope, chosen: np.ndarray) -> np.ndarray:
    """Drop one answer after the other if the rest is still infeasible (deletion filter; Chinneck, Dravnieks 1991).

    The filter stops early if large programs would take long.
    """
    kept, left = chosen, MOST_WORK
    for one in chosen:
        if one in kept and left > 0:
            left -= polytope.with_answers(kept).equations.nnz
            rest = _contradicting(polytope, kept[kept != one])
            kept = kept if rest is None else rest
    return kept


def _beside(polytope: TablePolytope, kept: np.ndarray) -> list[str]:
    """Return which of the structural zeros and the total contradict the answers, without which these are feasible."""
    found, cells = [], polytope.cells
    barred = polytope.high[:cells] == 0.0
    if barred.any():
        high = np.append(np.where(barred, np.inf, polytope.high[:cells]), polytope.high[cells:])
        if _contradicting(replace(polytope, high=high), kept) is None:
            found.append("the structural zeros")
    if polytope.total is not None:
        others = np.delete(np.arange(len(polytope.right)), len(polytope.right) - len(polytope.answers) - 1)
        free = replace(polytope, equations=polytope.equations[others], right=polytope.right[others])
        if _contradicting(free, kept) is None:
            found.append(f"the total of {polytope.total:g} records")
    return found


def _text(measurements: Sequence[LinearMeasurement], polytope: TablePolytope, answer: int) -> str:
    position, row = polytope.answers[answer]
    measurement = measurements[position]
    low, high = polytope.low[polytope.cells + answer], polytope.high[polytope.cells + answer]
    names = ", ".join(measurement.clique) or "the number of records"
    what = f"answer {row}" if measurement.query is not None else f"cell {row}"
    ends = f"is {low:g}" if low == high else f"is between {low:g} and {high:g}"
    return f"measurements[{position}] ({names}): {what} {ends}"
