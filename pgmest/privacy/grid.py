"""Queries whose answers about integer counts are exact multiples of a step, so that integer noise can be added.

Integer matrices are such queries with step 1. A real-valued matrix is first rounded to a dyadic grid. The rounded
matrix is the query that is measured and that the measurement holds, so estimates are unbiased and its sensitivity is
exact.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest.errors import QueryError
from pgmest.queries import LinearQuery, MatrixQuery
from pgmest.queries.matrices import DenseQuery, SparseQuery, dense, sparse_query
from pgmest.queries.norms import cached_by_entries, entries_of, integer_valued

BITS = 24
"""The number of significant bits of a rounded matrix's largest entry."""
MOST_BITS = 30
"""The largest size of a query's entries, in bits of steps. Sums over 2^22 records are then still exact in float64."""

SMALLEST_EXPONENT = -1022
"""The least exponent of a factor's step. Smaller powers of two are subnormal numbers."""
EXPONENTS = range(SMALLEST_EXPONENT, 280)
"""The exponents of a query's step. With larger ones the answers could exceed what a measurement may hold."""


def on_grid(query: LinearQuery | None, bits: int = BITS) -> tuple[LinearQuery | None, float]:
    """Return the query with its entries rounded to multiples of a power of two, and the step of its answers.

    A Kron shares its bits among the factors that are not integer-valued, with at least 6 bits for each. Answers are
    exact for up to 2^29 records with 24 bits, and for 2^22 records in the worst case.

    >>> from pgmest import queries
    >>> query, step = on_grid(queries.as_query([[0.1, 1.0]]))
    >>> step == 2.0**-23, bool(abs(query.matrix()[0, 0] - 0.1) < step)
    (True, True)

    Args:
        query: the query; None for the cells of a marginal.
        bits: the number of significant bits of the largest entry.

    Raises:
        QueryError: if the entries are not known (a LinearOperator), or too large to be counted exactly.
    """
    if query is None:
        return None, 1.0
    factors = query.matrices
    real = sum(not integer_valued(factor) for factor in factors)
    steps = [_step(factor, max(6, bits // max(1, real))) for factor in factors]
    largest = math.prod(_largest(factor) / step for factor, step in zip(factors, steps, strict=True))
    if largest > 2.0**MOST_BITS:
        raise QueryError(
            f"the largest entry of {query} is {largest:.3g} steps of its grid: too large to count exactly."
        )
    if not real:
        return query, 1.0
    exponent = sum(math.frexp(step)[1] - 1 for step in steps)  # the product of the steps may not be a float
    if exponent not in EXPONENTS:
        raise QueryError(
            f"the answers to {query} come in steps of 2^{exponent} counts: too "
            f"{'small' if exponent < 0 else 'large'} for float64. Multiply its entries by a power of two."
        )
    rounded = [_rounded(factor, step) for factor, step in zip(factors, steps, strict=True)]
    return query.with_matrices(rounded), math.prod(steps)


@cached_by_entries
def _largest(query: MatrixQuery) -> float:
    entries = entries_of(query)
    return 1.0 if entries is None else float(np.abs(entries).max(initial=0.0))


def _step(query: MatrixQuery, bits: int) -> float:
    """Return 1 for integer matrices, else the power of two in which the largest entry has `bits` bits."""
    return 1.0 if integer_valued(query) else 2.0 ** max(math.frexp(_largest(query))[1] - bits, SMALLEST_EXPONENT)


def _rounded(query: MatrixQuery, step: float) -> MatrixQuery:
    if integer_valued(query):
        return query
    if isinstance(query, SparseQuery):
        values = query.values.copy()
        values.data = np.rint(values.data / step) * step
        return sparse_query(values)
    assert isinstance(query, DenseQuery)
    return dense(np.rint(query.values / step) * step)
