"""The rounds of a run of LinkedLAMP: those of LAMP, on averages over children, which are measured as lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgmest.mechanisms.lamp.allocation import ItemErrors, select_candidates
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.lamp.candidates import CandidateMarginal, NoiseModel
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.rounds import Rounds
from pgmest.mechanisms.lamp.scorer import Scorer
from pgmest.mechanisms.lamp.screening import AGAIN, selections
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.mechanisms.linked.families import NUMBER, PARENT, Families, Layout
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import UNKNOWN, MeasuredLengths, best_cut, measured, vector_of
from pgmest.mechanisms.linked.numbers import MeasuredNumbers, best_cut_of_numbers, measured_numbers, numbers_of
from pgmest.mechanisms.linked.pairing import MOST_ALL
from pgmest.mechanisms.linked.parts import ALONE, Plan, share_of_parents
from pgmest.mechanisms.linked.search import Target
from pgmest.mechanisms.linked.totals import families_of
from pgmest.mechanisms.linked.twins import TwinTables, twin_tables
from pgmest.mechanisms.linked.workload import family_workload
from pgmest.privacy.budgets import Budget, is_pure
from pgmest.privacy.curator import Curator
from pgmest.queries import Kron
from pgmest.tables.domain import Clique
from pgmest.workloads import marginals

Maker = Callable[["LinkedEvidence", Evidence], Families]
"""A function that makes families that fit all answers."""
NUMBERS_SHARE = 0.07
"""The share of the budget for the numbers of children with a code. They serve two of seven kinds of questions, and need
less noise than all pairs of two children to answer them."""
LIKELY = 2.0
"""The number of standard errors above a score up to which the distance of a table is likely."""
LEAST_FAMILIES, MOST_FAMILIES = 2_000, 20_000
"""The smallest and the largest number of families of the first model."""
MOST_CHILDREN = 200_000
"""The largest number of children of the first model: noise in the numbers of children can make millions of them."""


@dataclass(eq=False)
class LinkedEvidence:
    """All answers of a run, and what they say about averages, given the families of a model.

    Attributes:
        layout: the attributes.
        curator: the curator, which has the answers about parents.
        lengths: the answers about children.
        numbers: the answers about numbers of children with a code.
        families: the families of the model, from which the ratios of averages to lengths are taken.
        possible: the impossible combinations, if there are any.
    """

    layout: Layout
    curator: Curator
    lengths: list[MeasuredLengths] = field(default_factory=list)
    numbers: list[MeasuredNumbers] = field(default_factory=list)
    families: Families | None = None
    possible: PossibleCells | None = None

    def evidence(self) -> Evidence:
        """Return the evidence, with the tables of another child that follow from those of one child."""
        families = self.families
        assert families is not None
        total = families_of(self.curator)[0]
        measurements = [*self.curator.measurements, *(answer.averages(families, total) for answer in self.lengths)]
        first = Evidence.of(measurements, self.layout.domain, total, possible=self.possible)
        twins = twin_tables(first, self.layout)
        counts = {name: first.counts(name) for name in self.layout.domain}
        public = TwinTables(twins, counts)
        return Evidence.of(measurements, self.layout.domain, total, public, list(twins), self.possible)

    def refreshed(self, make: Maker) -> Evidence:
        """Return the evidence given families that are made from the evidence given the present ones."""
        self.families = make(self, self.evidence())
        return self.evidence()

    def model_of(self, families: Families) -> FamilyModel:
        """Return families with all answers."""
        total, stddev = families_of(self.curator)
        error = stddev if math.isfinite(stddev) else total
        answers = tuple(self.lengths), tuple(self.curator.measurements)
        return FamilyModel(families, *answers, total, error, tuple(self.numbers))

    def number_targets(self, families: Families) -> dict[str, Target]:
        """Return the targets of families for the numbers of children with a code."""
        before, total = self.families, families_of(self.curator)[0]
        assert before is not None
        return {answer.name: answer.target(before, total, len(families.sizes)) for answer in self.numbers}

    def start(self, generator: np.random.Generator) -> None:
        """Set families of independent parents and children, from the answers about single attributes."""
        layout, counts = self.layout, {}
        for measurement in self.curator.measurements:
            counts[measurement.clique] = measurement.values
        for answer in self.lengths:
            counts[answer.clique] = answer.values
        least = {clique: max(1e-3 * float(np.abs(values).max()), 1e-6) for clique, values in counts.items()}
        positive = {clique: np.maximum(values, 0.0) + least[clique] for clique, values in counts.items()}
        count = int(np.clip(positive[layout.number,].sum(), LEAST_FAMILIES, MOST_FAMILIES))

        def drawn(name: str, codes: int, size: int) -> np.ndarray:
            weights = positive[name,][:codes]
            return generator.choice(codes, size, p=weights / weights.sum())

        parents = np.stack([drawn(name, layout.domain[name], count) for name in layout.parents], axis=1)
        parents = parents[: max(1, int(np.searchsorted(np.cumsum(parents[:, -1]), MOST_CHILDREN, side="right")))]
        number = int(parents[:, -1].sum())
        children = [drawn(n, size, number) for n, size in zip(layout.members, layout.child.shape, strict=True)]
        inside = np.stack(children, axis=1) if children else np.zeros((number, 0), dtype=np.int64)
        self.families = Families(layout, parents, inside)


@dataclass(eq=False)
class LinkedRounds(Rounds):
    """The rounds of LAMP on the averages of families.

    They differ from those of `LAMP` in this:

    - Marginals with attributes of children are measured as lengths, over counts rather than contrasts.
    - The numbers of children with a code are measured before the first round.
    - After each round, families are made that fit the answers so far. They say what the lengths mean for averages.
    - The group of absent children is separate from those of codes.
    - What is known of one child is known of another (`twin_tables`).

    Attributes:
        linked: the answers, and the families of the present model.
        make: the function that makes families.
        above: the noise of answers about parents, which may be contrasts.
        generator: the generator for the first model.
    """

    linked: LinkedEvidence = field(init=False)
    make: Maker = field(init=False)
    above: NoiseModel = field(init=False)
    generator: np.random.Generator = field(init=False)

    @classmethod
    def begin(
        cls,
        mechanism: Any,
        curator: Curator,
        layout: Layout,
        make: Maker,
        generator: np.random.Generator,
        possible: PossibleCells | None = None,
    ) -> LinkedRounds:
        """Measure the one-way marginals.

        Args:
            mechanism: the mechanism.
            curator: the curator of a `FamilyDataset`.
            layout: the attributes of the dataset.
            make: a function that makes families that fit evidence.
            generator: the generator for the first model.
            possible: the impossible combinations, if there are any.
        """
        above = NoiseModel.of(curator.budget, curator.neighbors)
        state = cls(mechanism, curator, _demand(layout), replace(above, most_contrasted=1), possible=possible)
        state.linked, state.make, state.above = LinkedEvidence(layout, curator, possible=possible), make, above
        state.generator = generator
        state.measure_one_way(total_known=False)
        return state

    @property
    def _averaged(self) -> bool:
        """True if averages are measured: lengths have a large sensitivity in l1."""
        return is_pure(self.curator.budget)

    def spend_all(self) -> None:
        if self.pairs and self._numbered:
            self._measure_numbers()
        super().spend_all()

    def scored(self) -> dict[Clique, float]:
        """Return the largest likely distance of each table that was scored and not measured, over all its codes."""
        found: dict[Clique, float] = {}
        for clique, (noisy, stddev) in self.distances.items():
            if clique not in self.level_of:
                found[clique] = max(noisy, 0.0) + LIKELY * stddev
        return found

    @property
    def _numbered(self) -> bool:
        """True if the numbers of children with a code are measured: their search reads all children of a family."""
        layout = self.linked.layout
        return len(layout.members) > 0 and 1 < layout.at_most <= MOST_ALL and not self._averaged

    def _measure_numbers(self) -> None:
        """Measure the numbers of children with each code."""
        layout, families = self.linked.layout, self.linked.families
        names = layout.members
        assert families is not None
        scale = self.evidence.total / max(1, len(families.sizes))
        stddev = float(self.above.precision(NUMBERS_SHARE / len(names))) ** -0.5
        cuts = [best_cut_of_numbers(layout, name, families, scale, stddev) for name in names]
        vectors = [numbers_of(layout, name, cut) for name, cut in zip(names, cuts, strict=True)]
        spend = self.curator.budget * NUMBERS_SHARE
        answers = self.curator.measure_vectors(vectors, spend, [1.0] * len(names))
        for name, answer, cut in zip(names, answers, cuts, strict=True):
            self.linked.numbers.append(measured_numbers(layout, name, answer, cut))

    def gathered(self) -> Evidence:
        if self.linked.families is None:
            self.linked.start(self.generator)
        return self.linked.refreshed(self.make)

    def nested(self, name: str) -> tuple[np.ndarray, ...]:
        """Return the nested groups of the codes of an attribute, absent children never together with codes."""
        counts = self.evidence.counts(name)
        if self.linked.layout.kind(name) in (PARENT, NUMBER):
            return nested_groups(counts)
        return tuple(np.append(labels, labels[-1] + 1) for labels in nested_groups(counts[:-1]))

    def noise_of(self, clique: Clique) -> NoiseModel:
        """Return the noise in the averages of a clique: less than that in the measured lengths."""
        families = self.linked.families
        if self.linked.layout.is_above(clique) or families is None:
            return self.above
        groups = [np.arange(self.curator.domain[name]) for name in clique]
        lengths, averages = families.tables(clique, groups)
        present = families.layout.present(clique, groups)
        if self._averaged:
            return self.noise_model
        whole = float(lengths[present].sum())
        ratio = float(averages[present].sum()) / whole if whole > 0 else 1.0
        return replace(self.noise_model, whole=self.noise_model.whole * min(ratio, 1.0) ** 2)

    def planned(
        self, candidates: Sequence[CandidateMarginal], item_errors: ItemErrors, share: float, least: float
    ) -> Plan:
        """Return the plan of tables of parents, with the share that they need, and that of all others."""
        parents = self.linked.layout.parents
        above, below = self._of_parents(candidates), self._of_parents(candidates, other=True)
        part = min(share, self._needed(above, item_errors, least)) if below else share
        plan = select_candidates(above, item_errors.inside_of(parents), part, least) if above and part > 0 else {}
        if below and part < share:
            plan |= select_candidates(below, item_errors.inside_of(parents, other=True), share - part, least)
        return plan

    def _of_parents(self, candidates: Iterable[CandidateMarginal], other: bool = False) -> list[CandidateMarginal]:
        """Return the tables of parents among candidates, or the others."""
        return [candidate for candidate in candidates if self.linked.layout.is_above(candidate.clique) != other]

    def screened(self, scorer: Scorer, expected: dict[Clique, np.ndarray]) -> tuple[Scorer, dict[Clique, np.ndarray]]:
        """Return the scorer and the tables of the pairs to score: those that matter by themselves are not selected.

        The attributes of parents can have hundreds of pairs, and two of a child a single one, which matters as much as
        these together. A pair is scored without selection if it has the importance of an average selection.
        """
        number = selections(len(expected), len(self.demand.attributes))
        least = sum(self.demand.pairs.values()) / max(1, number or 1)
        alone = {pair: table for pair, table in expected.items() if number and self.demand.pairs[pair] >= least}
        scorer, found = super().screened(scorer, {pair: expected[pair] for pair in expected if pair not in alone})
        return scorer, {**found, **alone}

    def _needed(self, above: Sequence[CandidateMarginal], item_errors: ItemErrors, least: float) -> float:
        """Return the share that tables of parents need beside what they have had."""
        layout = self.linked.layout
        spent = sum(one.share for one in self.measured_marginals if layout.is_above(one.clique))
        scored = any(map(layout.is_above, self.demand.pairs))  # without attributes, parents alone need no scores
        alone = ALONE * (1 - self.mechanism.scoring_share * scored) - spent
        return share_of_parents(above, item_errors.inside_of(layout.parents), alone, least)

    def again(self, candidates: list[CandidateMarginal]) -> tuple[list[CandidateMarginal], float]:
        """Return the one-way marginals of parents, with a part of what all tables of parents get."""
        above = self._of_parents(candidates)
        return above, AGAIN * self._needed(above, self.workload_sensitivity.item_errors, 0.0)

    def query(self, clique: Clique, groups: list[np.ndarray]) -> Kron | None:
        if not clique:
            return None
        above = self.linked.layout.is_above(clique)
        return grouping_query(clique, groups, [above and self.above.contrasted(int(g[-1]) + 1) for g in groups])

    def _cut(self, clique: Clique, groups: tuple[np.ndarray, ...], share: float) -> float:
        """Return the length to which families are cut in a table that gets a share of the budget."""
        families = self.linked.families
        if self._averaged or families is None:
            return 0.0
        scale = self.evidence.total / max(1, len(families.sizes))
        stddev = float(self.above.precision(share)) ** -0.5
        return best_cut(self.linked.layout, clique, groups, families, scale, stddev, UNKNOWN * self.small_budget)

    def measure(
        self,
        cliques: Sequence[Clique],
        groups: Sequence[Sequence[np.ndarray]],
        queries: Sequence[Kron | None],
        weights: Sequence[float],
        spend: Budget,
    ) -> list[float | None]:
        """Measure cliques, those with attributes of children as lengths; return the noise of each.

        Both kinds are measured with their parts of the budget.
        """
        layout, curator = self.linked.layout, self.curator
        above = [place for place, clique in enumerate(cliques) if layout.is_above(clique)]
        below = [place for place in range(len(cliques)) if place not in set(above)]
        parts = spend.split([sum(weights[p] for p in kind) for kind in (above, below)])
        stddevs: list[float | None] = [None] * len(cliques)
        if above:  # first, as only these can be refused, because a part is too small
            asked, shares = [queries[p] for p in above], [weights[p] for p in above]
            found = curator.measure_all([cliques[p] for p in above], parts[0], weights=shares, queries=asked)
            for place, measurement in zip(above, found, strict=True):
                stddevs[place] = float(np.mean(measurement.stddev))
        if below:
            whole = (spend / curator.budget) / sum(weights)
            cuts = [self._cut(cliques[p], tuple(groups[p]), weights[p] * whole) for p in below]
            vectors = [
                vector_of(layout, cliques[p], groups[p], self._averaged, cut)
                for p, cut in zip(below, cuts, strict=True)
            ]
            answers = curator.measure_vectors(vectors, parts[1], [weights[p] for p in below])
            for place, cut, answer in zip(below, cuts, answers, strict=True):
                table = measured(layout, cliques[place], tuple(groups[place]), answer, self._averaged, cut)
                self.linked.lengths.append(table)
                stddevs[place] = answer[1]
        return stddevs


def _demand(layout: Layout) -> WorkloadDemand:
    weights = family_workload(layout)
    return WorkloadDemand.of(layout.domain, marginals(list(weights), weights=list(weights.values())))
