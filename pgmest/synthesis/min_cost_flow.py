"""Records fitted to one table after the other exactly, changing as few codes as possible: the reference for GUM."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.data.counting import cell_numbers
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.gum import Callback
from pgmest.synthesis.starts import independent_columns
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

MOST_CELLS = 1 << 16
"""Cells with too many records and cells with too few, in one table: the nodes of the network, but for the hubs."""


@dataclass(frozen=True, kw_only=True)
class MinCostFlow:
    """Synthesis by flows of least cost (MCF, PrivSyn section 5; DPSyn appendix A.1), the reference for GUM.

    For each table in turn the records of cells with too many move to cells with too few, until all cells are right; the
    cost of moving a record is the number of its codes that change, and the cheapest way to move all of them is found
    by linear programming. Later tables undo what earlier ones did, so errors do not fall as those of GUM do.

    Args:
        iterations: how often all tables are visited.

    Raises:
        ArgumentError: not a positive integer.
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
        """Arguments and result as for `GradualUpdate.records`.

        Raises:
            ArgumentError: a table too large.
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
    """Give the records exactly this table; the total-variation error that was found, a fraction."""
    cells = cell_numbers([columns[name] for name in domain], domain.shape)
    missing = target - np.bincount(cells, minlength=target.size)
    over, under = np.flatnonzero(missing < 0), np.flatnonzero(missing > 0)
    if not over.size:
        return 0.0
    if over.size + under.size > MOST_CELLS:
        raise ArgumentError.of("tables", domain.attributes, f"smaller ones for flows, of at most {MOST_CELLS:,} cells")
    codes = np.array(np.unravel_index(np.arange(target.size), domain.shape)).T
    sources, goals = cheapest_moves(codes[over], -missing[over], codes[under], missing[under])
    where = _some_of_each(cells, over, -missing[over], generator)[np.argsort(np.argsort(sources, kind="stable"))]
    for axis, name in enumerate(domain):
        columns[name][where] = codes[under[goals], axis]
    return float(missing[under].sum()) / len(cells)


def _some_of_each(
    cells: np.ndarray, chosen: np.ndarray, counts: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Random records of some cells, so many of each: their positions, cell after cell."""
    order = generator.permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    first = np.searchsorted(cells[order], chosen)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + within]


def cheapest_moves(
    over: np.ndarray, supply: np.ndarray, under: np.ndarray, demand: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The moves of records between cells that change the fewest codes in all.

    A move that keeps the codes of some attributes goes through the hub of these codes, at the number of the others.
    So the network has an arc for each cell and set of attributes, and not one for each two cells.

    >>> sources, goals = cheapest_moves(np.array([[0, 0]]), np.array([2]), np.array([[1, 1], [0, 1]]), np.array([1, 1]))
    >>> sources.tolist(), sorted(goals.tolist())
    ([0, 0], [0, 1])

    Args:
        over: the codes of the cells with too many records, shape (sources, attributes).
        supply: by how many; whole numbers, shape (sources,).
        under, demand: the same for cells with too few, shape (sinks, attributes) and (sinks,); equally many in all.

    Returns:
        of each record that moves the position of its cell in `over` and in `under`.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    hubs = [_through(over, under, kept) for kept in _proper_subsets(over.shape[1])]
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
    # The vertices of a network's flows are integral, and the simplex method ends at one.
    flow = np.rint(linprog(cost, A_eq=network, b_eq=balance, method="highs-ds").x).astype(np.int64)
    sent, received = flow[:arcs_in], flow[arcs_in:]
    by_tail, by_head = np.argsort(into, kind="stable"), np.argsort(out_of, kind="stable")
    return np.repeat(tails[by_tail], sent[by_tail]), np.repeat(heads[by_head], received[by_head])


def _proper_subsets(axes: int) -> list[tuple[int, ...]]:
    return [kept for size in range(axes) for kept in itertools.combinations(range(axes), size)]


def _through(
    over: np.ndarray, under: np.ndarray, kept: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int]:
    """The hubs of the codes of some attributes: arcs into them (cell, hub), out of them (hub, cell), cost and number.

    Only hubs between a cell with too many and one with too few records are there.
    """
    both = np.concatenate([over, under])[:, list(kept)]
    hub = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1) if kept else np.zeros(len(both), dtype=np.int64)
    mine, theirs = hub[: len(over)], hub[len(over) :]
    useful = np.intersect1d(mine, theirs)
    tails, heads = np.flatnonzero(np.isin(mine, useful)), np.flatnonzero(np.isin(theirs, useful))
    into, out_of = np.searchsorted(useful, mine[tails]), np.searchsorted(useful, theirs[heads])
    return tails, into, out_of, heads, over.shape[1] - len(kept), len(useful)
