"""Selection of marginals in PrivSyn: the noisy dependence of each pair against the noise of measuring the pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors, Replace
from pgmest.privacy.scores import TableScores, noisy_scores
from pgmest.tables.domain import Clique, Domain

MOST_CLIQUES = 1 << 14
"""The most cliques of each size considered when pairs are combined; bounds memory for dense graphs."""


def independent_difference(table: np.ndarray) -> float:
    r"""Return InDif, the l1 distance of a table from independence, $\sum_{ij} |M_{ij} - M_{i.} M_{.j} / N|$, in counts.

    >>> independent_difference(np.array([[2.0, 0.0], [0.0, 2.0]]))
    4.0
    """
    total = table.sum()
    if total == 0:
        return 0.0
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0)) / total).sum())


def difference_sensitivity(neighbors: Neighbors, total: int | None = None) -> float:
    r"""Return the sensitivity of `independent_difference`: 4 for each record added or removed.

    Let p and q be the one-way marginals as fractions. A record in cell (i, j) changes the table of differences by
    exactly $\frac{N}{N + 1} (e_i - p)(e_j - q)^T$, whose l1 norm is $\frac{N}{N + 1} \, 2(1 - p_i) \, 2(1 - q_j) < 4$.
    The norm approaches 4 for rare values, so no smaller bound holds.

    A record that moves from cell (i, j) to (k, l) leaves N as it is, and changes the table by

    .. math::

        e_k e_l^T - e_i e_j^T - \frac{1}{N} \bigl( r (e_l - e_j)^T + (e_k - e_i) c^T + (e_k - e_i)(e_l - e_j)^T \bigr)

    with row sums r and column sums c, whose l1 norms are N. The change is at most 2 + 2 + 2 + 4 / N = 6 + 4 / N, less
    than the 8 of removing one record and adding another.

    Args:
        neighbors: the neighboring relation.
        total: N if it is public, as under `Replace`.
    """
    if isinstance(neighbors, Replace) and total:
        return neighbors.records * min(8.0, math.nextafter(6 + 4 / total, math.inf))
    return 4 * neighbors.l1_sensitivity()


def noisy_differences(curator: Curator, pairs: Sequence[Clique], spend: Budget) -> np.ndarray:
    """Return InDif of each pair with Gaussian noise, in counts."""
    moved = difference_sensitivity(curator.neighbors, curator.public_total)
    label = f"how dependent {len(pairs)} pairs are"
    return noisy_scores(curator, pairs, TableScores(independent_difference), moved, spend, label=label)


def choose_pairs(
    pairs: Sequence[Clique],
    differences: np.ndarray,
    domain: Domain,
    noise: float,
    admissible: Callable[[Clique], bool] = lambda pair: True,
) -> list[Clique]:
    r"""Return the pairs to measure (PrivSyn Algorithm 1).

    A pair that is left out costs its dependency error, the InDif; the measured pairs cost noise error. If the budget is
    divided in proportion to $c^{2/3}$ for c cells, the total noise error is
    $\sqrt{2 / \pi} \, \sigma (\sum c^{2/3})^{3/2}$. The algorithm adds the pair that lowers the sum of both errors
    the most, until no pair lowers it.

    Args:
        pairs: the candidates.
        differences: the noisy InDif of each candidate, in counts.
        domain: the attributes.
        noise: sigma, the standard deviation of a single measurement with the whole budget.
        admissible: returns whether a pair may be added; called once, when the pair is the best.
    """
    parts = np.array([domain.size(pair) for pair in pairs]) ** (2 / 3)
    scale, taken = MEAN_ABSOLUTE * noise, 0.0
    left, chosen = np.ones(len(pairs), dtype=bool), []
    while left.any():
        gains = differences - scale * ((taken + parts) ** 1.5 - taken**1.5)
        best = int(np.argmax(np.where(left, gains, -np.inf)))
        if gains[best] <= 0:
            break
        left[best] = False
        if admissible(pairs[best]):
            chosen.append(pairs[best])
            taken += parts[best]
    return chosen


def combine_pairs(pairs: Sequence[Clique], domain: Domain, max_cells: float) -> list[Clique]:
    """Return marginals that combine the pairs: cliques of the graph of pairs (PrivSyn Algorithm 2).

    Cliques are taken largest first if they have at most `max_cells` cells and share at most two attributes with the
    cliques taken before. Pairs outside the taken cliques remain.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2, "d": 90})
    >>> combine_pairs([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], domain, 100)
    [('a', 'b', 'c'), ('c', 'd')]
    """
    levels = _cliques(pairs, domain, max_cells)
    taken: list[Clique] = []
    covered: set[str] = set()
    for clique in itertools.chain.from_iterable(reversed(levels)):
        if len(covered & set(clique)) <= 2:
            taken.append(clique)
            covered |= set(clique)
    return taken + [pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken)]


def _cliques(pairs: Sequence[Clique], domain: Domain, max_cells: float) -> list[list[Clique]]:
    """Return the cliques with at most `max_cells` cells, by their number of attributes from three on."""
    level = [domain.ordered(pair) for pair in pairs]
    later: dict[str, set[str]] = {name: set() for pair in level for name in pair}
    for first, second in level:
        later[first].add(second)
    levels: list[list[Clique]] = []
    while True:
        level = [
            (*clique, name)
            for clique in level
            for name in sorted(set.intersection(*(later[member] for member in clique)), key=domain.attributes.index)
            if domain.size((*clique, name)) <= max_cells
        ][:MOST_CLIQUES]
        if not level:
            return levels
        levels.append(level)
