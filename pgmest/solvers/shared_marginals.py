"""The orthogonal projection onto tables that agree on all shared marginals.

Changing the marginal of a shared set of attributes in one table alone makes the tables inconsistent. No distribution
has such tables, and multipliers in these directions do not change the oracle's marginals. The projection removes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique
from pgmest.tables.margins import margin_cells

MAX_SHARED = 2048
"""The largest number of shared marginals, counted once per table. Beyond it, larger sets of attributes are left out,
and the projection keeps some directions in which tables disagree."""


class SharedMarginals:
    r"""The projection of scaled tables onto $\{(r_C m_C)_C\}$, with m_C the marginals of one signed table.

    The component of a set A of attributes in a table is the table's marginal on A minus the components of the proper
    subsets of A (analysis of variance). Components are orthogonal. The projection keeps those of sets that only one
    clique contains, and makes those of sets in several cliques agree, weighted by r. With $V_{C,B}$ the marginal of
    table C on B, each table changes by

    .. math:: \sum_B \text{expand}(x_{C,B}), \quad x_{\cdot,B} = G_B V_{\cdot,B},

    where B runs over the shared subsets of C. $G_B$ is a small matrix over the cliques that contain B, symmetric up to
    a scaling of its rows; it follows by inclusion and exclusion over the shared sets A that contain B.

    Args:
        layout: the layout of the tables.
        scales: r > 0, one number per table.
    """

    def __init__(self, layout: Layout, scales: np.ndarray):
        domain = layout.domain
        holders = _holders(layout.cliques)
        self._cells = layout.cells
        groups, weights, starts, offset = [], [], {}, 0
        for subset, held in holders.items():
            cells = domain.size(subset)
            groups.append((offset, len(held), cells, sum(part.size for part in weights)))
            weights.append(_weights(layout, subset, holders, scales).reshape(-1))
            for position in held:
                starts[position, subset] = offset
                offset += cells
        self._parts = offset
        self._groups: np.ndarray = np.array(groups, dtype=np.int64).reshape(-1, 4)
        self._weights: np.ndarray = np.concatenate([np.empty(0), *weights])
        self._lay_edges(layout, holders, starts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def project(self, tables: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the nearest consistent tables to `out`, and return it.

        Args:
            tables: the flat tables, scaled by r.
            out: an array of the same shape, other than `tables`.
        """
        from pgmest.solvers.shared_kernels import agree

        np.copyto(out, tables)
        agree(self._edges, self._maps, self._groups, self._weights, out, self._sums, self._moves)
        return out

    def _lay_edges(
        self, layout: Layout, holders: dict[Clique, list[int]], starts: dict[tuple[int, Clique], int]
    ) -> None:
        """Plan the sums: larger marginals come first, each summed from the smallest known one that contains it."""
        domain = layout.domain
        edges, maps, offset = [], [], 0
        known: list[list[tuple[Clique, int, int]]] = [
            [(clique, int(start), 0)] for clique, start in zip(layout.cliques, layout.offsets, strict=False)
        ]
        for subset in sorted(holders, key=len, reverse=True):
            for position in holders[subset]:
                containing = [one for one in known[position] if set(subset) <= set(one[0])]
                source, start, summed = min(containing, key=lambda one: domain.size(one[0]))
                target = starts[position, subset]
                edges.append((start, summed, domain.size(source), target, offset))
                maps.append(margin_cells(domain, source, subset).astype(np.int32))
                offset += maps[-1].size
                known[position].append((subset, target, 1))
        self._edges: np.ndarray = np.array(edges, dtype=np.int64).reshape(-1, 5)
        self._maps: np.ndarray = np.concatenate([np.empty(0, dtype=np.int32), *maps])
        self._sums, self._moves = np.empty(self._parts), np.empty(self._parts)


def _holders(cliques: Sequence[Clique]) -> dict[Clique, list[int]]:
    """Return the sets of attributes that at least two cliques contain, each with the positions of these cliques.

    The sets are closed under taking subsets, as inclusion and exclusion needs: sizes are added from the smallest on.
    """
    found: dict[Clique, list[int]] = {}
    parts = 0
    for size in range(max(map(len, cliques), default=0) + 1):
        held: dict[frozenset[str], list[int]] = {}
        for position, clique in enumerate(cliques):
            if len(clique) >= size and math.comb(len(clique), size) <= MAX_SHARED:
                for subset in combinations(clique, size):
                    held.setdefault(frozenset(subset), []).append(position)
        shared = {tuple(sorted(subset)): positions for subset, positions in held.items() if len(positions) > 1}
        parts += sum(map(len, shared.values()))
        if not shared or parts > MAX_SHARED:
            break
        found |= shared
    return found


def _weights(layout: Layout, subset: Clique, holders: dict[Clique, list[int]], scales: np.ndarray) -> np.ndarray:
    """Return G_B of a shared set B, shape (cliques, cliques)."""
    held, cells, domain = holders[subset], np.array(layout.sizes, dtype=np.float64), layout.domain
    weights, row = np.zeros((len(held), len(held))), {position: row for row, position in enumerate(held)}
    for larger, positions in holders.items():
        if set(subset) <= set(larger):
            rows = [row[position] for position in positions]
            rest = cells[positions] / domain.size(larger)  # cells of a table per cell of the larger set
            r = scales[positions]
            agreed = np.outer(r, r / rest) / np.sum(r * r / rest)
            agreed[np.diag_indices(len(rows))] -= 1.0
            weights[np.ix_(rows, rows)] += (-1.0) ** (len(larger) - len(subset)) * agreed
    return weights * (domain.size(subset) / cells[held])[:, None]
