"""Rounds: the candidates, allocations and measurements of a run of LAMP; its scores are in `scored_rounds`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.stages import rounds_in_time
from pgmest.errors import SpendTooSmall
from pgmest.mechanisms.held_records import known_tables
from pgmest.mechanisms.lamp.allocation import ItemErrors, WorkloadSensitivity, select_candidates
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.lamp.candidates import (
    CELLS,
    CandidateMarginal,
    NoiseModel,
    kinds_of_cells,
    magnitude_histogram,
    one_way_candidate,
    range_candidate,
    sampling_error,
    table_candidate,
    total_candidate,
    unscored_candidate,
)
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.evidence import Evidence, evidence_of, total_of
from pgmest.mechanisms.lamp.grouped_model import tree_beside
from pgmest.mechanisms.lamp.groups import branches, nested_groups, ranges_of_branches
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.scored_rounds import MeasuredMarginal, ScoredRounds
from pgmest.mechanisms.lamp.scorer import COARSE_LEVEL
from pgmest.mechanisms.lamp.screening import AGAIN, DEPENDENCE_WEIGHT, is_small
from pgmest.mechanisms.lamp.tree_counts import level_parts, levels_together, measured_levels, share_with_levels
from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.queries import Kron
from pgmest.tables.domain import Clique
from pgmest.tables.groups import summed

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.lamp import LAMP

LEAST_SHARE = 1e-9
"""A smaller remaining share of the budget is a rounding error."""


@dataclass(eq=False)
class Rounds(ScoredRounds):
    """The rounds of a run of `LAMP`, which measure the candidates that the scores favor.

    A subclass can replace what they ask of the records: `gathered`, `nested`, `noise_of`, `planned`, `screened`,
    `again`, `query` and `measure`. Those of `LAMP` are about one table.
    """

    _histograms: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def start(cls, mechanism: LAMP, curator: Curator, workload: Any) -> Rounds:
        """Measure the one-way marginals."""
        public = PublicTables.of(mechanism.prior, curator.domain)
        if isinstance(curator, OrderedCurator):  # queries, and groups of levels, are about the codes of the list
            demand = curator.order.demand(WorkloadDemand.of(curator.order.domain, workload))
            public = curator.order.tables(public)
        else:
            demand = WorkloadDemand.of(curator.domain, workload)
        possible = PossibleCells.of(curator.domain, curator.structural_zeros, mechanism.max_megabytes)
        state = cls(mechanism, curator, demand, NoiseModel.of(curator.budget, curator.neighbors), public, possible)
        state.measure_one_way(curator.fixed_total is not None)
        for clique in (table.clique for table in known_tables(curator)):
            if len(clique) > 1 and state.levels.keys() >= set(clique):  # never scored, and measured finely already
                state.level_of[clique] = max(len(state.levels[name]) for name in clique) - 1
        return state

    def measure_one_way(self, total_known: bool) -> None:
        """Measure the one-way marginals, and the number of records unless it is known."""
        curator, demand = self.curator, self.demand
        more = bool(demand.pairs or demand.has_range_queries)
        share = self.mechanism.first_share if more else 1.0
        first = InitialMeasurements.of(curator.domain, demand, self.noise_model, share, total_known)
        cliques, queries, shares = zip(*first.measurements(), strict=True)
        spend = curator.budget * self.mechanism.first_share if more else curator.remaining
        groups = [[np.arange(curator.domain[name]) for name in clique] for clique in cliques]
        stddevs = self.measure(cliques, groups, queries, shares, spend)
        self.evidence = self.gathered()
        self.levels = {name: self.nested(name) for name in demand.attributes}
        for clique, query, share, stddev in zip(cliques, queries, shares, stddevs, strict=True):
            if stddev is None:
                continue
            size = tuple(curator.domain[name] for name in clique)
            if len(size) == 1 and query is not None and query.rows < size[0] - 1:
                size = (query.rows,)
            self.measured_marginals.append(MeasuredMarginal(0, clique, size, share, stddev))

    def gathered(self) -> Evidence:
        """Return the evidence from all answers so far."""
        return evidence_of(self.curator, self.public, self.public_pairs, self.possible)

    def nested(self, name: str) -> tuple[np.ndarray, ...]:
        """Return the groups of the codes of an attribute at each level, along its tree if there is one."""
        return nested_groups(self.evidence.counts(name), ranges_of_branches(self.curator.domain, name))

    def spend_all(self) -> None:
        """Spend the budget that remains after the initial measurements."""
        if not self.pairs:
            self._measure_ranges()
        elif self._scores_are_too_noisy():
            self._measure_all()
        else:
            self.small_budget = self.public is None and is_small(self._scorer.stddev(self.pairs), self.evidence.total)
            if self.small_budget:
                self._measure_one_way_again()
            for number in rounds_in_time(self.mechanism.rounds):
                self._run_round(number)

    def _measure_one_way_again(self) -> None:
        """Measure the one-way marginals again, before errors in them hide the dependence of pairs."""
        self._update_sensitivity()
        candidates, share = self.again(list(self._one_way_candidates()))
        if share < LEAST_SHARE:
            return
        self._allocate(0, candidates, share)
        fixed = {name for clique in self.level_of for name in clique}  # these tables keep their groups
        free = [name for name in self.demand.attributes if name not in fixed]
        self.levels |= {name: self.nested(name) for name in free}

    def again(self, candidates: list[CandidateMarginal]) -> tuple[list[CandidateMarginal], float]:
        """Return the one-way marginals that a small budget measures again, and their share of the budget."""
        return candidates, AGAIN * (self.curator.remaining / self.curator.budget - self.mechanism.scoring_share)

    def _measure_all(self) -> None:
        """Measure all pairs and triples without scores, and one-way marginals again if this lowers the error."""
        self._update_sensitivity()
        histograms = {name: magnitude_histogram(self.evidence.counts(name)) for name in self.demand.attributes}
        candidates = [*self._one_way_candidates()]
        for clique in self.curator.unknown((*self.pairs, *self.demand.triples)):
            sides = [histograms[name] for name in clique]
            level = max(len(self.levels[name]) for name in clique) - 1
            candidates.append(unscored_candidate(clique, sides, level, self.evidence.total, self.noise_model))
        left = self.curator.remaining / self.curator.budget
        self._allocate(1, candidates, left)

    def _measure_ranges(self) -> None:
        """Measure one-way marginals again, in rounds of equal budget, if only ranges of single attributes are asked."""
        for number in range(1, self.mechanism.rounds + 1) if self.demand.has_range_queries else ():
            self._update_sensitivity()
            left = self.curator.remaining / self.curator.budget / (self.mechanism.rounds + 1 - number)
            self._allocate(number, list(self._one_way_candidates()), left)

    def _allocate(self, number: int, candidates: Sequence[CandidateMarginal], share: float) -> None:
        """Measure all candidates that get a part of a share of the budget."""
        self._measure(number, self.planned(candidates, self.workload_sensitivity.item_errors, share, 0.0), share)
        self.evidence = self.gathered()

    def planned(
        self, candidates: Sequence[CandidateMarginal], item_errors: ItemErrors, share: float, least: float
    ) -> dict[Clique, tuple[CandidateMarginal, float]]:
        """Return the candidates to measure with a share of the budget, each with its part, as `select_candidates`."""
        return select_candidates(candidates, item_errors, share, least)

    def _run_round(self, number: int) -> None:
        """Score, allocate and measure."""
        last = number == self.mechanism.rounds
        self._update_sensitivity()
        self._score(triples=last)
        later = self._score_share * (self.mechanism.rounds + bool(self.demand.triples) - number)
        left = max(0.0, self.curator.remaining / self.curator.budget - (0.0 if last else later))
        if left < LEAST_SHARE:
            return
        candidates = [*self._one_way_candidates(), *self._table_candidates()]
        if not last:
            candidates += self._later_triples()
        least = self.mechanism.min_error_reduction
        plan = self.planned(candidates, self._item_errors(), left, least)
        if last:
            self._measure(number, plan, left)
        elif chosen := self._strongest(plan, tree=number == 1):
            self._measure(number, chosen, min(left, sum(share for _, share in chosen.values())))
        self.evidence = self.gathered()

    def _item_errors(self) -> ItemErrors:
        """Return the items of the workload; those with strong dependence weigh more if the budget is small."""
        found = self.workload_sensitivity.item_errors
        if not self.small_budget:
            return found
        dependence = [self.dependence[part].whole if part in self.dependence else 0.0 for part in found.parts]
        return found.weighted_by(np.array(dependence), DEPENDENCE_WEIGHT)

    def _strongest(
        self, plan: dict[Clique, tuple[CandidateMarginal, float]], tree: bool
    ) -> dict[Clique, tuple[CandidateMarginal, float]]:
        """Return the candidates that are unmeasured pairs of the maximum spanning tree, or their stronger half.

        Pairs that structural zeros tie are part of the tree, and need no measurement for it.
        """
        fresh = [pair for pair in plan if len(pair) == 2 and not plan[pair][0].measured]
        fresh.sort(key=lambda pair: -self.dependence[pair].whole)
        if not tree:
            return {pair: plan[pair] for pair in fresh[: (len(fresh) + 1) // 2]}
        strength = {pair: self.dependence[pair].whole / (2 * self.evidence.total) for pair in fresh}
        return {pair: plan[pair] for pair in tree_beside(strength, self.evidence.ties)}

    def _update_sensitivity(self) -> None:
        """Compute the sensitivity of the workload from the current one-way marginals."""
        self._histograms.clear()
        counts = {name: self.evidence.counts(name) for name in self.demand.attributes}
        self.workload_sensitivity = WorkloadSensitivity.of(self.demand, counts, self.levels)

    # -- candidates and measurements -----------------------------------------------------------------------------------

    def _one_way_candidates(self) -> Iterable[CandidateMarginal]:
        """Yield the candidates for the number of records, if it is not public, and for all attributes."""
        _, stddev = total_of(self.curator)
        if stddev > 0:
            yield total_candidate(stddev, self.noise_model)
        for name in self.demand.attributes:
            views = self.workload_sensitivity.views.get((name,))
            if views is None and self.small_budget and self._tree(name):
                views = CELLS  # the noise hides most codes, so that it matters down to which level they are measured
            if views is None:
                yield one_way_candidate(
                    (name,), self.evidence.counts(name), self.evidence.stddev(name), self.noise_model
                )
            else:
                rows = [(view.key, view.weight, self.workload_sensitivity.queries(name, view.key)) for view in views]
                yield range_candidate(
                    (name,), self.evidence.covariance(name), self._one_way_options(name), rows, self.noise_model
                )

    def _one_way_options(self, name: str) -> list[np.ndarray]:
        """Return the groups over which an attribute alone can be measured; in a tree, all levels down to each one."""
        tree = self._tree(name)
        together = [levels_together(tree[: depth + 1], self.noise_model.power) for depth in range(len(tree))]
        return together or list(self.levels[name])

    def _tree(self, name: str) -> list[np.ndarray]:
        """Return the levels of an attribute's tree that are measured by themselves; nothing without a tree."""
        return measured_levels(branches(self.curator.domain, name), self.curator.domain[name])

    def _with_levels(self, clique: Clique) -> float:
        """Return the factor of a share with which the levels of a tree are measured beside the codes.

        If a workload asks for levels, they are part of the candidate's share.
        """
        if len(clique) != 1 or clique in self.workload_sensitivity.views:
            return 1.0
        return share_with_levels(self._tree(clique[0]), self.noise_model.power)

    def _table_candidates(self) -> Iterable[CandidateMarginal]:
        """Yield the candidates for all pairs and triples with dependence."""
        for clique, found in self.dependence.items():
            if found.whole > 0:
                yield self._table_candidate(clique)

    def _later_triples(self) -> Iterable[CandidateMarginal]:
        """Yield the candidates for triples before the last round, which scores them, so that their share is kept.

        What is known before is their sampling error: the records differ by that much from any smooth table.
        """
        for clique in self._triple_candidates() if self.demand.triples else ():
            if clique not in self.level_of:
                coarse, whole = self._sampling_errors(clique)
                yield self._table_candidate(clique, Dependence(coarse, whole, chance=whole))

    def _sampling_errors(self, clique: Clique) -> tuple[float, float]:
        """Return the sampling error (l1, in counts) of a table over coarse groups and over codes."""
        last = max(len(self.levels[name]) for name in clique) - 1
        coarse, whole = (
            sampling_error(*kinds_of_cells([self._histogram(name, level) for name in clique], self.evidence.total))
            for level in (min(COARSE_LEVEL, last), last)
        )
        return coarse, whole

    def _table_candidate(self, clique: Clique, dependence: Dependence | None = None) -> CandidateMarginal:
        levels = range(max(len(self.levels[name]) for name in clique))
        sides = [tuple(self._histogram(name, level) for name in clique) for level in levels]
        finest = [all(level >= len(self.levels[name]) - 1 for name in clique) for level in levels]
        answer = self.evidence.answer_about(clique) if clique in self.level_of else None
        earlier = None if answer is None else (self.level_of[clique], 1 / answer.variance)
        return table_candidate(
            clique,
            sides,
            finest,
            self.dependence[clique] if dependence is None else dependence,
            COARSE_LEVEL,
            self.evidence.total,
            self.noise_of(clique),
            earlier,
            self.workload_sensitivity.of_table(clique),
        )

    def noise_of(self, clique: Clique) -> NoiseModel:
        """Return the noise of a share in the table of a pair or triple."""
        return self.noise_model

    def _histogram(self, name: str, level: int) -> tuple[np.ndarray, np.ndarray]:
        level = min(level, len(self.levels[name]) - 1)
        if (name, level) not in self._histograms:
            self._histograms[name, level] = magnitude_histogram(
                summed(self.evidence.counts(name), (self.levels[name][level],))
            )
        return self._histograms[name, level]

    def _measure(self, number: int, chosen: dict[Clique, tuple[CandidateMarginal, float]], share: float) -> None:
        """Measure the chosen candidates with a share of the budget.

        If a part is too small for the noise to be sampled, nothing is charged. Then the larger half of the parts gets
        the whole share. If even a single part is too small, the share stays unspent.
        """
        while chosen:
            try:
                return self._measure_at_once(number, chosen, share)
            except SpendTooSmall:
                strongest = sorted(chosen, key=lambda clique: -chosen[clique][1])[: len(chosen) // 2]
                chosen = {clique: chosen[clique] for clique in chosen if clique in set(strongest)}

    def _measure_at_once(
        self, number: int, chosen: dict[Clique, tuple[CandidateMarginal, float]], share: float
    ) -> None:
        chosen = {clique: (found, part * self._with_levels(clique)) for clique, (found, part) in chosen.items()}
        whole = sum(part for _, part in chosen.values())
        left = self.curator.remaining / self.curator.budget
        spend = self.curator.remaining if share >= left else self.curator.budget * share
        asked: list[tuple[Clique, list[np.ndarray], float]] = []
        for clique, (candidate, part) in chosen.items():
            level = None if candidate.levels is None else candidate.level(part * share / whole)
            if len(clique) > 1:  # a pair or triple keeps its groups, so that its answers can be averaged
                level = self.level_of.setdefault(clique, candidate.level(part * share / whole))
            asked += self._parts(clique, level, part)
        cliques, groups, weights = zip(*asked, strict=True)
        queries = [self.query(clique, sides) for clique, sides in zip(cliques, groups, strict=True)]
        stddevs = self.measure(cliques, groups, queries, weights, spend)
        for clique, sides, weight, stddev in zip(cliques, groups, weights, stddevs, strict=True):
            if stddev is not None:
                self._add_measured(number, clique, sides, stddev, chosen[clique][0], weight * share / whole)

    def measure(
        self,
        cliques: Sequence[Clique],
        groups: Sequence[Sequence[np.ndarray]],
        queries: Sequence[Kron | None],
        weights: Sequence[float],
        spend: Budget,
    ) -> list[float | None]:
        """Measure marginals; return the standard deviation of the noise of each, or None if it is known exactly.

        Args:
            cliques: The attributes of each marginal.
            groups: The groups of the codes of each attribute; those that `queries` ask for.
            queries: The query of each marginal; None asks for its counts.
            weights: The proportions of the shares of the budget.
            spend: The budget of all marginals together.
        """
        answers = self.curator.measure_all(cliques, spend, weights=weights, queries=queries)
        return [float(np.mean(answer.stddev)) if answer.noisy else None for answer in answers]

    def _parts(self, clique: Clique, level: int | None, part: float) -> list[tuple[Clique, list[np.ndarray], float]]:
        """Return the measurements of a candidate: its groups and weight, or those of the levels of a tree."""
        tree = self._tree(clique[0])[: None if level is None else level + 1] if len(clique) == 1 else []
        if not tree:
            return [(clique, self._groups(clique, level), part)]
        shares = level_parts(tree, self.noise_model.power)
        return [(clique, [labels], part * share) for labels, share in zip(tree, shares.tolist(), strict=True)]

    def query(self, clique: Clique, groups: list[np.ndarray]) -> Kron | None:
        """Return the query for a marginal over groups; None asks for the number of records."""
        if not clique:
            return None
        # attributes with range queries or trees are counted, which also determines the number of records
        counts = len(clique) == 1 and (clique in self.workload_sensitivity.views or bool(self._tree(clique[0])))
        return grouping_query(
            clique, groups, [not counts and self.noise_model.contrasted(int(labels.max()) + 1) for labels in groups]
        )

    def _groups(self, clique: Clique, level: int | None) -> list[np.ndarray]:
        """Return the groups of each attribute at a level; at most its last one, where each code is its own group."""
        last = {name: len(self.levels[name]) - 1 for name in clique}
        return [self.levels[name][last[name] if level is None else min(level, last[name])] for name in clique]

    def _add_measured(
        self,
        number: int,
        clique: Clique,
        groups: list[np.ndarray],
        stddev: float,
        candidate: CandidateMarginal,
        share: float,
    ) -> None:
        size = tuple(int(labels.max()) + 1 for labels in groups)
        scale = 1 / (2 * self.evidence.total)
        before = float(candidate.errors[0]) * scale
        after = (1 - candidate.reduction(share)) * float(candidate.errors[0]) * scale
        self.measured_marginals.append(
            MeasuredMarginal(number, clique, size, share, stddev, before if len(clique) > 1 else None, after)
        )
