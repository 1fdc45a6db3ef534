"""Select the regions of a wide model that fit into a junction tree of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information


def fitting_cliques(domain: Domain, ranked: Iterable[Clique], max_cells: int) -> list[Clique]:
    """Return cliques taken in order, each if the junction tree of those taken then has at most `max_cells` cells.

    >>> domain = Domain(dict.fromkeys("abc", 10))
    >>> fitting_cliques(domain, [("a", "b"), ("b", "c"), ("a", "c")], max_cells=200)
    [('a', 'b'), ('b', 'c')]
    """
    taken: list[Clique] = []
    for clique in ranked:
        names = dict.fromkeys(name for other in (*taken, clique) for name in other)
        if JunctionTree.from_cliques(domain.project(names), [*taken, clique], effort="low").total_cells <= max_cells:
            taken.append(clique)
    return taken


def pairs_of(cliques: Sequence[Clique]) -> list[Clique]:
    """Return all pairs of attributes that share a clique, without duplicates."""
    return list(dict.fromkeys(pair for clique in cliques for pair in itertools.combinations(clique, 2)))


def dependence(table: Factor) -> float:
    """Return the sum of the mutual information over the pairs of attributes of a table, in nats.

    It uses pairs because noise in the cells of a larger table would look like dependence.
    """
    total = 0.0
    for pair in itertools.combinations(table.domain, 2):
        total += mutual_information(table.project(pair), pair[:1], pair[1:])
    return total
