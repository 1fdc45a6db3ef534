"""Invariants of mechanisms: their checks before a run, and whether the model of a run holds them.

`pgmest.privacy.unprotected` says what invariants are. The curator answers requests for them exactly and without cost;
the estimates of mechanisms hold them as facts, and so do their records, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmest.errors import (
    ArgumentError,
    ImpossibleModelError,
    InconsistentMeasurementsError,
    TotalError,
    excerpt,
    listed,
)
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.contradiction import check_facts
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace
from pgmest.privacy.unprotected import Invariant, name_of, named_tables
from pgmest.sampling.facts import Facts
from pgmest.tables.domain import Clique, Domain

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


def determined(invariants: Iterable[Invariant], clique: Clique) -> bool:
    """Return whether one of the invariants is a table that has all attributes of a clique."""
    return any(
        set(clique) <= set(one.clique) and one.query is None and bool(one.exact_rows.all())
        if isinstance(one, LinearMeasurement)
        else set(clique) <= set(one)
        for one in invariants
    )


def active_bounds(model: Any, measurements: Iterable[LinearMeasurement]) -> list[LinearMeasurement]:
    """Return the bounds that a model misses as exact answers; a model that meets them with equality is the closest.

    Estimates take bounds as a loss, which a model far from a bound misses by a part of a record. Bounds that no table
    meets with equality together are left out.
    """
    found: list[LinearMeasurement] = []
    for one in measurements:
        bounds = Facts.bounds(one)
        if bounds is not None:
            answers = bounds.matrix @ model.project(one.clique).datavector()
            missed = np.flatnonzero(bounds.values - answers > CLOSE * max(model.total, 1.0))
            if missed.size:
                found.append(LinearMeasurement.exact(bounds.values[missed], one.clique, bounds.matrix[missed]))
    if not found:
        return []
    exact = [one for one in measurements if one.exact_rows.all()]
    try:
        check_facts([*exact, *found], model.domain, total=model.total)
    except InconsistentMeasurementsError:
        return []
    return found


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
