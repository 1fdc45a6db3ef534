"""The attribute graph of PrivMRF: which attributes depend on each other, and small marginals of its cliques."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest.graph.tree_limit import TreeLimit
from pgmest.mechanisms.privbayes.parent_sets import maximal_parent_sets
from pgmest.tables.domain import Clique, Domain

Dependence = Mapping[frozenset[str], float]
"""For each pair of attributes how far it is from independent: about the total variation distance, with noise."""

PARENT_SETS = 200
"""At most this many sets of parents are compared for each attribute."""


def attribute_graph(domain: Domain, dependence: Dependence, least: float, max_megabytes: float) -> tuple[Clique, ...]:
    """The maximal cliques of a triangulated graph: dependent pairs joined, the most dependent first, while they fit.

    Args:
        domain: the attributes.
        dependence: of each pair that may be joined.
        least: pairs below it are not joined.
        max_megabytes: the largest junction tree, 8 bytes a cell.
    """
    limit = TreeLimit(domain, [(name,) for name in domain], max_megabytes)
    for pair in sorted(dependence, key=lambda pair: -dependence[pair]):
        if dependence[pair] < least:
            break
        for clique in limit.fitting([domain.ordered(pair)]):
            limit.add(clique)
    return limit.tree.cliques


def initial_marginals(
    domain: Domain, cliques: Iterable[Clique], dependence: Dependence, max_cells: float, rng: np.random.Generator
) -> list[Clique]:
    """Marginals that explain each attribute by others of its clique: a Bayesian network inside every clique.

    Inside a clique attributes are appended one by one, each time the one with the best parents among those before it,
    by the score of correlation-based feature selection: sum of D(a, p) over parents p, over the root of the number of
    parents plus the sum of D(p, q) over pairs of parents. The best marginals come first.

    Args:
        domain: the attributes.
        cliques: of the attribute graph.
        dependence: D.
        max_cells: the most cells that a marginal may have.
        rng: breaks ties, and draws parents where there are very many sets of them.
    """
    found: dict[Clique, float] = {}
    for clique in cliques:
        for marginal, score in _network(domain, clique, dependence, max_cells, rng):
            found[marginal] = max(score, found.get(marginal, score))
    ranked = sorted(found, key=lambda marginal: -found[marginal])
    return [one for one in ranked if not any(set(one) < set(other) for other in found)]


def useful_marginals(domain: Domain, cliques: Iterable[Clique], size: int, max_cells: float) -> list[Clique]:
    """The marginals of two to `size` attributes of at most `max_cells` cells inside the cliques; smallest first."""
    found: dict[Clique, None] = {}
    for clique in cliques:
        level: set[Clique] = {(name,) for name in clique}
        for _ in range(2, size + 1):
            level = {marginal for marginal in _extended(domain, clique, level) if domain.size(marginal) <= max_cells}
            found.update(dict.fromkeys(sorted(level)))
    return sorted(found, key=lambda marginal: (len(marginal), [domain.attributes.index(name) for name in marginal]))


def _extended(domain: Domain, clique: Clique, level: Iterable[Clique]) -> Iterator[Clique]:
    """Each marginal with one more attribute of the clique, in domain order."""
    for marginal in level:
        for name in set(clique).difference(marginal):
            yield tuple(one for one in domain if one == name or one in marginal)


def _network(
    domain: Domain, clique: Clique, dependence: Dependence, max_cells: float, rng: np.random.Generator
) -> Iterator[tuple[Clique, float]]:
    found = _matrix(clique, dependence)
    place = {name: position for position, name in enumerate(clique)}
    rest = list(clique)
    chosen = [rest.pop(int(rng.integers(len(rest))))]
    while rest:
        best: tuple[float, str, Clique] | None = None
        by_size: dict[int, _ParentSets] = {}  # attributes of one size have the same sets of parents
        for name in rest:
            size = domain[name]
            if size not in by_size:
                sets = maximal_parent_sets(domain, chosen, max_cells / size, PARENT_SETS, rng)
                by_size[size] = _ParentSets.of([one for one in sets if one], place, found)
            score, parents = by_size[size].best(found[place[name]])
            if parents and (best is None or score > best[0]):
                best = score, name, parents
        if best is None:
            return
        score, name, parents = best
        rest.remove(name)
        chosen.append(name)
        yield tuple(one for one in domain if one == name or one in parents), score


def _matrix(clique: Clique, dependence: Dependence) -> np.ndarray:
    """D of the pairs of a clique, (k, k); pairs whose dependence is not known count as independent."""
    found = np.zeros((len(clique), len(clique)))
    for (i, one), (j, other) in combinations(enumerate(clique), 2):
        found[i, j] = found[j, i] = dependence.get(frozenset((one, other)), 0.0)
    return found


@dataclass(frozen=True, eq=False)
class _ParentSets:
    """Sets of parents, with what their score of correlation-based feature selection is divided by.

    Attributes:
        sets: not empty ones.
        members: (sets, attributes of the clique): 1 for a parent.
        roots: the root of the number of parents plus their overlap.
    """

    sets: list[Clique]
    members: np.ndarray
    roots: np.ndarray

    @classmethod
    def of(cls, sets: list[Clique], place: Mapping[str, int], dependence: np.ndarray) -> _ParentSets:
        members = np.zeros((len(sets), len(place)))
        for row, parents in zip(members, sets, strict=True):
            row[[place[name] for name in parents]] = 1.0
        overlap = np.sum((members @ np.maximum(dependence, 0.0)) * members, axis=1) / 2
        return cls(sets, members, np.sqrt(np.maximum(members.sum(axis=1), 1.0) + overlap))

    def best(self, dependence: np.ndarray) -> tuple[float, Clique]:
        """The best set for an attribute with this dependence on the others, and its score; none if there are none."""
        if not self.sets:
            return -math.inf, ()
        scores = (self.members @ dependence) / self.roots
        first = int(np.argmax(scores))
        return float(scores[first]), self.sets[first]
