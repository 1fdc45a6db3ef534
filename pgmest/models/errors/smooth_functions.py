"""Smooth functions of an attribute's codes, in which the largest part of most dependence lies."""

from __future__ import annotations

import numpy as np

DEGREES = 3
"""The number of smooth functions of an attribute's codes."""
LEAST_SHARE = 1e-4
"""Codes with a smaller share of the records do not count as values of a function."""


def smooth_functions(counts: np.ndarray) -> np.ndarray:
    """Return orthonormal smooth functions of codes, times the roots of the codes' shares, shape (codes, degrees).

    They are powers of the codes' ranks among the records, without their means. An attribute of few codes has fewer.
    """
    shares = counts / max(float(counts.sum()), 1e-300)
    degrees = min(DEGREES, max(0, int((shares > LEAST_SHARE).sum()) - 1))
    ranks = np.cumsum(shares) - shares / 2 - 0.5
    powers = np.sqrt(shares)[:, None] * ranks[:, None] ** np.arange(degrees + 1)
    return np.linalg.qr(powers)[0][:, 1:]
