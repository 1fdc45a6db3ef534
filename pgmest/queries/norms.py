"""The facts that a query's sensitivity depends on: column norms, signs of entries, and whether entries are integers.

Every float is an integer times a power of two, so column norms are computed exactly: nothing here rounds, underflows or
overflows. Entries of at most 31 bits above their common unit are summed in float64, whose integers are exact up to
2^53, as a high and a low half. (Every query that a curator releases is of this kind, see `pgmest.privacy.grid`.) Other
entries are summed as Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from pgmest.errors import QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.matrices import DenseQuery, Grouping, Identity, SparseQuery, as_query
from pgmest.queries.ranges import Differences, Ranges

HALF_BITS = 15
"""The number of bits of the low half of an entry."""
HALF = 2.0**HALF_BITS
"""The unit of the high half of an entry."""
BITS, MOST_ROWS = 31, 2**19
"""Within these limits, the sum over the rows of products of halves (16 bits each at most) stays below 2^53."""


Result = TypeVar("Result")

CACHED_MATRICES, CACHED_CELLS = 1024, 4096
"""Each cached function keeps the results of at most this many dense matrices, of at most this many cells each."""


def cached_by_entries(function: Callable[[MatrixQuery], Result]) -> Callable[[MatrixQuery], Result]:
    """Return the function with a cache of its results for small dense matrices, because many queries share one.

    The key is the matrix's entries, not the object, so a matrix that was changed in place is computed again.
    """
    cache: dict[tuple[tuple[int, ...], bytes], Result] = {}

    @wraps(function)
    def cached(matrix: MatrixQuery) -> Result:
        if not isinstance(matrix, DenseQuery) or matrix.values.dtype != np.float64:
            return function(matrix)
        if matrix.values.size > CACHED_CELLS:
            return function(matrix)
        key = matrix.values.shape, matrix.values.tobytes()
        if key not in cache:
            if len(cache) >= CACHED_MATRICES:
                cache.clear()
            cache[key] = function(matrix)
        return cache[key]

    return cached


def largest_l1(query: Any = None) -> Fraction:
    """Return max_j ||Q e_j||_1, exactly; for a Kron this is the product of its factors' norms."""
    return math.prod((_largest_column(factor)[0] for factor in factors_of(query)), start=Fraction(1))


def largest_l2_squared(query: Any = None) -> Fraction:
    """Return max_j ||Q e_j||_2^2, exactly; for a Kron this is the product of its factors' squared norms."""
    return math.prod((_largest_column(factor)[1] for factor in factors_of(query)), start=Fraction(1))


def factors_of(query: Any) -> list[MatrixQuery]:
    """Return the matrices whose Kronecker product the query is; an empty list for None, the identity."""
    if query is None:
        return []
    return list(as_query(query).matrices)


@cached_by_entries
def integer_valued(query: MatrixQuery) -> bool:
    """Return whether all entries are integers."""
    entries = entries_of(query)
    return entries is None or bool(np.all(entries == np.rint(entries)))


def non_negative(query: MatrixQuery) -> bool:
    """Return whether no entry is negative."""
    entries = entries_of(query)
    return not isinstance(query, Differences) if entries is None else bool(entries.min(initial=0.0) >= 0)


def entries_of(query: MatrixQuery) -> np.ndarray | None:
    """Return the entries that may be non-zero, or None if all entries are -1, 0 or 1 by construction.

    Raises:
        QueryError: the entries are not known (a LinearOperator).
    """
    if isinstance(query, DenseQuery):
        return query.values
    if isinstance(query, SparseQuery):
        return query.values.data
    if isinstance(query, Identity | Grouping | Ranges | Differences):
        return None
    raise QueryError(
        f"the entries of a {type(query).__name__} are not known, so its sensitivity cannot be bounded; measure with "
        "its matrix, dense or sparse."
    )


def entry_bounds(query: Any = None) -> tuple[float, float]:
    """Return a lower and an upper bound of the entries, both attained, except by a Kron with entries of both signs.

    >>> from pgmest.queries import Kron, prefix
    >>> entry_bounds(Kron({"age": prefix(3), "sex": [[2.0, -1.0]]}))
    (-1.0, 2.0)

    Raises:
        QueryError: the entries are not known (a LinearOperator).
    """
    low, high = 1.0, 1.0
    for factor in factors_of(query):
        least, largest = _entry_bounds(factor)
        ends = low * least, low * largest, high * least, high * largest
        low, high = min(ends), max(ends)
    return (0.0, 1.0) if query is None else (low, high)


def _entry_bounds(factor: MatrixQuery) -> tuple[float, float]:
    """Return bounds of the entries of one matrix; entries that are not stored are 0."""
    entries = entries_of(factor)
    if entries is None:
        return (-1.0 if isinstance(factor, Differences) else 0.0), 1.0
    stored = 0.0 if isinstance(factor, SparseQuery) else math.inf
    return float(entries.min(initial=stored)), float(entries.max(initial=-stored))


def integers(values: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Return finite floats as integers and their common unit, a power of two.

    The integers are float64 if they have at most 31 bits, else Python integers in an object array.

    >>> integers(np.array([0.75, -2.0]))
    (array([ 3., -8.]), Fraction(1, 4))
    """
    fractions, exponents = np.frexp(values)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    lowest = exponents - 53 + np.frexp((digits & -digits).astype(np.float64))[1] - 1  # exponent of the last bit set
    used = digits != 0
    unit = int(lowest[used].min()) if used.any() else 0
    if not used.any() or int(exponents[used].max()) - unit <= BITS:
        return np.ldexp(values, -unit), Fraction(2) ** unit
    shifts = exponents - 53 - unit
    exact = [int(d) << int(s) if s >= 0 else int(d) >> int(-s) for d, s in zip(digits.flat, shifts.flat, strict=True)]
    return np.array(exact, dtype=object).reshape(values.shape), Fraction(2) ** unit


def python_integers(values: np.ndarray) -> np.ndarray:
    """Return integers that are stored as floats as Python integers, in an object array."""
    return np.array([int(value) for value in values.flat], dtype=object).reshape(values.shape)


@cached_by_entries
def _largest_column(factor: MatrixQuery) -> tuple[Fraction, Fraction]:
    """Return the largest l1 norm and the largest squared l2 norm of a column."""
    values = entries_of(factor)
    if values is None:  # entries are -1, 0 or 1: both norms are the number of non-zeros, which floats hold exactly
        count = Fraction(int(np.max(factor.squared().transpose(np.ones(factor.rows)))))
        return count, count
    entries, unit = integers(np.abs(values))
    if factor.rows > MOST_ROWS:
        entries = python_integers(entries)
    if entries.dtype == object:
        totals, squares = _column_sums(factor, entries), _column_sums(factor, entries**2)
        return int(totals.max()) * unit, int(squares.max()) * unit**2
    high = np.floor(entries / HALF)
    low = entries - high * HALF
    parts = (_column_sums(factor, one * other) for one, other in ((high, high), (high, low), (low, low)))
    return int(_column_sums(factor, entries).max()) * unit, largest_square(*parts) * unit**2


def _column_sums(factor: MatrixQuery, entries: np.ndarray) -> np.ndarray:
    """Return the sum of each column of a matrix with the factor's pattern and these entries."""
    if isinstance(factor, DenseQuery):
        return entries.sum(axis=0)
    assert isinstance(factor, SparseQuery)
    sums = np.zeros(factor.cells, dtype=entries.dtype)
    np.add.at(sums, factor.values.indices, entries)
    return sums


def largest_square(high: np.ndarray, mixed: np.ndarray, low: np.ndarray) -> int:
    """Return the largest of high 2^30 + mixed 2^16 + low, exactly.

    Floats only preselect the candidates: their relative error, some 1e-16, is far below the margin of 1e-9.
    """
    rounded = high * HALF**2 + mixed * (2 * HALF) + low
    candidates = rounded >= rounded.max() * (1 - 1e-9) if rounded.size else np.zeros(0, bool)
    rows = np.unique(np.stack([high[candidates], mixed[candidates], low[candidates]], axis=1), axis=0)
    shift = HALF_BITS
    return max(((int(h) << 2 * shift) + (int(m) << shift + 1) + int(rest) for h, m, rest in rows), default=0)
