"""RegionGraph: cliques that overlap in loops, their intersections, and the counting numbers of the entropy.

If a junction tree would be too wide, marginals are kept on the *outer* regions (the maximal cliques) and made to agree
on the *inner* regions (all intersections of outer regions, and the measured cliques inside them). The tables that agree
form the local polytope: every distribution gives such tables, but not all such tables come from a distribution. The
entropy is approximated by the sum of c_r H(tau_r) over regions r, with counting numbers c_r.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

VALID_WEIGHT = 30.0
"""The weight, in the least squares for counting numbers, of counting each attribute once against closeness to
Kikuchi's numbers; large, because the entropy of independent attributes is exact only if each counts once."""

LEAST_OUTER = 0.05
"""The least counting number of an outer region: dividing potentials by a smaller one would make tables too peaked."""


@dataclass(frozen=True, eq=False)
class RegionGraph:
    """Two layers of regions, with attributes in domain order.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> graph = RegionGraph.of(Layout.of(domain, [("a", "b"), ("b", "c"), ("a", "c")]))
    >>> graph.outer, graph.inner
    ((('a', 'b'), ('b', 'c'), ('a', 'c')), (('a',), ('b',), ('c',)))

    Attributes:
        outer: the maximal regions; each attribute is in at least one.
        inner: the regions inside at least two outer regions, and the measured cliques inside one; largest first.
        holders: for each inner region, the positions of the outer regions that contain it.
        is_tree: whether the regions form a junction tree, so that message passing is exact.
    """

    domain: Domain
    outer: tuple[Clique, ...]
    inner: tuple[Clique, ...]
    holders: tuple[tuple[int, ...], ...]
    is_tree: bool

    @classmethod
    def of(cls, layout: Layout) -> RegionGraph:
        """Return the regions of the cliques of a layout, which may repeat, nest, be empty, or leave attributes out."""
        domain = layout.domain
        outer, inner = _regions(domain, layout.cliques)
        holders = tuple(tuple(p for p, clique in enumerate(outer) if set(region) <= set(clique)) for region in inner)
        return cls(domain, outer, inner, holders, _acyclic(domain, outer))

    @property
    def outer_counts(self) -> np.ndarray:
        """The counting numbers of the outer regions."""
        return self._counts[0]

    @property
    def inner_counts(self) -> np.ndarray:
        """The counting numbers of the inner regions."""
        return self._counts[1]

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The counting numbers, computed when they are first read: the dual of least squares does not need them.

        They are those nearest to Kikuchi's whose entropy is provably concave on the local polytope; on a tree Kikuchi's
        are exact.
        """
        kikuchi = np.array(_kikuchi(self.outer, self.inner), dtype=np.float64)
        if self.is_tree:
            return np.ones(len(self.outer)), kikuchi
        return _nearest_convex(self.domain, self.outer, self.inner, self.holders, kikuchi)

    @property
    def cells(self) -> int:
        """The number of cells of all regions."""
        return sum(map(self.domain.size, (*self.outer, *self.inner)))


def _regions(domain: Domain, cliques: Iterable[Clique]) -> tuple[tuple[Clique, ...], tuple[Clique, ...]]:
    """Return the maximal cliques, and the inner regions: the intersections of these and all other cliques."""
    measured = dict.fromkeys(frozenset(clique) for clique in cliques if clique)
    covered = frozenset().union(*measured)
    measured |= dict.fromkeys(frozenset((name,)) for name in domain if name not in covered)
    outer = [region for region in measured if not any(region < other for other in measured)]
    closure = frontier = {left & right for p, left in enumerate(outer) for right in outer[:p]} - {frozenset()}
    while frontier:
        frontier = {region & clique for region in frontier for clique in outer} - closure - {frozenset()}
        closure = closure | frontier
    closure |= set(measured).difference(outer)
    ordered = {region: domain.ordered(region) for region in (*outer, *closure)}
    inner = sorted(closure, key=lambda region: (-len(region), domain.axes(ordered[region])))
    return tuple(ordered[region] for region in outer), tuple(ordered[region] for region in inner)


def _kikuchi(outer: tuple[Clique, ...], inner: tuple[Clique, ...]) -> list[float]:
    """Return c_r = 1 - sum of c_s over the regions s above r, for the inner regions, which lie largest first.

    They are the numbers of Yedidia, Freeman and Weiss 2005.
    """
    counts: dict[frozenset[str], float] = {frozenset(clique): 1.0 for clique in outer}
    for clique in inner:
        region = frozenset(clique)
        counts[region] = 1.0 - sum(count for other, count in counts.items() if region < other)
    return [counts[frozenset(clique)] for clique in inner]


def _acyclic(domain: Domain, outer: tuple[Clique, ...]) -> bool:
    """Return whether the regions are the cliques of a junction tree.

    They are not if triangulation adds a fill edge, or if three regions form a triangle, which is a larger clique.
    """
    tree = JunctionTree.from_cliques(domain, outer, effort="low")
    return {frozenset(clique) for clique in tree.cliques if clique} == {frozenset(clique) for clique in outer}


def _nearest_convex(
    domain: Domain,
    outer: tuple[Clique, ...],
    inner: tuple[Clique, ...],
    holders: tuple[tuple[int, ...], ...],
    kikuchi: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the counting numbers nearest to Kikuchi's for which the entropy is a sum of concave terms.

    With weights w >= 0 the entropy is $\sum_o w_o H(o) + \sum_i w_i H(i) + \sum_{i \subset o} w_{io} H(o | i)$, each
    concave on the local polytope (Heskes 2006). As in Meshi, Jaimovich, Globerson and Friedman 2009, c solves a least
    squares problem under w >= 0 that also asks each attribute to be counted once, as independent attributes require.
    """
    from scipy.optimize import lsq_linear
    from scipy.sparse import csr_array, vstack

    n_outer, n = len(outer), len(outer) + len(inner)
    edges = [(o, n_outer + i) for i, above in enumerate(holders) for o in above]
    column = n + np.arange(len(edges))
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    ones = np.ones(len(edges))
    rows, columns = np.concatenate([np.arange(n), *pairs.T]), np.concatenate([np.arange(n), column, column])
    counts = csr_array((np.concatenate([np.ones(n), ones, -ones]), (rows, columns)), shape=(n, n + len(edges)))
    holding = csr_array([[float(name in clique) for clique in (*outer, *inner)] for name in domain])
    system = vstack([counts, VALID_WEIGHT * (holding @ counts)], format="csr")
    target = np.concatenate([np.ones(n_outer), kikuchi, np.full(len(domain), VALID_WEIGHT)])
    least = np.concatenate([np.full(n_outer, LEAST_OUTER), np.zeros(len(inner) + len(edges))])
    found = counts @ lsq_linear(system, target, bounds=(least, np.inf), tol=1e-12, max_iter=500).x
    return found[:n_outer], found[n_outer:]
