"""One-way marginals of attributes with a tree, from noisy counts of codes and of branches.

Counts of codes are shrunk towards each other and towards those of their branch (empirical Bayes), then combined with
the answers about branches by least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.answers import RangeAnswers
from pgmest.mechanisms.lamp.candidates import memberships
from pgmest.mechanisms.lamp.dependence import mixture_weights
from pgmest.mechanisms.lamp.one_way import OneWayEstimate, estimated_risk
from pgmest.synthesis.consistency import norm_sub

ATOMS = 80
"""The number of atoms for the distribution of shares."""
PURE_PART = 1e-3
"""The part of an attribute's share for each coarser level under pure differential privacy, where half of a share has
four times the variance."""
LEAST_RATIO = 1e-2
"""The smallest positive ratio of a count to its even share of its branch in the distribution of shares."""
LEAST_SHARE = 1e-6
"""The smallest estimate of a code, relative to its even share of its branch."""
LEAST_BASE = 0.05
"""The smallest mean count of siblings, relative to that of all codes."""
LEAST_VARIANCE = 1e-3
"""The smallest variance of a count before answers about groups, relative to that of the noise."""


def measured_levels(levels: Sequence[np.ndarray], codes: int) -> list[np.ndarray]:
    """Return the levels of a tree to measure, from the coarsest, and the codes.

    A level with more than half as many groups as the next finer one is left out: sums of that one are as good. Nothing
    is returned without levels.
    """
    kept = [np.arange(codes)]
    for labels in levels[::-1]:
        if 2 * (int(labels.max()) + 1) <= int(kept[0].max()) + 1:
            kept.insert(0, labels)
    return kept if levels else []


def level_parts(levels: Sequence[np.ndarray], power: float) -> np.ndarray:
    """Return the parts of a share for each level of a tree, the codes last; they are equal for zCDP.

    Args:
        levels: The branch of each code at each level, from the coarsest, the codes last.
        power: The power of the share to which precision is proportional.
    """
    coarser = len(levels) - 1
    part = 1 / len(levels) if power == 1 else PURE_PART
    return np.r_[np.full(coarser, part), 1 - coarser * part]


def share_with_levels(levels: Sequence[np.ndarray], power: float) -> float:
    """Return the share of all levels together, relative to that of the codes, which is 1 without a tree.

    The share that an attribute would have without its tree is that of its codes. Counts of branches come on top of it,
    and all measurements pay for them alike.
    """
    return 1 / float(level_parts(levels, power)[-1]) if levels else 1.0


def levels_together(levels: Sequence[np.ndarray], power: float) -> np.ndarray:
    """Return the matrix of the counts of all levels, each with its part of a share, shape (codes, groups)."""
    parts = level_parts(levels, power) ** (power / 2)
    return np.concatenate([part * memberships(labels) for part, labels in zip(parts, levels, strict=True)], axis=1)


@dataclass(frozen=True, eq=False)
class CodeCounts:
    """Counts of codes with independent errors, before answers about groups of codes.

    Attributes:
        means: The counts, shape (codes,).
        variances: The variances of their errors.
        usual: The squares of their mean absolute errors, in those of a normal distribution of variance 1. Where few
            codes have most of the records, they are smaller than the variances.
    """

    means: np.ndarray
    variances: np.ndarray
    usual: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, stddev: float, base: np.ndarray) -> CodeCounts:
        """Estimate the counts from noisy ones, with a prior of their ratios to base counts.

        The ratios have one distribution on nonnegative numbers, which is estimated by maximum likelihood from all
        counts (nonparametric empirical Bayes; Kiefer and Wolfowitz 1956). It is a mixture of 0 and of normal
        distributions on a logarithmic grid.

        Args:
            values: The noisy counts.
            stddev: The standard deviation of the noise in each.
            base: The counts if all ratios were 1.
        """
        base = np.maximum(base, 1e-9)
        largest = max(2.0, float((np.maximum(values + 2 * stddev, 0.0) / base).max()))
        atoms = np.r_[0.0, np.geomspace(LEAST_RATIO, largest, ATOMS - 1)]
        widths = np.square(base[:, None] * atoms * (np.log(atoms[2] / atoms[1]) / 2))
        variances, off = stddev**2 + widths, values[:, None] - base[:, None] * atoms
        logs = -0.5 * (np.square(off) / variances + np.log(variances))
        likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
        posterior = likelihood * mixture_weights(likelihood, np.full(ATOMS, 0.5 / ATOMS))
        posterior /= posterior.sum(axis=1, keepdims=True)
        inside = base[:, None] * atoms + widths / variances * off
        left = widths * stddev**2 / variances
        means = (posterior * inside).sum(axis=1)
        spread = (posterior * (left + np.square(inside - means[:, None]))).sum(axis=1)
        off = np.sqrt(np.square(inside - means[:, None]) + np.square(MEAN_ABSOLUTE) * left)
        usual = np.square((posterior * off).sum(axis=1) / MEAN_ABSOLUTE)
        least = LEAST_VARIANCE * stddev**2
        return cls(np.maximum(means, 0.0), np.maximum(spread, least), np.maximum(usual, least))

    def given(self, answers: Sequence[RangeAnswers]) -> np.ndarray:
        """Return the best linear estimates of the counts after answers about groups."""
        rows, across, inside = _seen(answers, self.variances)
        off = np.concatenate([answer.values for answer in answers]) - rows @ self.means
        return self.means + across.T @ np.linalg.solve(inside, off)

    def covariance(self, answers: Sequence[RangeAnswers]) -> np.ndarray:
        """Return the covariance of the usual errors of `given`, shape (codes, codes)."""
        _, across, inside = _seen(answers, self.usual)
        return np.diag(self.usual) - across.T @ np.linalg.solve(inside, across)


def _seen(answers: Sequence[RangeAnswers], variances: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrix of all answers, its covariance with the counts, and the covariance of the answers."""
    rows = np.concatenate([answer.matrix for answer in answers])
    noise = np.concatenate([np.full(len(answer.matrix), answer.variance) for answer in answers])
    across = rows * variances
    return rows, across, across @ rows.T + np.diag(noise)


@dataclass(frozen=True, eq=False)
class TreeAnswers:
    """All answers about an attribute with a tree.

    Attributes:
        values: Noisy counts of codes, shape (codes,).
        variance: The variance of the noise in each.
        groups: Answers about groups of codes.
        levels: The branch of each code at each level of the tree, from the coarsest.
        total: The number of records.
        public: Counts of codes in a public table.
    """

    values: np.ndarray
    variance: float
    groups: Sequence[RangeAnswers]
    levels: Sequence[np.ndarray]
    total: float
    public: np.ndarray | None = None

    @cached_property
    def _alone(self) -> CodeCounts:
        r"""The counts of codes without the groups.

        Their means are those of several estimates: that without a tree, whose neighbors are the codes next in order,
        and those with a prior of the ratios to even counts, to the mean of the siblings, and to a public table. The
        weight of an estimate with risk r is proportional to $\exp(-r / 4 \sigma^2)$ (Leung and Barron 2006). So a tree
        that says nothing about the counts does little harm.
        """
        stddev, even = self.variance**0.5, np.full(len(self.values), self.total / len(self.values))
        without = OneWayEstimate.of(self.values, stddev, self.total)
        estimates = [partial(_means, stddev=stddev, base=even), self._by_siblings]
        if self.public is not None:
            estimates.append(partial(_means, stddev=stddev, base=self.public))
        means = [estimate(self.values) for estimate in estimates]
        risks = [estimated_risk(e, self.values, mean, stddev) for e, mean in zip(estimates, means, strict=True)]
        off = np.array([*risks, without.risk])
        weights = np.exp((off.min() - off) / (4 * self.variance))
        mean = (weights / weights.sum()) @ np.array([*means, without.counts])
        return replace(CodeCounts.of(self.values, stddev, even), means=mean)

    def _by_siblings(self, values: np.ndarray) -> np.ndarray:
        """Return the counts with a prior of their ratios to the mean of the other codes of the lowest branch.

        Each branch has one more code, whose count is the mean of all.
        """
        labels, mean = self.levels[-1], self.total / len(values)
        others = np.bincount(labels, values)[labels] - values
        base = np.maximum((others + mean) / np.bincount(labels)[labels], LEAST_BASE * mean)
        return _means(values, self.variance**0.5, base)

    @cached_property
    def _with_total(self) -> list[RangeAnswers]:
        whole = RangeAnswers(np.ones((1, len(self.values))), np.array([self.total]), self.variance)
        return [*self.groups, whole]

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance of the errors in the counts, shape (codes, codes)."""
        return self._alone.covariance(self._with_total)

    @cached_property
    def _found(self) -> tuple[np.ndarray, np.ndarray]:
        """The counts of codes, and whether those of each branch are distinguished."""
        found = norm_sub(self._alone.given(self._with_total), self.total)
        found = np.maximum(found, LEAST_SHARE * self.total / len(found))
        return _even_inside_branches(self.values, self.variance**0.5, found, self.levels[-1], self.public)

    @property
    def counts(self) -> np.ndarray:
        """The estimated counts of codes, which are positive and sum to the total."""
        return self._found[0]

    @property
    def distinguished(self) -> np.ndarray:
        """An entry for each branch of the lowest level: True if its codes are distinguished, shape (branches,).

        If not, their counts are even, or those of the public table.
        """
        return self._found[1]


def _means(values: np.ndarray, stddev: float, base: np.ndarray) -> np.ndarray:
    return CodeCounts.of(values, stddev, base).means


def _even_inside_branches(
    values: np.ndarray, stddev: float, counts: np.ndarray, labels: np.ndarray, public: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of codes, made even in the branches whose codes differ by no more than noise explains.

    Returns:
        the counts, and whether the codes of each branch are distinguished. If not, they have even shares of the branch,
        or those of the public table, whichever is closer to the noisy counts.
    """
    size, whole = np.bincount(labels), np.bincount(labels, counts)
    bases = [(whole / size)[labels]]
    if public is not None:
        bases.append(public * (whole / np.bincount(labels, public))[labels])
    noisy = values + ((whole - np.bincount(labels, values)) / size)[labels]
    surprise = [(np.bincount(labels, np.square(noisy - own)) / stddev**2 - (size - 1)) for own in bases]
    apart = (size > 1) & (np.min(surprise, axis=0) > 0)
    nearest = np.array(bases)[np.argmin(surprise, axis=0)[labels], np.arange(len(labels))]
    return np.where(apart[labels], counts, nearest), apart | (size == 1)
