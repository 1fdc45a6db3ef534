"""GroupedModel: a junction-tree model, over groups of codes, of as many measured tables as its size limit allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import common_refinement, disaggregated
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.models.exact import Model
from pgmest.models.fitted_model import fitted_model
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import group_starts, summed

FIT_TOLERANCE, FIT_ROUNDS = 1e-4, 10
"""The relative gap at which fitting ends, and its largest number of rounds. The tables are nearly consistent, so that
few rounds are needed."""
PREDICTION_ROUNDS = 3
"""The number of rounds of fitting for a prediction in `cross_fitted`. Ten rounds change the error of LAMP by less than
1 %."""
LEAST_COUNT = 1e-9
"""The smallest count of a fitted cell: maximum likelihood needs positive ones."""
MOST_WORK = 5e7
"""The largest number of cells times tables that one round of fitting visits."""


@dataclass(frozen=True, eq=False)
class GroupedModel:
    """A maximum-entropy model over groups of codes; within its group, a code is independent of the other attributes.

    Args:
        evidence: The evidence that the model was fitted to.
        groups: For each attribute, the group of each code; the common refinement of all answers about the attribute.
        model: The model over groups.
        places: The positions of the answers whose tables the model has; the others exceed the size limit.
    """

    evidence: Evidence
    groups: dict[str, np.ndarray]
    model: Model
    places: tuple[int, ...]

    @classmethod
    def of(cls, evidence: Evidence, max_megabytes: float, rounds: int = FIT_ROUNDS) -> GroupedModel:
        """Fit a junction tree of limited size, to which tables are added by decreasing dependence."""
        domain = evidence.domain
        groups = {
            name: common_refinement(
                [g for a in evidence.answers for n, g in zip(a.clique, a.groups, strict=True) if n == name], size
            )
            for name, size in domain.items()
        }
        zeros = []
        if evidence.possible is not None:
            groups = evidence.possible.refined(groups)
        coarse = Domain({name: int(labels[-1]) + 1 for name, labels in groups.items()})
        if evidence.possible is not None:
            zeros.append(evidence.possible.over_groups(groups, coarse))
        tied = [clique for potentials in zeros for clique in potentials.cliques]
        limit = TreeLimit(coarse, [*((name,) for name in coarse), *tied], max_megabytes)
        places: list[int] = []
        for place in _strongest_tree_first(evidence):
            clique = evidence.answers[place].clique
            if limit.tree.total_cells * len(places) < MOST_WORK and limit.fitting([clique]):
                limit.add(clique)
                places.append(place)
        covered = {name for place in places for name in evidence.answers[place].clique}
        tables = [_exact(evidence.answers[p].clique, _at(evidence, p, groups)) for p in places]
        singles = [_exact((n,), summed(evidence.counts(n), (groups[n],))) for n in coarse if n not in covered]
        model = fitted_model([*tables, *singles], coarse, evidence.total, FIT_TOLERANCE, rounds, zeros)
        return cls(evidence, groups, model, tuple(places))

    def tables(self, pairs: Sequence[Clique]) -> list[np.ndarray]:
        """Return the tables of pairs over all codes: measured tables from the evidence, the others from the model."""
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
        return disaggregated(scaled, [self.groups[name] for name in pair], identity, mass)

    def records(self, count: int, generator: np.random.Generator) -> Dataset:
        """Draw records from the model; the codes of a group have probabilities proportional to the one-way marginal."""
        drawn = self.model.sample(count, seed=generator)
        columns = [
            _codes(np.asarray(drawn.column(name)), labels, self.evidence.counts(name), generator)
            for name, labels in self.groups.items()
        ]
        return Dataset.from_codes(columns, self.evidence.domain, trusted=True)


def cross_fitted(evidence: Evidence, max_megabytes: float) -> Evidence:
    """Return the evidence with a prediction for each pair outside a spanning tree, from a model of other pairs.

    The pairs outside the maximum spanning tree are divided into two halves. A model of the tree and one half predicts
    the pairs of the other half (cross-fitting). The noise of the prediction is independent of the noise in the
    predicted tables, so these can be shrunk towards it if their estimated risk is smaller than with independence.
    """
    pairs = [place for place in _by_dependence(evidence) if len(evidence.answers[place].clique) == 2]
    tree = set(_tree_pairs(evidence))
    others = [
        evidence.answers[place].clique
        for place in pairs
        if evidence.answers[place].clique not in tree and not evidence.answers[place].public
    ]
    predictions: dict[Clique, np.ndarray] = {}
    for half in (others[::2], others[1::2]):
        if half:
            model = GroupedModel.of(evidence.without(set(half)), max_megabytes, PREDICTION_ROUNDS)
            predictions.update(zip(half, model.tables(half), strict=True))
    return evidence.with_predictions(predictions) if predictions else evidence


def _by_dependence(evidence: Evidence) -> list[int]:
    """Return the positions of the answers by decreasing dependence."""
    return np.argsort(evidence.dependence)[::-1].tolist()


def _strongest_tree_first(evidence: Evidence) -> list[int]:
    """Return the positions of the answers by decreasing dependence, those of the maximum spanning tree first.

    The tree needs no fill-in, so each attribute gets its strongest pair before a cycle makes cliques larger.
    """
    falling = _by_dependence(evidence)
    by_clique = {evidence.answers[place].clique: place for place in reversed(falling)}
    tree = [by_clique[pair] for pair in _tree_pairs(evidence)]
    return [*tree, *(place for place in falling if place not in set(tree))]


def _tree_pairs(evidence: Evidence) -> list[Clique]:
    """Return the measured pairs of the maximum spanning tree."""
    strength: dict[Clique, float] = {}
    for place in _by_dependence(evidence):
        clique = evidence.answers[place].clique
        if len(clique) == 2:
            strength.setdefault(clique, evidence.dependence[place])
    return tree_beside(strength, evidence.ties)


def tree_beside(strength: Mapping[Clique, float], ties: Mapping[Clique, float]) -> list[Clique]:
    """Return the pairs of a maximum spanning forest that also has other pairs, without the latter.

    >>> tree_beside({("a", "b"): 0.3, ("a", "c"): 0.2, ("b", "c"): 0.1}, {("b", "c"): 0.9})
    [('a', 'b')]

    Args:
        strength: The dependence of each pair, in the order in which equal ones are chosen.
        ties: The dependence of the pairs that structural zeros tie, which need no measurement.
    """
    free = {pair for pair, tie in ties.items() if tie > strength.get(pair, 0.0)}
    weight = {**strength, **{pair: ties[pair] for pair in free}}
    return [pair for pair in spanning_tree(sorted(weight, key=lambda pair: -weight[pair])) if pair not in free]


def spanning_tree(pairs: Iterable[Clique]) -> list[Clique]:
    """Return the pairs of a maximum spanning forest, given all pairs by decreasing weight (Kruskal).

    >>> spanning_tree([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
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
    """Draw a code for each record's group, so that each code has its share of the group's records up to rounding."""
    if int(labels[-1]) + 1 == len(labels):
        return drawn
    order = np.argsort(drawn + generator.random(len(drawn)) * 0.5, kind="stable")
    counts = np.bincount(drawn, minlength=int(labels[-1]) + 1)
    first = np.concatenate([[0], np.cumsum(counts)])
    before = np.concatenate([[0.0], np.cumsum(mass)])
    start = group_starts(labels)
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
