"""What to measure, chosen from public data only (IDE section 4.2): no budget is spent on the choice.

Attributes that depend on one another form a graph, its edges pairs of large mutual information. Where there is budget
for joint tables (the coarse levels of a hierarchy) its cliques are measured; where there is not (the fine level),
one-way marginals of attributes that are nearly independent, so that no two of them say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from pgmest._base.deprecation import Lookup, renamed_names
from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset
from pgmest.priors.public_model import occupied
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information


def normalized_information(data: Dataset, attributes: Iterable[str] | None = None) -> np.ndarray:
    """I(a; b) / min(H(a), H(b)) for all pairs of attributes: 0 if independent, 1 if one determines the other.

    >>> data = Dataset.from_codes(np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]), {"a": 2, "b": 2, "c": 2})
    >>> normalized_information(data).round(3)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])

    Args:
        data: the public records; at least one of positive weight.
        attributes: which; None for all.

    Returns:
        a symmetric array, shape (attributes, attributes); 0 for an attribute that is constant, and 1 on the diagonal.
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
    """The maximal cliques of the graph whose edges are pairs of normalized mutual information >= threshold.

    A clique with too many cells is taken apart at its weakest edge, until all fit. Every attribute is in some clique.

    Args:
        data: the public records.
        attributes: those to cover; None for all.
        threshold: in (0, 1]; lower gives more and larger cliques.
        max_cells: of the table of one clique of two or more attributes.

    Raises:
        ArgumentError: `threshold` or `max_cells` out of range.
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
    """Up to `count` attributes that vary most between groups, no two of them strongly dependent.

    How much an attribute varies is its mutual information with the group, less what chance alone gives
    (Miller and Madow's correction).

    Args:
        data: the public records.
        by: the attributes that name a group.
        attributes: to choose from; None for all others.
        count: how many at most.
        threshold: the most normalized mutual information that two chosen attributes may have.

    Returns:
        the attributes, the most varying first; fewer than `count` where the threshold leaves no more.
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
    """I(attribute; group) in nats, less (values - 1) * (groups - 1) / (2 * records)."""
    counts = data.project((*groups, name)).values.reshape(-1, data.domain[name])
    table = Factor({"group": counts.shape[0], "value": counts.shape[1]}, counts)
    held, values = occupied(table)
    return mutual_information(table, ("group",), ("value",)) - (values - 1) * (held - 1) / (2.0 * counts.sum())


def _entropy(counts: np.ndarray) -> float:
    """In nats, of a table of counts."""
    fractions = counts[counts > 0] / counts.sum()
    return float(-(fractions @ np.log(fractions)))


__getattr__: Lookup = renamed_names(
    __name__, {"normalised_information": "pgmest.priors.ide.workload.normalized_information"}
)
