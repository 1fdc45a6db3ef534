"""Scored rounds: the state of a run of LAMP, and how its rounds score pairs and triples.

`Rounds` measures the candidates that are best by these scores. `measurement_report` lists what it measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import plural
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.allocation import WorkloadSensitivity
from pgmest.mechanisms.lamp.candidates import NoiseModel, interaction_fraction
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.grouped_model import GroupedModel
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.scorer import NO_PAIRS, Scorer, scores_stddev
from pgmest.mechanisms.lamp.screening import screened_pairs, selections
from pgmest.mechanisms.lamp.shrinkage import ipf
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.lamp import LAMP


SHOWN = 12
"""The largest number of measurements that a report lists."""


@dataclass(frozen=True)
class MeasuredMarginal:
    """A marginal that one of the rounds measured.

    Attributes:
        round: The number of the round; 0 is the initial measurement of one-way marginals and the number of records.
        clique: The attributes; () is the number of records.
        groups: The number of groups of codes of each attribute.
        share: The share of the budget.
        stddev: The standard deviation of the noise.
        before: The error of the model (total variation) as estimated from noisy scores; None for a single attribute.
        after: The expected error after the measurement.
    """

    round: int
    clique: Clique
    groups: tuple[int, ...]
    share: float
    stddev: float
    before: float | None = None
    after: float | None = None


def measurement_report(measured_marginals: Iterable[MeasuredMarginal], public_pairs: int | None = None) -> str:
    """Return a report on the pairs and triples that a run measured, sorted by the expected gain.

    Args:
        measured_marginals: The measured marginals of the run.
        public_pairs: The number of pairs whose dependence is the public table's; None without a public table.
    """
    measured = list(measured_marginals)
    singles = sum(p.share for p in measured if len(p.clique) < 2)
    pairs = [p for p in measured if len(p.clique) > 1 and p.before is not None and p.after is not None]
    names, triples = ({p.clique for p in measured if len(p.clique) == ways} for ways in (2, 3))
    rest = plural(len(names), "pair") + (f", {plural(len(triples), 'triple')}" if triples else "")
    lines = [f"{singles:.0%} of the budget for one-way marginals, the rest for {rest} and scores"]
    if public_pairs is not None:
        lines.append(f"the public table gives the dependence of {plural(public_pairs, 'pair')}")
    if pairs:
        lines.append(f"{'pair':40} {'round':>5} {'groups':>9} {'share':>7} {'error before':>12} {'expected':>9}")
    gain = {id(p): (p.before or 0.0) - (p.after or 0.0) for p in pairs}
    for p in sorted(pairs, key=lambda p: -gain[id(p)])[:SHOWN]:
        size = "x".join(map(str, p.groups))
        before = "assumed" if p.round == 0 else f"{p.before:.4f}"
        name = " x ".join(p.clique)[:40]
        lines.append(f"{name:40} {p.round:5} {size:>9} {p.share:7.2%} {before:>12} {p.after:9.4f}")
    if len(pairs) > SHOWN:
        lines.append(f"... and {plural(len(pairs) - SHOWN, 'measurement')} with less gain")
    return "\n".join(lines)


SCORING_THRESHOLD = 2.0
"""Pairs are scored only if measuring all of them leaves a mean error above this many standard deviations of a score."""

MOST_TRIPLES, MOST_TRIPLE_CELLS = 500, 100_000
"""The largest number of scored triples, those whose pairs depend most, and the largest number of cells of a triple."""

DETECTABLE = 0.1
"""A public table is compared with independence only if scores can detect this mean difference of total variation."""


@dataclass(eq=False)
class ScoredRounds:
    """The state of a run of `LAMP`, and the scoring of its pairs and triples.

    Attributes:
        mechanism: The mechanism with its parameters.
        curator: The curator that releases answers.
        demand: The demand of the workload.
        noise_model: The noise of a share.
        public: The public table, if there is one.
        possible: The structural zeros, if there are any.
        public_pairs: The pairs that scores found closer to the public table than to independence.
        measured_marginals: The measured marginals so far.
        evidence: The evidence so far.
        levels: For each attribute, its nested groups of codes.
        workload_sensitivity: The sensitivity of the workload under the current one-way marginals.
        small_budget: Whether scores of all pairs would be too noisy, without a public table. Then one-way marginals are
            measured again first, some pairs are selected and only these are scored, and dependent pairs weigh more.
        level_of: The level of the groups of each measured pair and triple.
        dependence: The estimated dependence of pairs and triples.
        distances: The last noisy distance of each scored pair and triple, and the standard deviation of its noise.
    """

    mechanism: LAMP
    curator: Curator
    demand: WorkloadDemand
    noise_model: NoiseModel
    public: PublicTables | None = None
    possible: PossibleCells | None = None
    public_pairs: tuple[Clique, ...] = ()
    measured_marginals: list[MeasuredMarginal] = field(default_factory=list)
    evidence: Evidence = field(init=False)
    levels: dict[str, tuple[np.ndarray, ...]] = field(init=False)
    workload_sensitivity: WorkloadSensitivity = field(init=False)
    level_of: dict[Clique, int] = field(default_factory=dict)
    dependence: dict[Clique, Dependence] = field(default_factory=dict)
    small_budget: bool = False
    distances: dict[Clique, tuple[float, float]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Clique]:
        """The pairs of the workload."""
        return list(self.demand.pairs)

    @property
    def _scorer(self) -> Scorer:
        """The scorer for one release of scores."""
        spend = self.curator.budget * self._score_share
        return Scorer(self.curator, self.evidence, self.levels, spend)

    @property
    def _score_share(self) -> float:
        """The share of the budget for one release of scores; triples have one release in the last round."""
        return self.mechanism.scoring_share / (self.mechanism.rounds + bool(self.demand.triples))

    def _scores_are_too_noisy(self) -> bool:
        """Return whether measuring all pairs and triples of the workload leaves errors below the noise of scores.

        The answer depends on the domain, the workload and the budget only. It is typical of tables with a few cells,
        such as those of binary attributes.
        """
        mechanism, curator, wanted = self.mechanism, self.curator, {**self.demand.pairs, **self.demand.triples}
        if len(self.demand.triples) > MOST_TRIPLES:
            return False
        shapes, importance = [curator.domain.project(clique).shape for clique in wanted], np.array([*wanted.values()])
        sizes = np.array(
            [
                math.prod(shape) * math.sqrt(self.noise_model.variance_ratio(shape) * interaction_fraction(shape))
                for shape in shapes
            ]
        )
        kind, cliques = type(curator.budget), [()] * len(shapes)
        weights = np.array(least_error_weights(curator.domain, cliques, kind, importance * sizes))
        shares = (1 - mechanism.first_share) * weights / weights.sum()
        errors = MEAN_ABSOLUTE * sizes / np.sqrt(self.noise_model.precision(shares))
        spend = curator.budget * self._score_share
        return float(errors.mean()) <= SCORING_THRESHOLD * scores_stddev(len(wanted), spend, curator.neighbors)

    def _score(self, triples: bool) -> None:
        """Score pairs, and triples if asked for, and update the estimated dependence of those that are not measured."""
        scorer, expected = self._scorer, self._expected()
        if not (triples and self.demand.triples):
            expected = {pair: table for pair, table in expected.items() if pair not in self.level_of}
        if not expected:
            return
        if self.public is not None and not self.evidence.answers and self._can_compare():
            found = self._compare_with_public(self.public, expected)
        else:
            if self.small_budget and not (triples and self.demand.triples):
                scorer, expected = self.screened(scorer, expected)
            found = self._scored(scorer, expected)
        self.dependence.update((pair, new) for pair, new in found.items() if pair not in self.level_of)
        if triples:
            expected = self._expected_triples(self._triple_candidates(), expected)
            if expected:
                self.dependence.update(self._scored(scorer, expected, found))

    def _scored(
        self, scorer: Scorer, expected: dict[Clique, np.ndarray], pairs: Mapping[Clique, Dependence] = NO_PAIRS
    ) -> dict[Clique, Dependence]:
        """Score tables, and return their dependence; for triples, `pairs` has that of the pairs inside."""
        scores = scorer.found([expected], pairs)[0]
        self.distances.update((clique, (noisy, scores.stddev)) for clique, noisy in scores.noisy.items())
        return scores.dependence

    def screened(self, scorer: Scorer, expected: dict[Clique, np.ndarray]) -> tuple[Scorer, dict[Clique, np.ndarray]]:
        """Return the scorer and the tables of the pairs to score: in the first round, those of a spanning forest.

        If structural zeros join all attributes, no pair extends the forest, and any pairs are scored.
        """
        number = selections(len(expected), len(self.demand.attributes))
        if number is None:
            return scorer, expected
        half = scorer.spend * 0.5
        joined = None if self.evidence.answers else self.evidence.ties
        pairs = screened_pairs(scorer, expected, number, half, joined) or screened_pairs(scorer, expected, number, half)
        return replace(scorer, spend=half), {pair: expected[pair] for pair in pairs}

    def _can_compare(self) -> bool:
        """Return whether the scores of all pairs can detect a mean difference of `DETECTABLE`.

        Otherwise the comparison is left out, since twice as many scores have more noise.
        """
        spend, count = self.curator.budget * self._score_share, len(self.pairs)
        stddev = scores_stddev(4 * count, spend, self.curator.neighbors)
        return 2 * math.sqrt(2 / count) * stddev <= DETECTABLE * 2 * self.evidence.total

    def _compare_with_public(
        self, public: PublicTables, independent: dict[Clique, np.ndarray]
    ) -> dict[Clique, Dependence]:
        """Return the dependence of each pair from independence or from its public table, whichever is closer.

        Both are scored in one release. The pairs that are closer to the public table become `public_pairs`.
        """
        public.prepare(self.pairs)
        tables = {pair: public.pair(pair, *map(self.evidence.counts, pair)) for pair in self.pairs}
        scorer = self._scorer
        alone, beside = scorer.found([independent, tables])
        differences = {pair: beside.noisy[pair] - alone.noisy[pair] for pair in self.pairs}
        nearer = significantly_negative(differences, math.hypot(alone.stddev, beside.stddev))
        self.public_pairs = tuple(pair for pair in self.pairs if pair in nearer)
        return {**alone.dependence, **{pair: beside.dependence[pair] for pair in self.public_pairs}}

    def _expected(self) -> dict[Clique, np.ndarray]:
        """Return the table of each pair under the current model."""
        if not self.evidence.answers:
            return self.evidence.expected(self.pairs)
        model = GroupedModel.of(self.evidence, self.mechanism.max_megabytes)
        return dict(zip(self.pairs, model.tables(self.pairs), strict=True))

    def _triple_candidates(self) -> list[Clique]:
        """Return the triples that may be measured, whose pairs all depend, by decreasing dependence of these.

        The list is empty if the noise of scores is larger than the mean dependence of the pairs: the interaction
        of three attributes is rarely stronger than that of two, so the budget is better spent on pairs.
        """
        domain, strength = self.curator.domain, {pair: found.whole for pair, found in self.dependence.items()}
        possible = [
            triple
            for triple in self.demand.triples
            if domain.size(triple) <= MOST_TRIPLE_CELLS
            and min(domain.project(triple).shape) > 1
            and all(strength.get(pair, 0.0) > 0 for pair in combinations(triple, 2))
        ]
        possible.sort(key=lambda triple: -sum(strength[pair] for pair in combinations(triple, 2)))
        candidates = possible[:MOST_TRIPLES]
        inside = [strength[pair] for triple in candidates for pair in combinations(triple, 2)]
        return candidates if inside and self._scorer.stddev(candidates) <= float(np.mean(inside)) else []

    def _expected_triples(self, triples: Sequence[Clique], pairs: dict[Clique, np.ndarray]) -> dict[Clique, np.ndarray]:
        """Return the maximum-entropy table of each triple given its pairs under the current model."""
        found = {}
        for triple in triples:
            margins = {axes: pairs[triple[axes[0]], triple[axes[1]]] for axes in combinations(range(3), 2)}
            start = np.multiply.outer(margins[0, 1], self.evidence.counts(triple[2])) / self.evidence.total
            if self.possible is not None:
                start = np.where(self.evidence.expected([triple])[triple] > 0, start, 0.0)
            found[triple] = ipf(start, margins)
        return found


def significantly_negative(differences: Mapping[Clique, float], stddev: float) -> set[Clique]:
    """Return the pairs whose noisy differences are negative, judged by their sum and one by one.

    If the sum of all differences is more than two of its standard errors below zero, those of at most one standard
    error are accepted: differences that are too noisy to be judged follow the sum, except those that clearly contradict
    it. Otherwise a difference must be three standard errors below zero, since some of many are low by chance.

    >>> significantly_negative({("a", "b"): -4.0, ("a", "c"): 0.5, ("b", "c"): 2.0}, 1.0)
    {('a', 'b')}
    >>> sorted(significantly_negative({("a", "b"): -9.0, ("a", "c"): 0.5, ("b", "c"): 2.0}, 1.0))
    [('a', 'b'), ('a', 'c')]

    Args:
        differences: The noisy differences.
        stddev: The standard error of each.
    """
    together = sum(differences.values()) < -2 * stddev * math.sqrt(len(differences))
    return {pair for pair, off in differences.items() if off < (1.0 if together else -3.0) * stddev}
