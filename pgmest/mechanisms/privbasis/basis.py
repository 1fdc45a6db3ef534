"""Basis sets: itemsets of bounded size in which frequent items and pairs, and so frequent itemsets, are contained.

If all pairs inside a frequent itemset are frequent, it is in a clique of the graph of frequent pairs, so the maximal
cliques are a basis set. Cliques are then merged where that makes the answers about frequent items and pairs less noisy:
a larger basis adds up more cells for an answer, but leaves fewer bases to share the budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import networkx as nx

Basis = frozenset[str]

LARGEST = 12
"""At most this many items in a basis, whose marginal has 2^12 cells."""

APART = 3
"""Items without a frequent pair are put into bases of at most this size, before any are merged."""


def basis_set(
    items: Sequence[str], pairs: Iterable[frozenset[str]], power: float = 1.0, largest: int = LARGEST
) -> list[Basis]:
    """Bases that hold every item and every pair.

    >>> sorted(map(sorted, basis_set("abcdefgh", [frozenset(pair) for pair in ("ab", "bc", "ac", "gh")])))
    [['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']]

    Args:
        items: the frequent items.
        pairs: the frequent pairs of them.
        power: with w bases the variance of each answer grows with w^power: 1 under zCDP, 2 under pure DP.
        largest: the most items in a basis.
    """
    wanted = [frozenset(pair) for pair in pairs]
    if len(items) <= largest:
        return [frozenset(items)] if items else []
    bases = [part for clique in _maximal_cliques(wanted) for part in _covering(clique, largest)]
    apart = [item for item in items if not any(item in basis for basis in bases)]
    together = min(APART, largest)
    bases += [frozenset(apart[place : place + together]) for place in range(0, len(apart), together)]
    bases = [basis for basis in bases if not any(basis < other for other in bases)]
    asked = [frozenset([item]) for item in items] + wanted
    return merged(list(dict.fromkeys(bases)), asked, power, largest)


def merged(bases: list[Basis], asked: Sequence[frozenset[str]], power: float, largest: int) -> list[Basis]:
    """Two bases made one, the two that this helps most, until it helps no more.

    Args:
        bases: what to merge.
        asked: the itemsets whose average variance counts.
        power, largest: see `basis_set`.
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
    """The average variance of the answers about some itemsets, in units of that of a cell of a single basis.

    An itemset X in a basis B sums 2^(|B| - |X|) noisy cells; what several bases say is averaged.

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
    """A clique that is too large, as bases that hold all of its pairs: unions of two parts."""
    if len(clique) <= largest:
        return [clique]
    names, half = sorted(clique), max(1, largest // 2)
    parts = [frozenset(names[place : place + half]) for place in range(0, len(names), half)]
    return [one | other for one, other in itertools.combinations(parts, 2)]
