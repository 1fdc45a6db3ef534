"""`rake`: weights of the rows of a survey that meet control totals, by iterative proportional fitting."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ControlError, ImpossibleModelError, listed, plural
from pgmest.estimation.controls import SHOWN, Controls
from pgmest.estimation.estimate import estimate
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.support import SupportModel
from pgmest.tables.domain import Clique

CLOSE = 1e-9
"""Weights meet the controls if every one is met up to this share of the total."""

FIRST_ROUNDS, MOST_ROUNDS = 300, 20_000
"""Controls that are not met after FIRST_ROUNDS rounds are checked by linear programs; after that, rounds go on until
they are MOST_ROUNDS."""


def rake(frame: Any, margins: Mapping[Any, Any], weights: Any = None) -> np.ndarray:
    r"""Return a weight for each row of a survey such that the weighted counts meet control totals (raking).

    Of all weights that meet the controls, these are the ones closest to the initial weights in relative entropy,
    $\sum_i w_i \log (w_i / d_i)$. They are the limit of iterative proportional fitting over the controls (Deming and
    Stephan 1940; Ireland and Kullback 1968), so rows of the same categories keep the ratio of their initial weights.
    Every control is met up to 1e-9 of the total.

    >>> import pandas as pd
    >>> survey = pd.DataFrame({"sex": ["f", "f", "m", "m", "m"], "age": ["young", "old", "old", "old", "young"]})
    >>> rake(survey, {"sex": {"f": 60, "m": 40}, "age": {"young": 50, "old": 50}}).round(4)
    array([34.1128, 25.8872, 12.0564, 12.0564, 15.8872])

    Args:
        frame: a row for each respondent: pandas, polars, pyarrow, or others that narwhals reads.
        margins: for each column, or tuple of columns, the control totals of its categories: a mapping from labels (from
            tuples of labels, or nested, for several columns) to totals; a pandas Series with the labels as its index; a
            cross table with labels as index and columns; a long table of any library, with the columns and one of
            totals; or a Factor, whose codes are the labels. Totals may be counts or shares; all controls must have the
            same sum. A combination that is left out has no respondents. The label of missing values is None.
        weights: the initial weights, such as design weights: a column, or an array with one for each row. By default
            all are equal. Rows of weight 0 keep it, whatever their categories.

    Returns:
        the weights in the order of the rows, shape (rows,). They add up to the total of the controls.

    Raises:
        ShapeError: there is another number of weights than of rows.
        ControlError: a control has no respondents, a category has no control, or controls contradict each other, by
            themselves or for these respondents; the error names them.
        ArgumentError: an argument has another form, or a total is negative or not finite.
        DataError: the frame lacks a column, or a weight is negative or not finite.

    Warns:
        UserWarning: the controls leave no weight for some respondents, because other cells need all of it.
    """
    controls = Controls.of(margins)
    columns, initial = controls.codes(frame, weights)
    controls.check_agreement()
    if controls.total == 0.0:
        return np.zeros(len(initial))
    if not np.any(initial > 0):
        raise ControlError("no respondent has a positive weight, so the controls cannot be met. Give positive weights.")
    data = Dataset.from_codes([columns[name] for name in controls.domain], controls.domain, initial)
    found = _fitted(controls, data, FIRST_ROUNDS)
    if found is None:
        found = _fitted(controls, _possible(controls, data), MOST_ROUNDS)
    if found is None:
        raise ControlError(
            f"the controls can be met, but not within {MOST_ROUNDS:,} rounds: some respondents would need weights "
            "close to 0. Combine small categories."
        )
    return found


def _fitted(controls: Controls, data: Dataset, rounds: int) -> np.ndarray | None:
    """Return the weights of the rows after at most some rounds; None if they do not meet the controls."""
    total = controls.total
    tables = [LinearMeasurement(table, names, 0.1 * CLOSE * total) for names, table in controls.tables.items()]
    try:
        model = estimate(
            tables, data.domain, total=total, prior=Support(data), method="ipf", max_iterations=rounds, tolerance=1e-3
        )
        assert isinstance(model, SupportModel)
        apart = max(np.abs(model.project(n).values - table).max() for n, table in controls.tables.items())
    except ImpossibleModelError:
        return None
    return model.row_weights if apart <= CLOSE * total else None


def _possible(controls: Controls, data: Dataset) -> Dataset:
    """Return the data without weight for the rows that the controls leave no room for.

    Raises:
        ControlError: the controls cannot be met with these respondents.
    """
    from pgmest.estimation.feasible_weights import contradicting_controls, possible_cells

    support = Support(data)
    named = list(controls.tables)
    places = [support.domain.axes(names) for names in named]
    cells = [
        np.asarray(
            np.ravel_multi_index(tuple(support.codes[list(axes)].astype(np.int64)), controls.tables[names].shape)
        )
        for names, axes in zip(named, places, strict=True)
    ]
    totals = [controls.tables[names].reshape(-1) / controls.total for names in named]
    possible = possible_cells(cells, totals)
    if possible is None:
        raise _contradiction(controls, named, contradicting_controls(cells, totals))
    excluded = ~possible[support.rows] & (support.row_shares > 0)
    if excluded.any():
        warnings.warn(
            f"weight 0 for {plural(int(excluded.sum()), 'respondent')}: other respondents need the whole total of "
            "their categories.",
            stacklevel=3,
        )
    weights = np.where(excluded, 0.0, np.ones(data.records) if data.weights is None else data.weights)
    return Dataset(data.domain, data.columns, data.records, weights)


def _contradiction(controls: Controls, named: list[Clique], found: list[tuple[int, int]]) -> ControlError:
    texts = []
    for position, cell in found:
        names = named[position]
        table = controls.tables[names]
        place = np.unravel_index(cell, table.shape)
        texts.append(f"{controls.text(names, place)}: {table[place]:.10g}")
    return ControlError(
        "no weights of these respondents meet the controls, because some combinations have no respondents. These "
        f"contradict each other: {listed((f'({text})' for text in texts), 2 * SHOWN)}. Combine categories, or correct "
        "a control."
    )
