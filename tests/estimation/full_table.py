"""The truth on small domains: the same problems solved on the full joint table, with no tree and no messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog, minimize

from pgmest import Domain
from pgmest.measurements.measurement import LinearMeasurement


def marginal_matrix(domain: Domain, clique: Sequence[str]) -> np.ndarray:
    """The 0/1 matrix that sums a row-major joint table to the marginal on `clique`."""
    index = np.indices(domain.shape).reshape(len(domain), -1)
    shape = [domain[name] for name in clique]
    cells = np.ravel_multi_index([index[axis] for axis in domain.axes(clique)], shape) if shape else 0
    matrix = np.zeros((int(np.prod(shape)), domain.size()))
    matrix[cells, np.arange(domain.size())] = 1.0
    return matrix


def stacked(domain: Domain, measurements: Sequence[LinearMeasurement]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All queries as one matrix on the joint table, all values, and all standard deviations."""
    rows = [
        np.stack([m.answer_cells(cells) for cells in marginal_matrix(domain, m.clique).T], axis=1) for m in measurements
    ]
    values = np.concatenate([measurement.values for measurement in measurements])
    stddev = np.concatenate([np.broadcast_to(m.stddev, (m.rows,)) for m in measurements])
    return np.vstack(rows), values, stddev


def least_squares_optimum(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float
) -> tuple[float, np.ndarray]:
    """min over joint tables p >= 0 with sum `total` of 1/2 ||(A p - y) / sigma||^2, and a minimizer."""
    matrix, values, stddev = stacked(domain, measurements)
    scaled, target = matrix / stddev[:, None] * total, values / stddev

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        residual = scaled @ p - target
        return 0.5 * float(residual @ residual), scaled.T @ residual

    n = domain.size()
    scale = max(objective(np.full(n, 1 / n))[0], 1.0)
    result = minimize(
        lambda p: tuple(part / scale for part in objective(p)),
        np.full(n, 1.0 / n),
        jac=True,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones((1, n))},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return objective(result.x)[0], result.x * total


def least_absolute_optimum(domain: Domain, measurements: Sequence[LinearMeasurement], total: float) -> float:
    """min over joint tables of sum |A p - y| / b with b = sigma / sqrt(2), by linear programming (HiGHS)."""
    matrix, values, stddev = stacked(domain, measurements)
    m, n = matrix.shape
    weights = np.sqrt(2.0) / stddev
    result = linprog(
        np.concatenate([np.zeros(n), weights]),
        A_ub=np.block([[matrix, -np.eye(m)], [-matrix, -np.eye(m)]]),
        b_ub=np.concatenate([values, -values]),
        A_eq=np.concatenate([np.ones(n), np.zeros(m)])[None],
        b_eq=[total],
        method="highs",
    )
    return float(result.fun)


def fitted_table(
    domain: Domain, cliques: Sequence[Sequence[str]], marginals: Sequence[np.ndarray], prior: np.ndarray
) -> np.ndarray:
    """The table of least relative entropy to `prior` with these marginals, by iterative proportional fitting."""
    table = prior / prior.sum() * marginals[0].sum()
    matrices = [marginal_matrix(domain, clique) for clique in cliques]
    for _ in range(3000):
        for matrix, target in zip(matrices, marginals, strict=True):
            now = matrix @ table
            ratio = np.divide(target, now, out=np.zeros_like(now), where=now > 0)
            table = table * (ratio @ matrix)
    return table
