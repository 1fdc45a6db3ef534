"""One estimate with a standard error from analyses of several tables, by the rules of multiple imputation.

The rules take the tables for independent draws. `Posterior.sample_tables` returns tables chain after chain. If the
estimates of consecutive quarters of the tables differ by more than chance explains, the chains disagree: the quarters
then count as four draws, whose variance is that of all estimates (Gelman, Rubin 1992), and the result says so. If the
tables are given, too, their chains must not say of themselves that they are not reliable, and the tables count as no
more than the effective draws. Then the result also says which pairs of attributes no answer is about: the tables draw
their dependence at random, as strong as that of other pairs, and nothing shows whether it is.

Tables with weights (`sample_tables` of linked tables) differ in these alone, and by one factor less than draws do, so
that no weight is negative. They know the factor; the variance between them is multiplied by its square.

The rules "noise_aware" and "fully_synthetic" (`pgmest.analyses.rules` has the formulas) need independent records, whose
estimates vary between tables by the variance within tables at least. If they vary less, by more than chance explains,
the tables were made in another way, and the variance is the larger one of "multiple_imputation".
Tables that all give the same estimates are one table, which has no variance between tables: they are refused, except
by "multiple_imputation", as exact answers may determine the estimates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.widths import short_names
from pgmest.analyses.results import read_result
from pgmest.analyses.rules import INDEPENDENT, RULES, multiple_imputation
from pgmest.analyses.sampled_tables import SampledTables, named_pairs
from pgmest.errors import ArgumentError

QUARTERS = 4
"""The number of consecutive groups of tables that are compared: that of the chains by default."""

SURPRISING = 1e-3
"""The probability, over all components, of finding a difference of the quarters by chance alone."""

ROUNDING = 1e-20
"""A variance below this share of the squared estimates is taken for rounding errors."""

FAR_VARIANCE = 1e3
"""A variance that exceeds the median over the tables by this factor hints at a fit that failed on one table, such as a
logistic regression whose classes are separated there."""

WEIGHTED_RULE = "multiple_imputation"
"""The rule for tables that differ in their weights: the weights are draws about the table behind the answers."""

NO_VARIANCE = (
    "all variances are 0, so that the error is what lies between the tables: if they have weights, as those of linked "
    "tables do, it is far too small without tables=."
)
"""The note on results without variances, of which nothing shows whether the tables are draws or have weights."""

FEW_TABLES = 5
"""With fewer tables, most of an interval's width is uncertainty about the variance between tables."""


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
    synthetic_share: float = 1.0,
    data: Sequence[tuple[Any, Any]] | None = None,
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
            - (estimate, variance): numbers, or arrays of one shape; the variance may be a covariance matrix;
            - the fitted result of a statsmodels model, of which `params` and `bse` are read;
            - a fitted LinearRegression or LogisticRegression of scikit-learn, with `data=`: the intercept, then the
              coefficients. Fit it without a penalty (LogisticRegression(C=np.inf)), which the standard errors ignore.
        rule: a rule of the table in `pgmest.analyses.rules`; by default "noise_aware" (`Posterior.sample_tables(m)`),
            and "multiple_imputation" for `tables` with weights.
        synthetic_share: k / n, the number of records of a synthetic table over that of the real one.
        data: for scikit-learn, the (X, y) to which each model was fitted.
        tables: the tables, as `sample_tables` returned them: they know the effective draws and the agreement of the
            chains that drew them, and the pairs of attributes that no answer is about. Tables with weights, of linked
            tables, must be given, as they know how much farther apart draws would be.

    Raises:
        ArgumentError: the tables are of chains that are not reliable, by more than disagreement up to an R-hat of 1.1,
            or that have fewer than two effective draws; or are not a list that `sample_tables` returned; or there are
            more or fewer of them than results; or have weights, and the rule is another one than theirs, or the results
            do not use them.
        ArgumentError: fewer than two results, results of different shapes or of an unknown kind, an unknown rule,
            estimates or variances that are not finite, variances below 0, or estimates that are all the same.
    """
    rule = _rule_of(rule, tables)
    if not 0 < synthetic_share < math.inf:
        raise ArgumentError.of("synthetic_share", synthetic_share, "a positive number: synthetic over real records")
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
    if data is not None and len(data) != len(parts):
        raise ArgumentError(f"data has {len(data)} entries for {len(parts)} results; give (X, y) for each.")
    read = [read_result(part, None if data is None else data[index]) for index, part in enumerate(parts)]
    if len({estimate.shape for estimate, _, _ in read}) > 1:
        shapes = sorted({str(estimate.shape) for estimate, _, _ in read})
        raise ArgumentError(
            f"the results have different shapes ({', '.join(shapes)}): a category may be missing from a table. "
            "Fix the categories of the analysis in advance."
        )
    estimates, variances = (np.stack([one[part] for one in read]) for part in (0, 1))
    _check_numbers(estimates, variances, read[0][2])
    equal = _note_of_equal_tables(estimates, variances, rule, None if tables is None else tables.weight)
    most, wider, notes = float(len(parts)), 1.0, equal
    if tables is not None:
        _check_count(tables, len(parts))
        most, wider, more = _effective(tables.report, len(parts))
        wider *= (tables.spread or 1.0) ** 2
        notes = [*equal, *more, *_notes_of_unmeasured(tables, read[0][2])]
    elif len(parts) > 1 and not variances.any() and estimates.var(axis=0).any():
        notes = [*equal, NO_VARIANCE]
    return _combined(estimates, variances, rule, synthetic_share, read[0][2], most, wider, notes)


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
    usual = WEIGHTED_RULE if weighted else "noise_aware"
    found = usual if rule is None else rule
    if found not in RULES:
        raise ArgumentError.of("rule", rule, RULES)
    if weighted and found != usual:
        raise ArgumentError.of("rule", rule, f"'{usual}' or left out, since these tables differ in their weights alone")
    return found


def _check_numbers(estimates: np.ndarray, variances: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise ArgumentError, which says where, if an estimate or a variance is not finite, or a variance is below 0."""
    wrong = ~(np.isfinite(estimates) & np.isfinite(variances) & (variances >= 0))
    if not wrong.any():
        return
    table, *place = (int(axis[0]) for axis in np.nonzero(wrong))
    where = tuple([table, *place])
    name = "" if not place else f" of {names[place[0]]!r}" if names else f" of component {place}"
    raise ArgumentError(
        f"results[{table}] has the estimate {estimates[where]:.4g} with the variance {variances[where]:.4g}{name}: "
        "estimates must be finite, and variances finite and at least 0. The fit to that table may have failed, as a "
        "category or an outcome may be missing from it: merge rare categories before the analysis."
    )


def _note_of_equal_tables(
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


def _check_count(tables: SampledTables[Any], results: int) -> None:
    """Raise ArgumentError if there are other numbers of tables and results."""
    if len(tables) != results:
        raise ArgumentError(f"there are {results} results of {len(tables)} tables: analyze each of them once.")


def _notes_of_unmeasured(tables: SampledTables[Any], names: tuple[str, ...]) -> list[str]:
    """Return a note on the pairs that no answer is about: those with an attribute that the results name, if any."""
    words = {word for name in names for word in re.findall(r"\w+", name)} | set(names)
    pairs = [pair for pair in tables.unmeasured if words & set(pair)] or list(tables.unmeasured)
    if not pairs:
        return []
    return [
        f"no answer is about {named_pairs(pairs)}: the tables draw their dependence at random, as strong as that of "
        "other pairs, and no answer shows whether it is. Report what relates them as assumed, or measure those pairs."
    ]


def _effective(report: Any, tables: int) -> tuple[float, float, list[str]]:
    """Return the number of independent draws that tables are worth, how much their variance is raised, and notes.

    If the chains disagree a little, the variance between tables is multiplied by the square of R-hat, which is the
    ratio of the variance of all draws to that within chains (Gelman and Rubin 1992).

    Raises:
        ArgumentError: the chains are not reliable, or have fewer than two effective draws.
    """
    if report is None:
        return float(tables), 1.0, []
    wider, notes = 1.0, list[str]()
    if report.nearly_reliable:
        wider = report.disagreement**2
        notes.append(
            f"the posterior's chains disagree a little (R-hat {report.disagreement:.3g}): the variance between tables "
            f"was multiplied by {wider:.3g}. Raise warm_up= or draws= of posterior()."
        )
    elif not report.reliable:
        raise ArgumentError(
            f"the posterior is not reliable yet, as {report.trouble}: tables drawn from it have no valid standard "
            "error. Raise warm_up= or draws= of posterior(), and draw the tables again."
        )
    if not report.bulk_ess >= 2:
        raise ArgumentError(
            f"the posterior has {report.bulk_ess:.2g} effective draws at the cells that mix worst, too few for a "
            "variance: raise draws= of posterior(), and draw the tables again."
        )
    if report.bulk_ess >= tables:
        return tables, wider, notes
    notes.append(f"the tables count as {report.bulk_ess:.3g} draws, the effective ones of the posterior.")
    return report.bulk_ess, wider, notes


def _combined(
    estimates: np.ndarray,
    variances: np.ndarray,
    rule: str,
    share: float,
    names: tuple[str, ...],
    most: float,
    wider: float,
    notes: list[str],
) -> Combined:
    within, m = variances.mean(axis=0), np.full(estimates.shape[1:], most)
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
            f"the first tables differ from the last ones by more than chance explains{which}: the posterior's chains "
            "disagree, and the standard errors were widened. Raise warm_up= or draws= of posterior().",
        ]
    spread, tables = (1.0 + 1.0 / m) * between, len(estimates)
    total, degrees = RULES[rule](within, between, spread, m, share)
    if rule in INDEPENDENT:
        close = _too_close(within, between, m, share)
        if close.any():
            safe = multiple_imputation(within, between, spread, m, share)
            total, degrees = (np.where(close, one, other) for one, other in zip(safe, (total, degrees), strict=True))
            notes = [*notes, _note_of_close_tables(close, rule)]
    notes = [*notes, *_notes_of_tables(variances)]
    stddev = np.sqrt(total)
    return Combined(estimates.mean(axis=0), stddev, degrees, within, between, tables, rule, names, tuple(notes))


def _too_close(within: np.ndarray, between: np.ndarray, m: np.ndarray, share: float) -> np.ndarray:
    """Return which components vary less between tables than tables of independent records do.

    For normal estimates, (m - 1) b / u follows the chi-squared distribution at least. Analysts' variances are rough, so
    that b must be below half of the variance that is that unlikely, at a level for all components together.
    """
    from scipy.stats import chi2  # imported late: it takes a second

    level = SURPRISING / max(1, within.size)
    return between < 0.5 * within * chi2.ppf(level, np.maximum(m - 1, 1)) / np.maximum(m - 1, 1)


def _note_of_close_tables(close: np.ndarray, rule: str) -> str:
    which = "" if close.ndim == 0 else f" in {int(close.sum())} of {close.size} components"
    return (
        f"the tables differ by less than independent records do{which}, so that the rule {rule!r} is not valid, and "
        "the larger standard errors of 'multiple_imputation' were taken. Draw the tables by sample_tables(m), name the "
        "rule that fits them, or give tables= if they have weights: the standard errors are far too small without it."
    )


def _notes_of_tables(variances: np.ndarray) -> list[str]:
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
