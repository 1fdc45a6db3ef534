"""What bounds a query's sensitivity: the norms of its columns, the signs of its entries, whether they are integers.

Every float is an integer times a power of two, so the norms of columns are known exactly: nothing here rounds,
underflows or overflows. Entries of at most 31 bits above their common unit (all that a curator releases, see
`pgmest.privacy.grid`) are summed in float64, whose integers are exact up to 2^53, as a high and a low half; others as
Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.matrices import DenseQuery, Grouping, Identity, SparseQuery, as_query
from pgmest.queries.ranges import Differences, Ranges

HALF = 2.0**15
"""The high half of an entry counts so many units."""
BITS, MOST_ROWS = 31, 2**19
"""Within these, sums over the rows of products of halves stay below 2^53."""


Found = TypeVar("Found")

REMEMBERED, REMEMBERED_CELLS = 1024, 4096
"""How many dense matrices each function remembers, and of how many cells at most."""


def once_each(function: Callable[[MatrixQuery], Found]) -> Callable[[MatrixQuery], Found]:
    """The function, which finds out once about each small dense matrix: many queries have the same.

    A matrix is known by its numbers, not as an object: one that was changed in place is looked at again.
    """
    known: dict[tuple[tuple[int, ...], bytes], Found] = {}

    @wraps(function)
    def found(matrix: MatrixQuery) -> Found:
        if not isinstance(matrix, DenseQuery) or matrix.values.dtype != np.float64:
            return function(matrix)
        if matrix.values.size > REMEMBERED_CELLS:
            return function(matrix)
        key = matrix.values.shape, matrix.values.tobytes()
        if key not in known:
            if len(known) >= REMEMBERED:
                known.clear()
            known[key] = function(matrix)
        return known[key]

    return found


def largest_l1(query: Any = None) -> Fraction:
    """max_j ||Q e_j||_1, exactly; of a Kron the product of its factors' own."""
    return math.prod((_largest_column(factor)[0] for factor in factors_of(query)), start=Fraction(1))


def largest_l2_squared(query: Any = None) -> Fraction:
    """max_j ||Q e_j||_2^2, exactly; of a Kron the product of its factors' own."""
    return math.prod((_largest_column(factor)[1] for factor in factors_of(query)), start=Fraction(1))


def factors_of(query: Any) -> list[MatrixQuery]:
    """The matrices whose Kronecker product the query is; none for identity."""
    if query is None:
        return []
    return list(as_query(query).matrices)


@once_each
def integer_valued(query: MatrixQuery) -> bool:
    """Whether all entries are integers."""
    entries = entries_of(query)
    return entries is None or bool(np.all(entries == np.rint(entries)))


def non_negative(query: MatrixQuery) -> bool:
    """Whether no entry is negative."""
    entries = entries_of(query)
    return not isinstance(query, Differences) if entries is None else bool(entries.min(initial=0.0) >= 0)


def entries_of(query: MatrixQuery) -> np.ndarray | None:
    """The entries that may be other than zero, or None where all are -1, 0 or 1 by construction.

    Raises:
        QueryError: they are not known.
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


def python_integers(values: np.ndarray) -> np.ndarray:
    """Integers in floats as Python's."""
    return np.array([int(value) for value in values.flat], dtype=object).reshape(values.shape)


@once_each
def _largest_column(factor: MatrixQuery) -> tuple[Fraction, Fraction]:
    """The largest l1 norm and the largest squared l2 norm of a column."""
    values = entries_of(factor)
    if values is None:  # entries -1, 0 and 1: both norms count the entries, in floats that are exact
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
    if isinstance(factor, DenseQuery):
        return entries.sum(axis=0)
    assert isinstance(factor, SparseQuery)
    sums = np.zeros(factor.columns, dtype=entries.dtype)
    np.add.at(sums, factor.values.indices, entries)
    return sums


def largest_square(high: np.ndarray, mixed: np.ndarray, low: np.ndarray) -> int:
    """The largest of high 2^30 + mixed 2^16 + low; in floats only to see which may be it."""
    near = high * HALF**2 + mixed * (2 * HALF) + low
    candidates = near >= near.max() * (1 - 1e-9) if near.size else np.zeros(0, bool)
    rows = np.unique(np.stack([high[candidates], mixed[candidates], low[candidates]], axis=1), axis=0)
    return max((int(h) * 2**30 + int(m) * 2**16 + int(rest) for h, m, rest in rows), default=0)
