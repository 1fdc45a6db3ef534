r"""p-Identity strategies: the queries to measure on one attribute, optimized for the workload's queries on it.

A p-Identity matrix (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, Definition 9) is the identity with p more rows
Theta >= 0, and its columns are scaled to norm 1,

    A = [I; Theta] C^-1,    C = diag(c),   c_j = 1 + sum_k Theta_kj   or   sqrt(1 + sum_k Theta_kj^2)

in l1 (Laplace noise) or l2 (Gaussian noise). Let R = I + Theta^T Theta, and W^T W the Gram matrix of the workload. The
squared error of least squares is tr[(A^T A)^-1 W^T W] = tr[R^-1 C W^T W C] times the variance of one noisy answer.
R^-1 costs O(n^2 p) by Woodbury's identity, and so does the gradient.
"""

from __future__ import annotations

import numpy as np

from pgmest.errors import ArgumentError, ShapeError

ROWS_PER_COLUMN = {1: 1 / 16, 2: 1 / 4}
"""The default p as a share of n, for l1 and l2: more rows reduce the error little and cost time."""


def p_identity(gram: np.ndarray, order: int, p: int | None = None, seed: int | np.random.Generator = 0) -> np.ndarray:
    """Return the (n + p, n) strategy of least expected error that L-BFGS finds; its columns have norm 1.

    >>> from pgmest import queries
    >>> W = queries.prefix(16).matrix()
    >>> A = p_identity(W.T @ W, order=1)
    >>> A.shape, A.sum(axis=0).round(6).tolist() == [1.0] * 16
    ((18, 16), True)
    >>> bool(expected_error(A, W.T @ W) < 0.95 * expected_error(np.eye(16), W.T @ W))
    True

    Args:
        gram: the Gram matrix W^T W, (n, n), of the queries W to answer.
        order: the norm of the sensitivity: 1 for Laplace noise, 2 for Gaussian noise.
        p: the number of rows besides the identity; by default n / 16, or n / 4 for order 2, at least 2.
        seed: the seed of the random start, or a generator.

    Raises:
        ArgumentError: the order is not 1 or 2, or `p` is below 1.
        ShapeError: `gram` is not square.
    """
    from scipy.optimize import minimize

    gram = np.asarray(gram, dtype=np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ShapeError.of("gram", "(n, n)", gram.shape)
    if order not in ROWS_PER_COLUMN:
        raise ArgumentError.of("order", order, tuple(ROWS_PER_COLUMN))
    n = len(gram)
    rows = max(2, round(n * ROWS_PER_COLUMN[order])) if p is None else p
    if rows < 1:
        raise ArgumentError.of("p", rows, "a positive integer")
    scale = np.trace(gram)
    if not scale > 0:
        return np.eye(n)
    start = np.random.default_rng(seed).random(rows * n)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = error_and_gradient(flat.reshape(rows, n), gram, order)
        return value / scale, gradient.reshape(-1) / scale

    bounds = [(0.0, None)] * (rows * n)
    options = {"maxiter": 500, "ftol": 1e-6}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    theta = found.x.reshape(rows, n)
    return np.vstack([np.eye(n), theta]) / column_norms(theta, order)


def expected_error(strategy: np.ndarray, gram: np.ndarray) -> float:
    """Return tr[(A^T A)^-1 W^T W], the sum of squared errors of least squares if each answer has variance 1."""
    return float(np.trace(np.linalg.solve(strategy.T @ strategy, gram)))


def column_norms(theta: np.ndarray, order: int) -> np.ndarray:
    """Return c, the l1 or l2 norms of the columns of [I; Theta]."""
    return 1 + theta.sum(axis=0) if order == 1 else np.sqrt(1 + np.square(theta).sum(axis=0))


def error_and_gradient(theta: np.ndarray, gram: np.ndarray, order: int) -> tuple[float, np.ndarray]:
    """Return the expected error as a function of Theta, and its gradient, which has the shape (p, n) of Theta."""
    c = column_norms(theta, order)
    small = np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta)
    inverse = np.eye(theta.shape[1]) - theta.T @ small
    weighted = inverse * gram
    value = float(c @ weighted @ c)
    # through R: -2 Theta R^-1 H R^-1 with H = C G C and Theta R^-1 = (I + Theta Theta^T)^-1 Theta
    through_r = -2 * ((small * c) @ gram * c) @ inverse
    through_c = 2 * (weighted @ c)
    return value, through_r + (through_c if order == 1 else through_c * theta / c)
