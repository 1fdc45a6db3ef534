"""Shrinkage of noisy pairs along trees: first the table of the coarsest branches, then deviations inside branches.

The sum of a branch has less noise, relative to its count, than its groups have. So the dependence between branches
needs less shrinkage than that inside them. Both are estimated from the noisy table (empirical Bayes): if a tree says
nothing about a pair, branches deviate as much as noise and groups explain, and are shrunk as their groups are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pgmest.mechanisms.lamp.candidates import interaction_fraction
from pgmest.mechanisms.lamp.shrinkage import LEAST_SHARE, NoisyPair, ipf_two_way, safe_ratios
from pgmest.models.errors.mixture import LEAST, NOTHING_KNOWN, PriorMixture
from pgmest.synthesis.consistency import norm_sub
from pgmest.tables.groups import group_starts, summed

LEAST_FRACTION = 1e-9
"""Sums of which a smaller fraction of the noise remains are known."""
MOST_EXPONENT = 700.0
"""A larger exponent would overflow."""

Labels = tuple[np.ndarray, ...]
"""For each axis of a table, the branch of each group."""


def branches_of_groups(groups: np.ndarray, levels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the branch of each group at each level of a tree, from the coarsest, and last the groups themselves.

    Branches that share a group count as one. A level with more than half as many branches as the next finer one is left
    out, as is a level of a single branch.

    >>> tree = [np.array([0, 0, 0, 0, 1, 1])]
    >>> [labels.tolist() for labels in branches_of_groups(np.arange(6), tree)]
    [[0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 4, 5]]

    Args:
        groups: The group of each code, a range of codes.
        levels: The branch of each code at each level, from the coarsest, each a range of codes.
    """
    starts = group_starts(groups)
    found = [np.arange(len(starts))]
    for level in levels[::-1]:
        cuts = np.diff(level)[starts[1:] - 1] != 0
        labels = np.cumsum(np.r_[False, cuts])
        if 2 <= int(labels[-1]) + 1 <= (int(found[0][-1]) + 1) / 2:
            found.insert(0, labels)
    return found


def steps_of(sides: Sequence[Sequence[np.ndarray]]) -> list[Labels]:
    """Return the branches of all axes for each step from coarse to fine, without the groups themselves.

    An axis with fewer levels than another has its coarsest branches in the first steps.
    """
    depth = max(map(len, sides))
    return [tuple(side[max(0, len(side) - depth + step)] for side in sides) for step in range(depth - 1)]


def by_branches(
    pair: NoisyPair, steps: Sequence[Labels], rates: Sequence[np.ndarray], before: np.ndarray = NOTHING_KNOWN
) -> np.ndarray:
    r"""Return the counts of a pair shrunk along trees, positive and with the one-way marginals.

    The table of a step is shrunk towards that of the step before it, in which each branch is divided in proportion to
    the expected counts. The result is the weighted mean of the last step's table and of the table that is shrunk at
    once (`NoisyPair.table`). The weight of a table with risk r is proportional to $\exp(-r / 4 \sigma^2)$ (Leung and
    Barron 2006). So a tree that says nothing about a pair does little harm.

    Args:
        pair: The noisy counts over groups.
        steps: The branches of each step, from the coarsest; the groups themselves are the last step.
        rates: For each step and for the groups, what each cell adds to the variance of the noise in the sum of its
            branch: the variance of a cell, or less where branches were measured, too.
        before: The prior weights of the table that is shrunk at once; see `shrunk`.
    """
    table, risk = _step_by_step(pair, steps, rates)
    at_once = pair.mixture.risk(before) * interaction_fraction(pair.values.shape) / max(pair.stddev**2, LEAST)
    weight = 1 / (1 + math.exp(min((risk - at_once) / 4, MOST_EXPONENT)))
    return weight * table + (1 - weight) * pair.table(before)


def _step_by_step(pair: NoisyPair, steps: Sequence[Labels], rates: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the table of the last step and its estimated risk, in variances of the noise."""
    shape, values, table, risk = pair.values.shape, pair.values, pair.expected, 0.0
    whole: Labels = tuple(np.zeros(size, dtype=np.int64) for size in shape)
    possible = (table > 0).astype(np.float64)
    levels = pairwise((whole, *steps, tuple(map(np.arange, shape))))
    for (above, labels), rate in zip(levels, rates, strict=True):
        cells, before, noise = summed(possible, labels), summed(table, labels), summed(rate, labels)
        off, left = _shrunk(summed(values, labels) - before, before, noise, unknown_fraction(above, labels))
        found = norm_sub(before + off, float(pair.rows.sum()))
        ratio = safe_ratios(np.maximum(found, LEAST_SHARE * before), before)
        table = ipf_two_way(table * ratio[np.ix_(*labels)], pair.rows, pair.columns)
        apart = summed(table - values, labels) / np.maximum(cells, 1.0)
        values, risk = values + possible * apart[np.ix_(*labels)], risk + left
    return table, risk


def unknown_fraction(above: Labels, labels: Labels) -> np.ndarray:
    r"""Return the fraction of the noise in a branch that remains if the branches above and both margins are known.

    Along an axis, let n groups be divided into branches of p groups and these into branches of m. The noise in a sum
    over m groups is that of the mean of all, the fraction m / n, what the mean of the branch above adds,
    $b = m / p - m / n$, and the rest. Known are products of two parts one of which is the mean of all, and the product
    of two parts b. So $(1 - m / n) (1 - m' / n') - b b'$ is left.
    """
    rest, between = [], []
    for coarse, fine in zip(above, labels, strict=True):
        groups = np.bincount(fine)
        inside, everywhere = groups / np.bincount(coarse)[coarse[group_starts(fine)]], groups / len(fine)
        rest.append(1 - everywhere)
        between.append(inside - everywhere)
    return np.maximum(np.outer(*rest) - np.outer(*between), 0.0)


def _shrunk(off: np.ndarray, expected: np.ndarray, noise: np.ndarray, fraction: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the estimate of noisy differences from expected counts, and its risk in variances of the noise.

    Args:
        off: The differences.
        expected: The expected counts.
        noise: The variance of the noise in each count.
        fraction: The fraction of the noise that is unknown. Where it is 0, there is no difference.
    """
    noisy, found = (fraction > LEAST_FRACTION) & (noise > 0), np.zeros(off.shape)
    if not noisy.any():
        return found, 0.0
    around, free = expected[noisy], float(fraction[noisy].mean())
    variances = np.maximum(noise * fraction, LEAST)[noisy]
    mixture = PriorMixture.with_variances(around + off[noisy], around, variances, free)
    found[noisy] = mixture.estimate(NOTHING_KNOWN)
    return found, free * mixture.risk(NOTHING_KNOWN)
