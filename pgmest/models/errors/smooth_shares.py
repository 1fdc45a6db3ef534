r"""Shares of dependence in products of smooth functions of codes, as noisy answers show them.

Single cells of noisy tables are shrunk, and what is left of them may be noise, of which little is smooth. So the shares
are read from sums over many cells. The deviations of a table from the expected one are $r f$, with the roots r of the
expected counts. In the direction of a product of smooth functions, an answer gives a coefficient c of f with noise of
the variance v, so that $c^2 - v$ is an unbiased estimate of its square. A typical f with the same l1 norm of $r f$ has
squares of the sum Q. The estimate $(c^2 - v) / Q$ of the share has the variance $(2 v^2 + 4 c^2 v) / Q^2$; the less it
is, relative to the variance between tables, the more the answer counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.models.errors.smooth_functions import DEGREES, smooth_functions
from pgmest.models.errors.table_answers import TableAnswer, centered

PRIOR_PAIRS, PRIOR_SHARE, PRIOR_DECAY = 2.0, 0.7, 0.3
"""The prior of the shares: its weight, in pairs; the share of squared dependence in smooth functions; and the factor
from one degree to the next. They are about the means over the dependent pairs of thirteen tables."""
BETWEEN = 0.3
"""The standard deviation of a share between tables."""
FEWEST = 1e-6
"""Tables of fewer records show nothing."""
LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class SmoothShares:
    """The shares that an answer about two attributes shows, each of shape (degrees, degrees).

    Attributes:
        shares: the shares of the squared dependence in the products of functions.
        weights: how much they count, at most 1.
    """

    shares: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, answer: TableAnswer, expected: np.ndarray, size: float) -> SmoothShares:
        """Read the shares from the answers about a pair.

        Args:
            answer: the answers.
            expected: the expected table over their groups, in counts.
            size: the expected l1 norm of the true deviations from it.
        """
        marginals, total = (expected.sum(axis=1), expected.sum(axis=0)), float(expected.sum())
        if total < FEWEST or not size > 0:
            return cls(np.zeros((0, 0)), np.zeros((0, 0)))
        functions = [_by_count(counts) for counts in marginals]
        off = centered(answer.beyond(expected)[None])[0]
        squares = np.square(functions[0].T @ off @ functions[1]) * total
        spread = [_spread(f, side.inverse) for f, side in zip(functions, answer.sides, strict=True)]
        noise = (answer.stddev**2 * np.multiply.outer(*spread) + 1 / total**2) * total
        roots = np.sqrt(np.maximum(expected, 0.0))
        cells = max(1, int(np.count_nonzero(roots)))
        whole = np.pi / 2 * cells * (size / max(float(roots.sum()), LEAST)) ** 2
        variance = (2 * np.square(noise) + 4 * squares * noise) / max(whole**2, LEAST)
        shares = np.clip((squares - noise) / max(whole, LEAST), 0.0, 1.0)
        return cls(shares / max(1.0, float(shares.sum())), BETWEEN**2 / (BETWEEN**2 + variance))


def _by_count(counts: np.ndarray) -> np.ndarray:
    """Return smooth functions of codes, which give the coefficients of a table when they are multiplied by it."""
    roots = np.sqrt(counts)[:, None]
    functions = smooth_functions(counts)
    return np.divide(functions, roots, out=np.zeros_like(functions), where=roots > 0)


def _spread(functions: np.ndarray, inverse: np.ndarray | None) -> np.ndarray:
    """Return the factors by which the variance of the noise of answers grows in the coefficients of functions."""
    off = functions - functions.mean(axis=0)
    return np.square(off if inverse is None else inverse.T @ off).sum(axis=0)


def mean_shares(found: Iterable[SmoothShares]) -> np.ndarray:
    """Return the mean shares of pairs and of what is known before, shape (degrees, degrees)."""
    powers = PRIOR_DECAY ** np.arange(DEGREES)
    before = np.outer(powers, powers)
    sums, weights = PRIOR_PAIRS * PRIOR_SHARE * before / before.sum(), np.full(before.shape, PRIOR_PAIRS)
    for one in found:
        rows, columns = one.shares.shape
        sums[:rows, :columns] += one.weights * one.shares
        weights[:rows, :columns] += one.weights
    shares = sums / weights
    return shares / max(1.0, float(shares.sum()))


def shown_share(
    shares: Sequence[np.ndarray], bases: Sequence[np.ndarray], labels: Sequence[np.ndarray], spectrum: np.ndarray
) -> float:
    r"""Return the share of a table's dependence, an l1 norm, that groups of codes show.

    Of smooth functions of an attribute's codes, groups show their variance between groups. Of others, errors of codes
    in proportion to the roots of their shares p add up to those of groups of the shares P, whose absolute values are as
    $\sqrt{P (1 - P)}$, given that all groups together have no error.

    Args:
        shares: for each attribute, the share of the records of each code.
        bases: `smooth_functions` of each attribute.
        labels: the group of each code.
        spectrum: the shares of squared dependence in products of smooth functions, for tables of two attributes.
    """
    between, rough = list[np.ndarray](), 1.0
    for own, basis, groups in zip(shares, bases, labels, strict=True):
        merged, parts = np.bincount(groups, own), basis * np.sqrt(own)[:, None]
        sums = np.zeros((len(merged), parts.shape[1]))
        np.add.at(sums, groups, parts)
        parts = np.divide(np.square(sums), merged[:, None], out=np.zeros_like(sums), where=merged[:, None] > 0)
        between.append(np.minimum(parts.sum(axis=0), 1.0))
        whole = _roots(own)
        rough *= min(1.0, _roots(merged) / whole) ** 2 if whole > 0 else 1.0
    if len(shares) != 2:
        return math.sqrt(rough)
    known = spectrum[: len(between[0]), : len(between[1])]
    return math.sqrt(float(between[0] @ known @ between[1]) + max(0.0, 1 - float(known.sum())) * rough)


def _roots(shares: np.ndarray) -> float:
    return float(np.sqrt(np.clip(shares * (1 - shares), 0.0, None)).sum())
