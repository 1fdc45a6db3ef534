r"""Functions of an attribute's codes, in which marginals and dependence are described: smooth ones and frequent codes.

A table of two attributes with N records and the one-way marginals N p and N q is
$N p q (1 + \sum_{kl} c_{kl} u_k v_l)$, where the functions u and v have mean 0 and are orthonormal under p and q
(correspondence analysis; Benzecri 1973). With the code itself as the first function, $c_{11}$ is the correlation of the
codes. Regression coefficients, means and correlations depend on few of these coefficients, each a sum of many cells.
"""

from __future__ import annotations

import numpy as np

MOST_FUNCTIONS = 20
"""The largest number of functions of an attribute."""
SMOOTH = 4
"""The number of smooth functions, which are the first ones: the code, and powers of its rank."""
DISTINCT = 1e-3
"""A function is left out if less than this share of it is new."""
LEAST_SHARE = 1e-8
"""The smallest share of records for which a code's function is not 0."""
LEAST = 1e-300


def functions_of(counts: np.ndarray) -> np.ndarray:
    """Return functions of the codes that have mean 0 and are orthonormal under a marginal, shape (codes, functions).

    The first one is the code itself, shifted and scaled; the next ones are powers of its rank, then the most frequent
    codes against all others. There are fewer than `MOST_FUNCTIONS` if the attribute has few codes, and none if it has
    one code with records.
    """
    shares = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), LEAST)
    size, roots, present = len(shares), np.sqrt(shares), shares > LEAST_SHARE
    rank = np.cumsum(shares) - shares / 2 - 0.5
    frequent = np.argsort(-shares, kind="stable")[:MOST_FUNCTIONS]
    columns = [np.ones(size), np.linspace(-1.0, 1.0, size), rank, rank**2, rank**3, *np.eye(size)[frequent]]
    found: list[np.ndarray] = []
    for column in columns:
        whole = np.where(present, roots * column, 0.0)
        rest = whole
        for _ in range(2):  # the second time removes rounding errors of the first
            for one in found:
                rest = rest - one * (one @ rest)
        left = float(np.linalg.norm(rest))
        if left > DISTINCT * np.linalg.norm(whole) and len(found) <= min(MOST_FUNCTIONS, np.count_nonzero(present) - 1):
            found.append(rest / left)
    if len(found) < 2:
        return np.zeros((size, 0))
    return np.stack(found[1:], axis=1) / np.where(present, roots, np.inf)[:, None]


def combined(first: np.ndarray, coefficients: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the sums of products of functions of two attributes, one for each matrix of coefficients.

    Args:
        first, second: the functions of each attribute, shape (codes, functions).
        coefficients: shape (count, functions, functions).

    Returns:
        an array of shape (count, codes, codes).
    """
    return (first @ coefficients) @ second.T


def factors(change: np.ndarray) -> np.ndarray:
    """Return positive factors that are 1 + change, or exp(change) where that is negative."""
    change = np.clip(change, -LARGEST, LARGEST)
    return np.where(change >= 0, 1.0 + change, np.exp(np.minimum(change, 0.0)))


LARGEST = 30.0
"""The largest change of a cell, relative to its count."""
