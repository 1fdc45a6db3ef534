"""`rake`: weights of the rows of a survey that meet control totals: raking, linear and logit calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest.data.codes import as_weights
from pgmest.data.frames import read_columns
from pgmest.errors import ArgumentError, ControlError, DataError, ShapeError, listed
from pgmest.surveys.problem import raked
from pgmest.surveys.targets import Limits, Targets
from pgmest.surveys.whole_weights import whole_weights


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
            all are equal. Rows of weight 0 keep it, whatever their categories. Replicate weights of shape
            (rows, replicates) are raked one after the other.
        method: "raking", "linear" or "logit".
        bounds: the least and the largest ratio of a weight to its scaled initial weight, such as (0.3, 3).
        trim: the least and the largest weight, such as (1, 500); not for "logit".
        whole: whether the weights are whole numbers (integerization), which meet the controls if whole numbers can.
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
    targets = Targets.of(margins)
    limits = Limits.of(method, bounds, trim)
    _check_whole(whole, targets)
    base, several = _initial(frame, weights, targets)
    codes = targets.controls.codes(frame, np.max(base, axis=1) > 0)
    numbers = _numeric_columns(frame, targets)
    found = np.empty(base.shape)
    generator = np.random.default_rng(seed)
    for number, start in enumerate(base.T):
        try:
            found[:, number] = raked(targets, limits, codes, numbers, start)
        except ControlError as error:
            raise (ControlError(f"replicate {number}: {error}") if several else error) from None
        if whole:
            found[:, number] = whole_weights(targets.controls, codes, found[:, number], generator)
    return found if several else found[:, 0]


def _check_whole(whole: bool, targets: Targets) -> None:
    if whole and targets.numeric:
        raise ArgumentError.of(
            "whole", whole, f"False, as whole weights cannot hold totals of numeric columns ({listed(targets.numeric)})"
        )


def _initial(frame: Any, weights: Any, targets: Targets) -> tuple[np.ndarray, bool]:
    """Return the initial weights, shape (rows, replicates), and whether they are replicates.

    Raises:
        ArgumentError, DataError, ShapeError: as for `rake`.
    """
    columns = [*targets.controls.labels, *targets.numeric]
    rows = len(next(iter(read_columns(frame, columns[:1]).values())))
    given = read_columns(frame, [weights])[weights] if isinstance(weights, str) else weights
    ours, theirs = getattr(frame, "index", None), getattr(given, "index", None)
    if hasattr(ours, "equals") and hasattr(theirs, "equals") and not theirs.equals(ours):  # type: ignore[union-attr]
        raise ArgumentError(
            "weights= has another index than the frame; give an array in the order of its rows (.to_numpy())."
        )
    if given is None:
        return np.ones((rows, 1)), False
    array = np.asarray(given)
    if array.ndim != 2:
        return as_weights(given, rows)[:, None], False
    if not array.shape[1] or len(array) != rows:
        raise ShapeError.of("weights", (rows, "replicates"), array.shape, "Give a weight for each row and replicate.")
    return np.stack([as_weights(column, rows) for column in array.T], axis=1), True


def _numeric_columns(frame: Any, targets: Targets) -> dict[str, np.ndarray]:
    """Return the numeric columns that have a total.

    Raises:
        DataError: a column is not numeric, or has a value that is missing or not finite.
    """
    found = {}
    for name in targets.numeric:
        try:
            values = np.asarray(read_columns(frame, [name])[name], dtype=np.float64)
        except (TypeError, ValueError):
            values = np.array([math.nan])
        if not np.isfinite(values).all():
            raise DataError(
                f"column '{name}' has a total, but not a finite number in every row; give its categories totals, or "
                "leave out rows without a number."
            )
        found[name] = values
    return found
