"""Records fitted to one table after the other exactly, changing as few codes as possible: the reference for GUM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.data.counting import cell_numbers
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.gum import Callback, independent_columns
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

MOST_ARCS = 1 << 18
"""Cells with too many records times cells with too few, in one table: the unknowns of a linear program."""


@dataclass(frozen=True, kw_only=True)
class MinCostFlow:
    """Synthesis by flows of least cost (MCF, PrivSyn section 5): for small tables.

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
    if over.size * under.size > MOST_ARCS:
        raise ArgumentError.of("tables", domain.attributes, f"smaller ones for flows, of at most {MOST_ARCS:,} arcs")
    codes = np.array(np.unravel_index(np.arange(target.size), domain.shape))
    cost = (codes[:, over, None] != codes[:, None, under]).sum(axis=0)
    flow = cheapest_flow(cost, -missing[over], missing[under])
    for row, cell in enumerate(over):
        where = generator.permutation(np.flatnonzero(cells == cell))[: flow[row].sum()]
        goals = np.repeat(under, flow[row])
        for axis, name in enumerate(domain):
            columns[name][where] = codes[axis, goals]
    return float(missing[under].sum()) / len(cells)


def cheapest_flow(cost: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """The transport of least cost: whole numbers, shape (sources, sinks), with the supply and the demand as margins.

    >>> cheapest_flow(np.array([[1, 2], [2, 1]]), np.array([3, 1]), np.array([2, 2]))
    array([[2, 1],
           [0, 1]])
    """
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    sources, sinks = cost.shape
    margins = vstack(
        [kron(eye_array(sources), np.ones((1, sinks))), kron(np.ones((1, sources)), eye_array(sinks))], format="csr"
    )
    # The vertices of a transport polytope are integral, and the simplex method ends at one.
    found = linprog(cost.reshape(-1), A_eq=margins, b_eq=np.concatenate([supply, demand]), method="highs-ds")
    return np.rint(found.x).astype(np.int64).reshape(cost.shape)
