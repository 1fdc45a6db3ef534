"""Queries whose answers about integer counts are exact multiples of a step, so that integer noise can be added.

Integer matrices are such queries with step 1. A real-valued matrix is rounded to a dyadic grid first, and the rounded
matrix *is* the query that is measured: the measurement carries it, so nothing is biased, and its sensitivity is exact.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.queries import LinearQuery, MatrixQuery
from pgmest.queries.matrices import DenseQuery, SparseQuery, dense, sparse_query
from pgmest.queries.norms import entries_of, integer_valued, once_each

BITS = 24
"""Significant bits of a rounded matrix's largest entry."""
MOST_BITS = 30
"""Of a query's largest entry, in steps: sums over 2^22 records, 4 million, are then still exact in float64."""

SMALLEST_EXPONENT = -1022
"""Of a factor's step: powers of two below it are not normal numbers."""
EXPONENTS = range(SMALLEST_EXPONENT, 280)
"""Of a query's step: with larger ones the answers to a full table could exceed what a measurement may hold."""


def on_grid(query: LinearQuery | None) -> tuple[LinearQuery | None, float]:
    """The query with its entries rounded to multiples of a power of two, and the step that its answers come in.

    A Kron shares its 24 bits among the factors that are not integer-valued, at least 6 for each. Counting is exact for
    2^29 records with 24 bits, and for 2^22 at worst.

    >>> from pgmest import queries
    >>> query, step = on_grid(queries.as_query([[0.1, 1.0]]))
    >>> step == 2.0**-23, bool(abs(query.matrix()[0, 0] - 0.1) < step)
    (True, True)

    Raises:
        QueryError: the entries are not known (a LinearOperator), or too large to be counted exactly.
    """
    if query is None:
        return None, 1.0
    factors = query.matrices
    real = sum(not integer_valued(factor) for factor in factors)
    steps = [_step(factor, max(6, BITS // max(1, real))) for factor in factors]
    largest = math.prod(_largest(factor) / step for factor, step in zip(factors, steps, strict=True))
    if largest > 2.0**MOST_BITS:
        raise QueryError(
            f"the largest entry of {query} is {largest:.3g} steps of its grid: too large to count exactly."
        )
    if not real:
        return query, 1.0
    exponent = sum(math.frexp(step)[1] - 1 for step in steps)  # their product may be none of float64
    if exponent not in EXPONENTS:
        raise QueryError(
            f"the answers to {query} come in steps of 2^{exponent} counts: too "
            f"{'small' if exponent < 0 else 'large'} for float64. Multiply its entries by a power of two."
        )
    rounded = [_rounded(factor, step) for factor, step in zip(factors, steps, strict=True)]
    return query.with_matrices(rounded), math.prod(steps)


@once_each
def _largest(query: MatrixQuery) -> float:
    entries = entries_of(query)
    return 1.0 if entries is None else float(np.abs(entries).max(initial=0.0))


def _step(query: MatrixQuery, bits: int) -> float:
    """1 for integer matrices, else the power of two of which the largest entry has `bits` bits, if float64 has it."""
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
