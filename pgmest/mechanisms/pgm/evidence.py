"""Evidence: everything that was measured, put together into one-way marginals and tables of pairs that agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.pgm.groups import spread
from pgmest.mechanisms.pgm.shrinkage import one_way, two_way
from pgmest.queries import Kron, compress, identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity, summed


@dataclass(frozen=True, eq=False)
class Answer:
    """Noisy counts of a pair of attributes over groups of their codes.

    Attributes:
        clique: the pair.
        groups: of each attribute, the group of each code.
        values: shape (groups, groups).
        variance: of the noise in each.
    """

    clique: Clique
    groups: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    variance: float

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> Answer:
        """What a measurement of a pair says."""
        query, stddev = measurement.query, float(np.mean(measurement.stddev))
        assert query is None or isinstance(query, Kron)
        groups = tuple(
            np.arange(domain[name]) if query is None else _labels(query, name) for name in measurement.clique
        )
        shape = tuple(int(labels[-1]) + 1 for labels in groups)
        return cls(measurement.clique, (groups[0], groups[1]), measurement.values.reshape(shape), stddev**2)

    def same_question(self, other: Answer) -> bool:
        """Whether another answer about the same pair is about the same groups."""
        return all(np.array_equal(a, b) for a, b in zip(self.groups, other.groups, strict=True))

    def averaged(self, other: Answer) -> Answer:
        """Both answers to the same question as one, weighted by precision."""
        a, b = 1 / self.variance, 1 / other.variance
        return Answer(self.clique, self.groups, (a * self.values + b * other.values) / (a + b), 1 / (a + b))


def grouping_query(clique: Clique, groups: Iterable[np.ndarray]) -> Kron:
    """The counts over groups of codes: sums of disjoint cells, so one record moves one of them by one."""
    return Kron(
        {
            name: identity(len(labels)) if is_identity(labels) else compress(len(labels), labels.tolist())
            for name, labels in zip(clique, groups, strict=True)
        }
    )


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
                name, variance = measurement.clique[0], float(np.mean(measurement.stddev)) ** 2
                noisy[name] = _averaged(noisy.get(name), (np.asarray(measurement.values), variance))
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
                summed_out = answer.values.shape[1 - axis]
                answers.append((answer.groups[axis], answer.values.sum(axis=1 - axis), summed_out * answer.variance))
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
            two_way(answer.values, answer.variance**0.5, *(summed(self.counts(n), (g,)) for n, g in _sides(answer)))
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
    place = next((i for i, other in enumerate(known) if other.same_question(answer)), None)
    if place is None:
        known.append(answer)
    else:
        known[place] = known[place].averaged(answer)


def _sides(answer: Answer) -> list[tuple[str, np.ndarray]]:
    return list(zip(answer.clique, answer.groups, strict=True))


def _labels(query: Kron, name: str) -> np.ndarray:
    """The group of each code, read off a query that sums disjoint groups."""
    factor = query.factors[name]
    return np.rint(factor.transpose(np.arange(factor.rows, dtype=np.float64))).astype(np.int64)


def _averaged(known: tuple[np.ndarray, float] | None, fresh: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
    if known is None:
        return fresh
    a, b = 1 / known[1], 1 / fresh[1]
    return (a * known[0] + b * fresh[0]) / (a + b), 1 / (a + b)
