r"""Linear programs over a polytope of tables, with bounds that their duals prove independently of the solver.

For any multipliers y of the equations $A z = b$ and any z between its ends,

.. math:: c^T z = b^T y + (c - A^T y)^T z \ge b^T y + \sum_j \min(d_j l_j, d_j u_j) , \qquad d = c - A^T y ,

so the right-hand side is a lower bound for every y (Neumaier, Shcherbina 2004). HiGHS only suggests y. The result is
this bound minus a bound on the rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from pgmest.errors import ArgumentError
from pgmest.models.bounds.polytope import TablePolytope

ROUNDING = 1e-12
"""The bound on the rounding error, as a share of the summed magnitudes of all terms; far above the true error."""

INFEASIBLE, UNBOUNDED = 2, 3
"""The status codes of `scipy.optimize.linprog`."""


@dataclass(frozen=True)
class Solution:
    """The result of HiGHS: a status, and if it has them, a point and the multipliers of the equations."""

    status: int
    point: np.ndarray | None
    multipliers: np.ndarray | None


def solve(objective: np.ndarray, polytope: TablePolytope, high: np.ndarray | None = None) -> Solution:
    """Minimize an objective over the polytope; `high` replaces its upper ends."""
    ends = np.stack([polytope.low, polytope.high if high is None else high], axis=1)
    found: Any = linprog(objective, A_eq=polytope.equations, b_eq=polytope.right, bounds=ends, method="highs")
    multipliers = None if found.eqlin is None or found.x is None else np.asarray(found.eqlin.marginals)
    return Solution(int(found.status), found.x, multipliers)


def proven_minimum(objective: np.ndarray, polytope: TablePolytope, high: np.ndarray) -> float:
    """Return a lower bound on the objective, which is tight if the solver's multipliers are optimal.

    Args:
        objective: a weight for each variable.
        polytope: a polytope that is not empty.
        high: finite upper ends for all points of the polytope.
    """
    multipliers = solve(objective, polytope, high).multipliers
    y = np.zeros(len(polytope.right)) if multipliers is None else multipliers
    reduced = objective - polytope.equations.T @ y
    terms = np.concatenate([polytope.right * y, np.minimum(reduced * polytope.low, reduced * high)])
    products = np.abs(objective) @ high + np.abs(y) @ (abs(polytope.equations) @ np.abs(high))
    return float(terms.sum()) - ROUNDING * float(np.abs(terms).sum() + products)


def finite_ends(polytope: TablePolytope, total: float | None) -> np.ndarray:
    """Return upper ends for every compatible table, as no cell exceeds the number of records.

    Raises:
        ArgumentError: nothing bounds the number of records.
    """
    most = total if total is not None else _largest_total(polytope)
    high = np.minimum(polytope.high, most)
    answers = slice(polytope.cells, None)
    rows = polytope.equations[len(polytope.right) - (len(high) - polytope.cells) :]
    weights = abs(rows).max(axis=1).toarray().reshape(-1) if len(polytope.answers) else np.zeros(0)
    high[answers] = np.minimum(polytope.high[answers], most * np.maximum(weights, 1.0))
    return high


def _largest_total(polytope: TablePolytope) -> float:
    """Return an upper bound on the number of records of compatible tables.

    Raises:
        ArgumentError: the number is unbounded.
    """
    found = solve(-polytope.total_row(), polytope)
    if found.status == UNBOUNDED or found.point is None:
        raise ArgumentError(
            "nothing bounds the number of records, so there are no bounds: give total= to estimate, or measure the "
            "total, by a whole marginal or by LinearMeasurement.between(0, most, clique=())."
        )
    return float(polytope.total_row() @ found.point) * (1.0 + 1e-9) + 1.0
