r"""Linear programs over a polytope of tables, with bounds that their duals prove independently of the solver.

For any multipliers y of the equations $A z = b$ and any z between its ends,

.. math:: c^T z = b^T y + (c - A^T y)^T z \ge b^T y + \sum_j \min(d_j l_j, d_j u_j) , \qquad d = c - A^T y ,

so the right-hand side is a lower bound for every y (Neumaier, Shcherbina 2004). HiGHS only suggests y. The result is
this bound minus a bound on the rounding error.

Many objectives share the presolved program and the points that were found: with y = 0 the bound is that of the ends
alone, and an objective that attains it at a point needs no program. Most vertices put most cells at an end, so that a
few programs with mixed objectives decide most cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

from pgmest.errors import ArgumentError
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.presolve import NEGLIGIBLE, Presolved, midpoints

ROUNDING = 1e-12
"""The bound on the rounding error, as a share of the summed magnitudes of all terms; far above the true error."""
ATTAINED = 1e-9
"""An objective attains a bound if it is this close to it, as a share of the summed magnitudes of its terms."""
INSIDE, PROJECTIONS, PROJECTION_STEPS = 0.02, 50, 200
"""Alternating projections aim at boxes that are smaller by this share at each side, and stop after this many rounds of
at most this many steps of conjugate gradients."""
MIXED = 0.02
"""Mixed objectives go on while each decides at least this share of the undecided objectives."""

OPTIMAL, INFEASIBLE, UNBOUNDED = 0, 2, 3
"""The status codes of `scipy.optimize.linprog`."""


@dataclass(frozen=True)
class Solution:
    """The result of HiGHS: a status, and if it has them, a point and the multipliers of the equations."""

    status: int
    point: np.ndarray | None
    multipliers: np.ndarray | None


def solve(objective: np.ndarray, equations: Any, right: np.ndarray, low: np.ndarray, high: np.ndarray) -> Solution:
    """Minimize an objective over the points between ends that satisfy equations."""
    from scipy.optimize import linprog

    ends = np.stack([low, high], axis=1)
    found: Any = linprog(objective, A_eq=equations, b_eq=right, bounds=ends, method="highs")
    multipliers = None if found.eqlin is None or found.x is None else np.asarray(found.eqlin.marginals)
    return Solution(int(found.status), found.x, multipliers)


def minimize(objective: np.ndarray, presolved: Presolved) -> Solution:
    """Minimize an objective over a presolved polytope; point and multipliers are those of the whole polytope.

    Components of the program that the objective does not touch are left out: the point has the middle of the ends
    there, and outside the program.
    """
    polytope, rows, columns = presolved.polytope, presolved.rows, presolved.columns
    touched = np.unique(presolved.column_parts[objective[columns] != 0.0])
    rows, columns = (
        chosen[np.isin(parts, touched)]
        for chosen, parts in ((rows, presolved.row_parts), (columns, presolved.column_parts))
    )
    return _part(objective, polytope, rows, columns)


def feasible(presolved: Presolved) -> Solution:
    """Look for a point of a presolved polytope, of which no ends exclude each other.

    Multipliers are found only if no interior point is.
    """
    point = _interior_point(presolved)
    if point is not None:
        return Solution(OPTIMAL, point, None)
    return _part(np.zeros(len(presolved.polytope.low)), presolved.polytope, presolved.rows, presolved.columns)


def _interior_point(presolved: Presolved) -> np.ndarray | None:
    """Look for a point of a presolved polytope by alternating projections (von Neumann).

    Points are projected onto the equations, in units of the distances between the ends, and onto smaller boxes. With
    an interior this takes a few products; a linear program of many cells takes minutes.
    """
    polytope, rows, columns = presolved.polytope, presolved.rows, presolved.columns
    point = midpoints(polytope.low, polytope.high)
    if not len(rows):
        return point
    low, high = polytope.low[columns], polytope.high[columns]
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    squares, inner = (high - low) ** 2, INSIDE * (high - low)
    point[columns] = 0.0
    right = polytope.right[rows] - polytope.equations[rows] @ point
    matrix = sparse.csr_array(polytope.equations[rows][:, columns])
    weighted = sparse.csr_array((matrix * squares).T)
    gram = sparse.csr_array(matrix @ weighted)
    scale = sparse.diags_array(np.reciprocal(gram.diagonal()))
    near, found = NEGLIGIBLE * presolved.scale, 0.5 * (low + high)
    for _ in range(PROJECTIONS):
        with np.errstate(all="ignore"):  # no step at all if the equations contradict each other
            step, _ = cg(gram, right - matrix @ found, rtol=1e-10, maxiter=PROJECTION_STEPS, M=scale)
        found = found + weighted @ step
        if not np.isfinite(found).all():
            return None
        if (found >= low - near).all() and (found <= high + near).all():
            off = float(np.abs(matrix @ found - right).max())
            point[columns] = found
            return point if off <= near else None
        found = np.clip(found, low + inner, high - inner)
    return None


def _part(objective: np.ndarray, polytope: TablePolytope, rows: np.ndarray, columns: np.ndarray) -> Solution:
    """Minimize over some variables, the others fixed at the middle of their ends, under some equations."""
    point, multipliers = midpoints(polytope.low, polytope.high), np.zeros(len(polytope.right))
    if not len(rows):
        return Solution(OPTIMAL, point, multipliers)
    point[columns] = 0.0
    equations = polytope.equations[rows]
    right = polytope.right[rows] - equations @ point
    found = solve(objective[columns], equations[:, columns], right, polytope.low[columns], polytope.high[columns])
    if found.point is None or found.multipliers is None:
        return found
    point[columns], multipliers[rows] = found.point, found.multipliers
    return Solution(found.status, point, multipliers)


def proven_minimum(objective: np.ndarray, polytope: TablePolytope, multipliers: np.ndarray | None) -> float:
    """Return a lower bound on the objective, which is tight if the multipliers are optimal.

    Args:
        objective: a weight for each variable.
        polytope: a polytope with finite ends.
        multipliers: a number for each equation; None for zeros.
    """
    y = np.zeros(len(polytope.right)) if multipliers is None else multipliers
    largest = np.maximum(np.abs(polytope.low), np.abs(polytope.high))
    reduced = objective - polytope.equations.T @ y
    terms = np.concatenate([polytope.right * y, np.minimum(reduced * polytope.low, reduced * polytope.high)])
    products = np.abs(objective) @ largest + np.abs(y) @ (abs(polytope.equations) @ largest)
    return float(terms.sum()) - ROUNDING * float(np.abs(terms).sum() + products)


def proven_minima(objectives: sparse.csr_array, presolved: Presolved, point: np.ndarray | None) -> np.ndarray:
    """Return a proven lower bound on each objective, tight up to rounding errors.

    Args:
        objectives: a row of weights for each objective, shape (objectives, variables).
        presolved: a polytope with finite ends that is not empty.
        point: a point of it, if one is known.
    """
    polytope = presolved.polytope
    search = _Search(objectives, presolved, point)
    generator = np.random.default_rng(0)
    while len(search.open):
        before = len(search.open)
        weights = np.zeros(len(search.bounds))
        weights[search.open] = generator.exponential(size=before)
        found = minimize(objectives.T @ weights, presolved)
        if found.point is None or before - search.add(found.point) < max(2.0, MIXED * before):
            break
    while len(search.open):
        index = search.open[0]
        objective = objectives[[index]].toarray().reshape(-1)
        found = minimize(objective, presolved)
        search.settle(index, proven_minimum(objective, polytope, found.multipliers))
        if found.point is not None:
            search.add(found.point)
    return search.bounds


class _Search:
    """The bounds of many objectives, and those that no point is known to attain."""

    def __init__(self, objectives: sparse.csr_array, presolved: Presolved, point: np.ndarray | None):
        low, high = presolved.polytope.low, presolved.polytope.high
        up, down = objectives.maximum(0.0), (-objectives).maximum(0.0)
        terms = up @ np.abs(low) + down @ np.abs(high) + up @ np.abs(high) + down @ np.abs(low)
        self.bounds: np.ndarray = up @ low - down @ high - ROUNDING * terms
        linked = np.zeros(len(low))
        linked[presolved.columns] = 1.0
        self._linked = sparse.csr_array(objectives.multiply(linked))
        self._linked.eliminate_zeros()
        up, down = self._linked.maximum(0.0), (-self._linked).maximum(0.0)
        self._reach = up @ low - down @ high + ATTAINED * terms
        self.open: np.ndarray = np.flatnonzero(np.diff(self._linked.indptr))
        if point is not None:
            self.add(point)

    def add(self, point: np.ndarray) -> int:
        """Drop the objectives whose bound a point attains, and return how many are left."""
        self.open = self.open[self._linked[self.open] @ point > self._reach[self.open]]
        return len(self.open)

    def settle(self, index: int, bound: float) -> None:
        """Keep a bound that is known to be tight."""
        self.bounds[index] = max(self.bounds[index], bound)
        self.open = self.open[self.open != index]


def with_finite_ends(presolved: Presolved, total: float | None) -> Presolved:
    """Return a presolved polytope whose ends are finite, as no cell exceeds the number of records.

    Raises:
        ArgumentError: nothing bounds the number of records.
    """
    polytope = presolved.polytope
    if np.isfinite(polytope.low).all() and np.isfinite(polytope.high).all():
        return presolved
    most = total if total is not None else _largest_total(presolved)
    low, high, cells = polytope.low.copy(), np.minimum(polytope.high, most), polytope.cells
    sums = polytope.equations[len(polytope.right) - len(polytope.answers) :][:, :cells]
    reach = most * abs(sums).max(axis=1).toarray().reshape(-1) if len(polytope.answers) else np.zeros(0)
    low[cells:], high[cells:] = np.maximum(low[cells:], -reach), np.minimum(polytope.high[cells:], reach)
    return Presolved.of(replace(polytope, low=low, high=high))


def _largest_total(presolved: Presolved) -> float:
    """Return an upper bound on the number of records of compatible tables.

    Raises:
        ArgumentError: the number is unbounded.
    """
    row = presolved.polytope.total_row()
    polytope = presolved.polytope
    found = _part(-row, polytope, np.arange(len(polytope.right)), np.arange(len(row)))
    if found.status == UNBOUNDED or found.point is None:
        raise ArgumentError(
            "nothing bounds the number of records, so there are no bounds: give total= to estimate, or measure the "
            "total, by a whole marginal or by LinearMeasurement.between(0, most, clique=())."
        )
    return float(row @ found.point) * (1.0 + 1e-9) + 1.0
