"""The initial records of a synthesis: independent attributes, or a tree of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from pgmest.data.codes import code_type
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.appending import Appended, append
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import pair_information


def as_rows(columns: Sequence[np.ndarray], domain: Domain) -> np.ndarray:
    """Return columns of codes as one array, shape (records, attributes), of the smallest type that holds all codes."""
    rows = np.empty((len(columns[0]) if columns else 0, len(domain)), dtype=code_type(max(domain.shape)))
    for axis, column in enumerate(columns):
        rows[:, axis] = column
    return rows


def independent_columns(
    tables: Sequence[Factor], domain: Domain, n: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Return one column of n codes for each attribute, which matches its one-way table; attributes are independent."""
    columns = []
    for name, size in domain.items():
        table = next(table for table in tables if name in table.domain)
        counts = systematic(np.maximum(table.project((name,)).values, 0.0), n, generator)
        columns.append(generator.permutation(np.repeat(np.arange(size, dtype=code_type(size)), counts)))
    return columns


def tree_columns(tables: Sequence[Factor], domain: Domain, n: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Return one column of n codes for each attribute, drawn down a tree of two-way tables.

    The tree is the spanning forest of largest total mutual information among the tables' pairs (Chow, Liu 1968).
    """
    pairs = _pair_tables(tables)
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(domain)
    for (one, other), weight in zip(pairs, pair_information(list(pairs.values())), strict=True):
        if pairs[one, other].values.any():
            graph.add_edge(one, other, weight=weight)
    forest = nx.maximum_spanning_tree(graph)
    columns = dict(zip(domain, independent_columns(tables, domain, n, generator), strict=True))
    for part in nx.connected_components(forest):
        root = next(name for name in domain if name in part)
        for parent, child in nx.bfs_edges(forest, root):
            table = pairs[parent, child] if (parent, child) in pairs else pairs[child, parent]
            columns[child] = append(columns, Appended(child, (parent,), 0), table, n, generator)
    return [columns[name] for name in domain]


def _pair_tables(tables: Sequence[Factor]) -> dict[tuple[str, str], Factor]:
    """Return the tables' marginals on pairs of attributes, each pair once, with negative counts replaced by 0."""
    found: dict[tuple[str, str], Factor] = {}
    for table in tables:
        for one, other in combinations(table.domain, 2):
            if (one, other) not in found and (other, one) not in found:
                negative = table.values.size and table.values.min() < 0
                positive = Factor.owning(table.domain, np.maximum(table.values, 0.0)) if negative else table
                found[one, other] = positive if len(table.domain) == 2 else positive.project((one, other))
    return found


STARTS: Mapping[str, Callable[[Sequence[Factor], Domain, int, np.random.Generator], list[np.ndarray]]] = {
    "independent": independent_columns,
    "tree": tree_columns,
}
"""The ways to draw the initial records, by name."""
