"""`rake_households`: weights of whole households that meet totals of households and of persons at once, by zone."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, excerpt, listed
from pgmest.surveys.fit import fit
from pgmest.surveys.household_weights import HouseholdWeights
from pgmest.surveys.limits import Limits
from pgmest.surveys.margins import Control, Margin, read_controls
from pgmest.surveys.problem import Problem
from pgmest.surveys.seed import HOUSEHOLDS, PERSONS, Seed
from pgmest.surveys.zones import Zones


def rake_households(
    households: Any,
    persons: Any,
    margins: Mapping[str, Any],
    *,
    key: str,
    weights: Any = None,
    zones: Any = None,
    bounds: tuple[float, float] = (0.0, math.inf),
    penalty: float | Mapping[Any, float] | None = None,
) -> HouseholdWeights:
    r"""Return weights of whole households that meet totals of households and totals of their persons.

    All persons of a household have its weight. Of all weights that meet the totals, these are the closest to the
    initial weights d in relative entropy, $\sum w \log (w / d) - w + d$ over households and zones: the limit of
    iterative proportional updating (IPU) with exact updates. A household adds to a total of persons as often as it has
    such persons. Each total is met up to 1e-9 of the largest; that of a numeric column up to this
    times its largest value.

    With `zones`, each household gets a weight in each zone. A household whose row names an area, by a column that the
    zones have, too, serves the zones of this area only (as households of a PUMA serve its tracts).

    >>> import pandas as pd
    >>> homes = pd.DataFrame({"home": [1, 2, 3], "tenure": ["own", "rent", "rent"]})
    >>> people = pd.DataFrame({"home": [1, 1, 2, 3, 3, 3], "age": ["old", "old", "old", "old", "young", "young"]})
    >>> margins = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"age": {"old": 140, "young": 50}}}
    >>> found = rake_households(homes, people, margins, key="home")
    >>> found.weights["weight"].round(6).tolist()
    [40.0, 35.0, 25.0]
    >>> found.whole(seed=0).tables()["persons"].groupby("age").size().to_dict()
    {'old': 140, 'young': 50}

    Args:
        households: a row for each household of the sample: pandas, polars, pyarrow, or others that narwhals reads.
        persons: a row for each person. A household may have none.
        margins: the totals of "households" and of "persons", each as for `pgmest.rake`: a mapping of columns, or tuples
            of columns, to totals by label. Columns may be levels of the zones, too; totals of persons may be by columns
            of their households. A combination that is left out has a total of 0; NaN marks one that is not known. The
            label of missing values is None. A single number is the total of a numeric column in all zones,
            such as the cars of all households, or the income of all persons.
        key: the column of both tables that joins them.
        weights: the initial weights of households, such as design weights: a column, or an array with one for each row.
            By default all are equal. They are scaled to the first of the margins with the smallest areas.
        zones: a dataframe with a row for each zone and a column for each level, such as tract and county; or the name
            of one column of the margins, whose labels are the zones. Levels need not be nested.
        bounds: the least and the largest ratio of a weight to the scaled initial weight of the household in the zone.
        penalty: what missing a total by one costs beside the relative entropy. By default totals must be met, and
            totals that contradict each other are refused. A weight then changes by a factor of at most about
            exp(penalty) for each total that the household adds to. A mapping from columns, as they are named in
            `margins`, to penalties lets these totals be missed only. From 1 to 10 is usual.

    Raises:
        ControlError: no weights meet the totals; the error names the smallest changes after which some do. Or a total
            has no households, or a household has a category without a total.
        ArgumentError: an argument has another form, or a total is negative or not finite.
        DataError: a table lacks a column, keys are missing or not unique, a person has no household, a weight is
            negative or not finite, or a numeric column is not numeric.
        ShapeError: there is another number of weights than of households.

    Warns:
        UserWarning: totals leave no weight for some households, because others need all of it.
    """
    start = time.perf_counter()
    expected = "a mapping with the totals of 'households', of 'persons', or both, each a mapping of columns to totals"
    if not isinstance(margins, Mapping) or not margins or not set(margins) <= {HOUSEHOLDS, PERSONS}:
        raise ArgumentError.of("margins", margins, expected)
    ordered = {table: margins[table] for table in (HOUSEHOLDS, PERSONS) if table in margins}
    controls = read_controls(ordered, True, expected)
    limits = Limits.of("raking", None if bounds == (0.0, math.inf) else bounds, None)
    seed = Seed.households(households, persons, key, weights)
    areas = Zones.of(zones, _labels(controls))
    read = [Margin.of(control, areas, seed) for control in controls]
    prices = _prices(penalty, read)
    problem = Problem.of(read, seed, areas)
    found = fit(problem, seed.weights, prices[problem.totals.margins], limits)
    return HouseholdWeights(seed, areas, problem, found, time.perf_counter() - start)


def _labels(controls: list[Control]) -> dict[str, list[Any]]:
    """Return the labels of each column of the margins."""
    labels: dict[str, dict[Any, None]] = {}
    for control in controls:
        for cell in control.cells:
            for name, label in zip(control.names, cell, strict=False):  # that of a numeric column has none
                labels.setdefault(name, {})[label] = None
    return {name: list(known) for name, known in labels.items()}


def _prices(penalty: Any, margins: list[Margin]) -> np.ndarray:
    """Return the penalty of each margin; inf for one that must be met."""
    if penalty is None:
        return np.full(len(margins), np.inf)
    if not isinstance(penalty, Mapping):
        return np.full(len(margins), _price("penalty", penalty))
    known = {names: _price(f"penalty[{names!r}]", one) for names, one in penalty.items()}
    names = [margin.control.names for margin in margins]
    titles = [one[0] if len(one) == 1 else one for one in names]
    unknown = [names for names in known if names not in titles]
    if unknown:
        raise ArgumentError(f"penalty= names {listed(map(excerpt, unknown))}, but the margins are of {listed(titles)}.")
    return np.array([known.get(title, np.inf) for title in titles])


def _price(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not float(given) > 0:
        raise ArgumentError.of(name, given, "a number above 0, such as 5")
    return float(given)
