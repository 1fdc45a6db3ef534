"""The compiled kernel of the projection onto tables that agree (shared_marginals.py)."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled


@compiled
def agree(
    edges: np.ndarray,
    maps: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    tables: np.ndarray,
    sums: np.ndarray,
    moves: np.ndarray,
) -> None:
    """Project tables in place: sum the shared marginals, mix them over their cliques, and expand the changes.

    Args:
        edges: for each shared marginal of a table, the largest first: the start of its source, whether the source is
            itself a marginal, the cells of the source, the start of the marginal, and the start of its map.
        maps: for each cell of a source, the cell of the marginal.
        groups: for each shared set: the start of its marginals, their number, the cells of each, and the start of its
            weights.
        weights: G of each shared set, row-major.
        tables: the tables, in place.
        sums, moves: room for all marginals.
    """
    sums[:] = 0.0
    for e in range(len(edges)):
        start, summed, cells, target, first = edges[e]
        entries, marginal = maps[first : first + cells], sums[target:]
        source = sums[start : start + cells] if summed else tables[start : start + cells]
        for i in range(cells):
            marginal[entries[i]] += source[i]
    moves[:] = 0.0
    for g in range(len(groups)):
        start, count, cells, first = groups[g]
        for i in range(count):
            move = moves[start + i * cells : start + (i + 1) * cells]
            for j in range(count):
                weight = weights[first + i * count + j]
                summand = sums[start + j * cells : start + (j + 1) * cells]
                for c in range(cells):
                    move[c] += weight * summand[c]
    for e in range(len(edges) - 1, -1, -1):
        start, summed, cells, target, first = edges[e]
        entries, marginal = maps[first : first + cells], moves[target:]
        source = moves[start : start + cells] if summed else tables[start : start + cells]
        for i in range(cells):
            source[i] += marginal[entries[i]]
