"""PGM: the mechanism that decides from its own answers what to ask next, and how finely."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.inference.support.support import Support
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import COUNT, MEGABYTES, SHARE, number, parameter
from pgmest.mechanisms.pgm.allocation import (
    MEAN_ABSOLUTE,
    Dependence,
    Offer,
    Prices,
    allocate,
    histogram,
    interaction,
    one_way_offer,
    pair_offer,
    unscored_offer,
    worthwhile,
)
from pgmest.mechanisms.pgm.evidence import Evidence, counts_all, grouping_query
from pgmest.mechanisms.pgm.grouped_model import GroupedModel, spanning
from pgmest.mechanisms.pgm.groups import nested_groups
from pgmest.mechanisms.pgm.plan import Plan, Purchase, planned, report_of
from pgmest.mechanisms.pgm.refinement import refined_records
from pgmest.mechanisms.pgm.scores import noisy_distances, scores_stddev
from pgmest.mechanisms.pgm.shrinkage import posterior_means
from pgmest.mechanisms.pgm.weighting import weighted_records
from pgmest.mechanisms.result import Outcome
from pgmest.models.support import SupportModel
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import GroupedDistance
from pgmest.queries import Kron
from pgmest.queries.workloads import as_workload
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.groups import is_identity, summed

COARSE_LEVEL = 2
"""Scores are released over groups of this level, counted from 0, eight at most, and over all codes."""

PART = number("a number from 0 to 1", lambda value: 0 <= value <= 1)

CHEAP = 2.0
"""Scores are not asked for where measuring all pairs leaves errors of less than so many of their standard errors."""

MOST_RECORDS, MOST_CODES = 1_000_000, 40_000_000
"""There is a weighted record for each private one, but no more than this, and no fewer than asked for."""

LEAST_SHARE = 1e-9
"""Less of the budget than this is what rounding left of it."""


@dataclass(frozen=True, kw_only=True)
class PGM(Mechanism):
    r"""Buys what lowers the expected error most, in a few rounds, and fits records to all of it.

    1. The share `first` of the budget goes to one-way marginals. They are estimated by empirical Bayes, and tell how
       finely an attribute can be measured: its codes are grouped into ranges of about equal mass, in nested levels.
    2. In each of `rounds` rounds, for `scoring` of the budget in all, noisy scores tell how far the model so far is
       from each pair of attributes, over coarse groups and over all codes.
    3. From scores, one-way marginals and noise follows the error that each marginal would have at each price; pairs are
       measured over groups as fine as the price can bear. The budget is shared so that the sum of the expected errors
       of all pairs is least. A pair is bought only if at least the part `worth` of its error goes away. In the first
       round, of these, those along a tree; in the middle ones the stronger half; in the last all that pay, and what was
       bought before gets as much again as it should have had.
       Where measuring all pairs costs no more than scores do, as with binary attributes, that is done instead.
    4. Each noisy table is shrunk towards independence as far as its noise demands. Those with most dependence are
       fitted by a junction tree within `base_megabytes`; `records` records of it get weights that bring them close to
       all tables. As many records as the table has are drawn of them, and changed code by code until they have all
       tables, whether a junction tree could hold them or not. These records are the model.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = PGM(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    With a workload the pairs inside its cliques matter, each as often as it occurs, times the clique's weight;
    attributes that it does not name are uniform.

    Args:
        first: the share of the budget for the first one-way marginals.
        scoring: the share for the scores of all rounds.
        rounds: how many.
        worth: see above, between 0 and 1.
        base_megabytes: the largest junction tree, 8 bytes a cell.
        records: the least number of weighted records; of larger tables as many as they have, up to a million.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    first: float = parameter(0.12, SHARE)
    scoring: float = parameter(0.04, SHARE)
    rounds: int = parameter(3, COUNT)
    worth: float = parameter(0.5, PART)
    base_megabytes: float = parameter(8.0, MEGABYTES)
    records: int = parameter(50_000, COUNT)

    definition: ClassVar[str] = "either"
    gaussian_only: ClassVar[bool] = True
    delta_by_name: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first + self.scoring < 1:
            raise ArgumentError.of("scoring", self.scoring, f"less than the {1 - self.first:g} that first= leaves")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        state = _State.start(self, curator, workload)
        if state.pairs and state.everything_is_cheap():
            state.buy_everything()
        else:
            for number in range(1, self.rounds + 1 if state.pairs else 1):
                state.buy_round(number)
        purchases = tuple(state.purchases)
        return Outcome(self._model(curator, rng), {"purchases": purchases, "report": report_of(purchases)})

    def plan(self, domain: Domain | Mapping[str, int], records: int, workload: Any = None) -> Plan:
        """What the budget can carry on a table of so many records: print it. It spends nothing and sees no data.

        >>> plan = PGM(epsilon=1.0, delta=1e-9).plan({"age": 85, "sex": 2, "income": 2}, records=48_842)
        >>> plan.independent_only, round(plan.one_way_errors["age"], 3)
        (False, 0.004)

        Args:
            domain: the attributes.
            records: how many records there may be, from public knowledge.
            workload: as for `fit`.

        Raises:
            ArgumentError, UnknownAttributeError: an argument that cannot be used.
        """
        known = as_domain(domain)
        count = at_least("records", records, 1)
        pairs, names = wanted_pairs(known, workload)
        weights = least_error_weights(known, [(name,) for name in names], type(self.budget()))
        whole = self.first if pairs else 1.0
        first = {name: whole * weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
        spend = self.budget() * (self.scoring / self.rounds)
        stddev = scores_stddev(2 * max(1, len(pairs)), spend, self.neighbors)
        prices = Prices.of(self.budget(), self.neighbors)
        return planned(known, count, list(pairs), first, stddev, prices, self.worth, COARSE_LEVEL)

    def conclude(self, curator: Curator) -> Any:
        """The model of what was measured."""
        if not curator.measurements:
            raise KeyboardInterrupt
        return self._model(curator, np.random.default_rng(0))

    def _model(self, curator: Curator, rng: np.random.Generator) -> SupportModel:
        model = GroupedModel.of(_evidence(curator), self.base_megabytes)
        most = min(MOST_RECORDS, MOST_CODES // max(1, len(curator.domain)))
        count = max(self.records, min(most, round(model.evidence.total)))
        rules = curator.structural_zeros
        weighted = weighted_records(model, count, rules, rng)
        records = refined_records(weighted, model, rules, rng)
        return SupportModel(Support(records), CliqueVector.zeros(records.domain, []), model.evidence.total)


def _evidence(curator: Curator) -> Evidence:
    from pgmest.solvers.total import estimate_total

    whole = [m for m in curator.measurements if m.query is None or all(map(counts_all, m.query.matrices))]
    total = curator.public_total or estimate_total(whole, curator.domain).value
    return Evidence.of(curator.measurements, curator.domain, total)


@dataclass(eq=False)
class _State:
    """A run of `PGM` between two requests."""

    mechanism: PGM
    curator: Curator
    pairs: list[Clique]
    importance: np.ndarray
    attributes: list[str]
    prices: Prices
    purchases: list[Purchase] = field(default_factory=list)
    evidence: Evidence = field(init=False)
    levels: dict[str, tuple[np.ndarray, ...]] = field(init=False)
    level_of: dict[Clique, int] = field(default_factory=dict)
    dependence: dict[Clique, Dependence] = field(default_factory=dict)

    @classmethod
    def start(cls, mechanism: PGM, curator: Curator, workload: Any) -> _State:
        """Measure the one-way marginals."""
        pairs, names = wanted_pairs(curator.domain, workload)
        state = cls(
            mechanism,
            curator,
            list(pairs),
            np.array(list(pairs.values())),
            names,
            Prices.of(curator.budget, curator.neighbors),
        )
        cliques = [(name,) for name in names]
        weights = least_error_weights(curator.domain, cliques, type(curator.budget))
        spend = curator.budget * mechanism.first if pairs else curator.remaining
        found = curator.measure_all(cliques, spend, weights=weights)
        state.evidence = _evidence(curator)
        state.levels = {name: nested_groups(state.evidence.counts(name)) for name in names}
        for measurement, weight in zip(found, weights, strict=True):
            share = (mechanism.first if pairs else 1.0) * weight / sum(weights)
            size = (curator.domain[measurement.clique[0]],)
            state.purchases.append(Purchase(0, measurement.clique, size, share, float(np.mean(measurement.stddev))))
        return state

    def everything_is_cheap(self) -> bool:
        """Whether measuring all pairs leaves errors so small that scores, as noisy as they are, could not sort them.

        That depends on the domain alone: on tables of a few cells each, such as those of binary attributes.
        """
        mechanism, curator = self.mechanism, self.curator
        shapes = [curator.domain.project(pair).shape for pair in self.pairs]
        sizes = np.prod(shapes, axis=1) * np.sqrt(
            [self.prices.discount(shape) * interaction(shape) for shape in shapes]
        )
        kind, cliques = type(curator.budget), [()] * len(shapes)
        weights = np.array(least_error_weights(curator.domain, cliques, kind, self.importance * sizes))
        shares = (1 - mechanism.first) * weights / weights.sum()
        errors = MEAN_ABSOLUTE * sizes / np.sqrt(self.prices.precision(shares))
        spend = curator.budget * (mechanism.scoring / mechanism.rounds)
        return float(errors.mean()) <= CHEAP * scores_stddev(len(self.pairs), spend, curator.neighbors)

    def buy_everything(self) -> None:
        """Measure all pairs, without scores, and one-way marginals again as far as that lowers the pairs' errors."""
        histograms = {name: histogram(self.evidence.counts(name)) for name in self.attributes}
        offers = [*self._one_way_offers()]
        for pair in self.pairs:
            sides = [histograms[name] for name in pair]
            level = max(len(self.levels[name]) for name in pair) - 1
            offers.append(unscored_offer(pair, sides, level, self.evidence.total, self.prices))
        left = self.curator.remaining / self.curator.budget
        shares = allocate(offers, self.pairs, self.importance, left)
        self._buy(1, {o.clique: (o, float(share)) for o, share in zip(offers, shares, strict=True) if share > 0}, left)
        self.evidence = _evidence(self.curator)

    def buy_round(self, number: int) -> None:
        """Score all pairs, decide, measure."""
        last = number == self.mechanism.rounds
        self._score()
        later = self.mechanism.scoring * (1 - number / self.mechanism.rounds)
        left = max(0.0, self.curator.remaining / self.curator.budget - later)
        if left < LEAST_SHARE:
            return
        offers = [*self._one_way_offers(), *self._pair_offers()]
        plan = worthwhile(offers, self.pairs, self.importance, left, self.mechanism.worth)
        chosen = plan if last else self._some(plan, tree=number == 1)
        if chosen:
            self._buy(number, chosen, left if last else min(left, sum(share for _, share in chosen.values())))
        self.evidence = _evidence(self.curator)

    def _some(self, plan: dict[Clique, tuple[Offer, float]], tree: bool) -> dict[Clique, tuple[Offer, float]]:
        """Of the pairs not measured yet those along a tree of the strongest, or the stronger half."""
        fresh = [pair for pair in plan if len(pair) == 2 and not plan[pair][0].paid]
        fresh.sort(key=lambda pair: -self.dependence[pair].whole)
        return {pair: plan[pair] for pair in (spanning(fresh) if tree else fresh[: (len(fresh) + 1) // 2])}

    def _score(self) -> None:
        """Ask how far each pair is from the model, and take off what the errors of one-way marginals explain."""
        curator, mechanism = self.curator, self.mechanism
        coarse = {name: groups[min(COARSE_LEVEL, len(groups) - 1)] for name, groups in self.levels.items()}
        expected = self._expected()
        asked = [(pair, tuple(coarse[name] for name in pair)) for pair in self.pairs]
        finer = [pair for pair, groups in asked if not all(map(is_identity, groups))]
        asked += [(pair, tuple(self.levels[name][-1] for name in pair)) for pair in finer]
        questions = [GroupedDistance(pair, groups, summed(expected[pair], groups)) for pair, groups in asked]
        spend = curator.budget * (mechanism.scoring / mechanism.rounds)
        stddev = scores_stddev(len(questions), spend, curator.neighbors)
        noisy = noisy_distances(curator, questions, spend)
        count = len(self.pairs)
        blurred, whole = self._debiased(asked[:count], noisy[:count], stddev), dict[Clique, float]()
        if finer:
            whole = self._debiased(asked[count:], noisy[count:], stddev)
        for pair in self.pairs:
            if pair not in self.level_of:
                self.dependence[pair] = Dependence(blurred[pair], max(blurred[pair], whole.get(pair, 0.0)))

    def _expected(self) -> dict[Clique, np.ndarray]:
        """What the model so far says of each pair."""
        if not self.evidence.answers:
            counts = {name: self.evidence.counts(name) for name in self.attributes}
            return {(a, b): np.outer(counts[a], counts[b]) / self.evidence.total for a, b in self.pairs}
        model = GroupedModel.of(self.evidence, self.mechanism.base_megabytes)
        return dict(zip(self.pairs, model.tables(self.pairs), strict=True))

    def _debiased(
        self, asked: list[tuple[Clique, tuple[np.ndarray, ...]]], noisy: np.ndarray, stddev: float
    ) -> dict[Clique, float]:
        found = posterior_means(np.clip(noisy, -4 * stddev, 2 * self.evidence.total), stddev)
        known: dict[tuple[str, int], float] = {}
        result = {}
        for (pair, groups), score in zip(asked, found, strict=True):
            explained = 0.0
            for name, labels in zip(pair, groups, strict=True):
                key = name, int(labels[-1])
                if key not in known:
                    known[key] = self._one_way_error(name, labels)
                explained += known[key] ** 2
            result[pair] = math.sqrt(max(0.0, float(score) ** 2 - explained))
        return result

    def _one_way_error(self, name: str, groups: np.ndarray) -> float:
        counts = summed(self.evidence.counts(name), (groups,))
        noise = self.evidence.stddev(name) * np.sqrt(np.bincount(groups))
        return MEAN_ABSOLUTE * float((counts * noise / np.hypot(counts, noise)).sum())

    def _one_way_offers(self) -> Iterable[Offer]:
        for name in self.attributes:
            yield one_way_offer((name,), self.evidence.counts(name), self.evidence.stddev(name), self.prices)

    def _pair_offers(self) -> Iterable[Offer]:
        histograms = {
            name: [histogram(summed(self.evidence.counts(name), (groups,))) for groups in levels]
            for name, levels in self.levels.items()
        }
        paid = {answer.clique: 1 / answer.variance for answer in self.evidence.answers}
        for pair in self.pairs:
            if self.dependence[pair].whole <= 0:
                continue
            levels = range(max(len(self.levels[name]) for name in pair))
            sides = [
                tuple(histograms[name][min(level, len(self.levels[name]) - 1)] for name in pair) for level in levels
            ]
            finest = [all(level >= len(self.levels[name]) - 1 for name in pair) for level in levels]
            before = (self.level_of[pair], paid[pair]) if pair in self.level_of else None
            yield pair_offer(
                pair, sides, finest, self.dependence[pair], COARSE_LEVEL, self.evidence.total, self.prices, before
            )

    def _buy(self, number: int, chosen: dict[Clique, tuple[Offer, float]], share: float) -> None:
        """Measure what was chosen, for this share of the budget in all."""
        whole = sum(part for _, part in chosen.values())
        left = self.curator.remaining / self.curator.budget
        spend = self.curator.remaining if share >= left else self.curator.budget * share
        cliques, queries = list(chosen), []
        for clique in cliques:
            offer, part = chosen[clique]
            if len(clique) == 2:
                self.level_of.setdefault(clique, offer.level(part * share / whole))
                queries.append(self._query(clique, self._groups(clique)))
            else:
                queries.append(self._query(clique, [self.levels[clique[0]][-1]]))
        weights = [chosen[clique][1] for clique in cliques]
        found = self.curator.measure_all(cliques, spend, weights=weights, queries=queries)
        for measurement, weight in zip(found, weights, strict=True):
            self._note(number, measurement.clique, chosen[measurement.clique][0], weight * share / whole, measurement)

    def _query(self, clique: Clique, groups: list[np.ndarray]) -> Kron:
        return grouping_query(clique, groups, [self.prices.contrasted(int(labels[-1]) + 1) for labels in groups])

    def _groups(self, clique: Clique) -> list[np.ndarray]:
        level = self.level_of[clique]
        return [self.levels[name][min(level, len(self.levels[name]) - 1)] for name in clique]

    def _note(self, number: int, clique: Clique, offer: Offer, share: float, measurement: Any) -> None:
        pair = len(clique) == 2
        size = tuple(int(g[-1]) + 1 for g in self._groups(clique)) if pair else (self.curator.domain[clique[0]],)
        scale = 1 / (2 * self.evidence.total)
        before, after = float(offer.errors[0]) * scale, (1 - offer.reduction(share)) * float(offer.errors[0]) * scale
        stddev = float(np.mean(measurement.stddev))
        self.purchases.append(Purchase(number, clique, size, share, stddev, before if pair else None, after))


def wanted_pairs(domain: Domain, workload: Any) -> tuple[dict[Clique, float], list[str]]:
    """The pairs that matter, with how much, and all attributes that do; of no workload all.

    Raises:
        ArgumentError, UnknownAttributeError: a workload that cannot be used.
    """
    if workload is None:
        return dict.fromkeys(combinations(domain.attributes, 2), 1.0), list(domain)
    relevant: dict[Clique, float] = {}
    names: set[str] = set()
    for item in as_workload(domain, workload):
        if item.weight > 0:
            names.update(item.clique)
            for pair in combinations(domain.project(item.clique).attributes, 2):
                ordered = domain.clique(name for name in domain if name in pair)
                relevant[ordered] = relevant.get(ordered, 0.0) + item.weight
    if not names:
        raise ArgumentError.of("workload", workload, "a workload with a marginal of positive weight")
    return relevant, [name for name in domain if name in names]
