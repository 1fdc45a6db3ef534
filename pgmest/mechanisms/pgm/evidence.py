"""Evidence: everything that was measured, put together into one-way marginals and tables of pairs that agree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.pgm.allocation import interaction
from pgmest.mechanisms.pgm.groups import spread
from pgmest.mechanisms.pgm.shrinkage import one_way, two_way
from pgmest.queries import Kron, compress, identity
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity, summed


@dataclass(frozen=True, eq=False)
class Answer:
    """Noisy answers about a pair of attributes over groups of their codes: Y = A T B^T + noise, T the table of counts.

    Attributes:
        clique: the pair.
        groups: of each attribute, the group of each code.
        factors: A and B, shape (rows, groups); None for the identity.
        values: Y.
        variance: of the noise in each.
    """

    clique: Clique
    groups: tuple[np.ndarray, np.ndarray]
    factors: tuple[np.ndarray | None, np.ndarray | None]
    values: np.ndarray
    variance: float

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> Answer:
        """What a measurement of a pair says."""
        query, stddev = measurement.query, float(np.mean(measurement.stddev))
        assert query is None or isinstance(query, Kron)
        names = measurement.clique
        sides = [read_grouping(None if query is None else query.factors[name], domain[name]) for name in names]
        (one, first), (other, second) = sides
        shape = tuple(
            int(labels[-1]) + 1 if factor is None else len(factor) for labels, factor in ((one, first), (other, second))
        )
        return cls(names, (one, other), (first, second), measurement.values.reshape(shape), stddev**2)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table: the numbers of groups."""
        return int(self.groups[0][-1]) + 1, int(self.groups[1][-1]) + 1

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for answers to the same question."""
        return tuple(part.tobytes() for part in (*self.groups, *(np.asarray(f) for f in self.factors if f is not None)))

    def averaged(self, other: Answer) -> Answer:
        """Both answers to the same question as one, weighted by precision."""
        a, b = 1 / self.variance, 1 / other.variance
        return replace(self, values=(a * self.values + b * other.values) / (a + b), variance=1 / (a + b))

    def table(self, expected: np.ndarray) -> np.ndarray:
        """The table that has these answers and is closest to an expected one (least squares)."""
        off = self.values - _both_sides(self.factors, expected)
        back = [None if factor is None else np.linalg.pinv(factor) for factor in self.factors]
        return expected + _both_sides((back[0], back[1]), off)

    def noise(self) -> float:
        """The standard deviation of the noise in a cell of `table`, beyond what one-way marginals say."""
        return math.sqrt(self.variance * interaction(self.shape))

    def one_way(self, axis: int, total: float) -> tuple[np.ndarray, float] | None:
        """Counts of one attribute's groups, and their variance; None where the answers say nothing of them."""
        own, other = self.factors[axis], self.factors[1 - axis]
        if other is not None:
            return None
        sums, variance = self.values.sum(axis=1 - axis), self.values.shape[1 - axis] * self.variance
        return (sums if own is None else total / own.shape[1] + np.linalg.pinv(own) @ sums), variance


def _both_sides(factors: tuple[np.ndarray | None, np.ndarray | None], table: np.ndarray) -> np.ndarray:
    """A T B^T."""
    first, second = factors
    table = table if first is None else first @ table
    return table if second is None else table @ second.T


def grouping_query(clique: Clique, groups: Iterable[np.ndarray], contrasts: Iterable[bool] = (False, False)) -> Kron:
    """The counts over groups of codes, or along an attribute their contrasts: see `contrast_matrix`."""
    return Kron(
        {name: _factor(labels, contrast) for name, labels, contrast in zip(clique, groups, contrasts, strict=True)}
    )


def _factor(labels: np.ndarray, contrast: bool) -> Any:
    if contrast and labels[-1] > 0:
        return contrast_matrix(int(labels[-1]) + 1)[:, labels]
    return identity(len(labels)) if is_identity(labels) else compress(len(labels), labels.tolist())


def contrast_matrix(count: int) -> np.ndarray:
    r"""An orthonormal basis of what remains of `count` numbers without their mean, shape (count - 1, count): Helmert's.

    Its columns have the squared norm $1 - 1/n$. So a table's interaction alone, which is all that remains to be said of
    it when its one-way marginals are known, costs less than the table: a factor $(1 - 1/n)(1 - 1/m)$ of variance,
    a quarter for two binary attributes (residuals; Xiao, He, Zhang, Kifer 2023).
    """
    rows = np.arange(1, count)[:, None]
    columns = np.arange(count)[None, :]
    matrix = np.where(columns < rows, 1.0, np.where(columns == rows, -rows.astype(np.float64), 0.0))
    return matrix / np.sqrt(rows * (rows + 1.0))


def read_grouping(query: Any, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The group of each code, read off a factor of `grouping_query`, and its matrix over groups, None for the identity.

    Groups are ranges of codes, so that a new one starts where the matrix has another column.
    """
    if query is None:
        return np.arange(size), None
    if counts_all(query):
        return np.rint(query.transpose(np.arange(query.rows, dtype=np.float64))).astype(np.int64), None
    matrix = query.matrix()
    starts = np.concatenate([[True], (np.diff(matrix, axis=1) != 0).any(axis=0)])
    return np.cumsum(starts) - 1, matrix[:, starts]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known after some measurements.

    Args:
        domain: the attributes.
        total: the number of records.
        noisy: of each attribute its noisy counts and their variance; attributes may be missing.
        answers: of pairs, each question once.
    """

    domain: Domain
    total: float
    noisy: dict[str, tuple[np.ndarray, float]]
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, measurements: Iterable[LinearMeasurement], domain: Domain, total: float) -> Evidence:
        """Put measurements together: whole one-way marginals, and pairs by `grouping_query`."""
        noisy: dict[str, tuple[np.ndarray, float]] = {}
        answers: dict[Clique, list[Answer]] = {}
        for measurement in measurements:
            if len(measurement.clique) == 1:
                name = measurement.clique[0]
                noisy[name] = _with_one_way(noisy.get(name), measurement, domain[name], total)
            elif len(measurement.clique) == 2:
                _add(answers.setdefault(measurement.clique, []), Answer.of(measurement, domain))
        together = tuple(answer for known in answers.values() for answer in known)
        return cls(domain, max(float(total), 1.0), noisy, together)

    @cached_property
    def _one_way(self) -> dict[str, tuple[np.ndarray, float]]:
        """Of each attribute the estimated counts, and the standard deviation that their noise had."""
        found = {}
        for name, size in self.domain.items():
            if name not in self.noisy:
                found[name] = np.full(size, self.total / size), float("inf")
                continue
            values, variance = self.noisy[name]
            for labels, sums, spent in self._one_way_answers(name):
                widths = np.bincount(labels)
                before, old = np.bincount(labels, values), widths * variance
                share = old / (old + spent)
                values = values + (share * (sums - before) / widths)[labels]
                if is_identity(labels):
                    variance = 1 / (1 / variance + 1 / spent)
            found[name] = one_way(values, variance**0.5, self.total), variance**0.5
        return found

    def _one_way_answers(self, name: str) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """What the pairs say of an attribute: groups, their counts, and the variance of these; finest first."""
        answers = []
        for answer in self.answers:
            if name in answer.clique:
                axis = answer.clique.index(name)
                found = answer.one_way(axis, self.total)
                if found is not None:
                    answers.append((answer.groups[axis], *found))
        return sorted(answers, key=lambda entry: -int(entry[0][-1]))

    def counts(self, name: str) -> np.ndarray:
        """The estimated one-way marginal, positive, with sum `total`."""
        return self._one_way[name][0]

    def stddev(self, name: str) -> float:
        """Of the noise in each count of an attribute, before anything was done about it; inf where nothing is known."""
        return self._one_way[name][1]

    @cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The estimated table of each of `answers`, with the one-way marginals."""
        return tuple(
            two_way(answer.table, answer.noise(), *(summed(self.counts(n), (g,)) for n, g in _sides(answer)))
            for answer in self.answers
        )

    @cached_property
    def dependence(self) -> tuple[float, ...]:
        """How far each of `tables` is from independence, as a fraction of the records (total variation)."""
        return tuple(
            float(np.abs(t - np.outer(t.sum(axis=1), t.sum(axis=0)) / t.sum()).sum() / (2 * t.sum()))
            for t in self.tables
        )

    def table(self, place: int, groups: tuple[np.ndarray, ...]) -> np.ndarray:
        """One of `tables` over other groups, at least as fine: within a group, attributes are independent."""
        answer = self.answers[place]
        return spread(self.tables[place], answer.groups, groups, [self.counts(name) for name in answer.clique])


def _add(known: list[Answer], answer: Answer) -> None:
    """One more answer about a pair, averaged with one to the same question."""
    place = next((i for i, other in enumerate(known) if other.key == answer.key), None)
    if place is None:
        known.append(answer)
    else:
        known[place] = known[place].averaged(answer)


def _sides(answer: Answer) -> list[tuple[str, np.ndarray]]:
    return list(zip(answer.clique, answer.groups, strict=True))


def _with_one_way(
    known: tuple[np.ndarray, float] | None, measurement: LinearMeasurement, size: int, total: float
) -> tuple[np.ndarray, float]:
    """Counts of an attribute and their variance, after one more measurement of them, or of their contrasts."""
    variance, query = float(np.mean(measurement.stddev)) ** 2, measurement.query
    assert query is None or isinstance(query, Kron)
    _, factor = read_grouping(None if query is None else query.matrices[0], size)
    if factor is None:
        return _averaged(known, (np.asarray(measurement.values), variance))
    counts, before = known or (np.full(size, total / size), math.inf)
    share = before / (before + variance) if before < math.inf else 1.0
    off = measurement.values - factor @ counts
    return counts + share * (np.linalg.pinv(factor) @ off), share * variance


def counts_all(query: Any) -> bool:
    """Whether a factor of `grouping_query` counts every record once, so that its answers sum to their number."""
    return isinstance(query, Identity | Grouping)


def _averaged(known: tuple[np.ndarray, float] | None, fresh: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
    if known is None:
        return fresh
    a, b = 1 / known[1], 1 / fresh[1]
    return (a * known[0] + b * fresh[0]) / (a + b), 1 / (a + b)
