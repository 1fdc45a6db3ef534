"""One estimate with a standard error from analyses of several tables, by the rules of multiple imputation.

The rules take the tables for independent draws, as those of `sample_tables` are. Chains of other programs may not be:
if the estimates of consecutive quarters of the tables differ by more than chance explains, the quarters count as four
draws, whose variance is that of all estimates (Gelman, Rubin 1992), and the result says so. If the tables are given,
too, the result says which pairs of attributes no answer is about: the tables draw their dependence at random, as
strong as that of other pairs, and nothing shows whether it is.

Tables with weights (`sample_tables` of linked tables) differ in these alone, and by one factor less than draws do, so
that no weight is negative. They know the factor; the variance between them is multiplied by its square.

The rules "noise_aware" and "fully_synthetic" (`pgmest.analyses.rules` has the formulas) need independent records, whose
estimates vary between tables by the variance within tables at least. If they vary less, by more than chance explains,
the tables were made in another way, and the variance is the larger one of "multiple_imputation".
Tables that all give the same estimates are one table, which has no variance between tables: they are refused, except
by "multiple_imputation", as exact answers may determine the estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.widths import short_names
from pgmest.analyses.checks import (
    ROUNDING,
    SURPRISING,
    check_count,
    check_numbers,
    note_of_close_tables,
    notes_of_equal_tables,
    notes_of_tables,
    notes_of_unmeasured,
    too_close,
)
from pgmest.analyses.results import read_results
from pgmest.analyses.rules import INDEPENDENT, RULES, multiple_imputation, with_analysis
from pgmest.analyses.sampled_tables import SampledTables
from pgmest.errors import ArgumentError

QUARTERS = 4
"""The number of consecutive groups of tables that are compared."""

TABLE_RULE = "multiple_imputation"
"""The rule for tables of `sample_tables(about="table")`, and for those that differ in their weights: both are draws of
the table behind the answers."""

NO_VARIANCE = (
    "all variances are 0, so that the error is what lies between the tables: if they have weights, as those of linked "
    "tables do, it is far too small without tables=."
)
"""The note on results without variances, of which nothing shows whether the tables are draws or have weights."""


@dataclass(frozen=True, eq=False, repr=False)
class Combined:
    """An estimate from several tables, component by component.

    Attributes:
        estimate: the mean of the estimates.
        stddev: the standard error of the estimate.
        degrees: the degrees of freedom of the t distribution; inf for a normal distribution.
        within: the mean of the variances within tables.
        between: the variance between the tables' estimates.
        tables: the number of tables.
        rule: the combining rule.
        names: the names of the components; () if they have none.
        notes: sentences on why the standard errors are wider than the rule alone would have them.
    """

    estimate: np.ndarray
    stddev: np.ndarray
    degrees: np.ndarray
    within: np.ndarray
    between: np.ndarray
    tables: int
    rule: str
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of confidence intervals, by the t distribution.

        Raises:
            ArgumentError: the level is not between 0 and 1.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
            raise ArgumentError.of("level", level, "a number between 0 and 1, such as 0.95")
        from scipy.stats import t  # imported late: it takes a second

        reach = t.ppf(0.5 + 0.5 * level, self.degrees) * self.stddev
        return self.estimate - reach, self.estimate + reach

    def p_values(self) -> np.ndarray:
        """Return the two-sided p-value of each component being 0; 1 if the estimate and its error are both 0."""
        from scipy.stats import t

        away = np.abs(self.estimate)
        ratio = np.divide(away, self.stddev, out=np.where(away > 0, np.inf, 0.0), where=self.stddev > 0)
        return 2.0 * t.sf(ratio, self.degrees)

    def __repr__(self) -> str:
        low, high = self.interval()
        names = (
            list(short_names(self.names).values())
            if self.names
            else [f"[{index}]" for index in range(self.estimate.size)]
        )
        width = max([9, *map(len, names)])
        lines = [
            f"Combined from {self.tables} tables, rule {self.rule}",
            f"{'':<{width}} {'estimate':>10} {'std. err.':>10} {'2.5 %':>10} {'97.5 %':>10}",
        ]
        columns = (np.ravel(one) for one in (self.estimate, self.stddev, low, high))
        for name, *numbers in zip(names, *columns, strict=True):
            lines.append(f"{name:<{width}} " + " ".join(f"{number:>10.4g}" for number in numbers))
        return "\n".join([*lines, *self.notes])


def combine(
    results: Sequence[Any],
    *,
    rule: str | None = None,
    tables: SampledTables[Any] | None = None,
) -> Combined:
    """Return one estimate with a valid standard error from the same analysis of m synthetic tables.

    >>> combine([(10.2, 1.1), (9.1, 0.9), (10.9, 1.0)], rule="multiple_imputation")
    Combined from 3 tables, rule multiple_imputation
                estimate  std. err.      2.5 %     97.5 %
    [0]            10.07      1.448       6.67      13.46
    3 tables are few: more of them, such as 20, make the intervals narrower.

    Args:
        results: one result for each table, which is one of
            - (estimate, variance): numbers, arrays of one shape, series and dataframes of pandas, or dictionaries; the
              variance may be a covariance matrix;
            - the fitted result of a statsmodels model, of which `params` and `bse` are read;
            - a `pgmest.surveys.SurveyEstimate`, with its degrees of freedom.
            Estimates with names are put in the order of the first result's.
        rule: a rule of the table in `pgmest.analyses.rules`; by default "noise_aware" (`sample_tables(m)`), and
            "multiple_imputation" for `tables` with weights, or drawn with about="table".
        tables: the tables, as `sample_tables` returned them: they know the pairs of attributes that no answer is
            about. Tables with weights, of linked tables, must be given, as they know how much farther apart draws
            would be.

    Raises:
        ArgumentError: the tables are not a list that `sample_tables` returned; or there are more or fewer of them than
            results; or they have weights, and the rule is another one than theirs, or the results do not use them.
        ArgumentError: fewer than two results, results of different shapes or names, or of an unknown kind; fits whose
            coefficients their records do not determine; an unknown rule; estimates or variances that are not finite,
            variances below 0, or estimates that are all the same.
    """
    rule = _rule_of(rule, tables)
    try:
        parts = list(results)
    except TypeError:
        raise ArgumentError.of("results", results, "a list with a result for each table") from None
    if len(parts) < 2 and rule != "simple":
        raise ArgumentError(
            f"combine needs at least two results, got {len(parts)}: the variance between tables takes two of them."
        )
    if not parts:
        raise ArgumentError("combine needs at least one result, got none.")
    read = read_results(parts)
    estimates, variances = np.stack([one.estimate for one in read]), np.stack([one.variance for one in read])
    names = read[0].names
    check_numbers(estimates, variances, names)
    equal = notes_of_equal_tables(estimates, variances, rule, None if tables is None else tables.weight)
    wider, notes = 1.0, equal
    if tables is not None:
        check_count(tables, len(parts))
        wider = (tables.spread or 1.0) ** 2
        notes = [*equal, *notes_of_unmeasured(tables, names)]
    elif len(parts) > 1 and not variances.any() and estimates.var(axis=0).any():
        notes = [*equal, NO_VARIANCE]
    degrees, missing = min(one.degrees for one in read), rule == TABLE_RULE and tables is None
    return _combined(estimates, variances, rule, names, wider, notes, degrees, missing)


def _rule_of(rule: Any, tables: Any) -> str:
    """Return the rule for tables, which may be None.

    Raises:
        ArgumentError: an unknown rule, or not that of tables with weights; or the tables are no `SampledTables`.
    """
    if tables is not None and not isinstance(tables, SampledTables):
        raise ArgumentError.of(
            "tables",
            type(tables).__name__,
            "the list that sample_tables returned: parts and copies have lost its facts",
        )
    weighted = tables is not None and tables.spread is not None
    usual = TABLE_RULE if weighted or (tables is not None and tables.about == "table") else "noise_aware"
    found = usual if rule is None else rule
    if found not in RULES:
        raise ArgumentError.of("rule", rule, RULES)
    if weighted and found != usual:
        raise ArgumentError.of("rule", rule, f"'{usual}' or left out, since these tables differ in their weights alone")
    return found


def _combined(
    estimates: np.ndarray,
    variances: np.ndarray,
    rule: str,
    names: tuple[str, ...],
    wider: float,
    notes: list[str],
    analysis: float,
    missing: bool,
) -> Combined:
    within, m = variances.mean(axis=0), np.full(estimates.shape[1:], float(len(estimates)))
    between = wider * estimates.var(axis=0, ddof=1) if len(estimates) > 1 else np.zeros_like(within)
    apart, overall = _quarters_apart(estimates)
    if apart.any():
        between, m = (
            np.where(apart, np.maximum(between, wider * overall), between),
            np.where(apart, np.minimum(m, QUARTERS), m),
        )
        which = "" if apart.ndim == 0 else f" in {int(apart.sum())} of {apart.size} components"
        notes = [
            *notes,
            f"the first tables differ from the last ones by more than chance explains{which}: they are no "
            "independent draws, and the standard errors were widened.",
        ]
    spread, tables = (1.0 + 1.0 / m) * between, len(estimates)
    total, degrees = RULES[rule](within, between, spread, m)
    if rule in INDEPENDENT:
        close = too_close(within, between, m)
        if close.any():
            safe = multiple_imputation(within, between, spread, m)
            total, degrees = (np.where(close, one, other) for one, other in zip(safe, (total, degrees), strict=True))
            notes = [*notes, note_of_close_tables(close, rule)]
    sampling = total if rule == "simple" else within
    degrees = with_analysis(degrees, sampling, total, analysis, missing)
    notes = [*notes, *notes_of_tables(variances)]
    stddev = np.sqrt(total)
    return Combined(estimates.mean(axis=0), stddev, degrees, within, between, tables, rule, names, tuple(notes))


def _quarters_apart(estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which components differ between consecutive quarters of the tables, and the variance over all of them.

    The test is an analysis of variance, at a level for all components together.
    """
    each, shape = len(estimates) // QUARTERS, estimates.shape[1:]
    if each < 2:
        return np.zeros(shape, dtype=bool), np.zeros(shape)
    from scipy.stats import f  # imported late: it takes a second

    groups = np.stack([group[:each] for group in np.array_split(estimates, QUARTERS)])
    inner, outer = groups.var(axis=1, ddof=1).mean(axis=0), groups.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.divide(each * outer, inner, out=np.where(outer > 0, np.inf, 0.0), where=inner > 0)
    level = SURPRISING / max(1, int(np.prod(shape)))
    apart = f.sf(ratio, QUARTERS - 1, QUARTERS * (each - 1)) < level
    return apart & (outer > ROUNDING * np.square(estimates).mean(axis=0)), (1 - 1 / each) * inner + outer
