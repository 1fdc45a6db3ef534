"""GroupedModel: a junction-tree model of as many of the measured pairs as fit, over groups of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.graph.tree_limit import TreeLimit
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.pgm.evidence import Evidence
from pgmest.mechanisms.pgm.groups import refined, spread
from pgmest.models.exact import Model
from pgmest.models.fitted_model import fitted_model
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import summed

FIT_TOLERANCE, FIT_ROUNDS = 1e-4, 10
"""The tables agree, but for a little."""
GUESS_ROUNDS = 3
"""A guess need not have its tables as exactly: after ten rounds errors of PGM differ by less than a percent."""
LEAST_COUNT = 1e-9
MOST_WORK = 5e7
"""Cells times tables, which a round of fitting takes."""


@dataclass(frozen=True, eq=False)
class GroupedModel:
    """A model of maximum entropy over groups of codes; within its group, a code is independent of everything else.

    Args:
        evidence: what it was made of.
        groups: of each attribute the group of each code, as fine as any answer about it.
        model: over the groups.
        places: of the answers whose tables the model has; the others did not fit into the junction tree.
    """

    evidence: Evidence
    groups: dict[str, np.ndarray]
    model: Model
    places: tuple[int, ...]

    @classmethod
    def of(cls, evidence: Evidence, max_megabytes: float, rounds: int = FIT_ROUNDS) -> GroupedModel:
        """The tables that show most dependence go first into a junction tree of limited size."""
        domain = evidence.domain
        groups = {
            name: refined(
                [g for a in evidence.answers for n, g in zip(a.clique, a.groups, strict=True) if n == name], size
            )
            for name, size in domain.items()
        }
        coarse = Domain({name: int(labels[-1]) + 1 for name, labels in groups.items()})
        limit = TreeLimit(coarse, [(name,) for name in coarse], max_megabytes)
        places: list[int] = []
        for place in _strongest_tree_first(evidence):
            clique = evidence.answers[place].clique
            if limit.tree.total_cells * len(places) < MOST_WORK and limit.fitting([clique]):
                limit.add(clique)
                places.append(place)
        covered = {name for place in places for name in evidence.answers[place].clique}
        tables = [_exact(evidence.answers[p].clique, _at(evidence, p, groups)) for p in places]
        singles = [_exact((n,), summed(evidence.counts(n), (groups[n],))) for n in coarse if n not in covered]
        model = fitted_model([*tables, *singles], coarse, evidence.total, FIT_TOLERANCE, rounds)
        return cls(evidence, groups, model, tuple(places))

    def tables(self, pairs: Sequence[Clique]) -> list[np.ndarray]:
        """What is known of pairs, over all codes: measured tables as they are, the others by the model."""
        measured = {answer.clique: place for place, answer in enumerate(self.evidence.answers)}
        others = [pair for pair in pairs if pair not in measured]
        found = dict(zip(others, (f.values for f in self.model.project_many(others)), strict=True)) if others else {}
        return [self._whole(pair, found.get(pair), measured.get(pair)) for pair in pairs]

    def _whole(self, pair: Clique, table: np.ndarray | None, place: int | None) -> np.ndarray:
        identity = tuple(np.arange(self.evidence.domain[name]) for name in pair)
        if place is not None:
            return self.evidence.table(place, identity)
        assert table is not None
        scaled = table * (self.evidence.total / table.sum())
        mass = [self.evidence.counts(name) for name in pair]
        return spread(scaled, [self.groups[name] for name in pair], identity, mass)

    def records(self, count: int, generator: np.random.Generator) -> Dataset:
        """Records of the model; the codes of a group in proportion to the one-way marginal."""
        drawn = self.model.sample(count, seed=generator)
        columns = [
            _codes(np.asarray(drawn.column(name)), labels, self.evidence.counts(name), generator)
            for name, labels in self.groups.items()
        ]
        return Dataset.from_codes(columns, self.evidence.domain, trusted=True)


def with_guesses(evidence: Evidence, max_megabytes: float) -> Evidence:
    """The same evidence, which knows of each pair what a model of other pairs says about it (cross-fitting).

    The pairs beyond a spanning tree of the strongest are halved. A model of the tree and one half says what to expect
    of the other half, by answers whose noise has nothing to do with that half's own. So the noisy tables can be shrunk
    towards it, where their risk tells that it is nearer than independence.
    """
    pairs = [place for place in _falling(evidence) if len(evidence.answers[place].clique) == 2]
    cliques = [evidence.answers[place].clique for place in pairs]
    tree = set(spanning(cliques))
    others = [
        evidence.answers[place].clique
        for place in pairs
        if evidence.answers[place].clique not in tree and not evidence.answers[place].public
    ]
    guesses: dict[Clique, np.ndarray] = {}
    for half in (others[::2], others[1::2]):
        if half:
            model = GroupedModel.of(evidence.pairs_alone(set(half)), max_megabytes, GUESS_ROUNDS)
            guesses.update(zip(half, model.tables(half), strict=True))
    return evidence.guessed(guesses) if guesses else evidence


def _falling(evidence: Evidence) -> list[int]:
    """The answers by falling dependence."""
    return np.argsort(evidence.dependence)[::-1].tolist()


def _strongest_tree_first(evidence: Evidence) -> list[int]:
    """The answers by falling dependence, those along a spanning tree of the strongest before all others.

    Such a tree needs no fill, so that each attribute has its strongest link before any cycle costs cells.
    """
    falling = _falling(evidence)
    by_clique = {evidence.answers[place].clique: place for place in reversed(falling)}
    cliques = [evidence.answers[place].clique for place in falling]
    tree = [by_clique[pair] for pair in spanning(clique for clique in cliques if len(clique) == 2)]
    return [*tree, *(place for place in falling if place not in set(tree))]


def spanning(pairs: Iterable[Clique]) -> list[Clique]:
    """Of pairs in order, those that join attributes not joined yet by the ones before (Kruskal).

    >>> spanning([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    [('a', 'b'), ('b', 'c'), ('c', 'd')]
    """
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    chosen = []
    for first, second in pairs:
        one, other = find(first), find(second)
        if one != other:
            root[one] = other
            chosen.append((first, second))
    return chosen


def _at(evidence: Evidence, place: int, groups: dict[str, np.ndarray]) -> np.ndarray:
    return evidence.table(place, tuple(groups[name] for name in evidence.answers[place].clique))


def _exact(clique: Iterable[str], counts: np.ndarray) -> LinearMeasurement:
    return LinearMeasurement(np.maximum(counts, LEAST_COUNT).ravel(), tuple(clique), 1.0)


def _codes(drawn: np.ndarray, labels: np.ndarray, mass: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A code for each record's group, so that each has its share of the group's records, up to rounding."""
    if int(labels[-1]) + 1 == len(labels):
        return drawn
    order = np.argsort(drawn + generator.random(len(drawn)) * 0.5, kind="stable")
    counts = np.bincount(drawn, minlength=int(labels[-1]) + 1)
    first = np.concatenate([[0], np.cumsum(counts)])
    before = np.concatenate([[0.0], np.cumsum(mass)])
    start = np.flatnonzero(np.diff(labels, prepend=-1))
    whole = np.add.reduceat(mass, start)
    sorted_groups = drawn[order]
    place = np.arange(len(drawn)) - first[sorted_groups]
    at = before[start][sorted_groups] + whole[sorted_groups] * (place + generator.random()) / np.maximum(
        counts[sorted_groups], 1
    )
    codes = np.empty(len(drawn), dtype=code_type(len(labels)))
    end = np.append(start[1:], len(labels))[sorted_groups] - 1
    codes[order] = np.clip(np.searchsorted(before, at, side="right") - 1, start[sorted_groups], end)
    return codes
