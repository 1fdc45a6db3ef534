"""Basis sets: itemsets of bounded size that together contain the frequent items and pairs, and so frequent itemsets.

All pairs inside a frequent itemset are frequent, so the itemset is in a clique of the graph of frequent pairs, and the
maximal cliques are a basis set. Cliques are then merged if that lowers the noise of the answers about frequent items
and pairs: a larger basis sums more cells for an answer, but fewer bases divide the budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import networkx as nx

Basis = frozenset[str]

LARGEST = 12
"""The default of the most items in a basis; a marginal then has at most 2^12 cells."""

SINGLES_PER_BASIS = 3
"""The most items without a frequent pair in an initial basis, before bases are merged."""


def basis_set(
    items: Sequence[str], pairs: Iterable[frozenset[str]], power: float = 1.0, largest: int = LARGEST
) -> list[Basis]:
    """Return bases that contain every item and every pair.

    >>> sorted(map(sorted, basis_set("abcdefgh", [frozenset(pair) for pair in ("ab", "bc", "ac", "gh")])))
    [['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']]

    Args:
        items: the frequent items.
        pairs: the frequent pairs of items.
        power: the exponent p with which w bases multiply the variance of each answer by w^p: 1 under zCDP, 2 under
            pure DP.
        largest: the most items in a basis.
    """
    wanted = [frozenset(pair) for pair in pairs]
    if len(items) <= largest:
        return [frozenset(items)] if items else []
    bases = [part for clique in _maximal_cliques(wanted) for part in _covering(clique, largest)]
    apart = [item for item in items if not any(item in basis for basis in bases)]
    together = min(SINGLES_PER_BASIS, largest)
    bases += [frozenset(apart[place : place + together]) for place in range(0, len(apart), together)]
    bases = [basis for basis in bases if not any(basis < other for other in bases)]
    asked = [frozenset([item]) for item in items] + wanted
    return merged(list(dict.fromkeys(bases)), asked, power, largest)


def merged(bases: list[Basis], asked: Sequence[frozenset[str]], power: float, largest: int) -> list[Basis]:
    """Merge the two bases that lower the average variance the most, until no merge lowers it.

    Args:
        bases: the bases to merge.
        asked: the itemsets whose average variance is minimized.
        power, largest: as for `basis_set`.
    """
    error = average_variance(bases, asked, power)
    while True:
        options = []
        for one, other in itertools.combinations(bases, 2):
            if len(one | other) <= largest:
                joined = [basis for basis in bases if not basis <= one | other] + [one | other]
                options.append((average_variance(joined, asked, power), len(options), joined))
        if not options or min(options)[0] >= error:
            return bases
        error, _, bases = min(options)


def average_variance(bases: Sequence[Basis], asked: Sequence[frozenset[str]], power: float) -> float:
    """Return the average variance of the supports of itemsets, in units of the variance of a cell of a single basis.

    The support of an itemset X sums 2^(|B| - |X|) noisy cells of a basis B; the answers of several bases are averaged.

    >>> average_variance([frozenset("abc"), frozenset("cd")], [frozenset("ab"), frozenset("a")], 1.0)
    6.0
    """
    variances = []
    for itemset in asked:
        precision = sum(2.0 ** (len(itemset) - len(basis)) for basis in bases if itemset <= basis)
        variances.append(1 / precision if precision else float("inf"))
    return len(bases) ** power * (sum(variances) / len(variances) if variances else 0.0)


def _maximal_cliques(pairs: Iterable[frozenset[str]]) -> list[Basis]:
    graph = nx.Graph()
    for one, other in sorted(map(sorted, pairs)):
        graph.add_edge(one, other)
    return sorted((frozenset(clique) for clique in nx.find_cliques(graph)), key=sorted)


def _covering(clique: Basis, largest: int) -> list[Basis]:
    """Return bases that contain all pairs of a clique: unions of two parts if the clique is too large."""
    if len(clique) <= largest:
        return [clique]
    names, half = sorted(clique), max(1, largest // 2)
    parts = [frozenset(names[place : place + half]) for place in range(0, len(names), half)]
    return [one | other for one, other in itertools.combinations(parts, 2)]
