"""Sensitivity under `Replace`: the largest distance of two columns of a query matrix, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from pgmest.queries import Kron, as_query
from pgmest.queries.norms import (
    BITS,
    HALF,
    MOST_ROWS,
    factors_of,
    integers,
    largest_l1,
    largest_l2_squared,
    largest_square,
    non_negative,
    python_integers,
)

MOST_ENTRIES, MOST_COLUMNS = 2**20, 1024
"""The largest query matrices that are materialized to find the largest distance of two columns."""
MOST_SLOW = 2**20
"""The largest number of operations on Python integers for that, needed if the entries have too many bits for floats."""


def l1_diameter(query: Any = None) -> Fraction:
    """Return max_ij ||Q e_i - Q e_j||_1 exactly; the bound 2 max_j ||Q e_j||_1 for too large matrices."""
    if query is None:
        return Fraction(2)
    entries, unit = _written(query) or (None, Fraction(0))
    if entries is None:
        return 2 * largest_l1(query)
    if entries.dtype == object:
        widest = max(abs(entries[:, i, None] - entries[:, i:]).sum(axis=0).max() for i in range(entries.shape[1]))
        return Fraction(widest) * unit
    from scipy.spatial import distance

    return int(distance.pdist(entries.T, "cityblock").max(initial=0.0)) * unit


def l2_squared_diameter(query: Any = None) -> Fraction:
    """Return max_ij ||Q e_i - Q e_j||_2^2 exactly; a bound for matrices that are too large to be materialized.

    The bound is four times the largest squared norm, or twice if no entry is negative: the angle between such columns
    is at most a right angle.
    """
    if query is None:
        return Fraction(2)
    entries, unit = _written(query) or (None, Fraction(0))
    if entries is None:
        factor = 2 if all(map(non_negative, factors_of(query))) else 4
        return factor * largest_l2_squared(query)
    if entries.dtype == object:
        squares = (((entries[:, i, None] - entries[:, i:]) ** 2).sum(axis=0).max() for i in range(entries.shape[1]))
        return Fraction(max(squares)) * unit**2
    return largest_square(*_distance_parts(entries)) * unit**2


def _written(query: Any) -> tuple[np.ndarray, Fraction] | None:
    """Return the matrix as integers times a unit, or None if it is too large."""
    matrix = query if isinstance(query, Kron) else as_query(query)
    cells = math.prod(factor.cells for factor in factors_of(query))
    if cells > MOST_COLUMNS or cells * matrix.rows > MOST_ENTRIES or matrix.rows > MOST_ROWS:
        return None
    product, unit = np.ones((1, 1)), Fraction(1)
    for factor in factors_of(query):
        entries, own = integers(factor.matrix())
        product, unit = np.kron(*_exact(product, entries)), unit * own
    if product.dtype != object and np.abs(product).max() >= 2.0**BITS:
        product = python_integers(product)
    if product.dtype == object and cells * product.size > MOST_SLOW:
        return None
    return product, unit


def _exact(product: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both arrays in a type in which their product is exact: Python integers if floats cannot hold it."""
    fits = product.dtype != object and entries.dtype != object
    if fits and float(np.abs(product).max()) * float(np.abs(entries).max()) < 2.0**53:
        return product, entries
    return python_integers(product), python_integers(entries)


def _distance_parts(entries: np.ndarray) -> list[np.ndarray]:
    """Return, for each pair of columns, the exact sums over rows of high^2, high low and low^2 of their difference.

    Each entry is split into a high and a low half, so that all products and sums stay exact in floats.
    """
    high = np.floor(entries / HALF)
    halves = (high, entries - high * HALF)
    parts = []
    for one, other in ((0, 0), (0, 1), (1, 1)):
        products = halves[one].T @ halves[other]
        own = np.diagonal(products)
        parts.append((own[:, None] + own - products - products.T).reshape(-1))
    return parts
