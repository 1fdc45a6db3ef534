r"""The consequences of facts before anything is solved: the totals that they allow, and cells that they leave empty.

Facts $M x = r$ about shares $x \ge 0$ force cell i to be empty if some multipliers y have $d = M^T y \ge 0$, $d_i > 0$
and $r^T y = 0$. One linear program finds the y that empties the most cells (Freund, Roundy and Todd 1985). The solver
only suggests y: as shares are at most 1, $x_i \le (r^T y + \sum_j \max(-d_j, 0)) / d_i$ proves it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.linalg import null_space, orth

from pgmest.errors import ModelTooLarge
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.ends import answer_ends
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.presolve import Presolved
from pgmest.models.bounds.program import INFEASIBLE, feasible, solve
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from pgmest.tables.margins import margin_cells

LARGEST_PROGRAM = 3000
"""No program of more cells and answers than this is solved: it would take longer than many estimates."""

LARGEST_DENSE = 400
"""Tables that differ by rounding errors are made to agree up to this number of cells and answers."""

DOUBLE, SINGLE = 1e-12, 3e-7
"""Errors of double and of single precision, as shares of the largest answer of a table."""

EMPTY = 1e-10
"""A cell whose share is proven to be at most this is empty."""

INSIDE = 1e-3
"""A total outside of what facts allow is moved inside by this share of the range, as its very ends empty cells."""


def reconciled(measurements: Sequence[LinearMeasurement], domain: Domain) -> tuple[LinearMeasurement, ...]:
    """Return measurements whose exact tables agree to double precision, if they did up to the error of a single one.

    Tables of numbers that are not whole, as sums and shares in single precision, are moved to the nearest ones that
    agree. Larger differences are contradictions and stay.
    """
    chosen = [i for i, m in enumerate(measurements) if m.exact_rows.all() and m.rows]
    if len(chosen) < 2 or all((measurements[i].values == np.rint(measurements[i].values)).all() for i in chosen):
        return tuple(measurements)
    facts = [measurements[i] for i in chosen]
    polytope = _polytope(facts, domain, None, None)
    if polytope is None or len(polytope.low) > LARGEST_DENSE:
        return tuple(measurements)
    first, cells = len(polytope.right) - len(polytope.answers), polytope.cells
    free = null_space(polytope.equations[:first, :cells].toarray()) if first else np.eye(cells)
    units = np.concatenate([np.full(fact.rows, np.abs(fact.values).max() or 1.0) for fact in facts])
    values = np.concatenate([fact.values for fact in facts]) / units
    span = orth(polytope.equations[first:, :cells].toarray() @ free / units[:, None])
    nearest = span @ (span.T @ values)
    if not DOUBLE < float(np.abs(nearest - values).max()) <= SINGLE:
        return tuple(measurements)
    nearest *= units
    result, start = list(measurements), 0
    for i, fact in zip(chosen, facts, strict=True):
        moved = np.where(fact.values == 0.0, 0.0, nearest[start : start + fact.rows])
        result[i] = LinearMeasurement.exact(moved, fact.clique, fact.query)
        start += fact.rows
    return tuple(result)


def allowed_total(
    total: float, measurements: Sequence[LinearMeasurement], domain: Domain, zeros: CliqueVector | None = None
) -> tuple[float, bool]:
    """Return the total next to an estimated one that facts allow, and whether they determine it.

    Args:
        total: the estimate, in records.
        measurements: the answers, of any kind; those with noise are not looked at.
        domain: all attributes.
        zeros: potentials whose -inf cells are impossible.
    """
    polytope = _polytope(measurements, domain, zeros, None)
    if polytope is None:
        return total, False
    row = polytope.total_row()
    pinned = replace(
        polytope,
        equations=sparse.csr_array(sparse.vstack([sparse.csr_array(row[None, :]), polytope.equations])),
        right=np.append(total, polytope.right),
    )
    presolved = Presolved.of(pinned)
    if not presolved.empty and feasible(presolved).status != INFEASIBLE:
        return total, False
    low, high = _ends(polytope)
    if low is not None and high is not None and high - low <= 1e-9 * max(high, 1e-9 * total):
        return max(low, 0.0), True
    inside = INSIDE * (high - low if low is not None and high is not None else total)
    if low is not None and total < low + inside:
        return low + inside, False
    return (high - inside if high is not None and total > high - inside else total), False


def total_ends(
    measurements: Sequence[LinearMeasurement], domain: Domain, zeros: CliqueVector | None = None
) -> tuple[float, float]:
    """Return the least and the largest total that answers without noise, exact or bounds, allow: 0 and inf if unknown.

    Args:
        measurements: the answers.
        domain: all attributes.
        zeros: potentials whose -inf cells are impossible.
    """
    polytope = _program(measurements, domain, zeros, None)
    low, high = (None, None) if polytope is None else _ends(polytope)
    return 0.0 if low is None else max(low, 0.0), math.inf if high is None else high


def _ends(polytope: TablePolytope) -> tuple[float | None, float | None]:
    """Return the least and the largest total, None without one."""
    row, parts = polytope.total_row(), (polytope.equations, polytope.right, polytope.low, polytope.high)
    low, high = (None if (point := solve(sign * row, *parts).point) is None else float(row @ point) for sign in (1, -1))
    return low, high


def emptied_cells(
    measurements: Sequence[LinearMeasurement], domain: Domain, total: float, zeros: CliqueVector | None = None
) -> CliqueVector | None:
    """Return potentials of -inf in the cells of exact answers' tables that these leave empty; None without any.

    Facts that are whole tables of counts are left to their own zeros.

    Args:
        measurements: the answers, of any kind; exact ones count.
        domain: all attributes.
        total: the number of records.
        zeros: potentials whose -inf cells are impossible.
    """
    exact = [m for m in measurements if m.exact_rows.any()]
    if not total > 0 or all(m.query is None and m.exact_rows.all() for m in exact):
        return None
    polytope = _polytope(exact, domain, zeros, total)
    if polytope is None:
        return None
    empty = _empty(polytope, np.concatenate([m.exact_rows for m in exact]), total)
    if not empty.any():
        return None
    tables = {}
    for m in exact:
        clique = m.clique
        at = next(i for i, names in enumerate(polytope.tree.cliques) if set(clique) <= set(names))
        table = domain.project(clique)
        cells = margin_cells(domain, polytope.tree.cliques[at], clique)
        mine = empty[polytope.offsets[at] : polytope.offsets[at + 1]]
        possible = np.bincount(cells, ~mine, minlength=table.size()) > 0
        tables[clique] = Factor(table, np.where(possible, 0.0, -np.inf).reshape(table.shape))
    return CliqueVector(domain, tables)


def _polytope(
    measurements: Sequence[LinearMeasurement], domain: Domain, zeros: CliqueVector | None, total: float | None
) -> TablePolytope | None:
    """Return the tables that answers without noise allow; None without exact answers, or if they are too many."""
    facts = [m for m in measurements if not m.noisy]
    return _program(facts, domain, zeros, total) if any(m.exact_rows.any() for m in facts) else None


def _program(
    facts: Sequence[LinearMeasurement], domain: Domain, zeros: CliqueVector | None, total: float | None
) -> TablePolytope | None:
    """Return the tables that answers without noise allow; None if they are too many."""
    try:
        polytope = TablePolytope.of(domain, facts, answer_ends(facts, 0.5), total=total, zeros=zeros, max_megabytes=1.0)
    except ModelTooLarge:
        return None
    return polytope if len(polytope.low) <= LARGEST_PROGRAM else None


def _empty(polytope: TablePolytope, exact: np.ndarray, total: float) -> np.ndarray:
    """Return which cells of the tree's tables exact answers leave empty, with proof."""
    part = polytope.with_answers(np.flatnonzero(exact))
    cells = part.cells
    matrix = sparse.csr_array(part.equations[:, :cells])
    right = (part.right - part.equations[:, cells:] @ part.low[cells:]) / total
    units = np.maximum(abs(matrix).max(axis=1).toarray().reshape(-1), np.finfo(float).tiny)
    matrix, right = sparse.csr_array(sparse.diags_array(1.0 / units) @ matrix), right / units
    possible = part.high[:cells] > 0.0
    matrix = sparse.csr_array(matrix[:, np.flatnonzero(possible)])
    count = int(possible.sum())
    equations = sparse.csr_array(sparse.hstack([matrix, matrix, -right[:, None]]))
    objective = np.concatenate([np.zeros(count), -np.ones(count), [0.0]])
    low = np.append(np.zeros(2 * count), 1.0)
    high = np.concatenate([np.full(count, np.inf), np.ones(count), [np.inf]])
    found = solve(objective, equations, np.zeros(len(right)), low, high)
    empty = ~possible
    if found.multipliers is not None:
        y = -found.multipliers
        d = matrix.T @ y
        most = float(right @ y) + float(np.maximum(-d, 0.0).sum())
        empty[np.flatnonzero(possible)[(d > 0.5) & (most <= EMPTY * d)]] = True
    return empty
