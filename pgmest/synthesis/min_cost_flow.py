"""Synthesis that matches one table after the other exactly with as few changes as possible: the reference for GUM."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.counting import cell_numbers
from pgmest.errors import ArgumentError, at_least
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.gum import Callback
from pgmest.synthesis.starts import independent_columns
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

MOST_CELLS = 1 << 16
"""The largest number of cells of a table that may have too many or too few records.

These cells and the hubs are the nodes of the network, so this limits the size of the linear program.
"""


@dataclass(frozen=True, kw_only=True)
class MinCostFlow:
    """Synthesis by minimum-cost flows (MCF, PrivSyn section 5; DPSyn appendix A.1), the reference for GUM.

    For each table in turn, records move from cells that have too many to cells that have too few, until the table is
    matched exactly. The cost of a move is the number of codes that change; linear programming finds the moves of least
    total cost. Later tables spoil earlier ones, so errors do not decrease as those of GUM do.

    Args:
        iterations: the number of passes over all tables.

    Raises:
        ArgumentError: `iterations` is not a positive integer.
    """

    iterations: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", at_least("iterations", self.iterations, 1))

    def records(
        self,
        tables: Sequence[Factor],
        domain: Domain,
        n: int,
        generator: np.random.Generator,
        callback: Callback | None = None,
    ) -> list[np.ndarray]:
        """Return n records as columns of codes; arguments and result are those of `GradualUpdate.records`.

        Raises:
            ArgumentError: a table has more than `MOST_CELLS` cells to correct.
        """
        columns = dict(zip(domain, independent_columns(tables, domain, n, generator), strict=True))
        targets = [systematic(np.maximum(table.datavector(), 0.0), n, generator) for table in tables]
        for iteration in range(self.iterations):
            errors = [
                _match(columns, tables[place].domain, targets[place], generator)
                for place in generator.permutation(len(tables))
            ]
            if callback is not None:
                callback(iteration + 1, float(np.mean(errors)))
        return [columns[name] for name in domain]


def _match(columns: dict[str, np.ndarray], domain: Domain, target: np.ndarray, generator: np.random.Generator) -> float:
    """Change the records to match a table exactly; return the total-variation error before, as a fraction."""
    cells = cell_numbers([columns[name] for name in domain], domain.shape)
    missing = target - np.bincount(cells, minlength=target.size)
    over, under = np.flatnonzero(missing < 0), np.flatnonzero(missing > 0)
    if not over.size:
        return 0.0
    if over.size + under.size > MOST_CELLS:
        raise ArgumentError.of(
            "tables", domain.attributes, f"tables of at most {MOST_CELLS:,} cells for method 'mcf', or method 'gum'"
        )
    codes = np.array(np.unravel_index(np.arange(target.size), domain.shape)).T
    sources, goals = cheapest_moves(codes[over], -missing[over], codes[under], missing[under])
    moved = _sample_of_cells(cells, over, -missing[over], generator)[np.argsort(np.argsort(sources, kind="stable"))]
    for axis, name in enumerate(domain):
        columns[name][moved] = codes[under[goals], axis]
    return float(missing[under].sum()) / len(cells)


def _sample_of_cells(
    cells: np.ndarray, chosen: np.ndarray, counts: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return the positions of `counts[i]` random records of cell `chosen[i]`, for each i in order."""
    order = generator.permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    first = np.searchsorted(cells[order], chosen)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + within]


def cheapest_moves(
    over: np.ndarray, supply: np.ndarray, under: np.ndarray, demand: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moves of records between cells that change the fewest codes in all.

    A move that keeps the codes of some attributes passes through the hub of these codes; its cost is the number of the
    other attributes. So the network has one arc for each cell and set of attributes, not one for each pair of cells.

    >>> sources, goals = cheapest_moves(np.array([[0, 0]]), np.array([2]), np.array([[1, 1], [0, 1]]), np.array([1, 1]))
    >>> sources.tolist(), sorted(goals.tolist())
    ([0, 0], [0, 1])

    Args:
        over: the codes of the cells with too many records, shape (sources, attributes).
        supply: the number of surplus records of each, integers, shape (sources,).
        under: the codes of the cells with too few records, shape (sinks, attributes).
        demand: the number of missing records of each, integers, shape (sinks,); the sum is that of `supply`.

    Returns:
        for each record that moves, the position of its cell in `over`, and in `under`.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    axes = range(over.shape[1])  # all proper subsets of the axes
    hubs = [_hubs(over, under, kept) for size in axes for kept in itertools.combinations(axes, size)]
    starts = np.cumsum([0, *(count for *_, count in hubs)])
    tails = np.concatenate([tail for tail, *_ in hubs])
    into = np.concatenate([hub + start for (_, hub, *_), start in zip(hubs, starts, strict=False)])
    out_of = np.concatenate([hub + start for (_, _, hub, *_), start in zip(hubs, starts, strict=False)])
    heads = np.concatenate([head for _, _, _, head, *_ in hubs])
    cost = np.concatenate([np.full(len(hub[0]), float(hub[4])) for hub in hubs] + [np.zeros(len(heads))])
    first_hub, arcs_in = len(over) + len(under), len(tails)
    rows = np.concatenate([tails, heads + len(over), into + first_hub, out_of + first_hub])
    arcs = np.concatenate([np.arange(arcs_in), arcs_in + np.arange(len(heads)), np.arange(len(cost))])
    signs = np.repeat([1.0, -1.0], [len(tails) + len(heads) + arcs_in, len(heads)])
    network = csr_array((signs, (rows, arcs)), shape=(first_hub + int(starts[-1]), len(cost)))
    balance = np.concatenate([supply, demand, np.zeros(int(starts[-1]))])
    # The vertices of a flow polytope are integral, and the simplex method ends at a vertex.
    flow = np.rint(linprog(cost, A_eq=network, b_eq=balance, method="highs-ds").x).astype(np.int64)
    sent, received = flow[:arcs_in], flow[arcs_in:]
    by_tail, by_head = np.argsort(into, kind="stable"), np.argsort(out_of, kind="stable")
    return np.repeat(tails[by_tail], sent[by_tail]), np.repeat(heads[by_head], received[by_head])


def _hubs(
    over: np.ndarray, under: np.ndarray, kept: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Return the arcs through the hubs of one set of attributes, of which there is one for each combination of codes.

    Only hubs that join a cell with too many records to a cell with too few are included.

    Args:
        over, under: as in `cheapest_moves`.
        kept: the attributes whose codes a move through these hubs keeps.

    Returns:
        the arcs into hubs (cells, hubs), the arcs out of hubs (hubs, cells), the cost of a move, and the number of
        hubs.
    """
    both = np.concatenate([over, under])[:, list(kept)]
    hub = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1) if kept else np.zeros(len(both), dtype=np.int64)
    mine, theirs = hub[: len(over)], hub[len(over) :]
    useful = np.intersect1d(mine, theirs)
    tails, heads = np.flatnonzero(np.isin(mine, useful)), np.flatnonzero(np.isin(theirs, useful))
    into, out_of = np.searchsorted(useful, mine[tails]), np.searchsorted(useful, theirs[heads])
    return tails, into, out_of, heads, over.shape[1] - len(kept), len(useful)
