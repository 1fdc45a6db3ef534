"""`rake`: weights of the rows of a survey that meet control totals: raking, linear and logit calibration."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, ControlError, plural
from pgmest.surveys.fit import fit
from pgmest.surveys.limits import Limits
from pgmest.surveys.margins import Margin, check_agreement, read_controls
from pgmest.surveys.problem import Problem
from pgmest.surveys.seed import RESPONDENTS, Seed
from pgmest.surveys.whole import dealt, grain, whole_numbers
from pgmest.surveys.zones import Zones

EXPECTED = "a mapping of columns to control totals, such as {'sex': {...}}"
"""The form of margins."""

MET = 1e-9
"""Whole weights meet a total if they are off by at most this share of it, or at most this."""


def rake(
    frame: Any,
    margins: Mapping[Any, Any],
    weights: Any = None,
    *,
    method: str = "raking",
    bounds: tuple[float, float] | None = None,
    trim: tuple[float, float] | None = None,
    whole: bool = False,
    seed: int | np.random.Generator | None = 0,
) -> np.ndarray:
    r"""Return a weight for each row of a survey such that the weighted counts meet control totals (raking).

    Of all weights that meet the controls, these are the ones closest to the initial weights $d$, which are first scaled
    to the total of the controls. The distance is $\sum_i d_i G(w_i / d_i)$, which `method` chooses (Deville and
    Särndal 1992). The names of methods are those of `calibrate` in R's package survey:

    - "raking": relative entropy, $G(r) = r \log r - r + 1$. Weights stay positive. Without bounds these weights are the
      limit of iterative proportional fitting over the controls (Deming and Stephan 1940), so rows of the same
      categories keep the ratio of their initial weights.
    - "linear": $G(r) = (r - 1)^2 / 2$, the generalized regression estimator (GREG). Weights may be negative without
      `bounds`; a warning says so.
    - "logit": the ratios $w_i / d_i$ are a logistic function between `bounds`, without heaps at the bounds.

    Every total is met up to 1e-9 of the total, or an error is raised: the function never returns weights that did not
    converge.

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
            same sum. A combination that is left out has no respondents. The label of missing values is None. A single
            number is the total of a numeric column, such as the persons of all households.
        weights: the initial weights, such as design weights: a column, or an array with one for each row. By default
            all are equal. Rows of weight 0 keep it, whatever their values. Replicate weights of shape
            (rows, replicates) are raked one after the other.
        method: "raking", "linear" or "logit".
        bounds: the least and the largest ratio of a weight to its scaled initial weight, such as (0.3, 3).
        trim: the least and the largest weight, such as (1, 500); not for "logit".
        whole: whether the weights are whole numbers (integerization), which meet the controls if whole numbers can; the
            total of a numeric column up to 1 % of its largest value.
        seed: the seed of the rounding to whole numbers.

    Returns:
        the weights in the order of the rows, shape (rows,), or (rows, replicates) if `weights` has that shape. They add
        up to the total of the controls.

    Raises:
        ShapeError: there is another number of weights than of rows.
        ControlError: a control has no respondents, a category has no control, or controls contradict each other, by
            themselves, for these respondents, or within the bounds; the error names them and by how much they are
            missed.
        ArgumentError: an argument has another form, or a total is negative or not finite.
        DataError: the frame lacks a column, a weight is negative or not finite, or a numeric column is not numeric.

    Warns:
        UserWarning: the controls leave no weight for some respondents, because other cells need all of it; some weights
            are negative; or whole numbers cannot meet all controls.
    """
    if not isinstance(margins, Mapping) or not margins:
        raise ArgumentError.of("margins", margins, EXPECTED)
    controls = read_controls({RESPONDENTS: margins}, False, EXPECTED)
    check_agreement(controls)
    limits = Limits.of(method, bounds, trim)
    sample, initial = Seed.respondents(frame, [name for control in controls for name in control.names], weights)
    everywhere = Zones.of(None, {})
    read = [Margin.of(control, everywhere, sample) for control in controls]
    problem = Problem.of(read, sample, everywhere)
    generator = np.random.default_rng(seed)
    made = np.empty(initial.shape)
    for number, start in enumerate(initial.T):
        if trim is not None:
            problem = Problem.of(read, replace(sample, weights=start), everywhere, same_weights=True)
        try:
            made[:, number] = _raked(problem, start, limits, generator if whole else None)
        except ControlError as error:
            raise (ControlError(f"replicate {number}: {error}") if np.ndim(weights) == 2 else error) from None
    return made if np.ndim(weights) == 2 else made[:, 0]


def _raked(problem: Problem, start: np.ndarray, limits: Limits, generator: np.random.Generator | None) -> np.ndarray:
    """Return the weights of the rows for one column of initial weights, whole if there is a generator."""
    totals = problem.totals.values
    if not start.any() and totals.any():
        raise ControlError("no respondents with a positive weight, so the controls cannot be met.")
    found = fit(problem, start, np.full(len(totals), math.inf), limits)
    if (found.weights < 0).any():
        warnings.warn(
            f"{plural(int(problem.units[found.weights < 0].sum()), 'respondent')} with a negative weight: give "
            'bounds=, such as (0, 5), or method="raking".',
            stacklevel=3,
        )
    if generator is None:
        known = problem.kind_of >= 0
        return np.where(known, found.shares * np.append(found.weights, 0.0)[problem.kind_of], 0.0)
    if (found.weights < 0).any():
        raise ControlError('negative weights cannot be rounded: give bounds=, or use method="raking".')
    counts = whole_numbers(problem, found.weights, generator)
    missed = np.abs(problem.matrix.T @ counts - totals)
    missed = missed[missed > grain(problem) + MET * np.maximum(1.0, np.abs(totals))]
    if missed.size:
        warnings.warn(
            f"whole weights miss {plural(missed.size, 'control')}, by {missed.max():.4g} at most and "
            f"{missed.sum():.4g} in all, because no whole numbers for these respondents meet all of them.",
            stacklevel=3,
        )
    made = np.zeros(len(start))
    rows, _, numbers = dealt(problem, found.shares, counts, generator)
    made[rows] = numbers
    return made
