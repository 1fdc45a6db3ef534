"""Rounding a model to integers: one table of counts for each clique of the junction tree, consistent on the separators.

The counts of each clique are drawn given those of its parent, root first. The cells, and certain margins, are rounded
to the integer below or above their expectation. These margins form two chains of nested attribute sets in each clique,
chosen by `nested_margins`. Three chains are impossible in general, because three families of margins may have no common
integer table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.codes import read_only
from pgmest.sampling.clique_tables import CliqueTable, project, sampling_kernels
from pgmest.tables.domain import Domain
from pgmest.tables.margins import margin_cells

Margin = frozenset[str]


def nested_margins(
    separator: Iterable[str], clique: Iterable[str], protected: Iterable[Iterable[str]]
) -> tuple[list[Margin], list[Margin]]:
    """Return two chains of nested attribute sets inside `clique`, coarsest first; the first starts at the separator.

    Each protected set, in the order given, joins the first chain into which it fits; a set that fits into neither is
    left out.

    >>> first, second = nested_margins(["a"], ["a", "b", "c"], [["b"], ["b", "c"], ["a", "c"], ["c"]])
    >>> [sorted(margin) for margin in first], [sorted(margin) for margin in second]
    ([['a'], ['a', 'c']], [['b'], ['b', 'c']])
    """
    fixed, whole = frozenset(separator), frozenset(clique)
    chains: tuple[list[Margin], list[Margin]] = ([fixed], [])
    for margin in map(frozenset, protected):
        if margin <= fixed or margin == whole or margin in chains[0] or margin in chains[1]:
            continue
        for chain in chains:
            if all(margin <= other or other <= margin for other in chain):
                chain.append(margin)
                break
    return sorted(chains[0], key=len), sorted(chains[1], key=len)


@dataclass(frozen=True, eq=False)
class Network:
    """The flow network of one clique, for the kernel `round_table`: a node for each cell of each protected margin.

    The flow runs from the cells of the first chain's coarsest margin through those of its finer margins to the cells of
    the table, and on through ever coarser margins of the second chain to node 0. The arc of cell (s, j) of the table
    runs from node tail_row[s] + tail_column[j] to node head_row[s] + head_column[j].

    Attributes:
        tail_row, tail_column, head_row, head_column: the parts of the nodes of each cell's arc.
        above: for each node, the node that contains it in the next coarser margin of its chain; -1 for a node whose sum
            is an integer already.
        outwards: for each node, 1 if its arc comes from the node above, 0 if its arc runs to the node above.
    """

    tail_row: np.ndarray
    tail_column: np.ndarray
    head_row: np.ndarray
    head_column: np.ndarray
    above: np.ndarray
    outwards: np.ndarray

    @classmethod
    def of(cls, domain: Domain, table: CliqueTable) -> Network:
        """Return the network of the margins that `nested_margins` chooses."""
        above, outwards = [np.full(1, -1)], [np.zeros(1, dtype=np.int64)]
        n_nodes, ends = 1, []
        chains = nested_margins(table.separator, table.attributes, table.protected)
        for chain, outgoing in zip(chains, (True, False), strict=True):
            base, coarser = 0, ()
            for margin in chain:
                attributes = tuple(name for name in table.attributes if name in margin)
                fixed = outgoing and margin is chain[0]  # the separator, whose integer counts the parent gives
                nodes = base + margin_cells(domain, attributes, coarser)
                above.append(np.full_like(nodes, -1) if fixed else nodes)
                outwards.append(np.full_like(nodes, outgoing))
                base, coarser = n_nodes, attributes
                n_nodes += len(nodes)
            ends += [base + margin_cells(domain, table.separator, coarser), margin_cells(domain, table.new, coarser)]
        arrays = (*ends, np.concatenate(above), np.concatenate(outwards))
        return cls(*(array.astype(np.int32) for array in arrays))

    def round(self, weights: np.ndarray, totals: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Return integer counts with the given row sums; each cell and node is its expectation rounded up or down."""
        kernels, n_nodes = sampling_kernels(), len(self.above)
        arcs = (self.tail_row, self.tail_column, self.head_row, self.head_column, self.above, self.outwards)
        links, flows, sums = np.empty((n_nodes, kernels.N_LINK), dtype=np.int64), np.empty(n_nodes), np.empty(n_nodes)
        counts = np.empty(weights.shape)
        kernels.round_table(read_only(weights), totals, *arcs, links, flows, sums, state, counts)
        return counts


def round_tables(
    domain: Domain,
    tables: Sequence[CliqueTable],
    networks: Sequence[Network],
    weights: Sequence[np.ndarray],
    n: int,
    state: np.ndarray,
    made: Mapping[int, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return an integer table for each clique, which sums to n and agrees with its parent's on their separator.

    Every count is unbiased: its mean over seeds is n times the cell's probability. Given the parent's counts, each cell
    is its expectation rounded up or down, and so is each cell of the margins that `nested_margins` chooses. Hence the
    cells and protected margins of a root differ by less than 1 from n times their probability. In other cliques the
    separator's error adds to this, spread over its row in proportion to the probabilities.

    Args:
        domain: the attributes.
        tables, networks: the cliques, parents first.
        weights: for each clique a table of its shape; a row may have any scale, and a weight of 0 gives a count of 0.
        n: the number of records.
        state: the state of the random numbers, shape (1,), uint64; it is advanced.
        made: the tables that are rounded already, by position; the parents of each are among them.

    Returns:
        integers as float64, of the shapes of `weights`.
    """
    counts = dict(made or {})
    for index, (network, weight) in enumerate(zip(networks, weights, strict=True)):
        if index not in counts:
            counts[index] = network.round(weight, parent_totals(domain, tables, index, counts, n), state)
    return [counts[index] for index in range(len(tables))]


def parent_totals(
    domain: Domain, tables: Sequence[CliqueTable], index: int, counts: Mapping[int, np.ndarray], n: int
) -> np.ndarray:
    """Return the row sums of a table, which the counts of its parent give; n for a root."""
    table = tables[index]
    if table.parent < 0:
        return np.array([float(n)])
    return project(domain, tables[table.parent].attributes, counts[table.parent], table.separator)
