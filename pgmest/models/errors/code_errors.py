"""CodeErrors: the errors of a one-way marginal, from all answers that determine it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgmest.models.errors.counts_prior import count_moments
from pgmest.models.errors.halves import HalvesErrors
from pgmest.models.errors.table_answers import TableAnswer

MOST_CODES = 1_000
"""The largest number of codes whose errors have a covariance matrix; with more, the errors are independent."""
MOST_RECORDS = 2.0
"""Attributes may have this many standard errors more records than the model."""
WIDE = 2.0
"""The standard deviation of the prior of a count, in counts: wide, as it matters for codes counted together only."""
ALIKE = 0.8
"""The correlation of what shrinkage loses in the counts of neighboring codes, which are often alike."""
LEAST_WEIGHT = 1e-6
"""The least weight of a code in an answer, relative to the largest one, for which the answer's noise counts."""
KNOWN = 1e-3
"""The standard error of a known number of records, in standard deviations of the answers' noise."""


@dataclass(frozen=True, eq=False)
class CodeErrors:
    r"""The errors of the counts of codes.

    An answer with noise $\epsilon_i$ is shrunk by the factor $w_i$, so that its error is $w_i \epsilon_i$, minus the
    part of the deviation from the prior that shrinkage loses, plus the error of the prior's mean, which many codes
    share.

    Attributes:
        stddev: the standard deviation of the noise in each count, shape (codes,).
        kept: the factor w of each code.
        root: a square root of the covariance of the noise, shape (codes, codes); None for independent noise.
        shifts: errors that all codes share, shape (shifts, codes): nonnegative estimates of rare codes are too large
            together, and those of frequent codes too small. The first is the likely counts minus the model's, the
            second what the answers tell about sums over the most frequent codes; None without them.
        halves: the errors of differences between the sums over two halves of ranges of codes, at each level.
    """

    stddev: np.ndarray
    kept: np.ndarray
    root: np.ndarray | None = None
    shifts: np.ndarray | None = None
    halves: tuple[HalvesErrors, ...] = ()

    @classmethod
    def of(cls, answers: Sequence[TableAnswer], counts: np.ndarray, total: float, total_stddev: float) -> CodeErrors:
        """Combine the answers about an attribute.

        Args:
            answers: the answers about this attribute alone, at least one.
            counts: the model's counts.
            total: the model's number of records.
            total_stddev: the standard error of the number of records.
        """
        size = len(counts)
        if size == 1:
            return cls(np.full(size, total_stddev), np.ones(size))
        records = math.hypot(total, MOST_RECORDS * total_stddev)
        if size > MOST_CODES:
            return cls._of_estimate(*_independent(answers, counts), counts, records)
        values, root = _combined(answers, counts, total, total_stddev)
        return cls._of_estimate(values, _stddev(root), root, counts, records)

    @classmethod
    def without_answers(cls, possible: np.ndarray, counts: np.ndarray, total: float, total_stddev: float) -> CodeErrors:
        r"""Return the errors of the counts of an attribute of which nothing is known but the number of records.

        The shares of k codes may be any, all with the same density: they have a Dirichlet distribution whose parameters
        are 1, with the mean 1/k, the variances $(k - 1) / (k^2 (k + 1))$, and covariances that make the sum 1.

        Args:
            possible: whether records may have a code, shape (codes,).
            counts: the model's counts.
            total: the model's number of records.
            total_stddev: the standard error of the number of records.
        """
        number = max(1, int(possible.sum()))
        apart = math.hypot(total, total_stddev) / math.sqrt(number * (number + 1))
        variance = np.where(possible, apart**2 * (1 - 1 / number) + (total_stddev / number) ** 2, 0.0)
        root = None
        if len(counts) <= MOST_CODES:
            mean = np.outer(possible, possible) / number
            root = apart * (np.diag(possible.astype(np.float64)) - mean) + total_stddev / math.sqrt(number) * mean
        shift = np.where(possible, total / number, 0.0) - counts
        return cls(np.sqrt(variance), np.ones(len(counts)), root, shift[None])

    @classmethod
    def of_classes(
        cls,
        answers: Sequence[TableAnswer],
        labels: np.ndarray,
        counts: np.ndarray,
        total: float,
        total_stddev: float,
        codes: CodeErrors,
    ) -> CodeErrors | None:
        """Combine the answers about the codes and about groups of codes, for sums over classes.

        Counts are not negative, and those of many codes are small. So noisy counts of single codes tell more about
        their sum than the sum of the noisy counts does. A class of one code has the error of this code.

        Args:
            answers: the answers about this attribute alone, over its codes.
            labels: the class of each code, shape (codes,).
            counts: the model's counts of classes.
            total: the model's number of records.
            total_stddev: the standard error of the number of records.
            codes: the errors of the counts of codes.

        Returns:
            the errors of the counts of classes; None if some codes have no answers, or there are too many.
        """
        found = _summed(answers, labels, total, total_stddev) if len(labels) <= MOST_CODES else None
        if found is None:
            return None
        records = math.hypot(total, MOST_RECORDS * total_stddev)
        classes = cls._of_estimate(found[0], _stddev(found[1]), found[1], counts, records)
        alone = np.flatnonzero(np.bincount(labels)[labels] == 1)
        return classes._with(labels[alone], codes, alone)

    def _with(self, places: np.ndarray, other: CodeErrors, others: np.ndarray) -> CodeErrors:
        """Return these errors, at some places those at places of others; the noise stays correlated as it is."""
        stddev, kept = self.stddev.copy(), self.kept.copy()
        stddev[places], kept[places] = other.stddev[others], other.kept[others]
        scale, root, shifts = stddev / self.stddev, self.root, self.shifts
        if shifts is not None and other.shifts is not None:
            shifts = shifts.copy()
            shifts[:, places] = other.shifts[:, others]
        return replace(
            self, stddev=stddev, kept=kept, root=None if root is None else root * scale[:, None], shifts=shifts
        )

    @classmethod
    def _of_estimate(
        cls, values: np.ndarray, stddev: np.ndarray, root: np.ndarray | None, counts: np.ndarray, records: float
    ) -> CodeErrors:
        """Return the errors of the model's counts beside an unbiased estimate and its noise."""
        mean, variance = count_moments(values, stddev)
        halves = HalvesErrors.of(values, counts, stddev, root, records)
        shifts = np.stack([mean - counts, _frequent_beyond_noise(values - counts, counts, stddev, root)])
        return cls(stddev, np.clip(variance / stddev**2, 0.0, 1.0), root, shifts, halves)

    def draws(self, count: int, generator: np.random.Generator, signs: np.ndarray | None = None) -> np.ndarray:
        """Draw errors, shape (count, codes).

        Args:
            count: the number of draws.
            generator: the random generator.
            signs: normal numbers, shape (count,), that multiply errors of known sign of all attributes, which add up;
                drawn by default.
        """
        first, second = generator.standard_normal((2, count, len(self.stddev)))
        noise = first * self.stddev if self.root is None else first @ self.root.T
        lost = 1 - self.kept
        common = noise @ lost / max(float(lost.sum()), 1e-12)
        own = np.sqrt(self.kept * lost) * self.stddev * _alike(second)
        errors = self.kept * noise + own + lost * common[:, None]
        if self.shifts is not None:
            errors += generator.standard_normal((count, len(self.shifts))) @ self.shifts
        signs = generator.standard_normal(count) if signs is None else signs
        for level in self.halves:
            errors = level.corrected(errors, signs, generator)
        return errors


def _frequent_beyond_noise(
    off: np.ndarray, counts: np.ndarray, stddev: np.ndarray, root: np.ndarray | None
) -> np.ndarray:
    """Return what the model's sums over its 1, 2, 4, ... most frequent codes lack, less the part that noise explains.

    The sum over all codes is not among them, so that a single code lacks nothing. No sum is negative, or larger than
    the number of records, whatever noisy answers say.

    Args:
        off: the answers minus the model's counts.
        counts: the model's counts.
        stddev, root: as for `CodeErrors`.
    """
    if len(counts) == 1:
        return np.zeros(1)
    order, size = np.argsort(-counts, kind="stable"), len(counts)
    cuts = np.append(2 ** np.arange(math.ceil(math.log2(size))), size)
    sums = np.cumsum(off[order])[cuts[:-1] - 1]
    if root is None:
        noise = np.cumsum(np.square(stddev[order]))[cuts[:-1] - 1]
    else:
        noise = np.square(np.cumsum(root[order], axis=0)[cuts[:-1] - 1]).sum(axis=1)
    squares = max(float(np.square(sums).mean()), 1e-300)
    sums *= math.sqrt(max(0.0, 1 - float(noise.mean()) / squares))
    inside = np.cumsum(counts[order])[cuts[:-1] - 1]
    sums = np.clip(sums, -inside, float(counts.sum()) - inside)
    widths = np.diff(cuts, prepend=0)
    found = np.empty(size)
    found[order] = np.repeat(np.diff(sums, prepend=0.0, append=0.0) / widths, widths)
    return found


def _alike(normal: np.ndarray) -> np.ndarray:
    """Return normal numbers of which neighbors have the correlation `ALIKE`, from independent ones."""
    own = math.sqrt(1 - ALIKE**2)
    found = normal.copy()
    for code in range(1, normal.shape[1]):
        found[:, code] = ALIKE * found[:, code - 1] + own * normal[:, code]
    return found


def _combined(
    answers: Sequence[TableAnswer], counts: np.ndarray, total: float, total_stddev: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best linear estimate of the counts, and a square root of the covariance of its errors.

    The counts are in standard deviations of their prior, in which no eigenvalue of the precision is below 1.
    """
    noise = _noise_of_codes(answers, len(counts))
    least = float(noise.min())
    error = max(total_stddev, KNOWN * least)
    spread = WIDE * np.maximum(counts, noise)
    precision = np.eye(len(counts)) + np.outer(spread, spread) / error**2
    sums = counts / spread + spread * (total / error**2)
    for answer in answers:
        rows, found = _standard(answer, KNOWN * least)
        rows = rows * spread
        precision += rows.T @ rows
        sums += rows.T @ found
    squares, vectors = np.linalg.eigh(precision)
    root = _root(1 / np.sqrt(np.maximum(squares, 1.0)), vectors)
    return spread * (root @ (root @ sums)), spread[:, None] * root


def _noise_of_codes(answers: Sequence[TableAnswer], codes: int) -> np.ndarray:
    """Return the least noise, in counts, of answers about each code; without any, the largest noise.

    Answers about fewer groups may be exact. If they are no more precise than `KNOWN` of this, precisions of all answers
    have sums without large rounding errors.
    """
    largest = max(answer.stddev / float(_weights(answer).max()) for answer in answers)
    about_codes = [answer.stddev / _weights(answer) for answer in answers if answer.sides[0].groups == codes]
    return np.min(about_codes, axis=0) if about_codes else np.full(codes, largest)


def _weights(answer: TableAnswer) -> np.ndarray:
    """Return the largest weight of each group in the rows of an answer."""
    (side,) = answer.sides
    found = np.ones(side.groups) if side.matrix is None else np.abs(side.matrix).max(axis=0)
    return np.maximum(found, LEAST_WEIGHT * float(found.max()))


def _root(roots: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the symmetric square root of a matrix with these eigenvectors and roots of its eigenvalues.

    Of all roots it is the one that hardly changes with the matrix, so that draws of nearly equal matrices are alike.
    """
    return (vectors * roots) @ vectors.T


def _summed(
    answers: Sequence[TableAnswer], labels: np.ndarray, total: float, total_stddev: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return estimates of sums of counts over classes, and a square root of the covariance of their errors.

    The counts of codes have the prior of `count_moments`, and those of a class may all be larger or smaller
    (`_by_class`). Their posterior is then combined with the answers about groups of codes by least squares.
    """
    rows, values = (np.concatenate(parts) for parts in zip(*map(_standard, answers), strict=True))
    alone = np.count_nonzero(rows, axis=1) == 1
    precision = np.square(rows[alone]).sum(axis=0)
    if not (precision > 0).all():
        return None
    members = np.equal.outer(np.arange(labels.max() + 1), labels).astype(np.float64)
    stddev = 1 / np.sqrt(precision)
    known = rows[alone].T @ values[alone] / precision
    mean, covariance = _by_class(known, stddev, members)
    single = np.bincount(labels)[labels] == 1  # not a sum: the noisy count, as for a code
    mean[single] = known[single]
    covariance[single], covariance[:, single] = 0.0, 0.0
    covariance[single, single] = np.square(stddev[single])
    error = max(total_stddev, KNOWN * float(stddev.min()))
    rows = np.concatenate([rows[~alone], np.full((1, len(labels)), 1 / error)])
    off = np.append(values[~alone], total / error) - rows @ mean
    across = rows @ covariance
    gain = np.linalg.solve(across @ rows.T + np.eye(len(rows)), across).T
    squares, vectors = np.linalg.eigh(members @ (covariance - gain @ across) @ members.T)
    return members @ (mean + gain @ off), _root(np.sqrt(np.maximum(squares, 0.0)), vectors)


def _by_class(values: np.ndarray, stddev: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the posterior mean of counts, and its covariance, if the counts of a class may be larger than others.

    With noisy counts y of variances $\sigma^2$, and posterior means m and variances v under one prior for all codes,
    the sum D of $y - m$ over a class has the variance $V = \sum (\sigma^2 - v)$ if all classes are alike. What classes
    differ by more has the variance $T = (\tau \sum w)^2$, where w is the share of each count that the prior takes off,
    and $\tau^2$ follows from the mean of $D^2 - V$. Then the class's sum is larger by $D\,T / (T + V)$.

    Args:
        values: the noisy counts.
        stddev: the standard deviation of the noise in each.
        members: 1 for the codes of each class, shape (classes, codes).
    """
    mean, variance = count_moments(values, stddev)
    lost = np.clip(1 - variance / stddev**2, 0.0, 1.0)
    off, noise, taken = members @ (values - mean), members @ (lost * stddev**2), np.maximum(members @ lost, 1e-12)
    differ = max(0.0, float((np.square(off) - noise).sum() / np.square(taken).sum())) * np.square(taken)
    back = differ / np.maximum(differ + noise, 1e-300)
    share = members * lost / taken[:, None]
    shared = float((lost**2 * stddev**2).sum()) / max(float(lost.sum()), 1e-12) ** 2
    covariance = np.diag(variance) + (share.T * (back * noise)) @ share + shared * np.outer(lost, lost)
    return mean + (back * off) @ share, covariance


def _standard(answer: TableAnswer, least: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix of an answer over codes, and its values, in deviations of the noise, or at least `least`."""
    (side,) = answer.sides
    matrix = np.eye(side.groups) if side.matrix is None else side.matrix
    stddev = max(answer.stddev, least * float(_weights(answer).max()))
    return matrix[:, side.labels] / stddev, answer.values / stddev


def _stddev(root: np.ndarray) -> np.ndarray:
    """Return the standard deviations of errors, given a square root of their covariance."""
    return np.sqrt(np.maximum(np.square(root).sum(axis=1), 1e-12))


def _independent(answers: Sequence[TableAnswer], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    """Return the mean of the answers about single codes, and its standard deviation; the model's counts without any."""
    size = len(counts)
    sums, precision = np.zeros(size), np.zeros(size)
    for answer in answers:
        (side,) = answer.sides
        weights = np.ones(side.groups) if side.matrix is None else np.diag(side.matrix)
        if len(weights) == side.groups == size and (side.matrix is None or np.count_nonzero(side.matrix) == size):
            sums += (weights * answer.values)[side.labels] / answer.stddev**2
            precision += np.square(weights[side.labels] / answer.stddev)
    if not precision.all():
        return counts, np.maximum(counts, 1.0), None
    return sums / precision, 1 / np.sqrt(precision), None
