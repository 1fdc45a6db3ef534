"""Elementary functions for kernels, written as plain arithmetic that the compiler can vectorize.

numba would call libm for one number at a time. Kernels in other files call these functions; compiled.py compiles those
kernels again if this file changes.
"""

from __future__ import annotations

from pgmest._base.row_kernels import Lanes, maximum_on_rows, sum_on_rows

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # ln 2 as a sum of two numbers, which makes k * ln 2 exact to twice the precision
_LN2_LOW = 1.90821492927058770002e-10

_ROUNDING = 1.5 * 2**52
"""The number whose addition rounds to an integer, which is then in the lowest bits."""

_LEAST, _UNDERFLOW = -740.0, -700.0
"""Smaller arguments of exp are raised to the first before the computation; up to the second, the result is 0."""

_POLYNOMIAL = (
    2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05,
    0.00019841269863053618, 0.0013888888917213717, 0.008333333333330062, 0.04166666666662413, 0.16666666666666669,
    0.5000000000000001, 1.0, 1.0,
)  # fmt: skip
"""The coefficients of exp(r) for |r| <= ln(2) / 2, highest power first, to within 1.6e-17.

The polynomial interpolates (exp(r) - 1 - r) / r^2 at the Chebyshev nodes. A Taylor polynomial of the same accuracy has
two more terms.
"""


def exp_of(x: Lanes) -> Lanes:
    """Return exp(x) to within two units in the last place.

    x is at most 709. The result is 0 for x <= -700.
    """
    bounded, rounding = x.larger(x.filled(_LEAST)), x.filled(_ROUNDING)
    shifted = bounded * x.filled(_LOG2_E) + rounding
    k = shifted - rounding
    r = (bounded - k * x.filled(_LN2_HIGH)) - k * x.filled(_LN2_LOW)
    p = x.filled(_POLYNOMIAL[0])
    for coefficient in _POLYNOMIAL[1:]:
        p = p * r + x.filled(coefficient)
    return p.times_power(shifted).where(x, x.filled(_UNDERFLOW))


@maximum_on_rows
def largest_of(row):
    """Return the largest cell, -inf for an empty row; no cell may be NaN."""
    return row


@sum_on_rows
def sum_of(row):
    """Return the sum of the cells."""
    return row
