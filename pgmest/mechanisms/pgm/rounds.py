"""The rounds of PGM: score what the model so far gets wrong, decide, measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import SpendTooSmall
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.pgm.allocation import allocate, worthwhile
from pgmest.mechanisms.pgm.answers import counts_all, grouping_query
from pgmest.mechanisms.pgm.dependence import Dependence
from pgmest.mechanisms.pgm.evidence import Evidence
from pgmest.mechanisms.pgm.first import FirstQuestions
from pgmest.mechanisms.pgm.grouped_model import GroupedModel, spanning
from pgmest.mechanisms.pgm.groups import nested_groups
from pgmest.mechanisms.pgm.interest import Interest
from pgmest.mechanisms.pgm.offers import (
    Offer,
    Prices,
    grouped_offer,
    histogram,
    interaction,
    one_way_offer,
    pair_offer,
    total_offer,
    unscored_offer,
)
from pgmest.mechanisms.pgm.outlook import Outlook
from pgmest.mechanisms.pgm.plan import Purchase
from pgmest.mechanisms.pgm.public import PublicTables
from pgmest.mechanisms.pgm.scorer import COARSE_LEVEL, Known, Scorer
from pgmest.mechanisms.pgm.scores import scores_stddev
from pgmest.mechanisms.pgm.shrinkage import clearly_less, fitted_to_margins
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.queries import Kron
from pgmest.tables.domain import Clique
from pgmest.tables.groups import summed

if TYPE_CHECKING:
    from pgmest.mechanisms.pgm.pgm import PGM

CHEAP = 2.0
"""Scores are not asked for where measuring all pairs leaves errors of less than so many of their standard errors."""

LEAST_SHARE = 1e-9
"""Less of the budget than this is what rounding left of it."""

MOST_TRIPLES, MOST_TRIPLE_CELLS = 500, 100_000
"""At most so many triples are scored, those whose pairs depend most, and none of more cells."""

SEEN = 0.1
"""A public table is compared with independence where a difference of so much, on average, would be seen."""


def evidence_of(curator: Curator, public: PublicTables | None = None, believed: Iterable[Clique] = ()) -> Evidence:
    """All that was measured, put together, with the public tables that are believed."""
    total, _ = _total_of(curator)
    return Evidence.of(curator.measurements, curator.domain, total, public, believed)


def _total_of(curator: Curator) -> tuple[float, float]:
    """The number of records and its standard error, by all answers that tell it."""
    from pgmest.solvers.total import estimate_total

    if curator.public_total is not None:
        return curator.public_total, 0.0
    whole = [m for m in curator.measurements if m.query is None or all(map(counts_all, m.query.matrices))]
    found = estimate_total(whole, curator.domain)
    return found.value, found.stddev


@dataclass(eq=False)
class Rounds:
    """A run of `PGM` between two requests."""

    mechanism: PGM
    curator: Curator
    interest: Interest
    prices: Prices
    public: PublicTables | None = None
    believed: tuple[Clique, ...] = ()
    purchases: list[Purchase] = field(default_factory=list)
    evidence: Evidence = field(init=False)
    levels: dict[str, tuple[np.ndarray, ...]] = field(init=False)
    outlook: Outlook = field(init=False)
    level_of: dict[Clique, int] = field(default_factory=dict)
    dependence: dict[Clique, Dependence] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    _histograms: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def start(cls, mechanism: PGM, curator: Curator, workload: Any) -> Rounds:
        """Measure the one-way marginals."""
        interest, public = Interest.of(curator.domain, workload), PublicTables.of(mechanism.prior, curator.domain)
        state = cls(mechanism, curator, interest, Prices.of(curator.budget, curator.neighbors), public)
        first = FirstQuestions.of(
            curator.domain,
            interest,
            state.prices,
            mechanism.first if state.pairs or interest.about_ranges else 1.0,
            curator.public_total is not None,
        )
        cliques, shares = list(first.shares), list(first.shares.values())
        spend = curator.budget * mechanism.first if state.pairs or interest.about_ranges else curator.remaining
        queries = [first.query(clique) for clique in cliques]
        found = curator.measure_all(cliques, spend, weights=shares, queries=queries)
        state.evidence = state._evidence()
        state.levels = {name: nested_groups(state.evidence.counts(name)) for name in interest.attributes}
        for measurement, share in zip(found, shares, strict=True):
            size = tuple(curator.domain[name] for name in measurement.clique)
            state.purchases.append(Purchase(0, measurement.clique, size, share, float(np.mean(measurement.stddev))))
        return state

    def _evidence(self) -> Evidence:
        return evidence_of(self.curator, self.public, self.believed)

    @property
    def pairs(self) -> list[Clique]:
        """The pairs that matter."""
        return list(self.interest.pairs)

    def spend_all(self) -> None:
        """Spend what is left after the first one-way marginals."""
        if not self.pairs:
            self._buy_ranges()
        elif self._everything_is_cheap():
            self._buy_everything()
        else:
            for number in range(1, self.mechanism.rounds + 1):
                self._buy_round(number)

    @property
    def _scorer(self) -> Scorer:
        """Asks for scores of one kind."""
        return Scorer(self.curator, self.evidence, self.levels, self.curator.budget * self._score_share, self.known)

    @property
    def _score_share(self) -> float:
        """Of the budget, for scores of pairs once; triples are scored once, for as much."""
        return self.mechanism.scoring / (self.mechanism.rounds + bool(self.interest.triples))

    def _everything_is_cheap(self) -> bool:
        """Whether measuring everything leaves errors so small that scores, as noisy as they are, could not sort them.

        Everything are all pairs and triples that matter. That depends on the domain and the workload alone: it is so
        on tables of a few cells each, such as those of binary attributes.
        """
        mechanism, curator, wanted = self.mechanism, self.curator, {**self.interest.pairs, **self.interest.triples}
        if len(self.interest.triples) > MOST_TRIPLES:
            return False
        shapes, importance = [curator.domain.project(clique).shape for clique in wanted], np.array([*wanted.values()])
        sizes = np.array(
            [math.prod(shape) * math.sqrt(self.prices.discount(shape) * interaction(shape)) for shape in shapes]
        )
        kind, cliques = type(curator.budget), [()] * len(shapes)
        weights = np.array(least_error_weights(curator.domain, cliques, kind, importance * sizes))
        shares = (1 - mechanism.first) * weights / weights.sum()
        errors = MEAN_ABSOLUTE * sizes / np.sqrt(self.prices.precision(shares))
        spend = curator.budget * self._score_share
        return float(errors.mean()) <= CHEAP * scores_stddev(len(wanted), spend, curator.neighbors)

    def _buy_everything(self) -> None:
        """Measure all pairs and triples, without scores, and one-way marginals again as far as that lowers errors."""
        self._look()
        histograms = {name: histogram(self.evidence.counts(name)) for name in self.interest.attributes}
        offers = [*self._one_way_offers()]
        for clique in (*self.pairs, *self.interest.triples):
            sides = [histograms[name] for name in clique]
            level = max(len(self.levels[name]) for name in clique) - 1
            offers.append(unscored_offer(clique, sides, level, self.evidence.total, self.prices))
        left = self.curator.remaining / self.curator.budget
        shares = allocate(offers, self.outlook.demand, left)
        self._buy(1, {o.clique: (o, float(share)) for o, share in zip(offers, shares, strict=True) if share > 0}, left)
        self.evidence = self._evidence()

    def _buy_ranges(self) -> None:
        """More of one-way marginals, in equal rounds: where ranges of attributes are asked for, and nothing else."""
        for number in range(1, self.mechanism.rounds + 1) if self.interest.about_ranges else ():
            self._look()
            offers = list(self._one_way_offers())
            left = self.curator.remaining / self.curator.budget / (self.mechanism.rounds + 1 - number)
            shares = allocate(offers, self.outlook.demand, left)
            chosen = {o.clique: (o, float(share)) for o, share in zip(offers, shares, strict=True) if share > 0}
            self._buy(number, chosen, left)
            self.evidence = self._evidence()

    def _buy_round(self, number: int) -> None:
        """Score, decide, measure."""
        last = number == self.mechanism.rounds
        self._look()
        self._score(triples=last)
        later = self._score_share * (self.mechanism.rounds + bool(self.interest.triples) - number)
        left = max(0.0, self.curator.remaining / self.curator.budget - (0.0 if last else later))
        if left < LEAST_SHARE:
            return
        offers = [*self._one_way_offers(), *self._table_offers()]
        plan = worthwhile(offers, self.outlook.demand, left, self.mechanism.worth)
        chosen = plan if last else self._some(plan, tree=number == 1)
        if chosen:
            self._buy(number, chosen, left if last else min(left, sum(share for _, share in chosen.values())))
        self.evidence = self._evidence()

    def _some(self, plan: dict[Clique, tuple[Offer, float]], tree: bool) -> dict[Clique, tuple[Offer, float]]:
        """Of the pairs not measured yet those along a tree of the strongest, or the stronger half."""
        fresh = [pair for pair in plan if len(pair) == 2 and not plan[pair][0].paid]
        fresh.sort(key=lambda pair: -self.dependence[pair].whole)
        return {pair: plan[pair] for pair in (spanning(fresh) if tree else fresh[: (len(fresh) + 1) // 2])}

    def _look(self) -> None:
        """See the workload by the one-way marginals as they are known now."""
        self._histograms.clear()
        counts = {name: self.evidence.counts(name) for name in self.interest.attributes}
        self.outlook = Outlook.of(self.interest, counts, self.levels)

    # -- scores -------------------------------------------------------------------------------------------------------

    def _score(self, triples: bool) -> None:
        """Ask how far each pair is from the model, and take off what the errors of one-way marginals explain."""
        scorer, expected = self._scorer, self._expected()
        if not (triples and self.interest.triples):
            expected = {pair: table for pair, table in expected.items() if pair not in self.level_of}
        if not expected:
            return
        if self.public is not None and not self.evidence.answers and self._can_compare():
            found = self._compared(self.public, expected)
        else:
            found = scorer.found([expected], scorer.beyond_one_ways)[0].dependence
        self.dependence.update((pair, new) for pair, new in found.items() if pair not in self.level_of)
        if triples:
            expected = self._expected_triples(self._candidates(), expected)
            if expected:
                self.dependence.update(scorer.found([expected], scorer.beyond_pairs(found))[0].dependence)

    def _can_compare(self) -> bool:
        """Whether scores, all pairs together, could show a public table to be nearer by the part `SEEN` of the records.

        Where they could not, asking twice as many would only make them noisier.
        """
        spend, count = self.curator.budget * self._score_share, len(self.pairs)
        stddev = scores_stddev(4 * count, spend, self.curator.neighbors)
        return 2 * math.sqrt(2 / count) * stddev <= SEEN * 2 * self.evidence.total

    def _compared(self, public: PublicTables, independent: dict[Clique, np.ndarray]) -> dict[Clique, Dependence]:
        """How far each pair is from independence and from its public table, of which the nearer one is taken.

        Both are scored at once, by paid answers: the public table is believed where that says so, pair by pair.
        """
        public.prepare(self.pairs)
        tables = {pair: public.pair(pair, *map(self.evidence.counts, pair)) for pair in self.pairs}
        scorer = self._scorer
        alone, beside = scorer.found([independent, tables], scorer.beyond_one_ways)
        differences = {pair: beside.noisy[pair] - alone.noisy[pair] for pair in self.pairs}
        errors = dict.fromkeys(self.pairs, math.hypot(alone.stddev, beside.stddev))
        nearer = clearly_less(differences, errors, whole=-2.0, alone=1.0)
        self.believed = tuple(pair for pair in self.pairs if pair in nearer)
        return {**alone.dependence, **{pair: beside.dependence[pair] for pair in self.believed}}

    def _expected(self) -> dict[Clique, np.ndarray]:
        """What the model so far says of each pair."""
        if not self.evidence.answers:
            counts = {name: self.evidence.counts(name) for name in self.interest.attributes}
            return {(a, b): np.outer(counts[a], counts[b]) / self.evidence.total for a, b in self.pairs}
        model = GroupedModel.of(self.evidence, self.mechanism.base_megabytes)
        return dict(zip(self.pairs, model.tables(self.pairs), strict=True))

    def _candidates(self) -> list[Clique]:
        """The triples that may be bought: of pairs that depend on each other, those that do most first.

        None, where the noise in their scores would be larger than their pairs' dependence: interactions of three
        attributes are hardly larger than those of two, which had better be paid for.
        """
        domain, strength = self.curator.domain, {pair: found.whole for pair, found in self.dependence.items()}
        possible = [
            triple
            for triple in self.interest.triples
            if domain.size(triple) <= MOST_TRIPLE_CELLS
            and min(domain.project(triple).shape) > 1
            and all(strength.get(pair, 0.0) > 0 for pair in combinations(triple, 2))
        ]
        possible.sort(key=lambda triple: -sum(strength[pair] for pair in combinations(triple, 2)))
        candidates = possible[:MOST_TRIPLES]
        inside = [strength[pair] for triple in candidates for pair in combinations(triple, 2)]
        return candidates if inside and self._scorer.stddev(candidates) <= float(np.mean(inside)) else []

    def _expected_triples(self, triples: Sequence[Clique], pairs: dict[Clique, np.ndarray]) -> dict[Clique, np.ndarray]:
        """What the pairs of the model so far leave most open."""
        found = {}
        for triple in triples:
            margins = {axes: pairs[triple[axes[0]], triple[axes[1]]] for axes in combinations(range(3), 2)}
            start = np.multiply.outer(margins[0, 1], self.evidence.counts(triple[2])) / self.evidence.total
            found[triple] = fitted_to_margins(start, margins)
        return found

    # -- offers and purchases -----------------------------------------------------------------------------------------

    def _one_way_offers(self) -> Iterable[Offer]:
        """Of the number of records, where it is not public, and of all attributes."""
        _, stddev = _total_of(self.curator)
        if stddev > 0:
            yield total_offer(stddev, self.prices)
        for name in self.interest.attributes:
            views = self.outlook.views.get((name,))
            if views is None:
                yield one_way_offer((name,), self.evidence.counts(name), self.evidence.stddev(name), self.prices)
            else:
                rows = [(view.key, view.weight, self.outlook.queries(name, view.key)) for view in views]
                yield grouped_offer((name,), self.evidence.covariance(name), self.levels[name], rows, self.prices)

    def _table_offers(self) -> Iterable[Offer]:
        for clique, found in self.dependence.items():
            if found.whole > 0:
                yield self._table_offer(clique)

    def _table_offer(self, clique: Clique) -> Offer:
        levels = range(max(len(self.levels[name]) for name in clique))
        sides = [tuple(self._histogram(name, level) for name in clique) for level in levels]
        finest = [all(level >= len(self.levels[name]) - 1 for name in clique) for level in levels]
        paid = self.evidence.answer_about(clique) if clique in self.level_of else None
        before = None if paid is None else (self.level_of[clique], 1 / paid.variance)
        return pair_offer(
            clique,
            sides,
            finest,
            self.dependence[clique],
            COARSE_LEVEL,
            self.evidence.total,
            self.prices,
            before,
            self.outlook.of_table(clique),
        )

    def _histogram(self, name: str, level: int) -> tuple[np.ndarray, np.ndarray]:
        level = min(level, len(self.levels[name]) - 1)
        if (name, level) not in self._histograms:
            self._histograms[name, level] = histogram(summed(self.evidence.counts(name), (self.levels[name][level],)))
        return self._histograms[name, level]

    def _buy(self, number: int, chosen: dict[Clique, tuple[Offer, float]], share: float) -> None:
        """Measure what was chosen, for this share of the budget in all.

        Where a part is so small that no noise can be drawn for it, nothing was paid: the larger half of the parts gets
        all of it, and where even one would be too small, it stays unspent.
        """
        while chosen:
            try:
                return self._measure(number, chosen, share)
            except SpendTooSmall:
                strongest = sorted(chosen, key=lambda clique: -chosen[clique][1])[: len(chosen) // 2]
                chosen = {clique: chosen[clique] for clique in chosen if clique in set(strongest)}

    def _measure(self, number: int, chosen: dict[Clique, tuple[Offer, float]], share: float) -> None:
        whole = sum(part for _, part in chosen.values())
        left = self.curator.remaining / self.curator.budget
        spend = self.curator.remaining if share >= left else self.curator.budget * share
        cliques, groups = list(chosen), []
        for clique in cliques:
            offer, part = chosen[clique]
            if len(clique) > 1:
                self.level_of.setdefault(clique, offer.level(part * share / whole))
                groups.append(self._groups(clique, self.level_of[clique]))
            else:
                level = None if offer.levels is None else offer.level(part * share / whole)
                groups.append(self._groups(clique, level))
        queries = [self._query(clique, sides) for clique, sides in zip(cliques, groups, strict=True)]
        weights = [chosen[clique][1] for clique in cliques]
        found = self.curator.measure_all(cliques, spend, weights=weights, queries=queries)
        for measurement, sides, weight in zip(found, groups, weights, strict=True):
            self._note(number, measurement, sides, chosen[measurement.clique][0], weight * share / whole)

    def _query(self, clique: Clique, groups: list[np.ndarray]) -> Kron | None:
        """What is asked about a marginal over groups; None for the number of records."""
        if not clique:
            return None
        counts = len(clique) == 1 and clique in self.outlook.views  # which tell the number of records, too
        return grouping_query(
            clique, groups, [not counts and self.prices.contrasted(int(labels[-1]) + 1) for labels in groups]
        )

    def _groups(self, clique: Clique, level: int | None) -> list[np.ndarray]:
        """The groups of a level, or of an attribute with fewer levels its codes; None for the codes."""
        last = {name: len(self.levels[name]) - 1 for name in clique}
        return [self.levels[name][last[name] if level is None else min(level, last[name])] for name in clique]

    def _note(self, number: int, measurement: Any, groups: list[np.ndarray], offer: Offer, share: float) -> None:
        clique, size = measurement.clique, tuple(int(labels[-1]) + 1 for labels in groups)
        scale = 1 / (2 * self.evidence.total)
        before, after = float(offer.errors[0]) * scale, (1 - offer.reduction(share)) * float(offer.errors[0]) * scale
        stddev = float(np.mean(measurement.stddev))
        self.purchases.append(Purchase(number, clique, size, share, stddev, before if len(clique) > 1 else None, after))
