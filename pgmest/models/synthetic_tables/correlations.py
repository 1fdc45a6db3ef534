r"""Correlations of many attributes that can hold together.

Correlations of pairs that are drawn apart may contradict each other: no records have them, and what weights of records
reach instead is weaker. The logarithm of a correlation matrix may have any numbers off its diagonal, and each choice of
them belongs to one correlation matrix (Archakov and Hansen 2021). So correlations are drawn as elements of a logarithm,
which are Fisher's transforms of single ones, and are scaled until they are as large as they were drawn.
"""

from __future__ import annotations

import numpy as np

ROUNDS, MOST_SCALE = 20, 20.0
"""The number of corrections of a logarithm, and the largest factor of drawn elements."""
LEAST_EIGENVALUE = 1e-6
"""Matrices whose eigenvalues are at least this stay as they are: records can have these correlations."""
LARGEST, LARGEST_LOG = 0.999, 10.0
"""The largest correlation that is transformed, and the largest element of a logarithm that is held."""
LEAST = 1e-9


def feasible_correlations(drawn: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return a correlation matrix near drawn correlations, with the same mean square of those that may change.

    Args:
        drawn: a symmetric matrix with ones on the diagonal.
        held: whether a correlation is to stay as it is, as far as possible; symmetric, of the same shape.
    """
    if not len(drawn) or float(np.linalg.eigvalsh(drawn)[0]) >= LEAST_EIGENVALUE:
        return drawn
    apart = ~np.eye(len(drawn), dtype=bool)
    free, held = apart & ~held, apart & held
    logs = np.where(apart, _transformed(drawn), 0.0)
    start, scale, size = logs.copy(), 1.0, _size(drawn[free])
    for _ in range(ROUNDS if size > 0 else 0):
        now = _from_logarithm(logs)
        scale = min(scale * size / max(_size(now[free]), LEAST), MOST_SCALE)
        logs = np.where(held, logs + _transformed(drawn) - _transformed(now), scale * start)
        logs = np.where(held, np.clip(logs, -LARGEST_LOG, LARGEST_LOG), logs)
    return _from_logarithm(logs)


def _transformed(correlations: np.ndarray) -> np.ndarray:
    return np.arctanh(np.clip(correlations, -LARGEST, LARGEST))


def _size(correlations: np.ndarray) -> float:
    return float(np.sqrt(np.square(correlations).mean())) if correlations.size else 0.0


def _from_logarithm(logs: np.ndarray) -> np.ndarray:
    """Return the exponential of a symmetric matrix, scaled to ones on the diagonal."""
    values, vectors = np.linalg.eigh(logs)
    found = (vectors * np.exp(values - values[-1])) @ vectors.T + LEAST * np.eye(len(logs))
    roots = np.sqrt(np.diag(found))
    return found / np.outer(roots, roots)
