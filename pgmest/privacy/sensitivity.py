"""Sensitivity in exact arithmetic: how far columns of a query matrix are from zero, and from each other.

Every float is an integer times a power of two, so the norms of its columns are known exactly: nothing here rounds,
underflows or overflows. Entries of at most 31 bits above their common unit (all that is ever released, see `grid`)
are summed in float64, whose integers are exact up to 2^53, as a high and a low half; others as Python integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from pgmest.privacy.grid import entries_of, non_negative
from pgmest.queries import Kron, Query, as_query
from pgmest.queries.matrices import DenseQuery, SparseQuery

MOST_ENTRIES, MOST_COLUMNS = 2**20, 1024
"""Query matrices up to this size are written down to find the largest distance of two columns."""
MOST_SLOW = 2**20
"""The most steps of Python arithmetic for that, where the entries have too many bits."""
HALF = 2.0**15
"""The high half of an entry counts so many units."""
BITS, MOST_ROWS = 31, 2**19
"""Within these, sums over the rows of products of halves stay below 2^53."""


def largest_l1(query: Any = None) -> Fraction:
    """max_j ||Q e_j||_1, exactly; of a Kron the product of its factors' own."""
    return math.prod((_largest_column(factor)[0] for factor in factors_of(query)), start=Fraction(1))


def largest_l2_squared(query: Any = None) -> Fraction:
    """max_j ||Q e_j||_2^2, exactly; of a Kron the product of its factors' own."""
    return math.prod((_largest_column(factor)[1] for factor in factors_of(query)), start=Fraction(1))


def l1_diameter(query: Any = None) -> Fraction:
    """max_ij ||Q e_i - Q e_j||_1, exactly; of matrices too large to be written down the bound 2 max_j ||Q e_j||_1."""
    if query is None:
        return Fraction(2)
    entries, unit = _written(query) or (None, 0)
    if entries is None:
        return 2 * largest_l1(query)
    if entries.dtype == object:
        return max(abs(entries[:, i, None] - entries[:, i:]).sum(axis=0).max() for i in range(entries.shape[1])) * unit
    from scipy.spatial import distance

    return int(distance.pdist(entries.T, "cityblock").max(initial=0.0)) * unit


def l2_squared_diameter(query: Any = None) -> Fraction:
    """max_ij ||Q e_i - Q e_j||_2^2, exactly; of matrices too large to be written down a bound.

    The bound is four times the largest squared norm, or twice where no entry is negative: such columns are at most at
    a right angle.
    """
    if query is None:
        return Fraction(2)
    entries, unit = _written(query) or (None, 0)
    if entries is None:
        factor = 2 if all(map(non_negative, factors_of(query))) else 4
        return factor * largest_l2_squared(query)
    if entries.dtype == object:
        squares = (((entries[:, i, None] - entries[:, i:]) ** 2).sum(axis=0).max() for i in range(entries.shape[1]))
        return max(squares) * unit**2
    return _largest_square(*_distance_parts(entries)) * unit**2


def factors_of(query: Any) -> list[Query]:
    """The matrices whose Kronecker product the query is; none for identity."""
    if query is None:
        return []
    return list(query.factors.values()) if isinstance(query, Kron) else [as_query(query)]


def integers(values: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Finite floats as integers times a power of two: float64 where they have at most 31 bits, else Python integers.

    >>> integers(np.array([0.75, -2.0]))
    (array([ 3., -8.]), Fraction(1, 4))
    """
    fractions, exponents = np.frexp(values)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    lowest = exponents - 53 + np.frexp((digits & -digits).astype(np.float64))[1] - 1  # of the last binary digit set
    used = digits != 0
    unit = int(lowest[used].min()) if used.any() else 0
    if not used.any() or int(exponents[used].max()) - unit <= BITS:
        return np.ldexp(values, -unit), Fraction(2) ** unit
    shifts = exponents - 53 - unit
    exact = [int(d) << int(s) if s >= 0 else int(d) >> int(-s) for d, s in zip(digits.flat, shifts.flat, strict=True)]
    return np.array(exact, dtype=object).reshape(values.shape), Fraction(2) ** unit


def _largest_column(factor: Query) -> tuple[Fraction, Fraction]:
    """The largest l1 norm and the largest squared l2 norm of a column."""
    values = entries_of(factor)
    if values is None:  # entries -1, 0 and 1: both norms count the entries, in floats that are exact
        count = Fraction(int(np.max(factor.squared().apply_transpose(np.ones(factor.rows)))))
        return count, count
    entries, unit = integers(np.abs(values))
    if factor.rows > MOST_ROWS:
        entries = np.array([int(entry) for entry in entries.flat], dtype=object).reshape(entries.shape)
    if entries.dtype == object:
        totals, squares = _column_sums(factor, entries), _column_sums(factor, entries**2)
        return int(totals.max()) * unit, int(squares.max()) * unit**2
    high = np.floor(entries / HALF)
    low = entries - high * HALF
    parts = (_column_sums(factor, one * other) for one, other in ((high, high), (high, low), (low, low)))
    return int(_column_sums(factor, entries).max()) * unit, _largest_square(*parts) * unit**2


def _column_sums(factor: Query, entries: np.ndarray) -> np.ndarray:
    if isinstance(factor, DenseQuery):
        return entries.sum(axis=0)
    assert isinstance(factor, SparseQuery)
    sums = np.zeros(factor.columns, dtype=entries.dtype)
    np.add.at(sums, factor.values.indices, entries)
    return sums


def _written(query: Any) -> tuple[np.ndarray, Fraction] | None:
    """The matrix as integers times a unit, where it is small enough."""
    matrix = query if isinstance(query, Kron) else as_query(query)
    cells = math.prod(factor.columns for factor in factors_of(query))
    if cells > MOST_COLUMNS or cells * matrix.rows > MOST_ENTRIES or matrix.rows > MOST_ROWS:
        return None
    product, unit = np.ones((1, 1)), Fraction(1)
    for factor in factors_of(query):
        entries, own = integers(factor.matrix())
        product, unit = np.kron(_exact(product, entries), entries), unit * own
    if product.dtype != object and np.abs(product).max() >= 2.0**BITS:
        product = _python_integers(product)
    if product.dtype == object and cells * product.size > MOST_SLOW:
        return None
    return product, unit


def _exact(product: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """The product as it must be for another factor's entries to be multiplied to it without rounding."""
    fits = product.dtype != object and entries.dtype != object
    if fits and float(np.abs(product).max()) * float(np.abs(entries).max()) < 2.0**53:
        return product
    return _python_integers(product)


def _python_integers(values: np.ndarray) -> np.ndarray:
    return np.array([int(value) for value in values.flat], dtype=object).reshape(values.shape)


def _distance_parts(entries: np.ndarray) -> list[np.ndarray]:
    """Of each two columns the sums over rows of high^2, high low and low^2 of their difference; all are exact."""
    high = np.floor(entries / HALF)
    halves = (high, entries - high * HALF)
    parts = []
    for one, other in ((0, 0), (0, 1), (1, 1)):
        products = halves[one].T @ halves[other]
        own = np.diagonal(products)
        parts.append((own[:, None] + own - products - products.T).reshape(-1))
    return parts


def _largest_square(high: np.ndarray, mixed: np.ndarray, low: np.ndarray) -> int:
    """The largest of high 2^30 + mixed 2^16 + low; in floats only to see which may be it."""
    near = high * HALF**2 + mixed * (2 * HALF) + low
    candidates = near >= near.max() * (1 - 1e-9) if near.size else np.zeros(0, bool)
    rows = np.unique(np.stack([high[candidates], mixed[candidates], low[candidates]], axis=1), axis=0)
    return max((int(h) * 2**30 + int(m) * 2**16 + int(rest) for h, m, rest in rows), default=0)
