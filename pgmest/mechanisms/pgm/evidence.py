"""Evidence: everything that was measured, put together into one-way marginals and tables of pairs that agree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.pgm.answers import Answer, RangeAnswers, about_ranges, read_grouping
from pgmest.mechanisms.pgm.groups import nested_groups, spread
from pgmest.mechanisms.pgm.mixture import learned
from pgmest.mechanisms.pgm.one_way import OneWay, where_public
from pgmest.mechanisms.pgm.public import PublicTables
from pgmest.mechanisms.pgm.shrinkage import (
    NoisyPair,
    clearly_less,
    fitted_to,
    fitted_to_margins,
    ratios,
    three_way,
)
from pgmest.queries import Kron
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity, summed


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known after some measurements.

    Args:
        domain: the attributes.
        total: the number of records.
        noisy: of each attribute its noisy counts and their variance; attributes may be missing.
        answers: of pairs and triples, each question once; pairs first.
        ranges: of attributes further answers H x, with H, the values and their variance.
        public: a public table, if there is one.
        believed: the pairs that scores found nearer to it than to independence.
        guesses: of measured pairs what other answers say, over all codes; see `with_guesses`.
    """

    domain: Domain
    total: float
    noisy: dict[str, tuple[np.ndarray, float]]
    answers: tuple[Answer, ...]
    ranges: Mapping[str, tuple[RangeAnswers, ...]] = field(default_factory=dict)
    public: PublicTables | None = None
    believed: frozenset[Clique] = frozenset()
    guesses: Mapping[Clique, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measurements: Iterable[LinearMeasurement],
        domain: Domain,
        total: float,
        public: PublicTables | None = None,
        believed: Iterable[Clique] = (),
    ) -> Evidence:
        """Put measurements together: one-way marginals, pairs and triples, all by `grouping_query`.

        Args:
            measurements: what was measured.
            domain: the attributes.
            total: the number of records.
            public: a public table, whose tables are shrunk to where the noisy ones say that it helps.
            believed: the pairs whose public tables are taken where nothing was measured of them.
        """
        noisy: dict[str, tuple[np.ndarray, float]] = {}
        ranges: dict[str, tuple[RangeAnswers, ...]] = {}
        answers: dict[Clique, list[Answer]] = {}
        for measurement in measurements:
            if len(measurement.clique) == 1:
                name = measurement.clique[0]
                if about_ranges(measurement, domain[name]):
                    ranges[name] = (*ranges.get(name, ()), RangeAnswers.of(measurement))
                else:
                    noisy[name] = _with_one_way(noisy.get(name), measurement, domain[name], total)
            elif measurement.clique:
                _add(answers.setdefault(measurement.clique, []), Answer.of(measurement, domain))
        together = [answer for known in answers.values() for answer in known]
        measured = cls(domain, max(float(total), 1.0), noisy, (), ranges, public, frozenset(believed))
        together += [measured.publicly(pair) for pair in measured.believed if pair not in answers]
        together.sort(
            key=lambda answer: (len(answer.clique), answer.public, domain.axes(answer.clique) if answer.public else ())
        )
        return replace(measured, answers=tuple(together))

    def publicly(self, pair: Clique) -> Answer:
        """The public table of a pair, in place of an answer."""
        groups = tuple(np.arange(self.domain[name]) for name in pair)
        shape = tuple(map(len, groups))
        return Answer(pair, groups, (None, None), np.zeros(shape), self.total / math.prod(shape), public=True)

    def _public_pair(self, pair: Clique) -> np.ndarray:
        """The public table of a pair with the one-way marginals as they are known."""
        assert self.public is not None
        rows, columns = map(self.counts, pair)
        return self.public.pair(pair, rows, columns)

    @cached_property
    def _with_ranges(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of attributes with answers about ranges the counts, and the covariance of their errors."""
        found = {}
        for name, answers in self.ranges.items():
            counts, covariance = self._counts(name), self._covariance(name)
            for answer in answers:
                counts, covariance = answer.applied(counts, covariance)
            counts = np.maximum(counts, 1e-6 * self.total / len(counts))
            found[name] = counts * (self.total / counts.sum()), covariance
        return found

    def _covariance(self, name: str) -> np.ndarray:
        """Of the errors in the counts of codes, whose sum is known.

        Before any answer each count is thought to vary as much as it is large, and so is the sum of each of the nested
        groups of codes: where nothing is known of the codes, neither is it how many records lie in one half of them.
        """
        counts, stddev = self._counts(name), self.stddev(name)
        before = sum(
            (np.outer(counts, counts) * (labels[:, None] == labels) for labels in nested_groups(counts)),
            np.zeros((len(counts), len(counts))),
        )
        known = before if stddev == math.inf else np.linalg.solve(before + stddev**2 * np.eye(len(counts)), before)
        covariance = known if stddev == math.inf else stddev**2 * (known + known.T) / 2
        sums = covariance.sum(axis=0)
        return covariance - np.outer(sums, sums) / sums.sum()

    def covariance(self, name: str) -> np.ndarray:
        """Of the errors in the counts of an attribute, shape (codes, codes)."""
        return self._with_ranges[name][1] if name in self.ranges else self._covariance(name)

    @cached_property
    def _one_way(self) -> dict[str, OneWay]:
        """Of each attribute that was measured."""
        noisy = {name: self._merged(name) for name in self.noisy}
        found = {name: OneWay.of(*known, self.total) for name, known in noisy.items()}
        if self.public is not None:
            publicly = {
                name: OneWay.publicly(*known, self.total, self.public.one_way(name, self.total))
                for name, known in noisy.items()
            }
            found.update((name, publicly[name]) for name in where_public(found, publicly))
        return found

    def _merged(self, name: str) -> tuple[np.ndarray, float]:
        """The noisy counts of an attribute, with what pairs say of it, and their standard deviation."""
        values, variance = self.noisy[name]
        for labels, sums, spent in self._one_way_answers(name):
            widths = np.bincount(labels)
            before, old = np.bincount(labels, values), widths * variance
            share = old / (old + spent)
            values = values + (share * (sums - before) / widths)[labels]
            if is_identity(labels):
                variance = 1 / (1 / variance + 1 / spent)
        return values, variance**0.5

    def _one_way_answers(self, name: str) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """What the pairs say of an attribute: groups, their counts, and the variance of these; finest first."""
        answers = []
        for answer in self.answers:
            if name in answer.clique and not answer.public:
                axis = answer.clique.index(name)
                found = answer.one_way(axis, self.total)
                if found is not None:
                    answers.append((answer.groups[axis], *found))
        return sorted(answers, key=lambda entry: -int(entry[0][-1]))

    def counts(self, name: str) -> np.ndarray:
        """The estimated one-way marginal, positive, with sum `total`."""
        return self._with_ranges[name][0] if name in self.ranges else self._counts(name)

    def _counts(self, name: str) -> np.ndarray:
        """Without answers about ranges; uniform, where nothing is known."""
        size = self.domain[name]
        return self._one_way[name].counts if name in self._one_way else np.full(size, self.total / size)

    def stddev(self, name: str) -> float:
        """Of the noise in each count of an attribute, before anything was done about it; inf where nothing is known."""
        return self._one_way[name].stddev if name in self._one_way else math.inf

    @cached_property
    def _beyond_pairs(self) -> tuple[tuple[np.ndarray, dict[tuple[int, ...], np.ndarray]], ...]:
        """Of each answer about three attributes what the pairs inside leave most open, over all codes, and these."""
        found = []
        for answer in self.answers[len(self._pair_tables) :]:
            margins = self._margins(answer.clique)
            independent = reduce(np.multiply.outer, map(self.counts, answer.clique)) / self.total**2
            found.append((fitted_to_margins(independent, margins), margins))
        return tuple(found)

    def _margins(self, clique: Clique) -> dict[tuple[int, ...], np.ndarray]:
        """What is known of the pairs inside three attributes, by their axes, and of attributes in none of them."""
        found = {}
        for axes in combinations(range(3), 2):
            pair = clique[axes[0]], clique[axes[1]]
            if pair in self._place:
                found[axes] = self.table(self._place[pair], tuple(np.arange(self.domain[name]) for name in pair))
        covered = {axis for axes in found for axis in axes}
        return {**found, **{(axis,): self.counts(name) for axis, name in enumerate(clique) if axis not in covered}}

    @cached_property
    def _place(self) -> dict[Clique, int]:
        return {answer.clique: place for place, answer in enumerate(self.answers)}

    @cached_property
    def _pair_tables(self) -> tuple[np.ndarray, ...]:
        """Over the groups asked for. What is known of dependence is learned from all that are compared alike."""
        taken = list(zip(self.answers, self._taken, strict=False))
        noisy = [None if answer.public else self._noisy(answer, guess) for answer, guess in taken]
        guessed = [guess is not None for _, guess in taken]
        before = {
            kind: learned([p.mixture for p, own in zip(noisy, guessed, strict=True) if p is not None and own == kind])
            for kind in (False, True)
        }
        return tuple(
            self._publicly_known(*entry) if pair is None else pair.table(before[own])
            for pair, own, entry in zip(noisy, guessed, taken, strict=True)
        )

    def _noisy(self, answer: Answer, guess: np.ndarray | None) -> NoisyPair:
        """The noisy table of an answer, over its groups, with what is expected of it."""
        rows, columns = (summed(self.counts(name), (labels,)) for name, labels in _sides(answer))
        expected = None if guess is None else summed(guess, answer.groups)
        return NoisyPair.of(answer.table, answer.noise(), rows, columns, expected)

    def _publicly_known(self, answer: Answer, guess: np.ndarray | None) -> np.ndarray:
        """The public table that is taken as it is."""
        assert guess is not None
        return summed(guess, answer.groups)

    @cached_property
    def _taken(self) -> tuple[np.ndarray | None, ...]:
        """Of each pair a table over all codes that is a better guess than independence: public, or by other answers."""
        taken = self._public_taken
        guessed = {
            place: fitted_to(self.guesses[answer.clique], self.counts(answer.clique[0]), self.counts(answer.clique[1]))
            for place, (answer, public) in enumerate(zip(self.answers, taken, strict=False))
            if public is None and answer.clique in self.guesses
        }
        known = {place: self._gain(self.answers[place], table) for place, table in guessed.items()}
        better = clearly_less(known, {place: self._gain_error(place) for place in known})
        return tuple(guessed[place] if place in better else public for place, public in enumerate(taken))

    @cached_property
    def _public_taken(self) -> tuple[np.ndarray | None, ...]:
        """Of each pair the public table, over all codes, where it is a better guess than independence."""
        pairs = [answer for answer in self.answers if len(answer.clique) == 2]
        if self.public is None:
            return (None,) * len(pairs)
        self.public.prepare(answer.clique for answer in pairs)
        tables = [self._public_pair(answer.clique) for answer in pairs]
        known = {
            place: self._gain(a, t) for place, (a, t) in enumerate(zip(pairs, tables, strict=True)) if not a.public
        }
        errors = {place: self._gain_error(place) for place in known}
        better = clearly_less(known, errors)
        for place, answer in enumerate(pairs):
            hidden = not all(map(is_identity, answer.groups))  # of the codes in a group only scores know
            if answer.public or (answer.clique in self.believed and (hidden or known[place] < errors[place])):
                better.add(place)
        return tuple(table if place in better else None for place, table in enumerate(tables))

    def _gain_error(self, place: int) -> float:
        """The standard error of `_gain`: that of a sum of n squares."""
        return math.sqrt(2 * math.prod(self.answers[place].shape))

    def _gain(self, answer: Answer, guess: np.ndarray) -> float:
        """The risk with a guess as what is expected less that with independence, in variances of noise."""
        one, other = (self._noisy(answer, expected).risk() for expected in (guess, None))
        return (one - other) / max(answer.noise() ** 2, 1e-300)

    @cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The estimated table of each of `answers`, with the one-way marginals, and of triples with the pairs."""
        triples = self.answers[len(self._pair_tables) :]
        return (*self._pair_tables, *(summed(t, a.groups) for t, a in zip(self._triple_tables, triples, strict=True)))

    @cached_property
    def _triple_tables(self) -> tuple[np.ndarray, ...]:
        """Over all codes: what the pairs leave most open, changed no more than what groups show."""
        found = []
        for answer, (expected, margins) in zip(self.answers[len(self._pair_tables) :], self._beyond_pairs, strict=True):
            grouped = summed(expected, answer.groups)
            table = three_way(answer.table, answer.noise(), grouped)
            ratio = ratios(table, grouped, otherwise=1.0)
            found.append(fitted_to_margins(expected * ratio[np.ix_(*answer.groups)], margins))
        return tuple(found)

    @cached_property
    def dependence(self) -> tuple[float, ...]:
        """How far each of `tables` is from what smaller ones tell of it, as a fraction of the records.

        Total variation; of pairs from independence.
        """
        expected = [np.outer(t.sum(axis=1), t.sum(axis=0)) / t.sum() for t in self._pair_tables]
        triples = self.answers[len(expected) :]
        expected += [summed(table, a.groups) for (table, _), a in zip(self._beyond_pairs, triples, strict=True)]
        return tuple(
            float(np.abs(table - of).sum() / (2 * table.sum())) for table, of in zip(self.tables, expected, strict=True)
        )

    def pairs_alone(self, left_out: Collection[Clique]) -> Evidence:
        """The same without triples and these pairs, of which nothing is left in the tables of other pairs."""
        kept = [place for place in range(len(self._taken)) if self.answers[place].clique not in left_out]
        part = self._changed(answers=tuple(self.answers[place] for place in kept))
        part.__dict__.update(_taken=tuple(self._taken[place] for place in kept))
        return part

    def guessed(self, guesses: Mapping[Clique, np.ndarray]) -> Evidence:
        """The same with guesses for pairs."""
        found = self._changed(guesses=guesses)
        found.__dict__["_public_taken"] = self._public_taken
        return found

    def _changed(self, **fields: Any) -> Evidence:
        """With other fields, of which attributes by themselves do not depend."""
        changed = replace(self, **fields)
        changed.__dict__.update(_one_way=self._one_way, _with_ranges=self._with_ranges)
        return changed

    def answer_about(self, clique: Clique) -> Answer | None:
        """What was measured of attributes together, if anything was."""
        answer = self.answers[self._place[clique]] if clique in self._place else None
        return None if answer is None or answer.public else answer

    def table(self, place: int, groups: tuple[np.ndarray, ...]) -> np.ndarray:
        """One of `tables` over other groups, at least as fine.

        Within a group of a pair, attributes are independent, or as in the guess that was taken.
        """
        answer = self.answers[place]
        if len(answer.clique) > 2:
            return summed(self._triple_tables[place - len(self._pair_tables)], groups)
        guess = self._taken[place]
        if guess is not None:
            grouped = summed(guess, answer.groups)
            ratio = ratios(self._pair_tables[place], grouped, otherwise=1.0)
            rows, columns = map(self.counts, answer.clique)
            return summed(fitted_to(guess * ratio[np.ix_(*answer.groups)], rows, columns), groups)
        return spread(self._pair_tables[place], answer.groups, groups, [self.counts(name) for name in answer.clique])


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


def _averaged(known: tuple[np.ndarray, float] | None, fresh: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
    if known is None:
        return fresh
    a, b = 1 / known[1], 1 / fresh[1]
    return (a * known[0] + b * fresh[0]) / (a + b), 1 / (a + b)
