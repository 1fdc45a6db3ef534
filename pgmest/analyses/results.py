"""Results of analyses by other libraries: estimates, their variances and their names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, excerpt, listed

LISTED_NAMES = 5
"""The most names of coefficients that an error lists."""

SINGULAR = 1e-13
"""The smallest eigenvalue of the Gram matrix of columns of length 1 below which columns depend on one another: rounding
errors are about 1e-15, and powers of years, which nearly depend on one another, are above it."""


@dataclass(frozen=True)
class Read:
    """The result of the analysis of one table.

    Attributes:
        estimate: the estimates.
        variance: their variances, in the same shape.
        names: the names of the estimates, in the order of `estimate.ravel()`; () if they have none.
        degrees: the degrees of freedom of the variances; inf if they are known or not stated.
    """

    estimate: np.ndarray
    variance: np.ndarray
    names: tuple[str, ...] = ()
    degrees: float = math.inf


def read_results(results: Sequence[Any]) -> list[Read]:
    """Return the results of all tables, whose estimates have the order of the first one's.

    Raises:
        ArgumentError: a result of an unknown kind; estimates that are no numbers or that its records do not determine;
            or results of other shapes or other names.
    """
    read = []
    for place, result in enumerate(results):
        try:
            read.append(_read(result))
        except ArgumentError as error:
            raise ArgumentError(f"results[{place}]: {error}") from None
    if not read:
        return []
    return [_aligned(one, read[0], place) for place, one in enumerate(read)]


def _read(result: Any) -> Read:
    if hasattr(result, "params") and hasattr(result, "bse"):  # statsmodels
        if reason := _unidentified(result):
            raise ArgumentError(reason)
        estimate, names = _numbers(result.params, "estimate")
        errors = _numbers(result.bse, "standard error")[0]
        known = tuple(map(str, getattr(getattr(result, "model", None), "exog_names", None) or ()))
        degrees = max(float(result.df_resid), 1.0) if getattr(result, "use_t", False) else math.inf
        names = names or (known if len(known) == estimate.size else ())
        return _checked(Read(estimate, errors**2, names, degrees=degrees))
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
        "a fitted model of statsmodels; of another library, give the coefficients and their variances as arrays."
    )


def _unidentified(result: Any) -> str:
    """Return a sentence on the columns of a fit of statsmodels that its records do not determine; "" without any."""
    model = getattr(result, "model", None)
    design = getattr(model, "exog", None)
    if not isinstance(design, np.ndarray) or design.ndim != 2:
        return ""
    names = getattr(model, "exog_names", None) or [f"[{place}]" for place in range(design.shape[1])]
    return _dependent(design, list(map(str, names)))


def _dependent(design: np.ndarray, names: list[str]) -> str:
    """Return a sentence on columns of a design that are 0 or depend on others; "" without any."""
    design = np.asarray(design, dtype=np.float64)
    if not design.size or not np.isfinite(design).all():
        return ""
    lengths = np.sqrt(np.einsum("ij,ij->j", design, design))
    if not lengths.all():
        empty = [name for name, length in zip(names, lengths, strict=False) if not length]
        return (
            f"no record of its table has {listed(empty)}, so that nothing determines the coefficient. "
            "Merge rare categories before the analysis."
        )
    scaled = design / lengths
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    if values[0] > SINGULAR * design.shape[1]:
        return ""
    involved = np.abs(vectors[:, values <= SINGULAR * design.shape[1]]).max(axis=1) > 1e-3
    which = [name for name, one in zip(names, involved, strict=False) if one]
    return (
        f"the columns {listed(which)} of its design determine one another in its table, so that their coefficients are "
        "not unique. Leave one of them out; if they do so in some tables only, merge rare categories."
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
        ArgumentError: they have another shape or other names.
    """
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
