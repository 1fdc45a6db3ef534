"""Checks of the results that `combine` joins, and notes on why their standard errors are wider than the rule says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pgmest.analyses.sampled_tables import SampledTables, named_pairs
from pgmest.errors import ArgumentError

SURPRISING = 1e-3
"""The probability, over all components, of finding a difference of the quarters by chance alone."""

ROUNDING = 1e-20
"""A variance below this share of the squared estimates is taken for rounding errors."""

FAR_VARIANCE = 1e3
"""A variance that exceeds the median over the tables by this factor hints at a fit that failed on one table, such as a
logistic regression whose classes are separated there."""

FEW_TABLES = 5
"""With fewer tables, most of an interval's width is uncertainty about the variance between tables."""


def check_numbers(estimates: np.ndarray, variances: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise ArgumentError, which says where, if an estimate or a variance is not finite, or a variance is below 0."""
    wrong = ~(np.isfinite(estimates) & np.isfinite(variances) & (variances >= 0))
    if not wrong.any():
        return
    table, *place = (int(axis[0]) for axis in np.nonzero(wrong))
    where = tuple([table, *place])
    position = int(np.ravel_multi_index(place, estimates.shape[1:])) if place else 0
    name = f" of {names[position]!r}" if names else f" of component {place}" if place else ""
    raise ArgumentError(
        f"results[{table}] has the estimate {estimates[where]:.4g} with the variance {variances[where]:.4g}{name}: "
        "estimates must be finite, and variances finite and at least 0. The fit to that table may have failed, as a "
        "category or an outcome may be missing from it: merge rare categories before the analysis."
    )


def notes_of_equal_tables(
    estimates: np.ndarray, variances: np.ndarray, rule: str, weight: str | None = None
) -> list[str]:
    """Return a note if no component differs between the tables, though its variance within tables is positive.

    Raises:
        ArgumentError: the same, for a rule of tables that cannot be equal, or for tables with a column of weights.
    """
    uncertain = variances.max(axis=0) > 0
    same = estimates.var(axis=0) <= ROUNDING * np.square(estimates).mean(axis=0)
    advice = f"weight each row by the column '{weight}', in which alone the tables differ"
    if weight is not None and same.all():
        if uncertain.any():
            raise ArgumentError(f"the estimates of all tables are equal: {advice}.")
        return [f"the estimates of all tables are equal: unless they are so for any weights, {advice}."]
    if weight is not None and (same & uncertain).any():
        which = f"{int((same & uncertain).sum())} of {same.size} components"
        return [f"the estimates of {which} are equal in all tables: unless they are so for any weights, {advice}."]
    if len(estimates) < 2 or not uncertain.any() or (uncertain & ~same).any():
        return []
    if rule == "multiple_imputation":
        return ["the estimates of all tables are equal, which is right only if exact answers determine them."]
    raise ArgumentError(
        "the estimates of all tables are equal, so that the results are of one table and not of several draws: analyze "
        "each table that sample_tables(m) returned."
    )


def check_count(tables: SampledTables[Any], results: int) -> None:
    """Raise ArgumentError if there are other numbers of tables and results."""
    if len(tables) != results:
        raise ArgumentError(f"there are {results} results of {len(tables)} tables: analyze each of them once.")


def notes_of_unmeasured(tables: SampledTables[Any], names: tuple[str, ...]) -> list[str]:
    """Return a note on the pairs that no answer is about: those with an attribute that the results name, if any."""
    words = {word for name in names for word in re.findall(r"\w+", name)} | set(names)
    pairs = [pair for pair in tables.unmeasured if words & set(pair)] or list(tables.unmeasured)
    if not pairs:
        return []
    return [
        f"no answer is about {named_pairs(pairs)}: the tables draw their dependence at random, as strong as that of "
        "other pairs, and no answer shows whether it is. Report what relates them as assumed, or measure those pairs."
    ]


def too_close(within: np.ndarray, between: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return which components vary less between tables than tables of independent records do.

    For normal estimates, (m - 1) b / u follows the chi-squared distribution at least. Analysts' variances are rough, so
    that b must be below half of the variance that is that unlikely, at a level for all components together.
    """
    from scipy.stats import chi2  # imported late: it takes a second

    level = SURPRISING / max(1, within.size)
    return between < 0.5 * within * chi2.ppf(level, np.maximum(m - 1, 1)) / np.maximum(m - 1, 1)


def note_of_close_tables(close: np.ndarray, rule: str) -> str:
    which = "" if close.ndim == 0 else f" in {int(close.sum())} of {close.size} components"
    return (
        f"the tables differ by less than independent records do{which}, so that the rule {rule!r} is not valid, and "
        "the larger standard errors of 'multiple_imputation' were taken. Draw the tables by sample_tables(m), name the "
        "rule that fits them, or give tables= if they have weights: the standard errors are far too small without it."
    )


def notes_of_tables(variances: np.ndarray) -> list[str]:
    """Return notes on few tables, and on tables whose variances are far larger than those of the others."""
    notes = list[str]()
    if 1 < len(variances) < FEW_TABLES:
        notes.append(f"{len(variances)} tables are few: more of them, such as 20, make the intervals narrower.")
    usual = np.median(variances, axis=0)
    far = (variances > FAR_VARIANCE * usual) & (usual > 0)
    if far.any():
        which = np.flatnonzero(far.reshape(len(far), -1).any(axis=1)).tolist()
        notes.append(
            f"the variances of results {which} exceed the median by more than {FAR_VARIANCE:,.0f} times: the fits to "
            "these tables may have failed, and widen the standard errors. Merge rare categories before the analysis."
        )
    return notes
