r"""Combining rules of multiple imputation: the variance of an estimate from analyses of several tables.

Each of m tables gives an estimate $q_i$ and the variance $u_i$ that an analyst would state for it. Let $\bar q$ be the
mean of the estimates, $\bar u$ the mean variance, b the variance between the estimates, and $B = (1 + 1/m) b$. The
variance of $\bar q$ about the population's value is

======================  =======================================  ================================================
rule                    variance                                 the tables are
======================  =======================================  ================================================
"noise_aware"           $\max(B, \bar u)$                        `sample_tables(about="population")`
"fully_synthetic"       $B - \bar u$                             drawn from a posterior of the population
                                                                 (Raghunathan, Reiter, Rubin 2003; Raisa et al. 2023)
"partially_synthetic"   $\bar u + b / m$                         with some values replaced (Reiter 2003)
"multiple_imputation"   $\bar u + B$                             real except for missing values (Rubin 1987), or
                                                                 `sample_tables(about="table")`
"simple"                $\bar u (1 + 1 / m)$                     drawn from one fitted model, not a posterior
                                                                 (Raab, Nowok, Dibben 2016)
======================  =======================================  ================================================

A synthetic table has as many records as the real one. "noise_aware" is for tables drawn given noisy answers about one
table. Their draws differ by the noise, whose variance is $B - \bar u$. The sampling of the real table adds $\bar u$.

If $B - \bar u$ is negative by chance, the variance is $\bar u$ (Reiter 2002).

The degrees of freedom of a rule are those for $\bar u$ known. `with_analysis` counts that $\bar u$ is an estimate.
"""

from __future__ import annotations

import numpy as np

Parts = tuple[np.ndarray, np.ndarray]


def _noise_aware(within: np.ndarray, between: np.ndarray, spread: np.ndarray, m: np.ndarray) -> Parts:
    """Give m - 1 degrees of freedom to the variance between tables, and inf to the rest (Satterthwaite 1946)."""
    noise = np.maximum(spread - within, 0.0)
    total = noise + within
    return total, (m - 1) * _squared_ratio(total, np.where(noise > 0, spread, 0.0))


def _fully_synthetic(within: np.ndarray, between: np.ndarray, spread: np.ndarray, m: np.ndarray) -> Parts:
    total = np.where(spread > within, spread - within, within)
    return total, np.maximum((m - 1) * _squared_ratio(total, spread), 1.0)


def _partially_synthetic(within: np.ndarray, between: np.ndarray, spread: np.ndarray, m: np.ndarray) -> Parts:
    total = within + between / m
    return total, (m - 1) * _squared_ratio(total, between / m)


def multiple_imputation(within: np.ndarray, between: np.ndarray, spread: np.ndarray, m: np.ndarray) -> Parts:
    total = within + spread
    return total, (m - 1) * _squared_ratio(total, spread)


def _simple(within: np.ndarray, between: np.ndarray, spread: np.ndarray, m: np.ndarray) -> Parts:
    return within * (1.0 + 1.0 / m), np.full(within.shape, np.inf)


RULES = {
    "noise_aware": _noise_aware,
    "fully_synthetic": _fully_synthetic,
    "partially_synthetic": _partially_synthetic,
    "multiple_imputation": multiple_imputation,
    "simple": _simple,
}
"""The variance and the degrees of freedom under each rule."""

INDEPENDENT = ("noise_aware", "fully_synthetic")
"""The rules for tables of independent records, which subtract the sampling variance of these."""


def with_analysis(
    degrees: np.ndarray, sampling: np.ndarray, total: np.ndarray, analysis: float, missing: bool
) -> np.ndarray:
    r"""Return degrees of freedom that count those of the analysis of one table, $\nu$, too.

    With missing values they are the $1 / (1 / \nu_m + 1 / \nu_o)$ of Barnard, Rubin 1999, with
    $\nu_o = \nu (\nu + 1) / (\nu + 3) \cdot \bar u / T$. Otherwise the variance between tables is noise, independent of
    $\bar u$, and $\nu_o = \nu (T / \bar u)^2$ (Satterthwaite 1946). The least number is 1.

    Args:
        degrees: those of the rule, $\nu_m$.
        sampling: the part of the variance that is due to sampling, such as $\bar u$.
        total: the variance, T.
        analysis: $\nu$.
        missing: whether the tables differ in values that were missing.
    """
    if analysis == np.inf:
        return degrees
    share = np.divide(np.minimum(sampling, total), total, out=np.ones(np.shape(total)), where=total > 0)
    if missing:
        observed = analysis * (analysis + 1.0) / (analysis + 3.0) * share
        inverse = np.divide(1.0, observed, out=np.zeros(np.shape(total)), where=observed > 0)
    else:
        inverse = share**2 / analysis
    return np.maximum(1.0 / (1.0 / degrees + inverse), 1.0)


def _squared_ratio(total: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return (total / part)^2; inf where the part is 0."""
    return np.divide(total, part, out=np.full(np.shape(total), np.inf), where=part > 0) ** 2
