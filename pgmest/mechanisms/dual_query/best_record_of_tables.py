"""The record with the largest sum of entries of tables, one entry of each: DualQuery's step for any linear queries."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

TIES = 1e-9
"""Random numbers up to this multiple of the largest entry are added to all entries, so that ties are drawn."""

STARTS = 8
"""The number of random starts of the greedy search."""


def best_record_of_tables(
    domain: Domain, tables: Mapping[Clique, np.ndarray], rng: np.random.Generator, max_megabytes: float
) -> tuple[dict[str, int], bool]:
    """Return the record with the largest sum of its entries of all tables, and whether that is proven.

    Max-product on the junction tree of the tables finds it. If the tree is too large, each code is improved in turn
    until no change raises the sum, from a few starts. Ties are drawn, as are the codes of attributes without a table.

    >>> tables = {("a", "b"): np.array([[0.0, 3.0], [2.0, 0.0]]), ("a",): np.array([0.0, 2.0])}
    >>> best_record_of_tables(Domain({"a": 2, "b": 2}), tables, np.random.default_rng(0), 1.0)
    ({'a': 1, 'b': 0}, True)

    Args:
        domain: the attributes.
        tables: one table for each clique, with one axis per attribute.
        rng: draws ties, starts, and codes that no table is about.
        max_megabytes: the largest junction tree, 8 bytes a cell.
    """
    base = {name: int(rng.integers(size)) for name, size in domain.items()}
    if not tables:
        return base, True
    largest = max(float(np.abs(table).max(initial=0.0)) for table in tables.values())
    drawn = {clique: table + TIES * largest * rng.random(table.shape) for clique, table in tables.items()}
    tree = JunctionTree.from_cliques(
        domain.project(domain.ordered({name for clique in drawn for name in clique})), drawn
    )
    if tree.megabytes > max_megabytes:
        starts = [{name: int(rng.integers(size)) for name, size in domain.items()} for _ in range(STARTS)]
        climbed = [_climb(domain, drawn, start) for start in (base, *starts)]
        return max(climbed, key=lambda record: _sum(drawn, record)), False
    layout = Layout.of(tree.domain, list(drawn))
    theta = np.concatenate([drawn[clique].reshape(-1) for clique in layout.cliques])
    found = ExactOracle(PropagationPlan.of(layout, tree)).map_record(theta)
    return base | {name: int(code) for name, code in found.items()}, True


def _sum(tables: Mapping[Clique, np.ndarray], record: Mapping[str, int]) -> float:
    return math.fsum(table[tuple(record[name] for name in clique)] for clique, table in tables.items())


def _climb(domain: Domain, tables: Mapping[Clique, np.ndarray], record: dict[str, int]) -> dict[str, int]:
    """Give each attribute in turn the code with the largest sum, until no change raises the sum."""
    record, improved = dict(record), True
    while improved:
        improved = False
        for name, size in domain.items():
            about = [clique for clique in tables if name in clique]
            sums = np.zeros(size)
            for clique in about:
                sums += tables[clique][tuple(slice(None) if one == name else record[one] for one in clique)]
            best = int(np.argmax(sums)) if about else record[name]
            if sums[best] > sums[record[name]]:
                record[name], improved = best, True
    return record
