"""The choice of marginals to measure from public data (IDE section 4.2), which spends no budget.

The pairs of attributes with large mutual information are the edges of a graph. The coarse levels of a hierarchy, which
have budget for joint tables, measure the cliques of this graph. The fine level measures one-way marginals of nearly
independent attributes, so that no two of them are redundant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.priors.public_model import occupied
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information


def normalized_information(data: Dataset, attributes: Iterable[str] | None = None) -> np.ndarray:
    """Return I(a; b) / min(H(a), H(b)) for all pairs: 0 if independent, 1 if one attribute determines the other.

    >>> data = Dataset.from_codes(np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]), {"a": 2, "b": 2, "c": 2})
    >>> normalized_information(data).round(3)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])

    Args:
        data: the public records, at least one of positive weight.
        attributes: the attributes to compare; None for all.

    Returns:
        a symmetric array, shape (attributes, attributes), with 1 on the diagonal; pairs with a constant attribute have
        0.
    """
    names = data.domain.clique(data.domain if attributes is None else attributes)
    entropies = [_entropy(table.values) for table in data.project_many([(name,) for name in names])]
    matrix = np.eye(len(names))
    pairs = list(combinations(range(len(names)), 2))
    tables = data.project_many([(names[a], names[b]) for a, b in pairs])
    for (a, b), table in zip(pairs, tables, strict=True):
        least = min(entropies[a], entropies[b])
        share = mutual_information(table, (names[a],), (names[b],)) / least if least > 0 else 0.0
        matrix[a, b] = matrix[b, a] = min(share, 1.0)  # above 1 by rounding
    return matrix


def dependent_cliques(
    data: Dataset, attributes: Iterable[str] | None = None, *, threshold: float = 0.1, max_cells: int = 5000
) -> list[Clique]:
    """Return the maximal cliques of the graph whose edges are pairs of normalized mutual information >= threshold.

    If a clique has too many cells, its weakest edge is removed, until all cliques fit. Every attribute is in a clique.

    Args:
        data: the public records.
        attributes: the attributes to cover; None for all.
        threshold: the smallest information of an edge, in (0, 1]; a lower one gives more and larger cliques.
        max_cells: the largest number of cells of a clique of two or more attributes.

    Raises:
        ArgumentError: `threshold` or `max_cells` is out of range.
    """
    import networkx as nx

    if not 0 < threshold <= 1:
        raise ArgumentError.of("threshold", threshold, "above 0 and at most 1")
    if max_cells < 1:
        raise ArgumentError.of("max_cells", max_cells, "a positive number of cells")
    names = data.domain.clique(data.domain if attributes is None else attributes)
    information = normalized_information(data, names)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(names)))
    for a, b in combinations(range(len(names)), 2):
        if information[a, b] >= threshold and data.domain.size((names[a], names[b])) <= max_cells:
            graph.add_edge(a, b)
    while True:
        cliques = [sorted(clique) for clique in nx.find_cliques(graph)]
        large = [clique for clique in cliques if data.domain.size(names[a] for a in clique) > max_cells]
        weakest = {min(combinations(c, 2), key=lambda pair: information[pair]) for c in large if len(c) > 1}
        if not weakest:
            return sorted(tuple(names[a] for a in clique) for clique in cliques)
        graph.remove_edges_from(weakest)


def independent_attributes(
    data: Dataset, by: Sequence[str], attributes: Iterable[str] | None = None, *, count: int, threshold: float = 0.2
) -> list[str]:
    """Return at most `count` attributes that vary most between groups, no two of them strongly dependent.

    The variation of an attribute is its mutual information with the group, minus its expectation under independence
    (the correction of Miller and Madow).

    Args:
        data: the public records.
        by: the attributes whose values define a group.
        attributes: the attributes to choose from; None for all others.
        count: the largest number of attributes.
        threshold: the largest normalized mutual information of two chosen attributes.

    Returns:
        the attributes, by falling variation; fewer than `count` if the threshold excludes the rest.
    """
    groups = data.domain.clique(by)
    names = [name for name in data.domain.clique(data.domain if attributes is None else attributes)]
    names = [name for name in names if name not in groups]
    information = normalized_information(data, names)
    variation = {name: _shared_with_groups(data, name, groups) for name in names}
    chosen: list[str] = []
    for name in sorted(names, key=lambda name: -variation[name]):
        near = any(information[names.index(name), names.index(other)] > threshold for other in chosen)
        if len(chosen) < count and not near and variation[name] > 0:
            chosen.append(name)
    return chosen


def _shared_with_groups(data: Dataset, name: str, groups: Clique) -> float:
    """Return I(attribute; group) in nats, minus (values - 1) * (groups - 1) / (2 * records)."""
    counts = data.project((*groups, name)).values.reshape(-1, data.domain[name])
    table = Factor({"group": counts.shape[0], "value": counts.shape[1]}, counts)
    held, values = occupied(table)
    return mutual_information(table, ("group",), ("value",)) - (values - 1) * (held - 1) / (2.0 * counts.sum())


def _entropy(counts: np.ndarray) -> float:
    """Return the entropy of a table of counts, in nats."""
    fractions = counts[counts > 0] / counts.sum()
    return float(-(fractions @ np.log(fractions)))
