"""The attribute graph of PrivMRF: an edge joins dependent attributes; marginals are chosen inside its cliques."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest.mechanisms.privbayes.parent_sets import maximal_parent_sets
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.tables.domain import Clique, Domain

Dependence = Mapping[frozenset[str], float]
"""The noisy total variation distance of each pair of attributes from independence."""

PARENT_SETS = 200
"""The most parent sets compared for an attribute, which bounds the time of dense cliques; more are sampled."""


def attribute_graph(domain: Domain, dependence: Dependence, least: float, max_megabytes: float) -> tuple[Clique, ...]:
    """Return the maximal cliques of a triangulated graph that joins pairs, the most dependent first, while they fit.

    Args:
        domain: the attributes.
        dependence: the dependence of each pair that may be joined.
        least: the least dependence of a joined pair.
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
    """Return the families of a Bayesian network inside every clique, the highest score first.

    Each step adds the attribute of the clique with the best parent set among the attributes added before it. The score
    is that of correlation-based feature selection: the sum of D(a, p) over the parents p, divided by the square root of
    the number of parents plus the sum of D(p, q) over pairs of parents.

    Args:
        domain: the attributes.
        cliques: the cliques of the attribute graph.
        dependence: D.
        max_cells: the most cells of a marginal.
        rng: draws the first attribute of each network, and parent sets if there are more than `PARENT_SETS`.
    """
    found: dict[Clique, float] = {}
    for clique in cliques:
        for marginal, score in _network(domain, clique, dependence, max_cells, rng):
            found[marginal] = max(score, found.get(marginal, score))
    ranked = sorted(found, key=lambda marginal: -found[marginal])
    return [one for one in ranked if not any(set(one) < set(other) for other in found)]


def useful_marginals(domain: Domain, cliques: Iterable[Clique], size: int, max_cells: float) -> list[Clique]:
    """Return the marginals of 2 to `size` attributes and at most `max_cells` cells inside the cliques, small first."""
    found: dict[Clique, None] = {}
    for clique in cliques:
        level: set[Clique] = {(name,) for name in clique}
        for _ in range(2, size + 1):
            level = {marginal for marginal in _extended(domain, clique, level) if domain.size(marginal) <= max_cells}
            found.update(dict.fromkeys(sorted(level)))
    return sorted(found, key=lambda marginal: (len(marginal), [domain.attributes.index(name) for name in marginal]))


def _extended(domain: Domain, clique: Clique, level: Iterable[Clique]) -> Iterator[Clique]:
    """Yield each marginal with one more attribute of the clique, in domain order."""
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
        by_size: dict[int, _ParentSets] = {}  # attributes of equal size have the same parent sets
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
    """Return D of the pairs of a clique, shape (k, k), which is 0 for pairs without a measured dependence."""
    found = np.zeros((len(clique), len(clique)))
    for (i, one), (j, other) in combinations(enumerate(clique), 2):
        found[i, j] = found[j, i] = dependence.get(frozenset((one, other)), 0.0)
    return found


@dataclass(frozen=True, eq=False)
class _ParentSets:
    """Parent sets with the denominators of their scores (correlation-based feature selection).

    Attributes:
        sets: the parent sets, none of them empty.
        members: the 0/1 membership of each attribute of the clique, shape (sets, attributes).
        roots: the square root of the number of parents plus their overlap, shape (sets,).
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
        """Return the score and the best parent set of an attribute with this dependence; -inf and () without sets."""
        if not self.sets:
            return -math.inf, ()
        scores = (self.members @ dependence) / self.roots
        first = int(np.argmax(scores))
        return float(scores[first]), self.sets[first]
