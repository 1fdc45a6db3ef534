"""Evidence: all measurements, combined into tables of pairs and triples that agree with the one-way marginals."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import combinations, starmap
from typing import Any

import numpy as np

from pgmest.errors import TotalError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.held_records import known_tables
from pgmest.mechanisms.invariants import possible_total
from pgmest.mechanisms.lamp.answers import (
    Answer,
    RangeAnswers,
    counts_all,
    has_range_queries,
    least_total,
    read_grouping,
)
from pgmest.mechanisms.lamp.groups import disaggregated
from pgmest.mechanisms.lamp.one_way_evidence import OneWayEvidence
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.shrinkage import NoisyPair, ipf, ipf_two_way, safe_ratios, shrunk_triple
from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.models.errors.mixture import learned_weights
from pgmest.privacy.curator import Curator
from pgmest.queries import Kron
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity, summed


class Evidence(OneWayEvidence):
    """The measurements so far, and the tables of pairs and triples estimated from them."""

    @classmethod
    def of(
        cls,
        measurements: Iterable[LinearMeasurement],
        domain: Domain,
        total: float,
        public: PublicTables | None = None,
        public_pairs: Iterable[Clique] = (),
        possible: PossibleCells | None = None,
    ) -> Evidence:
        """Combine measurements of one-way marginals, pairs and triples, all by `grouping_query`.

        Args:
            measurements: The measurements.
            domain: The attributes.
            total: The number of records.
            public: A public table. Noisy tables are shrunk towards its tables if this lowers their estimated risk.
            public_pairs: The pairs that have the dependence of the public table if they are not measured.
            possible: The structural zeros.
        """
        noisy: dict[str, tuple[np.ndarray, float]] = {}
        ranges: dict[str, tuple[RangeAnswers, ...]] = {}
        answers: dict[Clique, list[Answer]] = {}
        for measurement in measurements:
            if len(measurement.clique) == 1:
                name = measurement.clique[0]
                if has_range_queries(measurement, domain[name]):
                    ranges[name] = (*ranges.get(name, ()), RangeAnswers.of(measurement))
                else:
                    noisy[name] = _with_one_way(noisy.get(name), measurement, domain[name], total)
            elif measurement.clique:
                _add(answers.setdefault(measurement.clique, []), Answer.of(measurement, domain))
        together = [answer for known in answers.values() for answer in known]
        count, chosen = max(float(total), 1.0), frozenset(public_pairs)
        measured = cls(domain, count, noisy, (), ranges, public, chosen, {}, possible)
        together += [measured.public_answer(pair) for pair in measured.public_pairs if pair not in answers]
        together.sort(
            key=lambda answer: (len(answer.clique), answer.public, domain.axes(answer.clique) if answer.public else ())
        )
        return replace(measured, answers=tuple(together))

    def public_answer(self, pair: Clique) -> Answer:
        """Return the public table of a pair in place of an answer."""
        groups = tuple(np.arange(self.domain[name]) for name in pair)
        shape = tuple(map(len, groups))
        return Answer(pair, groups, (None, None), np.zeros(shape), self.total / math.prod(shape), public=True)

    def _public_pair(self, pair: Clique) -> np.ndarray:
        """Return the public table of a pair, scaled to the estimated one-way marginals."""
        assert self.public is not None
        rows, columns = map(self.counts, pair)
        table = self.public.pair(pair, rows, columns)
        implied = self._implied(pair)
        return table if implied is None else ipf_two_way(np.where(implied > 0, table, 0.0), rows, columns)

    @cached_property
    def _triple_expectations(self) -> tuple[tuple[np.ndarray, dict[tuple[int, ...], np.ndarray]], ...]:
        """For each triple, the maximum-entropy table given its known margins, over all codes, and these margins."""
        found = []
        for answer in self._triples:
            margins = self._margins(answer.clique)
            found.append((ipf(self.expected([answer.clique])[answer.clique], margins), margins))
        return tuple(found)

    def _margins(self, clique: Clique) -> dict[tuple[int, ...], np.ndarray]:
        """Return the known pairs inside a triple, by axes, and the one-way marginals of attributes in no pair."""
        found = {}
        for axes in combinations(range(3), 2):
            pair = clique[axes[0]], clique[axes[1]]
            if pair in self._place:
                found[axes] = self.table(self._place[pair], tuple(np.arange(self.domain[name]) for name in pair))
        covered = {axis for axes in found for axis in axes}
        return {**found, **{(axis,): self.counts(name) for axis, name in enumerate(clique) if axis not in covered}}

    @property
    def _triples(self) -> tuple[Answer, ...]:
        """The answers about triples."""
        return self.answers[len(self._pair_tables) :]

    @cached_property
    def _place(self) -> dict[Clique, int]:
        return {answer.clique: place for place, answer in enumerate(self.answers)}

    @cached_property
    def _pair_tables(self) -> tuple[np.ndarray, ...]:
        """The estimated tables of pairs, over the groups of their answers.

        The prior of the dependence is learned from all pairs that are shrunk towards the same kind of expectation:
        independence, or a better one (`_better_expectations`).
        """
        taken = list(zip(self.answers, self._better_expectations, strict=False))
        noisy = [None if answer.public else self._noisy(answer, guess) for answer, guess in taken]
        guessed = [guess is not None for _, guess in taken]
        before = {
            kind: learned_weights(
                [p.mixture for p, own in zip(noisy, guessed, strict=True) if p is not None and own == kind]
            )
            for kind in (False, True)
        }
        return tuple(
            self._publicly_known(*entry) if pair is None else pair.table(before[own])
            for pair, own, entry in zip(noisy, guessed, taken, strict=True)
        )

    def _noisy(self, answer: Answer, guess: np.ndarray | None) -> NoisyPair:
        """Return the noisy table of an answer with its expectation, over its groups."""
        rows, columns = (summed(self.counts(name), (labels,)) for name, labels in _sides(answer))
        guess = self._implied(answer.clique) if guess is None else guess
        expected = None if guess is None else summed(guess, answer.groups)
        return NoisyPair.of(answer.table, answer.noise(), rows, columns, expected)

    def _publicly_known(self, answer: Answer, guess: np.ndarray | None) -> np.ndarray:
        """Return the table of an answer that is public, over its groups."""
        assert guess is not None
        return summed(guess, answer.groups)

    @cached_property
    def _better_expectations(self) -> tuple[np.ndarray | None, ...]:
        """For each pair, the table over all codes that is a better expectation than independence, or None."""
        return tuple(starmap(self._better, zip(self.answers, self._public_tables, strict=False)))

    def _better(self, answer: Answer, public: np.ndarray | None) -> np.ndarray | None:
        """Return the expectation of a pair with the smallest estimated risk; None is independence.

        The others are the public table and the prediction from other answers. In groups, only scores tell about codes.
        """
        hidden = not all(map(is_identity, answer.groups))
        if answer.public or (hidden and public is not None and answer.clique in self.public_pairs):
            return public
        guesses = [None, *(table for table in (public, self._prediction(answer.clique)) if table is not None)]
        return min(guesses, key=lambda guess: self._noisy(answer, guess).risk()) if guesses[1:] else None

    def _prediction(self, clique: Clique) -> np.ndarray | None:
        """Return the prediction for a pair from other answers, with the one-way marginals; None without one."""
        table = self.predictions.get(clique)
        return None if table is None else ipf_two_way(table, self.counts(clique[0]), self.counts(clique[1]))

    @cached_property
    def _public_tables(self) -> tuple[np.ndarray | None, ...]:
        """For each pair, the public table over all codes, or None."""
        pairs = [answer.clique for answer in self.answers if len(answer.clique) == 2]
        if self.public is None:
            return (None,) * len(pairs)
        self.public.prepare(pairs)
        return tuple(map(self._public_pair, pairs))

    @cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The estimated table of each answer; tables agree with one-way marginals, and triples with pairs."""
        over_groups = (summed(t, a.groups) for t, a in zip(self._triple_tables, self._triples, strict=True))
        return (*self._pair_tables, *over_groups)

    @cached_property
    def _triple_tables(self) -> tuple[np.ndarray, ...]:
        """The tables of triples over all codes: maximum-entropy tables given the pairs, scaled to grouped counts."""
        found = []
        for answer, (expected, margins) in zip(self._triples, self._triple_expectations, strict=True):
            grouped = summed(expected, answer.groups)
            table = shrunk_triple(answer.table, answer.noise(), grouped)
            ratio = safe_ratios(table, grouped, otherwise=1.0)
            found.append(ipf(expected * ratio[np.ix_(*answer.groups)], margins))
        return tuple(found)

    @cached_property
    def dependence(self) -> tuple[float, ...]:
        """The total variation distance of each of `tables` from its expectation.

        The expectation of a pair is independence, or the table that structural zeros imply; that of a triple is the
        maximum-entropy table given its pairs.
        """
        expected = [self._without_dependence(*pair) for pair in zip(self.answers, self._pair_tables, strict=False)]
        found = zip(self._triple_expectations, self._triples, strict=True)
        expected += [summed(table, answer.groups) for (table, _), answer in found]
        return tuple(
            float(np.abs(table - of).sum() / (2 * table.sum())) for table, of in zip(self.tables, expected, strict=True)
        )

    def _without_dependence(self, answer: Answer, table: np.ndarray) -> np.ndarray:
        """Return the expectation of a pair's table, over its groups, without any dependence that was measured."""
        implied = self._implied(answer.clique)
        if implied is not None:
            return summed(implied, answer.groups)
        return np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()

    def without(self, left_out: Collection[Clique]) -> Evidence:
        """Return the evidence without triples and without some pairs, which then do not influence the other tables."""
        kept = [place for place in range(len(self._better_expectations)) if self.answers[place].clique not in left_out]
        part = self._changed(answers=tuple(self.answers[place] for place in kept))
        part.__dict__.update(_better_expectations=tuple(self._better_expectations[place] for place in kept))
        return part

    def with_predictions(self, predictions: Mapping[Clique, np.ndarray]) -> Evidence:
        """Return the evidence with predictions for pairs."""
        found = self._changed(predictions=predictions)
        found.__dict__["_public_tables"] = self._public_tables
        return found

    def _changed(self, **fields: Any) -> Evidence:
        """Return the evidence with other fields that do not influence the one-way marginals, which are kept."""
        changed = replace(self, **fields)
        changed.__dict__.update(
            _one_way=self._one_way, _with_ranges=self._with_ranges, _tied=self._tied, ties=self.ties
        )
        return changed

    def answer_about(self, clique: Clique) -> Answer | None:
        """Return the answer about a pair or triple, or None if it was not measured."""
        answer = self.answers[self._place[clique]] if clique in self._place else None
        return None if answer is None or answer.public else answer

    def table(self, place: int, groups: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return one of `tables` over groups that are at least as fine.

        Within a group, the table is proportional to its expectation: independence, or the table in
        `_better_expectations`.
        """
        answer = self.answers[place]
        if len(answer.clique) > 2:
            return summed(self._triple_tables[place - len(self._pair_tables)], groups)
        guess = self._better_expectations[place]
        guess = self._implied(answer.clique) if guess is None else guess
        if guess is not None:
            grouped = summed(guess, answer.groups)
            ratio = safe_ratios(self._pair_tables[place], grouped, otherwise=1.0)
            rows, columns = map(self.counts, answer.clique)
            return summed(ipf_two_way(guess * ratio[np.ix_(*answer.groups)], rows, columns), groups)
        return disaggregated(
            self._pair_tables[place], answer.groups, groups, [self.counts(name) for name in answer.clique]
        )


def _add(known: list[Answer], answer: Answer) -> None:
    """Add an answer about a marginal, or average it with an earlier answer to the same query."""
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
    """Return the counts of an attribute and their variance after another measurement of counts or contrasts."""
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


def evidence_of(
    curator: Curator,
    public: PublicTables | None = None,
    public_pairs: Iterable[Clique] = (),
    possible: PossibleCells | None = None,
) -> Evidence:
    """Return the evidence from all measurements, invariants, public tables of `public_pairs`, and structural zeros."""
    total, _ = total_of(curator)
    ordered = isinstance(curator, OrderedCurator)
    answers = [*known_tables(curator), *(curator.known_branches if ordered else ()), *curator.measurements]
    return Evidence.of(answers, curator.domain, total, public, public_pairs, possible)


def total_of(curator: Curator) -> tuple[float, float]:
    """Return the number of records and its standard error, estimated from all answers that determine it."""
    from pgmest.solvers.total import estimate_total

    if curator.fixed_total is not None:
        return curator.fixed_total, 0.0
    whole = [m for m in curator.measurements if m.query is None or all(map(counts_all, m.query.matrices))]
    try:
        found = estimate_total(whole, curator.domain)
    except TotalError:
        return possible_total(curator, least_total(curator.measurements, curator.domain)), math.inf
    return possible_total(curator, found.value), found.stddev
