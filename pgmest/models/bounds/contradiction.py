"""Answers that no table can have together: an infeasible set from the dual program, made irreducible by deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from pgmest.errors import InconsistentMeasurementsError, ModelTooLarge
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.ends import answer_ends
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.presolve import Presolved, tolerance_of
from pgmest.models.bounds.program import INFEASIBLE, feasible, solve
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain, as_domain

TOUCHED = 1e-9
"""Multipliers above this belong to the infeasible set."""
LARGEST_CHECK = 200_000
"""`check_facts` solves no program of more variables than this, which would take longer than many estimates."""

SHOWN = 12
"""The largest number of answers that the error lists."""


def check_facts(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | None = None,
    zeros: CliqueVector | None = None,
    max_megabytes: float | None = 100.0,
) -> None:
    """Check that some table of non-negative counts has all exact answers and keeps between all published ends.

    Noisy answers are not looked at. The check is cheap if the ends decide it, as for exact tables that no others
    overlap in part, and takes a linear program otherwise. It says nothing about facts whose junction tree takes more
    than `max_megabytes`, and for programs of more than 200,000 variables it finds only what follows from ends.

    >>> facts = [LinearMeasurement.exact([30, 70], "age"), LinearMeasurement.exact([55, 46], "sex")]
    >>> check_facts(facts, {"age": 2, "sex": 2})
    Traceback (most recent call last):
    pgmest.errors.InconsistentMeasurementsError: no table is compatible with all measurements. ...

    Args:
        measurements: the answers, of any kind.
        domain: all attributes.
        total: the number of records, if it is known exactly.
        zeros: potentials whose -inf cells are impossible, as `zero_potentials` returns them.
        max_megabytes: do not check facts whose tables would need more (None: no limit).

    Raises:
        InconsistentMeasurementsError: there is no such table. The error names an irreducible set of contradicting
            answers; its `answers` count positions in `measurements`.
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
    """
    listed, domain = list(measurements), as_domain(domain)
    positions = [position for position, measurement in enumerate(listed) if not measurement.noisy]
    facts = [listed[position] for position in positions]
    for fact in facts:
        fact.check(domain)
    if not facts:
        return
    try:
        polytope = TablePolytope.of(
            domain, facts, answer_ends(facts, 0.5), total=total, zeros=zeros, max_megabytes=max_megabytes
        )
    except ModelTooLarge:
        return
    renamed = polytope.answers.copy()
    renamed[:, 0] = np.asarray(positions)[renamed[:, 0]]
    polytope = replace(polytope, answers=renamed)
    presolved = Presolved.of(polytope)
    if presolved.empty or len(presolved.columns) <= LARGEST_CHECK:
        compatible_point(polytope, presolved, listed)


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
    every = np.arange(len(polytope.answers))
    chosen = _contradicting(polytope, every)
    if chosen is None:
        return None
    kept = _irreducible(polytope, chosen)
    pairs = [(int(polytope.answers[one][0]), int(polytope.answers[one][1])) for one in kept]
    noisy = any(measurements[position].noisy for position, _ in pairs)
    texts = [_text(measurements, polytope, one) for one in kept[:SHOWN]]
    raise InconsistentMeasurementsError.of(pairs, texts, noisy, _beside(polytope, kept))


def _contradicting(polytope: TablePolytope, answers: np.ndarray) -> np.ndarray | None:
    """Return those of some answers that are infeasible together by Farkas' lemma; None if all are feasible.

    In the phase-1 program, these answers may leave their ends, and the objective is the sum of the violations. The
    answers with a multiplier in its dual are infeasible together.
    """
    cells, first = polytope.cells, len(polytope.right) - len(polytope.answers)
    rows = np.concatenate([np.arange(first), first + answers])
    columns = np.concatenate([np.arange(cells), cells + answers])
    slack = sparse.csr_array(
        (np.ones(len(answers)), (first + np.arange(len(answers)), np.arange(len(answers)))),
        shape=(len(rows), len(answers)),
    )
    equations = sparse.csr_array(sparse.hstack([polytope.equations[rows][:, columns], slack, -slack]))
    low = np.concatenate([polytope.low[columns], np.zeros(2 * len(answers))])
    high = np.concatenate([polytope.high[columns], np.full(2 * len(answers), np.inf)])
    objective = np.concatenate([np.zeros(len(columns)), np.ones(2 * len(answers))])
    found = solve(objective, equations, polytope.right[rows], low, high)
    if found.status == INFEASIBLE:
        return answers[:0]
    if found.point is None or found.multipliers is None or objective @ found.point <= tolerance_of(polytope):
        return None
    return answers[np.abs(found.multipliers[first:]) > TOUCHED]


def _irreducible(polytope: TablePolytope, chosen: np.ndarray) -> np.ndarray:
    """Drop one answer after the other if the rest is still infeasible (deletion filter; Chinneck, Dravnieks 1991)."""
    kept = chosen
    for one in chosen:
        if one in kept:
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
