"""Small households with persons, and the system of totals written down row by row, without the package's code."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import linprog

AGES, TENURES = ("child", "adult", "old"), ("own", "rent")


def frames(tenures, persons, areas=None):
    """Return the tables of households with these tenures and numbers of persons of each age, shape (households, 3)."""
    homes = pd.DataFrame({"home": np.arange(len(tenures)) + 100, "tenure": tenures})
    if areas is not None:
        homes["county"] = areas
    rows = [
        (100 + place, age)
        for place, own in enumerate(persons)
        for age, n in zip(AGES, own, strict=True)
        for _ in range(n)
    ]
    return homes, pd.DataFrame(rows, columns=["home", "age"]).sample(frac=1.0, random_state=0)


def amounts(tenures, persons):
    """Return what each household adds to the totals of tenures and ages, shape (households, 5)."""
    return np.hstack([np.array([[own == one for one in TENURES] for own in tenures], dtype=float), np.asarray(persons)])


def feasible(matrix, totals):
    """Return whether weights meet totals, matrix of shape (rows, totals)."""
    return linprog(np.zeros(len(matrix)), A_eq=matrix.T, b_eq=totals, bounds=(0, None)).status == 0


def largest(matrix, totals, row):
    """Return the largest weight that a row can have."""
    cost = np.zeros(len(matrix))
    cost[row] = -1.0
    found = linprog(cost, A_eq=matrix.T, b_eq=totals, bounds=(0, None))
    return np.inf if found.status == 3 else -found.fun


def follows(matrix, start, weights, positive, row, scale):
    """Return whether a small weight is the one that the multipliers of the positive weights give."""
    shares = np.linalg.lstsq(matrix[positive].T, matrix[row], rcond=1e-10)[0]
    if not np.allclose(shares @ matrix[positive], matrix[row], atol=1e-9):
        return False
    expected = start[row] * np.exp(shares @ np.log(weights[positive] / start[positive]))
    return bool(abs(weights[row] - expected) <= 1e-8 * scale)


def check_closest(matrix, totals, start, weights, scale):
    """Check that weights are the closest to initial ones that meet totals, by the conditions of the optimum.

    Weights are feasible; log ratios of the positive ones are sums of multipliers; the others have to be 0, or so small
    because of the multipliers of the positive ones.
    """
    assert np.abs(matrix.T @ weights - totals).max() <= 2e-9 * scale
    positive = weights > 1e-7 * scale
    for row in np.flatnonzero(~positive):
        assert follows(matrix, start, weights, positive, row, scale) or largest(matrix, totals, row) <= 1e-5 * scale
    if positive.any():
        logs = np.log(weights[positive] / start[positive])
        multipliers = np.linalg.lstsq(matrix[positive], logs, rcond=1e-10)[0]
        assert np.abs(matrix[positive] @ multipliers - logs).max() <= 1e-4
