"""Tables that agree on all marginals that they share: the orthogonal projection onto them.

Tables of overlapping cliques disagree in directions that no distribution can follow: moving the marginal of a shared
set of attributes in one table alone. In those directions an oracle answers nothing, and a solver has nothing to learn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

MOST_PARTS = 2048
"""Marginals of single tables, shared with others, that are worth keeping apart; the largest sets of attributes beyond
are not compared."""


class SharedMarginals:
    r"""The projection of scaled tables onto $\{(r_C m_C)_C\}$, with m_C the marginals of one signed table.

    The component of a set A of attributes in a table is its marginal on A less what smaller sets explain. Components
    are orthogonal, those of a set that one clique alone holds can be anything, and those of a set that several cliques
    hold are to agree, weighted by r. Written out, with $V_{C,B}$ the marginal of table C on B, each table changes by

    .. math:: \sum_B \text{expand}(x_{C,B}), \quad x_{\cdot,B} = G_B V_{\cdot,B},

    where B runs over the shared subsets of C and $G_B$ is a small symmetric matrix over the cliques that hold B, up to
    a scaling of its rows: inclusion and exclusion over the shared sets A that contain B.

    Args:
        layout: the tables.
        scales: r > 0, by table.
    """

    def __init__(self, layout: Layout, scales: np.ndarray):
        domain = layout.domain
        holders = _holders(layout.cliques)
        self._cells = layout.cells
        groups, weights, starts, place = [], [], {}, 0
        for subset, held in holders.items():
            cells = domain.size(subset)
            groups.append((place, len(held), cells, sum(part.size for part in weights)))
            weights.append(_weights(layout, subset, holders, scales).reshape(-1))
            for position in held:
                starts[position, subset] = place
                place += cells
        self._parts = place
        self._groups: np.ndarray = np.array(groups, dtype=np.int64).reshape(-1, 4)
        self._weights: np.ndarray = np.concatenate([np.empty(0), *weights])
        self._lay_edges(layout, holders, starts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def project(self, tables: np.ndarray, out: np.ndarray) -> np.ndarray:
        """The nearest tables that agree, into `out`.

        Args:
            tables: flat, scaled by r.
            out: of the same shape, and not `tables` itself.
        """
        from pgmest.solvers.shared_kernels import agree

        np.copyto(out, tables)
        agree(self._edges, self._maps, self._groups, self._weights, out, self._sums, self._moves)
        return out

    def _lay_edges(
        self, layout: Layout, holders: dict[Clique, list[int]], starts: dict[tuple[int, Clique], int]
    ) -> None:
        """Each marginal is summed from the smallest one of its table that is known, the largest first."""
        domain = layout.domain
        edges, maps, place = [], [], 0
        known: list[list[tuple[Clique, int, int]]] = [
            [(clique, int(start), 0)] for clique, start in zip(layout.cliques, layout.offsets, strict=False)
        ]
        for subset in sorted(holders, key=len, reverse=True):
            for position in holders[subset]:
                around = [one for one in known[position] if set(subset) <= set(one[0])]
                source, start, summed = min(around, key=lambda one: domain.size(one[0]))
                target = starts[position, subset]
                edges.append((start, summed, domain.size(source), target, place))
                maps.append(_entries(domain, source, subset))
                place += maps[-1].size
                known[position].append((subset, target, 1))
        self._edges: np.ndarray = np.array(edges, dtype=np.int64).reshape(-1, 5)
        self._maps: np.ndarray = np.concatenate([np.empty(0, dtype=np.int32), *maps])
        self._sums, self._moves = np.empty(self._parts), np.empty(self._parts)


def _holders(cliques: Sequence[Clique]) -> dict[Clique, list[int]]:
    """The sets of attributes that at least two cliques hold, with the positions of these; all their subsets, too."""
    found: dict[Clique, list[int]] = {}
    parts = 0
    for size in range(max(map(len, cliques), default=0) + 1):
        held: dict[frozenset[str], list[int]] = {}
        for position, clique in enumerate(cliques):
            if len(clique) >= size and math.comb(len(clique), size) <= MOST_PARTS:
                for subset in combinations(clique, size):
                    held.setdefault(frozenset(subset), []).append(position)
        shared = {tuple(sorted(subset)): positions for subset, positions in held.items() if len(positions) > 1}
        parts += sum(map(len, shared.values()))
        if not shared or parts > MOST_PARTS:
            break
        found |= shared
    return found


def _weights(layout: Layout, subset: Clique, holders: dict[Clique, list[int]], scales: np.ndarray) -> np.ndarray:
    """G_B of a shared set B, shape (cliques, cliques)."""
    held, cells, domain = holders[subset], np.array(layout.sizes, dtype=np.float64), layout.domain
    weights, row = np.zeros((len(held), len(held))), {position: row for row, position in enumerate(held)}
    for larger, positions in holders.items():
        if set(subset) <= set(larger):
            rows = [row[position] for position in positions]
            rest = cells[positions] / domain.size(larger)  # cells of a table for each of the larger set
            r = scales[positions]
            agreed = np.outer(r, r / rest) / np.sum(r * r / rest)
            agreed[np.diag_indices(len(rows))] -= 1.0
            weights[np.ix_(rows, rows)] += (-1.0) ** (len(larger) - len(subset)) * agreed
    return weights * (domain.size(subset) / cells[held])[:, None]


def _entries(domain: Domain, source: Clique, target: Clique) -> np.ndarray:
    """For each cell of a table on `source`, the cell of its marginal on `target` that it belongs to."""
    steps = {name: domain.size(target[place + 1 :]) for place, name in enumerate(target)}
    entries = np.zeros(1, dtype=np.int32)
    for name in source:
        along = steps.get(name, 0) * np.arange(domain[name], dtype=np.int32)
        entries = np.add.outer(entries, along).reshape(-1)
    return entries
