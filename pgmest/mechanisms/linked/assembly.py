"""Assembly: families that fit all evidence about averages over their children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import zero_rules
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.grouped_model import GroupedModel, cross_fitted
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.records import refined_records, weighted_records
from pgmest.mechanisms.linked.chains import Chains
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.reweighting import child_sums
from pgmest.mechanisms.linked.rounds import LinkedEvidence
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.search import FamilySearch, Target, without_absent
from pgmest.mechanisms.linked.sides import Sides
from pgmest.sampling.systematic import systematic
from pgmest.tables.domain import Clique

UNMEASURED = 8.0
"""The variance of tables that were not measured, but come from the model of one child, over the usual variance."""
LEAST_WEIGHTED, MOST_WEIGHTED = 20_000, 1_000_000
"""The least and the largest number of weighted records of one child with its family."""


@dataclass(frozen=True)
class Effort:
    """The effort with which families are made.

    Attributes:
        families: the number of families; None for as many as the data is estimated to have.
        rounds, exchanges: the arguments of `FamilySearch.run`.
    """

    families: int | None
    rounds: int
    exchanges: int


@dataclass(frozen=True, eq=False)
class Assembly:
    """The making of families from evidence.

    1. A graphical model of a family with one of its children gives families with a number of children, each with the
       codes of its parent and of one child, as LAMP gives records.
    2. Further children are those of other families of the same size. Children in order are drawn one after the other
       (`Chains`).
    3. Families are repaired until the rules hold, and changed until they meet all tables (`FamilySearch`).

    Attributes:
        layout: the attributes.
        rules: what holds in every family.
        max_megabytes: the largest size of the junction tree's tables.
    """

    layout: Layout
    rules: FamilyRules
    max_megabytes: float

    def families(
        self, linked: LinkedEvidence, evidence: Evidence, effort: Effort, generator: np.random.Generator
    ) -> Families:
        """Return families that fit evidence about all attributes of the layout, given all answers."""
        before = linked.families
        assert before is not None
        single = self._of_one_child(evidence)
        model = GroupedModel.of(cross_fitted(single, self.max_megabytes), self.max_megabytes)
        total = max(1, round(evidence.total))
        count = total if effort.families is None else min(total, effort.families)
        weighted = weighted_records(model, int(np.clip(total, LEAST_WEIGHTED, MOST_WEIGHTED)), generator)
        if effort.families is None:
            refined = refined_records(weighted, model, zero_rules(self.rules.zeros), generator)
            records = _exactly(refined, count, generator)
        else:
            assert weighted.weights is not None
            drawn = systematic(weighted.weights / weighted.weights.sum(), count, generator)
            records = weighted.take(generator.permutation(np.repeat(np.arange(len(drawn)), drawn)))
        families = self.rules.repaired(self._dealt(records, generator), generator)
        targets = self._targets(linked, evidence, weighted, families, before)
        if self.layout.ordered and self.layout.others:
            counts = {name: evidence.counts(name) for name in (*self.layout.members, *self.layout.others)}
            chains = Chains.of(self.layout, targets, counts)
            families = self.rules.repaired(chains.drawn(families, generator), generator)
        search = FamilySearch.of(families, targets, self.rules, generator, linked.number_targets(families))
        return search.run(effort.rounds, effort.exchanges)

    def improved(
        self, linked: LinkedEvidence, families: Families, effort: Effort, generator: np.random.Generator
    ) -> Families:
        """Return families changed until they meet all tables, as they follow from these families themselves."""
        linked.families = families
        targets = self._targets(linked, linked.evidence(), None, families, families)
        search = FamilySearch.of(families, targets, self.rules, generator, linked.number_targets(families))
        return search.run(effort.rounds, effort.exchanges)

    def _of_one_child(self, evidence: Evidence) -> Evidence:
        """Return the evidence about a parent and one child."""
        layout = self.layout
        names = (*layout.parents, *layout.members)
        answers = tuple(a for a in evidence.answers if set(a.clique).issubset(names) and not a.public)
        noisy = {name: known for name, known in evidence.noisy.items() if name in names}
        domain = layout.domain.project(names)
        possible = PossibleCells.of(domain, zero_rules(self.rules.zeros), self.max_megabytes)
        return Evidence(domain, evidence.total, noisy, answers, possible=possible)

    def _dealt(self, records: Dataset, generator: np.random.Generator) -> Families:
        """Return families with the parents and first children of records, and further children from other records."""
        layout = self.layout
        parents = np.stack([np.asarray(records.column(name), dtype=np.int64) for name in layout.parents], axis=1)
        sizes = parents[:, -1]
        first = np.cumsum(sizes) - sizes
        children = np.zeros((int(sizes.sum()), len(layout.members)), dtype=np.int64)
        if not layout.members:
            return Families(layout, parents, children)
        own = np.stack([np.asarray(records.column(name), dtype=np.int64) for name in layout.members], axis=1)
        there = np.all(own < np.array(layout.child.shape), axis=1)
        anyone = own[there] if there.any() else _random_children(layout, generator)
        for size in np.unique(sizes[sizes > 0]):
            alike = np.flatnonzero(sizes == size)
            pool = own[alike[there[alike]]] if there[alike].any() else anyone
            children[first[alike]] = np.where(there[alike, None], own[alike], _drawn(pool, len(alike), generator))
            for place in range(1, size):
                children[first[alike] + place] = _drawn(pool, len(alike), generator)
        return Families(layout, parents, children)

    def _targets(
        self,
        linked: LinkedEvidence,
        evidence: Evidence,
        weighted: Dataset | None,
        families: Families,
        before: Families,
    ) -> Mapping[Clique, Target]:
        """Return the measured tables with attributes of children, and the weighted records' tables of the others.

        They get the counts and averages of codes that all answers imply (`Sides`), relative to those of the families
        themselves. An earlier model's families met the counts of these same answers before: where noise is large, each
        time more of it would be believed, and codes that its families lack would never come back.
        """
        layout, found = self.layout, {}
        scale = len(families.sizes) / evidence.total
        sizes = families.sizes
        pairs = (sizes[sizes > 0] - 1) / sizes[sizes > 0] if layout.ordered else sizes > 1
        several = float(pairs.sum())
        evidence = cross_fitted(evidence, self.max_megabytes)
        for place, answer in enumerate(evidence.answers):
            clique = answer.clique
            if answer.public or len(clique) != 2 or layout.is_above(clique):
                continue
            codes = tuple(np.arange(layout.domain[name]) for name in clique)
            table = without_absent(evidence.table(place, codes), layout, clique) * scale
            if layout.is_across(clique):
                same = layout.place(clique[0]) == layout.place(clique[1])
                table = (table + table.T) / 2 if same and not layout.ordered else table
                table = table * (several / max(float(table.sum()), 1e-300))
                found[clique] = Target(table, answer.noise() ** 2 * scale**2)
                continue
            counts, ratio = counts_from_averages(table, clique, families, before)
            found[clique] = Target(counts, (answer.noise() * scale * ratio) ** 2)
        usual = float(np.median([target.variance for target in found.values()])) if found else 0.0
        others = [pair for pair in _pairs_of_one_child(layout) if pair not in found]
        made = weighted.project_many(others) if weighted is not None and others else ()
        made = dict(zip(others, made, strict=False))
        for pair in others:
            if weighted is None:
                counts = families.counts(pair) * 1.0
            else:
                table = without_absent(made[pair].values, layout, pair) * (scale * evidence.total / weighted.total)
                counts = counts_from_averages(table, pair, families, before)[0]
            found[pair] = Target(counts, UNMEASURED * usual)
        by_number = {name: found[layout.number, name].table for name in layout.members}
        sides = Sides.of(families, child_sums(linked.model_of(families)), by_number)
        kept = set(others) if weighted is None else set()
        return {
            pair: target if pair in kept else replace(target, table=sides.scaled(target.table, pair, families))
            for pair, target in found.items()
        }


def counts_from_averages(
    table: np.ndarray, clique: Clique, families: Families, before: Families
) -> tuple[np.ndarray, float]:
    """Return a table of averages as counts of children of some families, and their usual ratio.

    The ratio of counts to averages in a cell is that of the families of an earlier model. Noise can leave less than one
    family with children in the table: the usual ratio is then that to one family.
    """
    layout, number = families.layout, float(len(families.children))
    groups = [np.arange(layout.domain[name]) for name in clique]
    averages = without_absent(before.tables(clique, groups)[1], layout, clique)
    usual = len(before.children) / max(float(averages.sum()), 1e-300)
    ratio = (before.counts(clique) + usual) / (averages + 1)
    counts = np.maximum(table, 0.0) * ratio
    counts = counts * (number / max(float(counts.sum()), 1e-300))
    return counts, number / max(float(table.sum()), 1.0)


def _pairs_of_one_child(layout: Layout) -> list[Clique]:
    """Return the pairs of attributes of a parent and a child, and of a child."""
    names = layout.members
    above = [(parent, name) for parent in layout.parents for name in names]
    return [*above, *((a, b) for place, a in enumerate(names) for b in names[place + 1 :])]


def _exactly(records: Dataset, count: int, generator: np.random.Generator) -> Dataset:
    """Return this many of the records."""
    return records if records.records <= count else records.take(generator.permutation(records.records)[:count])


def _drawn(pool: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return rows of a pool, each about as often as any other."""
    return pool[np.concatenate([generator.permutation(len(pool)) for _ in range(-(-count // len(pool)))])[:count]]


def _random_children(layout: Layout, generator: np.random.Generator) -> np.ndarray:
    return np.stack([generator.integers(size, size=1000) for size in layout.child.shape], axis=1)
