"""The smallest change of totals after which weights of the households meet them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pgmest.models.bounds.program import solve
from pgmest.surveys.feasible_weights import WeightPolytope

WHOLE = 1e4
"""Totals are scaled such that the largest is this, because HiGHS meets equations up to 1e-7."""


def least_changes(polytope: WeightPolytope) -> np.ndarray:
    """Return what to add to each total such that weights meet all of them, with the least sum of absolute changes.

    Args:
        polytope: the weights between ends that meet totals; totals are shares.

    Returns:
        the changes as shares, shape (totals,); those within the accuracy of the linear program are 0.
    """
    records, totals = polytope.matrix.shape
    unit = sparse.eye_array(totals)
    equations = sparse.hstack([polytope.matrix.T, -unit, unit], format="csr")
    objective = np.concatenate([np.zeros(records), np.ones(2 * totals)])
    low = np.concatenate([WHOLE * polytope.low, np.zeros(2 * totals)])
    high = np.concatenate([WHOLE * polytope.high, np.full(2 * totals, np.inf)])
    found = solve(objective, equations, WHOLE * polytope.totals, low, high)
    if found.point is None:
        return np.zeros(totals)
    changes = (found.point[records : records + totals] - found.point[records + totals :]) / WHOLE
    return np.where(np.abs(changes) > 1e-7, changes, 0.0)
