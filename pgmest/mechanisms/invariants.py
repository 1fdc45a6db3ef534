"""Invariants of mechanisms: their checks before a run, and whether the model of a run holds them.

`pgmest.privacy.unprotected` says what invariants are. The curator answers requests for them exactly and without cost;
the estimates of mechanisms hold them as facts, and so do their records, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pgmest._base.memory import MOST_DEFAULT_RECORDS
from pgmest.errors import (
    ArgumentError,
    ImpossibleModelError,
    InconsistentMeasurementsError,
    TotalError,
    excerpt,
    listed,
)
from pgmest.inference.exact.structural_zeros import Rule, zero_potentials
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.contradiction import check_facts
from pgmest.models.bounds.implied import total_ends
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace
from pgmest.privacy.unprotected import Invariant, counts_all, name_of, named_tables
from pgmest.sampling.facts import Facts
from pgmest.tables.domain import Domain

INVARIANTS = "invariants"
"""The key of `Result.details` under which a run says whether its model holds the invariants."""

HELD = "held"
"""The entry of `Result.details` for a model that holds the invariants."""

CLOSE, CLOSE_TO_BOUND = 1e-6, 0.5
"""The largest share of the records by which a model may miss exact answers that it holds, and the largest number of
records by which it may miss bounds, which only its records hold in whole numbers."""

WITH_UNIT = (
    "invariants that are read from the records cannot be combined with a unit of several rows a person: give the "
    "public totals as pg.LinearMeasurement.exact(values, clique)."
)
"""The error about invariants beside a schema's unit, whose rows `Replace` does not cover."""

PASSES = 6
"""The largest number of further estimates for a model that misses bounds."""

ALLOWED = "a list of tuples of attributes, such as [('region',)], and of pg.LinearMeasurement.exact(...)"


def invariants_of(given: Any) -> tuple[Invariant, ...]:
    """Return the invariants of a mechanism.

    Args:
        given: None, or a list. Each element is exact answers or bounds (`pg.LinearMeasurement.exact`, `.at_least`,
            `.at_most`), the name of an attribute, or a tuple of names; () is the number of records.

    Raises:
        ArgumentError: an element is something else, noisy, negative or no whole number.
    """
    if given is None:
        return ()
    if isinstance(given, str | LinearMeasurement):
        given = [given]
    try:
        elements = list(given)
    except TypeError:
        raise ArgumentError.of("invariants", given, ALLOWED) from None
    return tuple(_one(element) for element in elements)


def _one(element: Any) -> Invariant:
    if isinstance(element, LinearMeasurement):
        _check_given(element)
        return element
    names = (element,) if isinstance(element, str) else element
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise ArgumentError.of("invariants", excerpt(element), ALLOWED)
    return tuple(names)


def _check_given(one: LinearMeasurement) -> None:
    """Raise ArgumentError unless answers are exact or bounds, and exact counts are whole and not negative."""
    name, low, high = name_of(one.clique), one.low, one.high
    if one.noisy or low is None or high is None:
        raise ArgumentError(
            f"the invariant of {name} has noise: give exact answers, pg.LinearMeasurement.exact(values, clique)."
        )
    bounded = ~one.exact_rows & np.isfinite(high)
    if bounded.any():
        raise ArgumentError(
            f"the invariant of {name} has answers between two ends: give exact ones (.exact), or bounds (.at_least, "
            ".at_most)."
        )
    values = low[one.exact_rows]
    if one.query is None and (values < 0).any():
        raise ArgumentError(f"the invariant of {name} has a negative count, {values.min():g}: counts are at least 0.")
    if _counts_records(one) and (values != np.rint(values)).any():
        part = float(values[values != np.rint(values)][0])
        raise ArgumentError(f"the invariant of {name} has the count {part:g}: records hold whole numbers only.")


def _counts_records(one: LinearMeasurement) -> bool:
    """Return whether the answers of records are whole numbers."""
    if one.query is None:
        return True
    whole = one.query.weighted_column_squares(np.ones(one.rows))
    sums = one.query.transpose(np.ones(one.rows))
    return bool(np.array_equal(whole, np.rint(whole)) and np.array_equal(sums, np.rint(sums)))


def neighbors_beside(relation: Neighbors, invariants: Iterable[Invariant], data: Any = None) -> Neighbors:
    """Return the neighboring relation of a run: tables with the same totals that are read have as many records.

    So if a table is read from the records, `AddRemove` becomes `Replace`.

    Raises:
        ArgumentError: if a table is read, and a schema's `unit` bounded the records of a person, whose rows `Replace`
            does not cover.
    """
    if not named_tables(invariants) or isinstance(relation, Replace):
        return relation
    if getattr(data, "records_per_person", None) is not None:
        raise ArgumentError(WITH_UNIT)
    assert isinstance(relation, AddRemove)
    return Replace(relation.records)


def check_consistent(
    measurements: Sequence[LinearMeasurement], rules: Sequence[Rule], domain: Domain, total: int | None
) -> None:
    """Check that invariants agree with each other, with the structural zeros, and with a public number of records.

    Args:
        measurements: the invariants.
        rules: the structural zeros.
        domain: the attributes.
        total: the number of records, if it is public.

    Raises:
        ArgumentError: if they do not, or say that there are no records.
        ModelTooLarge: if their junction tree is too large.
    """
    from pgmest.estimation.estimate import estimate

    counted = {float(one.values.sum()): one for one in measurements if one.query is None and one.exact_rows.all()}
    if total is not None:
        counted[float(total)] = LinearMeasurement.exact(total, ())
    if len(counted) > 1:
        (first, one), (second, other) = list(counted.items())[:2]
        raise ArgumentError(
            f"invariants contradict each other: {name_of(one.clique)} sums to {first:,.0f} records, and "
            f"{name_of(other.clique)} to {second:,.0f}. Give totals of the same records."
        )
    if 0.0 in counted:
        raise ArgumentError("the invariants say that there are no records: there is nothing to measure.")
    named = listed(name_of(one.clique) for one in measurements)
    try:
        estimate(measurements, domain, total=total, structural_zeros=rules, max_iterations=0)
    except TotalError:
        return  # the invariants are about a part of the records, whose number is measured later
    except (InconsistentMeasurementsError, ImpossibleModelError) as error:
        raise ArgumentError(f"no table has the invariants of {named}: {error}") from None


def check_number(measurements: Iterable[LinearMeasurement], title: str) -> None:
    """Check that a mechanism whose model is a list of records can keep as many as invariants state.

    Raises:
        ArgumentError: if these are more than `MOST_DEFAULT_RECORDS`.
    """
    for one in measurements:
        least = 0.0 if one.low is None else float(one.low.sum())
        if counts_all(one) and least > MOST_DEFAULT_RECORDS:
            raise ArgumentError(
                f"invariants: {name_of(one.clique)} states {least:,.0f} records, and the model of {title} is a list of "
                f"all of them: it can have {MOST_DEFAULT_RECORDS:,}. Take AIM or MST, whose models are no lists and of "
                "which records=, --rows or sample(n) draws fewer, or give totals in thousands of records."
            )


_TOTALS: WeakKeyDictionary[Any, tuple[float, float]] = WeakKeyDictionary()
"""curator -> the least and the largest number of records that its invariants allow."""


def possible_total(curator: Curator, total: float) -> float:
    """Return the number of records next to an estimated one that the invariants and structural zeros allow.

    Ends are whole numbers, so that the records of the rounded number can hold the invariants.
    """
    if curator.fixed_total is not None or not curator.invariants:
        return total
    if curator not in _TOTALS:
        zeros = zero_potentials(curator.structural_zeros, curator.domain) if curator.structural_zeros else None
        low, high = total_ends(curator.invariants, curator.domain, zeros)
        _TOTALS[curator] = float(np.ceil(low - CLOSE * low)), float(np.floor(high + CLOSE * high))
    low, high = _TOTALS[curator]
    return max(low, min(total, high))


def within_bounds(
    model: Any,
    invariants: Iterable[LinearMeasurement],
    estimated: Callable[[Sequence[LinearMeasurement], Any], Any],
) -> Any:
    """Return a model that holds bounds: where one misses them, the closest model meets them with equality.

    Estimates take bounds as a loss at most, which a model far from a bound misses by a part of a record.

    Args:
        model: the model.
        invariants: the invariants, with the bounds.
        estimated: returns the model of more invariants, given these and the last model.
    """
    facts = list(invariants)
    for _ in range(PASSES):
        active = _active_bounds(model, facts)
        if not active:
            break
        facts += active
        model = estimated(facts, model)
    return model


def _active_bounds(model: Any, facts: Sequence[LinearMeasurement]) -> list[LinearMeasurement]:
    """Return the bounds that a model misses most as exact answers: all that some table meets with equality together."""
    missed: list[tuple[float, int, int]] = []  # by how much, the place of the bounds, and the row
    given = [(one, bounds) for one in facts if (bounds := Facts.bounds(one)) is not None]
    for place, (one, bounds) in enumerate(given):
        off = bounds.values - bounds.matrix @ model.project(one.clique).datavector()
        missed += [(-float(off[row]), place, int(row)) for row in np.flatnonzero(off > CLOSE * max(model.total, 1.0))]
    exact = [one for one in facts if one.exact_rows.all()]
    chosen = sorted(missed)
    while chosen:
        found = []
        for place, (one, bounds) in enumerate(given):
            rows = sorted(row for _, at, row in chosen if at == place)
            if rows:
                found.append(LinearMeasurement.exact(bounds.values[rows], one.clique, bounds.matrix[rows]))
        try:
            check_facts([*exact, *found], model.domain, total=model.total)
        except InconsistentMeasurementsError:
            chosen = chosen[: len(chosen) // 2]
        else:
            return found
    return []


def held(model: Any, measurements: Iterable[LinearMeasurement]) -> str:
    """Return "held" if a model has the invariants, and otherwise the table that it misses, and by how much."""
    for one in measurements:
        assert one.low is not None
        assert one.high is not None
        answers = one.answer(model.project(one.clique))
        missed = np.maximum(np.maximum(one.low - answers, answers - one.high), 0.0)
        close = np.where(one.exact_rows, CLOSE * max(model.total, 1.0), CLOSE_TO_BOUND)
        off = float(missed.max(initial=0.0))
        if (missed > close).any():
            return f"not held: {name_of(one.clique)} is off by up to {off:,.4g} records in the model"
    return HELD
