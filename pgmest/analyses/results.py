"""Results of analyses by other libraries: estimates, their variances and their names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.analyses.fits import read_scikit_learn, unidentified
from pgmest.errors import ArgumentError, excerpt, listed

LISTED_NAMES = 5
"""The most names of coefficients that an error lists."""


@dataclass(frozen=True)
class Read:
    """The result of the analysis of one table.

    Attributes:
        estimate: the estimates.
        variance: their variances, in the same shape.
        names: the names of the estimates, in the order of `estimate.ravel()`; () if they have none.
        target: the outcome that the estimates are about; "" if that is not known.
        note: a sentence on why the estimates are not what they seem; "" without any.
        degrees: the degrees of freedom of the variances; inf if they are known or not stated.
    """

    estimate: np.ndarray
    variance: np.ndarray
    names: tuple[str, ...] = ()
    target: str = ""
    note: str = ""
    degrees: float = math.inf


def read_results(results: Sequence[Any], data: Sequence[Any] | None) -> list[Read]:
    """Return the results of all tables, whose estimates have the order of the first one's.

    Raises:
        ArgumentError: a result of an unknown kind, or of scikit-learn without its data; estimates that are no numbers
            or that its records do not determine; or results of other shapes, other names or another outcome.
    """
    read = []
    for place, result in enumerate(results):
        try:
            read.append(_read(result, None if data is None else data[place]))
        except ArgumentError as error:
            raise ArgumentError(f"results[{place}]: {error}") from None
    if not read:
        return []
    return [_aligned(one, read[0], place) for place, one in enumerate(read)]


def _read(result: Any, data: Any) -> Read:
    if hasattr(result, "params") and hasattr(result, "bse"):  # statsmodels
        if reason := unidentified(result):
            raise ArgumentError(reason)
        estimate, names = _numbers(result.params, "estimate")
        errors = _numbers(result.bse, "standard error")[0]
        known = tuple(map(str, getattr(getattr(result, "model", None), "exog_names", None) or ()))
        degrees = max(float(result.df_resid), 1.0) if getattr(result, "use_t", False) else math.inf
        names = names or (known if len(known) == estimate.size else ())
        return _checked(Read(estimate, errors**2, names, degrees=degrees))
    if hasattr(result, "coef_") and hasattr(result, "intercept_"):  # scikit-learn
        return Read(*read_scikit_learn(result, data))
    if hasattr(result, "stderr") and hasattr(result, "degrees"):  # a SurveyEstimate
        return _checked(Read(result.value, result.stderr**2, degrees=result.degrees))
    if isinstance(result, tuple | list) and len(result) == 2:
        estimate, names = _numbers(result[0], "estimate")
        variance, others = _numbers(_diagonal(result[1], estimate.size), "variance")
        if names and others and names != others and set(names) == set(others) and len(set(others)) == len(others):
            variance = variance.ravel()[[others.index(name) for name in names]].reshape(variance.shape)
        elif names and others and names != others:
            raise ArgumentError(f"the estimates are about {_list(names)}, and the variances about {_list(others)}.")
        return _checked(Read(estimate, variance, names or others))
    raise ArgumentError(
        f"a result of type {type(result).__name__} is not (estimate, variance) of one shape, nor a SurveyEstimate, nor "
        "a fitted model of statsmodels or scikit-learn."
    )


def _checked(read: Read) -> Read:
    """Return a result whose estimates and variances have one shape."""
    if read.estimate.shape != read.variance.shape:
        raise ArgumentError(
            f"the estimates have the shape {read.estimate.shape}, and the variances {read.variance.shape}: give "
            "(estimate, variance) of one shape, or a covariance matrix as the variance."
        )
    return read


def _diagonal(variance: Any, count: int) -> Any:
    """Return the diagonal of a covariance matrix of estimates, with its names if it has any; otherwise the variance."""
    if np.shape(variance) != (count, count) or count == 0:
        return variance
    values, names = np.diag(np.asarray(variance)), getattr(variance, "index", None)
    return values if names is None else dict(zip(names, values, strict=True))


def _numbers(values: Any, noun: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return numbers with their names: the keys of a mapping, or the index and columns of a dataframe."""
    names = ()
    if isinstance(values, Mapping):
        values, names = list(values.values()), tuple(map(_name, values))
    elif hasattr(values, "columns") and hasattr(values, "index"):  # a dataframe of pandas
        names = tuple(f"{_name(row)}, {_name(column)}" for row in values.index for column in values.columns)
    elif hasattr(values, "index") and not callable(values.index):  # a series of pandas
        names = tuple(map(_name, values.index))
    found = np.asarray(values)
    try:
        if np.iscomplexobj(found):
            raise TypeError
        return found.astype(np.float64), names
    except (TypeError, ValueError):
        raise ArgumentError(f"the {noun} {excerpt(values)} is not a number, nor an array of numbers.") from None


def _name(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _list(names: Sequence[str]) -> str:
    return listed(list(names), LISTED_NAMES)


def _aligned(one: Read, first: Read, place: int) -> Read:
    """Return a result with its estimates in the order of the first one's.

    Raises:
        ArgumentError: they have another shape, other names, or are about another outcome.
    """
    if one.target != first.target:
        raise ArgumentError(f"results[0] is about the outcome {first.target}, and results[{place}] about {one.target}.")
    named = bool(one.names and first.names and one.names != first.names)
    if named and set(one.names) != set(first.names):
        raise ArgumentError(_other_names(one, first, place))
    if one.estimate.shape != first.estimate.shape:
        raise ArgumentError(
            f"the results have different shapes: {first.estimate.shape} in results[0], and {one.estimate.shape} in "
            f"results[{place}]. A category may be missing from a table: fix the categories of the analysis in advance."
        )
    if not named:
        return one
    if len(set(one.names)) < len(one.names):
        raise ArgumentError(f"results[{place}] has its names in another order than results[0], and some of them twice.")
    order = [one.names.index(name) for name in first.names]
    estimate, variance = (part.ravel()[order].reshape(first.estimate.shape) for part in (one.estimate, one.variance))
    return replace(one, estimate=estimate, variance=variance, names=first.names)


def _other_names(one: Read, first: Read, place: int) -> str:
    """Return the sentences of the error on results with other names."""
    found = []
    for whose, missing in (
        (f"results[{place}]", [name for name in first.names if name not in set(one.names)]),
        ("results[0]", [name for name in one.names if name not in set(first.names)]),
    ):
        if missing:
            found.append(f"{whose} lacks {_list(missing)}")
    return (
        f"the results are about different things: {'; '.join(found)}. A category may be missing from a table: give all "
        "tables the same categories and the same reference category in advance, such as by pandas.Categorical(column, "
        "categories=...), and merge rare ones."
    )
